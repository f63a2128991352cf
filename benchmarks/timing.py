"""How things are timed: in CPU time of the whole process, the limit beside the thing, the best of several rounds.

Machines are shared and change their pace, so a limit is measured again before every round of the thing, and the best
round of each counts: whatever else goes on can only add to a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import process_time_ns

NS = 1e-9
BLOCK_S = 0.01
"""Calls too short to be timed alone are repeated until they take so long."""


@dataclass(frozen=True, slots=True)
class Samples:
    """What each round gave of a thing and of the limit beside it, in one unit."""

    measured: tuple[float, ...]
    limit: tuple[float, ...]

    @property
    def best(self) -> tuple[float, float]:
        """Return the best of the thing and the best of its limit."""
        return min(self.measured), min(self.limit)


def side_by_side(thing: Callable[[], float], limit: Callable[[], float], *, rounds: int) -> Samples:
    """Measure limit, thing, limit, thing ...; both return the cost of one unit of their work."""
    pairs = [(limit(), thing()) for _ in range(rounds)]
    return Samples(tuple(cost for _, cost in pairs), tuple(least for least, _ in pairs))


def seconds_of(action: Callable[[], object]) -> float:
    """Return the CPU time of one call, on average over as many as fill a block."""
    calls = 1
    while True:
        began = process_time_ns()
        for _ in range(calls):
            action()
        took_s = (process_time_ns() - began) * NS
        if took_s >= BLOCK_S:
            return took_s / calls
        calls *= 2


def median_case(cases: Mapping[str, Samples]) -> tuple[float, float]:
    """Return the median over cases of the best of the thing, and of its limit."""
    bests = [samples.best for samples in cases.values()]
    return median(thing for thing, _ in bests), median(limit for _, limit in bests)


def slowest_case(cases: Mapping[str, Samples]) -> tuple[float, float]:
    """Return the best of the thing and of its limit in the case where the thing comes off worst."""
    return max((samples.best for samples in cases.values()), key=lambda best: best[0] / best[1])
