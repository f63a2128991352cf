"""Round trip of the audit: simulate each mechanism, audit it blind, and count what is recovered.

`python -m tests.audit.round_trip [--tries 20] [--workers 2] [--only TEXT] [-o FILE]` prints the table of the page
"Audit an app" in Markdown.
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
from tests.audit.movement import cabs, people

WITHIN = 0.1


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

    @property
    def close(self) -> bool:
        """Whether the main parameter is within 10 % of the truth; true without a parameter."""
        return math.isnan(self.truth) or abs(self.value / self.truth - 1) <= WITHIN


def trial(name: str, number: int, source: str = "people", pairs: int = 2000) -> Trial | None:
    """Return the result of one try; None without the data."""
    case = next(case for case in CASES if case.name == name)
    rng = stream(21, "tests.audit", name, source, number)
    sample = people(rng, pairs=pairs) if source == "people" else cabs(rng, pairs=pairs)
    if sample is None:
        return None
    released = case.release(sample, rng)
    finding = identify(released)
    estimate = next((one for one in finding.estimates if one.name == case.parameter), None)
    truth = math.nan if case.parameter is None else case.true_value(released)
    value, low, high = (math.nan,) * 3 if estimate is None else (estimate.value, estimate.low, estimate.high)
    covered = bool(np.isnan(truth) or low * (1 - 1e-6) <= truth <= high * (1 + 1e-6))
    return Trial(name, source, number, finding.kind, finding.kind in case.kinds, truth, value, covered)


def table(trials: Sequence[Trial]) -> str:
    """Return the results in Markdown, one row for each mechanism."""
    lines = [
        "| mechanism | tries | kind recovered | parameter within 10 % | interval covers it | otherwise found |",
        "|---|---|---|---|---|---|",
    ]
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


def _all(tasks: Iterable[tuple[str, int, str]], workers: int, out: Path | None) -> list[Trial]:
    trials: list[Trial] = []
    with ProcessPoolExecutor(workers) as pool:
        for future in as_completed([pool.submit(trial, *task) for task in tasks]):
            result = future.result()
            if result is not None:
                trials.append(result)
                if out is not None:
                    out.write_text(json.dumps([asdict(one) for one in trials]), encoding="utf-8")
    return trials


def main() -> None:
    """Run all tries and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--source", choices=("people", "cabs"), default="people")
    parser.add_argument("--only", default="", help="part of the name of a mechanism")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    names = [case.name for case in CASES if options.only in case.name]
    tasks = [(name, number, options.source) for number in range(options.tries) for name in names]
    print(table(_all(tasks, options.workers, options.out)))


if __name__ == "__main__":
    main()
