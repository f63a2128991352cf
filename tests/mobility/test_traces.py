"""Traces are validated and immutable; `live` stops at its limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import pytest

from sim.errors import InvalidValue
from sim.events import Visit
from sim.interfaces import Generator
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.traces import Trace, live
from tests.support import raises_code


class Walk:
    """Steps through the cells 0, 1, 2... every ten seconds, with a count of the visits consumed."""

    def __init__(self) -> None:
        self.consumed = 0

    def users(self, count: int | None) -> Sequence[str]:
        return ("ann",)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        for step in count():
            self.consumed += 1
            yield Visit(10 * step, step)


class ShortWalk(Walk):
    finite = True

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        yield from (Visit(10 * step, step) for step in range(4))


def queried(mobility: Walk, demand: EveryVisit | Periodic, **limits: int) -> list[tuple[int, int]]:
    one, two = np.random.default_rng(1), np.random.default_rng(2)
    trace = live(mobility, demand, "ann", moves=one, moments=two, **limits).test
    assert trace.user == "ann"
    return list(zip(trace.times_s.tolist(), trace.cells.tolist(), strict=True))


def test_live_stops_after_a_number_of_queries_and_consumes_no_more_visits() -> None:
    walk = Walk()
    assert queried(walk, EveryVisit(), queries=3) == [(0, 0), (10, 1), (20, 2)]
    assert walk.consumed == 3


def test_live_stops_before_a_time() -> None:
    assert queried(Walk(), EveryVisit(), until_s=30) == [(0, 0), (10, 1), (20, 2)]
    assert queried(Walk(), EveryVisit(), until_s=31)[-1] == (30, 3)
    assert queried(Walk(), Periodic(PeriodicParameters(period_s=20)), until_s=40) == [(0, 1), (20, 3)]
    assert queried(Walk(), EveryVisit(), until_s=0) == []


def test_the_first_limit_reached_applies() -> None:
    assert len(queried(Walk(), EveryVisit(), until_s=100, queries=2)) == 2
    assert len(queried(Walk(), EveryVisit(), until_s=100, queries=50)) == 10


def test_live_requires_a_limit_for_infinitely_many_visits() -> None:
    with raises_code(InvalidValue, "unlimited-trace") as error:
        queried(Walk(), EveryVisit())
    assert str(error.value).startswith("Walk ")
    assert queried(ShortWalk(), EveryVisit()) == [(0, 0), (10, 1), (20, 2), (30, 3)]
    with pytest.raises(ValueError, match=r"^queries\b.* \[0, inf\), got -1"):
        queried(Walk(), EveryVisit(), queries=-1)


def test_the_past_is_limited_by_number_or_time_and_not_part_of_the_test() -> None:
    rng = np.random.default_rng(1)
    by_number = live(Walk(), EveryVisit(), "ann", moves=rng, moments=rng, past_queries=2, queries=3)
    assert (by_number.past.cells.tolist(), by_number.test.cells.tolist()) == ([0, 1], [2, 3, 4])
    by_time = live(Walk(), EveryVisit(), "ann", moves=rng, moments=rng, past_s=25, queries=2)
    assert (by_time.past.cells.tolist(), by_time.test.cells.tolist()) == ([0, 1, 2], [3, 4])
    until = live(Walk(), EveryVisit(), "ann", moves=rng, moments=rng, past_s=25, until_s=40)
    assert until.test.cells.tolist() == [3]
    assert until.first(0).test.cells.tolist() == []
    without_test = live(ShortWalk(), EveryVisit(), "ann", moves=rng, moments=rng, past_queries=9)
    assert (len(without_test.past), len(without_test.test)) == (4, 0)


def test_days_of_a_recorded_trace_count_from_the_midnight_before_its_first_query() -> None:
    class Late(ShortWalk):
        def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
            yield from (Visit(5 * 86_400 + 1000 + 43_200 * step, step) for step in range(8))

    rng = np.random.default_rng(1)
    life = live(Late(), EveryVisit(), "ann", moves=rng, moments=rng, past_s=86_400, until_s=3 * 86_400)
    assert life.origin_s == 5 * 86_400
    assert (life.past.cells.tolist(), life.test.cells.tolist()) == ([0, 1], [2, 3, 4, 5])
    assert life.first(1).origin_s == life.origin_s


def test_a_trace_is_a_read_only_copy() -> None:
    cells = np.array([3, 4, 5])
    trace = Trace("ann", np.array([0, 0, 9]), cells)
    cells[0] = 77
    assert trace.cells.tolist() == [3, 4, 5]
    with pytest.raises(ValueError, match="read-only"):
        trace.cells[0] = 1


def test_parts_slice_both_columns() -> None:
    trace = Trace("ann", np.arange(5) * 10, np.arange(5) + 100)
    part = trace.part(1, 4)
    assert len(part) == 3
    assert part.user == "ann"
    assert (part.times_s.tolist(), part.cells.tolist()) == ([10, 20, 30], [101, 102, 103])
    assert trace.part(None, 2).cells.tolist() == [100, 101]
    assert trace.part(-2, None).cells.tolist() == [103, 104]
    assert len(trace.part(5, 9)) == 0


@pytest.mark.parametrize(
    ("times_s", "cells", "message"),
    [
        ([0, 1], [1], r"^times_s and cells\b.* got 2 and 1$"),
        ([0, 5, 4], [1, 1, 1], r"^times_s\b.* got 5 then 4$"),
        ([0.5, 1.0], [1, 1], r"^times_s\b.* integers, got float64\b"),
        ([0, 1], [[1], [1]], r"^cells\b.* integers, got int64 of shape \(2, 1\)$"),
    ],
)
def test_invalid_traces_are_rejected(times_s: list[int], cells: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace("ann", np.array(times_s), np.array(cells))
