"""The targets by name, and the division of the cases among them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fuzz.harness import Target
from tests.fuzz.runs import Runs
from tests.fuzz.scenarios import Scenarios
from tests.fuzz.traces import Traces

TARGETS: dict[str, Callable[[Path], Target]] = {"scenario": Scenarios, "traces": Traces, "runs": Runs}
SHARES = {"scenario": 0.5, "traces": 0.35, "runs": 0.15}
"""Share of the cases of each target. Cases of `runs` take five times as long as the others."""


def split(cases: int, names: list[str]) -> list[tuple[str, int]]:
    """Return target and number of every case, with the targets interleaved evenly.

    >>> split(10, ["scenario", "runs"])[:3], len(split(10, ["scenario", "runs"]))
    ([('scenario', 0), ('scenario', 1), ('runs', 0)], 10)
    """
    total = sum(SHARES[name] for name in names)
    counts = {name: round(cases * SHARES[name] / total) for name in names}
    counts[names[0]] += cases - sum(counts.values())
    spread = [
        ((i + 0.5) / counts[name], order, name, i) for order, name in enumerate(names) for i in range(counts[name])
    ]
    return [(name, i) for _, _, name, i in sorted(spread)]
