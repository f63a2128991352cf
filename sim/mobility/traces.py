"""A finite stretch of one user's queries, and how to live through one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice, takewhile

import numpy as np

from sim.events import Shift, Visit
from sim.interfaces import Demand, Generator, IntArray, Mobility, MobilityCapabilities
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.gaps import longest_carry_s, sessions
from sim.mobility.intervals import require

LONGEST = 2_000_000
"""Queries in one life, past and test: whoever has more was asked for by mistake."""


DAY_S = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The cells one user queries from, in order of time; both arrays are read-only, shape (n_queries,).

    >>> Trace("ann", np.array([0, 60, 60]), np.array([4, 4, 7])).part(1, 3).cells
    array([4, 7])
    """

    user: str
    times_s: IntArray
    cells: IntArray

    def __post_init__(self) -> None:
        times_s, cells = _column("times_s", self.times_s), _column("cells", self.cells)
        if times_s.size != cells.size:
            raise ValueError(f"times_s and cells must have one length, got {times_s.size} and {cells.size}")
        back = np.flatnonzero(np.diff(times_s) < 0)
        if back.size:
            at = int(back[0])
            raise ValueError(f"times_s must not decrease, got {times_s[at]} then {times_s[at + 1]}")
        object.__setattr__(self, "times_s", times_s)
        object.__setattr__(self, "cells", cells)

    def __len__(self) -> int:
        return int(self.cells.size)

    def part(self, start: int | None, stop: int | None) -> Trace:
        """Return the queries from position `start` up to and without `stop`, counted as a slice does."""
        return Trace(self.user, self.times_s[start:stop], self.cells[start:stop])


@dataclass(frozen=True, slots=True, eq=False)
class Life:
    """A user's queries, cut in two: a past that can be trained on, and the test that is simulated."""

    past: Trace
    test: Trace
    origin_s: int = 0
    """When its first day begins."""
    shifts: tuple[Shift, ...] = ()
    """What changes in the test, in order of the first query after each change."""
    borders: tuple[int, ...] = ()
    """The test's queries, counted from 1, with which other statistics come into force, in order and without the first:
    where a change begins, has come to its full weight, or is over."""

    def first(self, queries: int) -> Life:
        """Return the same life with a shorter test."""
        shifts = tuple(shift for shift in self.shifts if shift.index <= queries)
        borders = tuple(border for border in self.borders if border <= queries)
        return Life(self.past, self.test.part(0, queries), self.origin_s, shifts, borders)

    def cut(self, share: float, queries: int | None = None) -> Life:
        """Return this life, all test so far, with its first share as the past and at most so many queries after it."""
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
    """Live through a user's days; the test ends after a number of queries or at a time (exclusive).

    One of the two limits must be given, unless the mobility says by ``finite = True`` that it ends by itself. The
    first `past_queries`, and those before `past_s`, are the past; `queries` counts what comes after. Times count from
    0, or, for a recorded life, which may begin on any day, from the midnight before its own first query. A mobility
    with a `max_gap_s` is split at longer gaps: the demand runs on each session separately, so that no query falls into
    a gap. `EveryVisit` needs no split.
    """
    if queries is None and until_s is None and not MobilityCapabilities.finite.of(mobility):
        raise ValueError(f"{type(mobility).__name__} goes on for ever: give queries or until_s")
    if queries is not None:
        require("queries", queries, 0, float("inf"), ends="[)")
    found = _not_for_ever(user, _queries(mobility, demand, user, moves, moments))
    origin_s = 0
    if MobilityCapabilities.finite.of(mobility) and (first := next(found, None)) is not None:
        origin_s = first.time_s // DAY_S * DAY_S
        found = chain([first], found)
    if until_s is not None:
        found = takewhile(lambda query: query.time_s < origin_s + until_s, found)
    past = list(islice(found, past_queries))
    for query in found:
        if query.time_s >= origin_s + past_s:
            found = chain([query], found)
            break
        past.append(query)
    return Life(_trace(user, past), _trace(user, islice(found, queries)), origin_s)


def _queries(mobility: Mobility, demand: Demand, user: str, moves: Generator, moments: Generator) -> Iterator[Visit]:
    visits = mobility.visits(user, moves)
    max_gap_s = MobilityCapabilities.max_gap_s.of(mobility)
    if max_gap_s is None or isinstance(demand, EveryVisit):
        return demand.queries(visits, moments)
    parts = sessions(visits, max_gap_s=longest_carry_s(demand, max_gap_s))
    return chain.from_iterable(demand.queries(session, moments) for session in parts)


def _not_for_ever(user: str, queries: Iterable[Visit]) -> Iterator[Visit]:
    for number, query in enumerate(queries):
        if number == LONGEST:
            raise ValueError(
                f"{user} queries more than {LONGEST:,} times; say fewer `queries` or `days`, or a slower demand"
            )
        yield query


def _trace(user: str, visits: Iterable[Visit]) -> Trace:
    table = np.array([(visit.time_s, visit.cell) for visit in visits], dtype=np.int64).reshape(-1, 2)
    return Trace(user, table[:, 0], table[:, 1])


def _column(name: str, values: IntArray) -> IntArray:
    """Return a read-only copy of a one-dimensional array of integers."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"{name} must be a list of integers, got {array.dtype} of shape {array.shape}")
    copy = array.astype(np.int64)
    copy.flags.writeable = False
    return copy
