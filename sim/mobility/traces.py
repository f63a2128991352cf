"""Traces of queries, and their generation from mobility and demand."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, takewhile

import numpy as np

from sim.errors import InvalidValue
from sim.events import Shift, Visit
from sim.interfaces import Demand, Generator, IntArray, Mobility, MobilityCapabilities
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.gaps import longest_carry_s, sessions
from sim.mobility.intervals import require

LONGEST = 2_000_000
"""Largest number of queries of a user, past and test together; more indicate a mistake in the scenario."""

DAY_S = 86_400
"""Length of a day in s."""


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The queries of one user in order of time; both arrays are read-only, shape (n_queries,).

    >>> Trace("ann", np.array([0, 60, 60]), np.array([4, 4, 7])).part(1, 3).cells
    array([4, 7])
    """

    user: str
    """Id of the user."""
    times_s: IntArray
    """Times of the queries in s, in ascending order."""
    cells: IntArray
    """True cells of the queries."""

    def __post_init__(self) -> None:
        times_s, cells = _column("times_s", self.times_s), _column("cells", self.cells)
        if times_s.size != cells.size:
            raise ValueError(f"times_s and cells must have the same length, got {times_s.size} and {cells.size}")
        backward = np.flatnonzero(np.diff(times_s) < 0)
        if backward.size:
            at = int(backward[0])
            raise ValueError(f"times_s must not decrease, got {times_s[at]} then {times_s[at + 1]}")
        object.__setattr__(self, "times_s", times_s)
        object.__setattr__(self, "cells", cells)

    def __len__(self) -> int:
        return int(self.cells.size)

    def part(self, start: int | None, stop: int | None) -> Trace:
        """Return the queries in the slice `start:stop`."""
        return Trace(self.user, self.times_s[start:stop], self.cells[start:stop])


@dataclass(frozen=True, slots=True, eq=False)
class Life:
    """The queries of one user in two parts: the past, for training, and the test, which is simulated."""

    past: Trace
    """Queries before the test."""
    test: Trace
    """Queries that are simulated."""
    origin_s: int = 0
    """Start of the first day in s."""
    shifts: tuple[Shift, ...] = ()
    """Starts and ends of behaviour shifts in the test, in order of their queries."""
    borders: tuple[int, ...] = ()
    """Queries of the test, counted from 1 and in order, at which the user's statistics change: where a shift starts,
    reaches its full weight, or ends. The first query is not among them."""

    def first(self, queries: int) -> Life:
        """Return a copy with only the first queries of the test."""
        shifts = tuple(shift for shift in self.shifts if shift.index <= queries)
        borders = tuple(border for border in self.borders if border <= queries)
        return Life(self.past, self.test.part(0, queries), self.origin_s, shifts, borders)

    def cut(self, share: float, queries: int | None = None) -> Life:
        """Return a copy in which the first share of the test is the past, followed by a test of at most `queries`."""
        at = int(len(self.test) * share)
        return Life(self.test.part(0, at), self.test.part(at, None).part(0, queries), self.origin_s)


def live(
    mobility: Mobility,
    demand: Demand,
    user: str,
    *,
    moves: Generator,
    moments: Generator,
    queries: int | None = None,
    until_s: int | None = None,
    past_queries: int = 0,
    past_s: int = 0,
) -> Life:
    """Generate the queries of a user; the test ends after `queries` queries or at the time `until_s` (exclusive).

    One of the two limits is required unless the mobility is ``finite``. The first `past_queries` queries and those
    before `past_s` are the past; `queries` counts those of the test. Times are relative to 0, or, for a recorded user,
    whose trace may begin on any day, to the midnight before the first query. The visits of a mobility with `max_gap_s`
    are split at longer gaps and the demand runs on each session separately, so that no query falls into a gap.
    `EveryVisit` needs no split.
    """
    if queries is None and until_s is None and not MobilityCapabilities.finite.of(mobility):
        raise InvalidValue(
            f"{type(mobility).__name__} has infinitely many visits: give queries or until_s", code="unlimited-trace"
        )
    if queries is not None:
        require("queries", queries, 0, float("inf"), ends="[)")
    upcoming = _limited(user, _queries(mobility, demand, user, moves, moments))
    origin_s = 0
    if MobilityCapabilities.finite.of(mobility) and (first := next(upcoming, None)) is not None:
        origin_s = first.time_s // DAY_S * DAY_S
        upcoming = chain([first], upcoming)
    if until_s is not None:
        upcoming = takewhile(lambda query: query.time_s < origin_s + until_s, upcoming)
    past = list(islice(upcoming, past_queries))
    for query in upcoming:
        if query.time_s >= origin_s + past_s:
            upcoming = chain([query], upcoming)
            break
        past.append(query)
    return Life(_trace(user, past), _trace(user, islice(upcoming, queries)), origin_s)


def _queries(mobility: Mobility, demand: Demand, user: str, moves: Generator, moments: Generator) -> Iterator[Visit]:
    visits = mobility.visits(user, moves)
    max_gap_s = MobilityCapabilities.max_gap_s.of(mobility)
    if max_gap_s is None or isinstance(demand, EveryVisit):
        return demand.queries(visits, moments)
    parts = sessions(visits, max_gap_s=longest_carry_s(demand, max_gap_s))
    return chain.from_iterable(demand.queries(session, moments) for session in parts)


def _limited(user: str, queries: Iterable[Visit]) -> Iterator[Visit]:
    for number, query in enumerate(queries):
        if number == LONGEST:
            raise InvalidValue(
                f"{user} must have at most {LONGEST:,} queries, got more: reduce `queries` or `days`, or choose a "
                "demand with fewer queries",
                code="too-many-queries",
            )
        yield query


def _trace(user: str, visits: Iterable[Visit]) -> Trace:
    table = np.array([(visit.time_s, visit.cell) for visit in visits], dtype=np.int64).reshape(-1, 2)
    return Trace(user, table[:, 0], table[:, 1])


def _column(name: str, values: IntArray) -> IntArray:
    """Return a read-only copy of a one-dimensional array of integers."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"{name} must be one-dimensional integers, got {array.dtype} of shape {array.shape}")
    copy = array.astype(np.int64)
    copy.flags.writeable = False
    return copy
