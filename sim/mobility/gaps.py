"""Gaps in recorded movement: split visits into sessions, and count the queries that gaps carry or cut."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np

from sim.events import Visit
from sim.interfaces import Demand, DemandCapabilities, FloatArray, IntArray
from sim.mobility.demand.periodic import Periodic
from sim.mobility.demand.poisson import Poisson

MAX_GAP_S = 2 * 3600
"""Default of the longest gap that a position is carried over, as the paper allows for cabs."""


def sessions(visits: Iterable[Visit], *, max_gap_s: float) -> Iterator[Iterator[Visit]]:
    """Split visits, in order of time, at each gap longer than `max_gap_s`; iterate over one session at a time.

    >>> trip = [Visit(0, 1), Visit(60, 2), Visit(9000, 3)]
    >>> [[visit.cell for visit in session] for session in sessions(trip, max_gap_s=7200)]
    [[1, 2], [3]]
    """
    number, last_s = 0, math.inf

    def session_of(visit: Visit) -> int:
        nonlocal number, last_s
        if visit.time_s - last_s > max_gap_s:
            number += 1
        last_s = visit.time_s
        return number

    return (session for _, session in groupby(visits, session_of))


def longest_carry_s(demand: Demand, max_gap_s: float) -> float:
    """Return the gap at which visits are split: `max_gap_s`, or the demand's `period_s` if that is longer.

    A gap within one period skips no slot, and two sessions must not query in the same slot.
    """
    return max(max_gap_s, DemandCapabilities.period_s.of(demand))


@dataclass(frozen=True, slots=True)
class Coverage:
    """Where the positions of a population's queries come from."""

    recorded: int = 0
    """Queries that are the first to use a visit."""
    carried: int = 0
    """Queries that repeat the position of the query before, because there is no new visit within the allowed gap."""
    cut: int = 0
    """Queries that are not asked because they fall into a longer gap."""
    gaps: int = 0
    """Gaps in which queries are cut."""

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.recorded + other.recorded, self.carried + other.carried, self.cut + other.cut, self.gaps + other.gaps
        )


class Schedule(Protocol):
    """The queries of one recorded user: exact for `Periodic`, expected values for `Poisson`."""

    total: int
    """All of them."""
    first_s: int
    """Time of the first."""

    def before(self, time_s: float) -> int:
        """Return how many queries come before a time."""
        ...

    def coverage(self, queries: int) -> Coverage:
        """Return where the first `queries` of them come from, for `queries` in [0, total]."""
        ...


class PeriodicSchedule:
    """The queries of `Periodic`, one in every slot that is not cut, counted without generating them.

    A query is recorded if its slot holds a visit, else carried.

    >>> PeriodicSchedule(np.array([10, 290, 905, 99_000]), period_s=300, max_gap_s=7200).coverage(5)
    Coverage(recorded=3, carried=2, cut=326, gaps=1)
    """

    def __init__(self, times_s: IntArray, *, period_s: int, max_gap_s: float) -> None:
        """Take one user's visit times, in order and not empty."""
        slots, first = np.unique(times_s // period_s, return_index=True)
        empty = np.diff(slots) - 1
        is_gap = times_s[first[1:]] - times_s[first[1:] - 1] > max(max_gap_s, period_s)
        self._period_s, self._slots = period_s, slots
        self._filled, self._cut = np.where(is_gap, 0, empty), np.where(is_gap, empty, 0)
        self._positions = np.arange(slots.size) + np.concatenate([[0], np.cumsum(self._filled)])
        self.total = int(self._positions[-1]) + 1
        self.first_s = int(slots[0]) * period_s

    def before(self, time_s: float) -> int:
        """Return how many queries come before a time."""
        known = int(np.searchsorted(self._slots * self._period_s, time_s))
        if known in (0, self._slots.size):
            return self.total if known else 0
        since = int(-(-time_s // self._period_s)) - int(self._slots[known - 1]) - 1
        return int(self._positions[known - 1]) + 1 + min(since, int(self._filled[known - 1]))

    def coverage(self, queries: int) -> Coverage:
        """Return where the first `queries` of them come from."""
        recorded = int(np.searchsorted(self._positions, queries))
        cut = self._cut[: max(recorded - 1, 0)]
        return Coverage(recorded, queries - recorded, int(cut.sum()), int((cut > 0).sum()))


class PoissonSchedule:
    """The queries of `Poisson` in expectation.

    Of the queries between two visits the first is recorded and the others, which use the same visit, are carried: with
    a mean of m queries, 1 - exp(-m) and m - 1 + exp(-m).
    """

    def __init__(self, times_s: IntArray, *, per_hour: float, max_gap_s: float) -> None:
        """Take one user's visit times, in order and not empty."""
        between_s = np.diff(times_s)
        is_gap = between_s > max_gap_s
        means = between_s * (per_hour / 3600)
        self._times_s, self._cut = times_s, np.where(is_gap, means, 0.0)
        self._means: FloatArray = np.where(is_gap, 0.0, means)
        self._recorded = -np.expm1(-self._means)
        self._counts = np.concatenate([[0.0], np.cumsum(self._means)])
        self.total = round(float(self._counts[-1]))
        self.first_s = int(times_s[0])

    def before(self, time_s: float) -> int:
        """Return how many queries come before a time."""
        return round(float(np.interp(time_s, self._times_s, self._counts)))

    def coverage(self, queries: int) -> Coverage:
        """Return where the first `queries` of them come from."""
        stop = self._means.size if queries >= self.total else int(np.searchsorted(self._counts, queries))
        recorded = min(queries, round(float(self._recorded[:stop].sum())))
        cut = self._cut[:stop]
        return Coverage(recorded, queries - recorded, round(float(cut.sum())), int((cut > 0).sum()))


def schedule(demand: Demand, times_s: IntArray, *, max_gap_s: float) -> Schedule | None:
    """Return the queries of a recorded user, or None for a demand whose queries cannot be counted beforehand."""
    match demand:
        case Periodic():
            return PeriodicSchedule(times_s, period_s=demand.period_s, max_gap_s=max_gap_s)
        case Poisson():
            return PoissonSchedule(times_s, per_hour=demand.per_hour, max_gap_s=max_gap_s)
        case _:
            return None


def count_gaps(times_s: IntArray, *, max_gap_s: float) -> int:
    """Return how many gaps are longer than `max_gap_s`.

    >>> count_gaps(np.array([0, 60, 9000]), max_gap_s=7200)
    1
    """
    return int((np.diff(times_s) > max_gap_s).sum())
