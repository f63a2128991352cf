"""Fuzz what reads files of others: ``python -m tests.fuzz --cases 20000 --seed 1 --workers 2``.

Ends with 1 if a case failed. ``--repeat FOLDER`` judges a stored case once more and shows what is wrong with it.
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
from tests.fuzz.pool import judged, keep, prepared
from tests.fuzz.targets import TARGETS, split

FAILURES = Path("outputs/fuzz")
_EVERY_S = 10.0
_MOST_KEPT = 5
"""Stored inputs of each cause: the smallest ones."""


def main() -> int:
    """Parse the command line and fuzz."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="only this one; may be repeated")
    parser.add_argument("--out", type=Path, default=FAILURES, help="folder for the inputs of failed cases")
    parser.add_argument("--repeat", type=Path, metavar="FOLDER", help="judge this stored case alone")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lppm-sim-fuzz-") as temporary:
        assets = prepared(Path(temporary))
        if asked.repeat is not None:
            return _repeat(asked.repeat, assets)
        cases = split(asked.cases, asked.target or list(TARGETS))
        outcomes = _run(cases, asked.seed, asked.workers, assets)
        _print_table(outcomes)
        return _print_failures(outcomes, asked.seed, assets, asked.out)


def _run(cases: list[tuple[str, int]], seed: int, workers: int, assets: Path) -> list[Outcome]:
    """Judge all cases and print how far it is."""
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
    print(f"\n{'target':<10}{'cases':>8}{'accepted':>10}{'refused':>9}{'failures':>10}{'slowest (CPU)':>22}")
    for target, own in sorted(by_target.items()):
        counts = [sum(each.verdict == verdict for each in own) for verdict in ("accepted", "refused", "failed")]
        slowest = max(own, key=lambda each: each.cpu_s)
        where = f"{slowest.cpu_s:.1f} s, case {slowest.number}"
        print(f"{target:<10}{len(own):>8,}{counts[0]:>10,}{counts[1]:>9,}{counts[2]:>10,}{where:>22}")


def _print_failures(outcomes: Iterable[Outcome], seed: int, assets: Path, folder: Path) -> int:
    """Store the smallest inputs of each cause, and print how to repeat them; return the exit code."""
    causes: dict[tuple[str, str], list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.verdict == "failed":
            causes.setdefault((outcome.target, outcome.cause), []).append(outcome)
    for (target, cause), own in sorted(causes.items(), key=lambda item: -len(item[1])):
        smallest = sorted(own, key=lambda each: each.size)[:_MOST_KEPT]
        places = [keep(outcome, seed, assets, folder) for outcome in smallest]
        print(f"\n{len(own):,} x {target}: {cause}\n    {_last_line(smallest[0].details)}")
        print(f"    repeat: python -m tests.fuzz --repeat {places[0]}")
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
