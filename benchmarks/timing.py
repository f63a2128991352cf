"""Timing: CPU time of the whole process, measured alternately with a limit, the best of several rounds.

Machines are shared and change their speed. Therefore the limit is measured again before every round, and the best round
of each counts: other load can only increase a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import process_time_ns

NS = 1e-9
BLOCK_S = 0.01
"""Minimum CPU time of a measurement: shorter calls are repeated."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Measured value and limit of each round, in one unit."""

    measured: tuple[float, ...]
    limit: tuple[float, ...]

    @property
    def best(self) -> tuple[float, float]:
        """The minimum of the measured values and the minimum of the limits."""
        return min(self.measured), min(self.limit)


def side_by_side(measure: Callable[[], float], limit: Callable[[], float], *, rounds: int) -> Samples:
    """Measure the limit and the work alternately; both functions return the cost of one unit."""
    pairs = [(limit(), measure()) for _ in range(rounds)]
    return Samples(tuple(cost for _, cost in pairs), tuple(bound for bound, _ in pairs))


def seconds_of(action: Callable[[], object]) -> float:
    """Return the CPU time in s of one call, the mean over as many calls as `BLOCK_S` needs."""
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
    """Return the median over cases of the best measured value, and of the best limit."""
    bests = [samples.best for samples in cases.values()]
    return median(measured for measured, _ in bests), median(limit for _, limit in bests)


def slowest_case(cases: Mapping[str, Samples]) -> tuple[float, float]:
    """Return the best measured value and limit of the case with the largest ratio."""
    return max((samples.best for samples in cases.values()), key=lambda best: best[0] / best[1])
