"""A trace is checked once and never changes; `live` stops where it is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np
import pytest

from sim.events import Visit
from sim.interfaces import Generator
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.traces import Trace, live


class Walk:
    """Step through the cells 0, 1, 2... every ten seconds and note how far anybody looked."""

    def __init__(self) -> None:
        self.asked = 0

    def users(self, count: int | None) -> Sequence[str]:
        return ("ann",)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        for step in count():
            self.asked += 1
            yield Visit(10 * step, step)


class ShortWalk(Walk):
    finite = True

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        yield from (Visit(10 * step, step) for step in range(4))


def lived(mobility: Walk, demand: EveryVisit | Periodic, **limits: int) -> list[tuple[int, int]]:
    one, two = np.random.default_rng(1), np.random.default_rng(2)
    trace = live(mobility, demand, "ann", moves=one, moments=two, **limits).test
    assert trace.user == "ann"
    return list(zip(trace.times_s.tolist(), trace.cells.tolist(), strict=True))


def test_live_stops_at_a_number_of_queries_and_looks_no_further() -> None:
    walk = Walk()
    assert lived(walk, EveryVisit(), queries=3) == [(0, 0), (10, 1), (20, 2)]
    assert walk.asked == 3


def test_live_stops_before_a_time() -> None:
    assert lived(Walk(), EveryVisit(), until_s=30) == [(0, 0), (10, 1), (20, 2)]
    assert lived(Walk(), EveryVisit(), until_s=31)[-1] == (30, 3)
    assert lived(Walk(), Periodic(PeriodicParameters(period_s=20)), until_s=40) == [(0, 1), (20, 3)]
    assert lived(Walk(), EveryVisit(), until_s=0) == []


def test_the_first_limit_reached_counts() -> None:
    assert len(lived(Walk(), EveryVisit(), until_s=100, queries=2)) == 2
    assert len(lived(Walk(), EveryVisit(), until_s=100, queries=50)) == 10


def test_live_needs_a_limit_unless_the_visits_end() -> None:
    with pytest.raises(ValueError, match="Walk goes on for ever"):
        lived(Walk(), EveryVisit())
    assert lived(ShortWalk(), EveryVisit()) == [(0, 0), (10, 1), (20, 2), (30, 3)]
    with pytest.raises(ValueError, match=r"queries must be in \[0, inf\), got -1"):
        lived(Walk(), EveryVisit(), queries=-1)


def test_the_past_is_cut_off_by_number_or_by_time_and_not_counted() -> None:
    rng = np.random.default_rng(1)
    by_number = live(Walk(), EveryVisit(), "ann", moves=rng, moments=rng, past_queries=2, queries=3)
    assert (by_number.past.cells.tolist(), by_number.test.cells.tolist()) == ([0, 1], [2, 3, 4])
    by_time = live(Walk(), EveryVisit(), "ann", moves=rng, moments=rng, past_s=25, queries=2)
    assert (by_time.past.cells.tolist(), by_time.test.cells.tolist()) == ([0, 1, 2], [3, 4])
    until = live(Walk(), EveryVisit(), "ann", moves=rng, moments=rng, past_s=25, until_s=40)
    assert until.test.cells.tolist() == [3]
    assert until.first(0).test.cells.tolist() == []
    nothing_left = live(ShortWalk(), EveryVisit(), "ann", moves=rng, moments=rng, past_queries=9)
    assert (len(nothing_left.past), len(nothing_left.test)) == (4, 0)


def test_days_of_a_recorded_life_count_from_its_own_first_midnight() -> None:
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
        ([0, 1], [1], "one length, got 2 and 1"),
        ([0, 5, 4], [1, 1, 1], "got 5 then 4"),
        ([0.5, 1.0], [1, 1], "times_s must be a list of integers, got float64"),
        ([0, 1], [[1], [1]], r"cells must be a list of integers, got int64 of shape \(2, 1\)"),
    ],
)
def test_a_trace_refuses(times_s: list[int], cells: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace("ann", np.array(times_s), np.array(cells))
