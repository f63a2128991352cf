"""Gaps in recorded movement: sessions between gaps, and numbers of queries that gaps affect."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Protocol

import numpy as np

from sim.events import Visit
from sim.interfaces import BoolArray, Demand, DemandCapabilities, FloatArray, IntArray
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.periodic import Periodic
from sim.mobility.demand.poisson import Poisson

MAX_GAP_S = 2 * 3600
"""Default of the longest gap in s during which a user is assumed to stay, as in the paper for cabs."""


def sessions(visits: Iterable[Visit], *, max_gap_s: float) -> Iterator[Iterator[Visit]]:
    """Split visits, in order of time, at each gap longer than `max_gap_s`.

    The sessions are lazy: consume each one before requesting the next.

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
    """Numbers of queries by the origin of their positions."""

    recorded: int = 0
    """Number of queries at a new visit."""
    carried: int = 0
    """Number of queries that repeat the previous position, because the gap has no new visit but is short enough."""
    cut: int = 0
    """Number of queries that are omitted because they fall into a gap that is too long."""
    gaps: int = 0
    """Number of gaps with omitted queries."""

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(
            self.recorded + other.recorded, self.carried + other.carried, self.cut + other.cut, self.gaps + other.gaps
        )


class Schedule(Protocol):
    """Queries of one recorded user: exact for `Periodic`, expected values for `Poisson`."""

    total: int
    """Number of queries."""
    first_s: int
    """Time of the first query in s."""

    def before(self, time_s: float) -> int:
        """Return the number of queries before a time."""
        ...

    def coverage(self, queries: int) -> Coverage:
        """Return the coverage of the first `queries` queries, in [0, total]."""
        ...


class PeriodicSchedule:
    """Queries of `Periodic`, one in every slot outside long gaps, counted without generating them.

    A query counts as recorded if its slot contains a visit that is not itself carried, else as carried.

    >>> PeriodicSchedule(np.array([10, 290, 905, 99_000]), period_s=300, max_gap_s=7200).coverage(5)
    Coverage(recorded=3, carried=2, cut=326, gaps=1)
    """

    def __init__(self, times_s: IntArray, *, period_s: int, max_gap_s: float, carried: BoolArray | None = None) -> None:
        """Count the slots, given the times of one user's visits in order; there must be at least one.

        `carried` marks visits that repeat an earlier position (default: none), shape (n_visits,).
        """
        slots, first = np.unique(times_s // period_s, return_index=True)
        empty = np.diff(slots) - 1
        is_gap = times_s[first[1:]] - times_s[first[1:] - 1] > max(max_gap_s, period_s)
        self._period_s, self._slots = period_s, slots
        self._filled, self._cut = np.where(is_gap, 0, empty), np.where(is_gap, empty, 0)
        self._positions = np.arange(slots.size) + np.concatenate([[0], np.cumsum(self._filled)])
        own = np.ones(slots.size, dtype=bool) if carried is None else np.logical_or.reduceat(~carried, first)
        self._recorded = np.concatenate([[0], np.cumsum(own)])
        self.total = int(self._positions[-1]) + 1
        self.first_s = int(slots[0]) * period_s

    def before(self, time_s: float) -> int:
        """Return the number of queries before a time."""
        known = int(np.searchsorted(self._slots * self._period_s, time_s))
        if known in (0, self._slots.size):
            return self.total if known else 0
        since = int(-(-time_s // self._period_s)) - int(self._slots[known - 1]) - 1
        return int(self._positions[known - 1]) + 1 + min(since, int(self._filled[known - 1]))

    def coverage(self, queries: int) -> Coverage:
        """Return the coverage of the first `queries` queries."""
        known = int(np.searchsorted(self._positions, queries))
        recorded = int(self._recorded[known])
        cut = self._cut[: max(known - 1, 0)]
        return Coverage(recorded, queries - recorded, int(cut.sum()), int((cut > 0).sum()))


class PoissonSchedule:
    """Expected queries of `Poisson`.

    Of the queries between two visits, the first counts as recorded and the others, at the same visit, as carried. With
    a mean of m queries, these are 1 - exp(-m) and m - 1 + exp(-m) on average. After a visit that is itself carried, all
    count as carried.
    """

    def __init__(
        self, times_s: IntArray, *, per_hour: float, max_gap_s: float, carried: BoolArray | None = None
    ) -> None:
        """Compute the means, given the times of one user's visits in order; there must be at least one.

        `carried` marks visits that repeat an earlier position (default: none), shape (n_visits,).
        """
        between_s = np.diff(times_s)
        is_gap = between_s > max_gap_s
        means = between_s * (per_hour / 3600)
        self._times_s, self._cut = times_s, np.where(is_gap, means, 0.0)
        self._means: FloatArray = np.where(is_gap, 0.0, means)
        own = 1.0 if carried is None else ~carried[:-1]
        self._recorded = -np.expm1(-self._means) * own
        self._counts = np.concatenate([[0.0], np.cumsum(self._means)])
        self.total = round(float(self._counts[-1]))
        self.first_s = int(times_s[0])

    def before(self, time_s: float) -> int:
        """Return the number of queries before a time."""
        return round(float(np.interp(time_s, self._times_s, self._counts)))

    def coverage(self, queries: int) -> Coverage:
        """Return the coverage of the first `queries` queries."""
        stop = self._means.size if queries >= self.total else int(np.searchsorted(self._counts, queries))
        recorded = min(queries, round(float(self._recorded[:stop].sum())))
        cut = self._cut[:stop]
        return Coverage(recorded, queries - recorded, round(float(cut.sum())), int((cut > 0).sum()))


def schedule(
    demand: Demand,
    times_s: IntArray,
    *,
    max_gap_s: float,
    carried: BoolArray | None = None,
    resample_s: int | None = None,
) -> Schedule | None:
    """Return the schedule of a recorded user, or None for a demand whose queries cannot be counted in advance.

    `carried` marks visits that repeat an earlier position. Every visit at a fixed period `resample_s` is a query in
    every slot.
    """
    match demand:
        case Periodic():
            return PeriodicSchedule(times_s, period_s=demand.period_s, max_gap_s=max_gap_s, carried=carried)
        case Poisson():
            return PoissonSchedule(times_s, per_hour=demand.per_hour, max_gap_s=max_gap_s, carried=carried)
        case EveryVisit() if resample_s is not None:
            return PeriodicSchedule(times_s, period_s=resample_s, max_gap_s=max_gap_s, carried=carried)
        case _:
            return None


def count_gaps(times_s: IntArray, *, max_gap_s: float) -> int:
    """Return the number of gaps longer than `max_gap_s`.

    >>> count_gaps(np.array([0, 60, 9000]), max_gap_s=7200)
    1
    """
    return int((np.diff(times_s) > max_gap_s).sum())
