"""Fuzz the parts that read untrusted files: ``python -m tests.fuzz --cases 20000 --seed 1 --workers 2``.

Exit code 1 if a case failed. ``--repeat FOLDER`` repeats a stored case and prints its failure.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.fuzz.harness import Outcome, judge
from tests.fuzz.pool import judged, prepared, store
from tests.fuzz.targets import TARGETS, split

FAILURES = Path("outputs/fuzz")
_EVERY_S = 10.0
_MOST_STORED = 5
"""Number of stored inputs per cause, the smallest ones."""


def main() -> int:
    """Parse the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this target; may be repeated")
    parser.add_argument("--out", type=Path, default=FAILURES, help="folder for the inputs of failed cases")
    parser.add_argument("--repeat", type=Path, metavar="FOLDER", help="repeat this stored case only")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lppm-sim-fuzz-") as temporary:
        assets = prepared(Path(temporary))
        if arguments.repeat is not None:
            return _repeat(arguments.repeat, assets)
        cases = split(arguments.cases, arguments.target or list(TARGETS))
        outcomes = _run(cases, arguments.seed, arguments.workers, assets)
        _print_table(outcomes)
        return _print_failures(outcomes, arguments.seed, assets, arguments.out)


def _run(cases: list[tuple[str, int]], seed: int, workers: int, assets: Path) -> list[Outcome]:
    """Run all cases and print the progress."""
    began = shown = time.monotonic()
    outcomes: list[Outcome] = []
    for outcome in judged(cases, seed, workers, assets):
        outcomes.append(outcome)
        now = time.monotonic()
        if now - shown >= _EVERY_S or len(outcomes) == len(cases):
            failed = sum(each.verdict == "failed" for each in outcomes)
            print(f"{now - began:7.0f} s  {len(outcomes):,} of {len(cases):,} cases, {failed:,} failures", flush=True)
            shown = now
    return outcomes


def _print_table(outcomes: Iterable[Outcome]) -> None:
    by_target: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        by_target.setdefault(outcome.target, []).append(outcome)
    print(f"\n{'target':<10}{'cases':>8}{'accepted':>10}{'rejected':>10}{'failures':>10}{'slowest (CPU)':>22}")
    for target, of_target in sorted(by_target.items()):
        counts = [sum(each.verdict == verdict for each in of_target) for verdict in ("accepted", "rejected", "failed")]
        slowest = max(of_target, key=lambda each: each.cpu_s)
        case = f"{slowest.cpu_s:.1f} s, case {slowest.number}"
        print(f"{target:<10}{len(of_target):>8,}{counts[0]:>10,}{counts[1]:>10,}{counts[2]:>10,}{case:>22}")


def _print_failures(outcomes: Iterable[Outcome], seed: int, assets: Path, folder: Path) -> int:
    """Store the smallest inputs of each cause, print the commands that repeat them and return the exit code."""
    causes: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.verdict == "failed":
            causes.setdefault((outcome.target, outcome.cause), []).append(outcome)
    for (target, cause), of_cause in sorted(causes.items(), key=lambda item: -len(item[1])):
        smallest = sorted(of_cause, key=lambda each: each.size)[:_MOST_STORED]
        folders = [store(outcome, seed, assets, folder) for outcome in smallest]
        print(f"\n{len(of_cause):,} x {target}: {cause}\n    {_last_line(smallest[0].details)}")
        print(f"    repeat: python -m tests.fuzz --repeat {folders[0]}")
    return 1 if causes else 0


def _last_line(details: str) -> str:
    lines = [line for line in details.strip().splitlines() if line.strip()]
    text = lines[-1].strip() if lines else ""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text[:500])


def _repeat(stored: Path, assets: Path) -> int:
    target = TARGETS[stored.resolve().name.partition("-")[0]](assets)
    folder = assets / "repeated"
    shutil.copytree(stored, folder, ignore=shutil.ignore_patterns("problem.txt", "__pycache__"))
    outcome = judge(target, folder)
    print(f"{outcome.verdict}: {outcome.cause}\n{outcome.details}")
    return int(outcome.verdict == "failed")


if __name__ == "__main__":
    sys.exit(main())
