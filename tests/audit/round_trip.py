"""Round trip of the audit: simulate each mechanism, audit it blind, and count what is recovered.

`make round-trip`, which is `python -m tests.audit.round_trip --page docs/how_to/audit.md`, runs 20 tries of 2,000 pairs
for each mechanism and writes the table of the page "Audit an app".
Finished tries are kept in `outputs/round_trip.jsonl` and not run again, so that it can be interrupted; a changed audit
needs a new file (`-o FILE`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from sim.audit.selection import identify
from sim.rng import stream
from tests.audit.cases import CASES
from tests.audit.movement import cabs

WITHIN = 0.1
TABLE_HEAD = "| mechanism | tries | kind recovered | parameter within 10 % | interval covers it | otherwise found |"

Task = tuple[str, int, str, int]
"""Mechanism, number of the try, source of the true positions, and number of pairs."""


@dataclass(frozen=True)
class Trial:
    """One simulation and its audit."""

    case: str
    source: str
    number: int
    kind: str
    recovered: bool
    truth: float
    value: float
    covered: bool
    pairs: int = 2000

    @property
    def task(self) -> Task:
        """Identification of the try."""
        return self.case, self.number, self.source, self.pairs

    @property
    def close(self) -> bool:
        """Whether the main parameter is within 10 % of the truth; true without a parameter."""
        return math.isnan(self.truth) or abs(self.value / self.truth - 1) <= WITHIN


def trial(name: str, number: int, source: str = "people", pairs: int = 2000) -> Trial | None:
    """Return the result of one try; None without the data."""
    case = next(case for case in CASES if case.name == name)
    rng = stream(21, "tests.audit", name, source, number)
    sample = case.movement(rng, pairs=pairs) if source == "people" else cabs(rng, pairs=pairs)
    if sample is None:
        return None
    released = case.release(sample, rng)
    finding = identify(released)
    estimate = next((one for one in finding.estimates if one.name == case.parameter), None)
    truth = math.nan if case.parameter is None else case.true_value(released)
    value, low, high = (math.nan,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)
    covered = bool(np.isnan(truth) or low * (1 - 1e-6) <= truth <= high * (1 + 1e-6))
    return Trial(name, source, number, finding.kind, finding.kind in case.kinds, truth, value, covered, pairs)


def table(trials: Sequence[Trial]) -> str:
    """Return the results in Markdown, one row for each mechanism."""
    lines = [TABLE_HEAD, "|---|---|---|---|---|---|"]
    for case in CASES:
        own = [trial for trial in trials if trial.case == case.name]
        if not own:
            continue
        known = case.parameter is not None
        others = sorted({trial.kind for trial in own if not trial.recovered})
        lines.append(
            f"| {case.name} | {len(own)} | {sum(t.recovered for t in own)} "
            f"| {sum(t.close for t in own) if known else '–'} | {sum(t.covered for t in own) if known else '–'} "
            f"| {', '.join(others) or '–'} |"
        )
    return "\n".join(lines)


def with_table(page: str, written: str) -> str:
    """Return the text of a page with its table of results replaced."""
    start = page.index(TABLE_HEAD)
    end = page.index("\n\n", start)
    return page[:start] + written + page[end:]


def finished(file: Path, tasks: Iterable[Task]) -> list[Trial]:
    """Return the results of those tasks that a file has; a line cut off by an interruption is ignored."""
    missing, results = set(tasks), []
    for line in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        try:
            result = Trial(**json.loads(line))
        except json.JSONDecodeError:
            continue
        if result.task in missing:
            missing.remove(result.task)
            results.append(result)
    return results


def run(tasks: Sequence[Task], workers: int, file: Path) -> list[Trial]:
    """Run the tries that the file has not, and append each result to it."""
    results = finished(file, tasks)
    done = {result.task for result in results}
    file.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(workers) as pool, file.open("a", encoding="utf-8") as log:
        for future in as_completed([pool.submit(trial, *task) for task in tasks if task not in done]):
            if (result := future.result()) is not None:
                results.append(result)
                print("\n" + json.dumps(asdict(result)), file=log, flush=True)
    return results


def main() -> None:
    """Run all tries and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--source", choices=("people", "cabs"), default="people")
    parser.add_argument("--only", default="", help="part of the name of a mechanism")
    parser.add_argument("-o", "--out", type=Path, default=Path("outputs/round_trip.jsonl"), help="file of the results")
    parser.add_argument("--page", type=Path, help="page whose table is replaced")
    options = parser.parse_args()
    names = [case.name for case in CASES if options.only in case.name]
    tasks = [(name, number, options.source, options.pairs) for number in range(options.tries) for name in names]
    results = table(run(tasks, options.workers, options.out))
    if options.page is not None:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(with_table(page, results), encoding="utf-8")
    print(results)


if __name__ == "__main__":
    main()
