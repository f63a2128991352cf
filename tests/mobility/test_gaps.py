"""Gaps between recorded visits: no query falls into one, and carried and omitted queries are counted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.events import Visit
from sim.interfaces import Demand, Generator, IntArray
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.demand.poisson import Poisson, PoissonParameters
from sim.mobility.gaps import Coverage, PeriodicSchedule, PoissonSchedule, count_gaps, schedule, sessions
from sim.mobility.recorded.replay import Replay
from sim.mobility.shifts.rate import Rate
from sim.mobility.traces import Trace, live
from sim.world.grid import Grid
from tests.support import made

GRID = Grid.rectangle(rows=2, cols=3, width_km=3, height_km=2)
HOUR, DAY = 3600, 86_400


def replay(folder: Path, times_s: Iterable[int], **options: Any) -> Replay:
    path = folder / "t.csv"
    rows = "".join(f"a,{time_s},{number % 6}\n" for number, time_s in enumerate(times_s))
    path.write_text("user,time_s,cell\n" + rows)
    return made(Replay, locations=GRID, file=path, **options)


def queried(mobility: Replay, demand: Demand, seed: int = 0, **limits: Any) -> Trace:
    moves, moments = np.random.default_rng(seed), np.random.default_rng(seed)
    return live(mobility, demand, "a", moves=moves, moments=moments, **limits).test


def geolife(days: Iterable[int], *, minutes: int = 90) -> list[int]:
    """Return times as in Geolife: a trip of 1.5 h with a point every minute on each of these days."""
    return [day * DAY + 8 * HOUR + minute * 60 for day in days for minute in range(minutes)]


def test_sessions_end_only_at_longer_gaps() -> None:
    visits = [Visit(time_s, 0) for time_s in (0, 7200, 14_401, 14_401, 30_000)]
    times_s = [[visit.time_s for visit in session] for session in sessions(visits, max_gap_s=7200)]
    assert times_s == [[0, 7200], [14_401, 14_401], [30_000]]
    assert list(sessions([], max_gap_s=1)) == []


def test_a_session_that_is_not_read_to_its_end_is_skipped() -> None:
    visits = [Visit(time_s, 0) for time_s in (0, 1, 2, 100, 101)]
    assert [next(session).time_s for session in sessions(visits, max_gap_s=10)] == [0, 100]


def test_no_periodic_query_falls_into_a_gap(tmp_path: Path) -> None:
    """Replay trips on five days of a month: without the limit, 95 % of the queries would fall into gaps."""
    times_s = geolife([0, 3, 4, 11, 30])
    trace = queried(replay(tmp_path, times_s), Periodic(PeriodicParameters(period_s=300)))
    assert trace.times_s.tolist() == sorted({time_s // 300 * 300 for time_s in times_s})
    uncut = queried(replay(tmp_path, times_s, max_gap_s=10**9), Periodic(PeriodicParameters(period_s=300)))
    assert len(uncut) == 30 * 288 + 18
    assert len(trace) == 5 * 18
    counts = PeriodicSchedule(np.array(times_s), period_s=300, max_gap_s=7200).coverage(len(trace))
    assert counts == Coverage(recorded=90, carried=0, cut=len(uncut) - len(trace), gaps=4)


def test_a_position_is_repeated_in_gaps_up_to_the_limit(tmp_path: Path) -> None:
    mobility = replay(tmp_path, [0, 7200, 14_401])
    trace = queried(mobility, Periodic(PeriodicParameters(period_s=3600)))
    assert (trace.times_s // 3600).tolist() == [0, 1, 2, 4]
    assert trace.cells.tolist() == [0, 0, 1, 2]


@pytest.mark.parametrize("period_s", [5 * HOUR, DAY])
def test_a_period_longer_than_the_gap_has_one_query_per_slot(tmp_path: Path, period_s: int) -> None:
    times_s = [0, 3 * HOUR, 4 * HOUR, 9 * HOUR, 30 * HOUR, 100 * HOUR]
    trace = queried(replay(tmp_path, times_s), Periodic(PeriodicParameters(period_s=period_s)))
    slots = [time_s // period_s for time_s in times_s]
    assert (trace.times_s // period_s).tolist() == sorted(set(slots))
    last = {slot: number for number, slot in enumerate(slots)}
    assert trace.cells.tolist() == [number % 6 for number in last.values()]


def test_every_visit_ignores_gaps(tmp_path: Path) -> None:
    times_s = [0, 5, DAY, 40 * DAY]
    assert queried(replay(tmp_path, times_s), EveryVisit()).times_s.tolist() == times_s


def test_an_order_without_times_has_no_gaps(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("user,order,cell\na,0,1\na,99999,2\n")
    assert made(Replay, locations=GRID, file=path).max_gap_s is None


def test_no_poisson_query_falls_into_a_gap(tmp_path: Path) -> None:
    times_s = np.array(geolife([0, 3, 4, 11, 30]))
    trace = queried(replay(tmp_path, times_s), Poisson(PoissonParameters(per_hour=20)))
    assert 5 * 15 < len(trace) < 5 * 45
    assert set((trace.times_s // DAY).tolist()) == {0, 3, 4, 11, 30}
    for query_s, cell in zip(trace.times_s, trace.cells, strict=True):
        last = int(np.searchsorted(times_s, query_s, side="right")) - 1
        assert query_s - times_s[last] < 60
        assert cell == last % 6


def test_a_custom_demand_has_no_queries_in_gaps(tmp_path: Path) -> None:
    class Hourly:
        def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
            return Periodic(PeriodicParameters(period_s=HOUR)).queries(visits, rng)

    trace = queried(replay(tmp_path, geolife([0, 3])), Hourly())
    assert (trace.times_s // HOUR).tolist() == [8, 9, 80, 81]
    assert schedule(Hourly(), np.array([0, 1]), max_gap_s=1) is None
    assert count_gaps(np.array([0, 7200, 14_401]), max_gap_s=7200) == 1


def test_a_rate_counts_its_queries_over_all_sessions(tmp_path: Path) -> None:
    """Insert queries until the ninth, counted over all sessions, and none in a gap."""
    mobility = replay(tmp_path, geolife([0, 1, 2], minutes=30))
    base = queried(mobility, Periodic(PeriodicParameters(period_s=300)))
    rate = Rate(
        Periodic(PeriodicParameters(period_s=300)), factor=4, from_s=0, for_queries=9, rng=np.random.default_rng(1)
    )
    more = queried(mobility, rate)
    assert len(base) == 18
    added = set(more.times_s.tolist()) - set(base.times_s.tolist())
    assert added
    assert all(8 * HOUR <= time_s < 8.5 * HOUR for time_s in added), "the rate ends with its ninth query"
    frequent = Rate(EveryVisit(), factor=40, from_s=0, rng=np.random.default_rng(1))
    times_s = queried(mobility, frequent).times_s % DAY
    assert times_s.min() >= 8 * HOUR
    assert times_s.max() < 8.5 * HOUR


# ------------------------------------------------------------------------------------------------------------- counts

times = st.lists(st.integers(0, 400), min_size=1, max_size=30).map(np.cumsum)


@settings(deadline=None)
@given(times=times, period_s=st.integers(1, 500), max_gap_s=st.integers(1, 500), limit=st.integers(0, 3000))
def test_periodic_counts_agree_with_the_queries(times: IntArray, period_s: int, max_gap_s: int, limit: int) -> None:
    """Generate the queries with and without the limit, and compare them with the slots of visits."""
    visits = [Visit(int(time_s), 0) for time_s in times]
    demand = Periodic(PeriodicParameters(period_s=period_s))
    longest = max(max_gap_s, period_s)
    rng = np.random.default_rng(0)
    actual = [query.time_s for part in sessions(visits, max_gap_s=longest) for query in demand.queries(part, rng)]
    unlimited = [query.time_s for query in demand.queries(visits, rng)]
    with_visit = {int(time_s) // period_s * period_s for time_s in times}
    plan = PeriodicSchedule(times, period_s=period_s, max_gap_s=max_gap_s)
    assert (plan.total, plan.first_s) == (len(actual), actual[0])
    assert len(set(actual)) == len(actual)
    assert plan.before(limit) == sum(time_s < limit for time_s in actual)
    n = min(limit, len(actual))
    taken = actual[:n]
    coverage = plan.coverage(n)
    assert coverage.recorded == sum(time_s in with_visit for time_s in taken)
    assert coverage.carried == sum(time_s not in with_visit for time_s in taken)
    missing = sorted(set(unlimited) - set(actual))
    # Omitted queries count up to the last recorded query that is taken.
    last = max((time_s for time_s in taken if time_s in with_visit), default=-1)
    assert coverage.cut == sum(time_s < last for time_s in missing)
    assert (coverage.gaps == 0) == (coverage.cut == 0)


def test_poisson_counts_are_expected_values() -> None:
    times_s = np.array([0, 600, 1800, 5400, 5400 + 5 * HOUR, 5400 + 6 * HOUR])
    visits = [Visit(int(time_s), number) for number, time_s in enumerate(times_s)]
    demand, rng = Poisson(PoissonParameters(per_hour=6)), np.random.default_rng(5)
    recorded, actual, unlimited = [], [], []
    for _ in range(4000):
        cells = [query.cell for part in sessions(visits, max_gap_s=7200) for query in demand.queries(part, rng)]
        recorded.append(len(set(cells)))
        actual.append(len(cells))
        unlimited.append(sum(1 for _ in demand.queries(visits, rng)))
    plan = PoissonSchedule(times_s, per_hour=6, max_gap_s=7200)
    coverage = plan.coverage(plan.total)
    assert plan.total == pytest.approx(np.mean(actual), abs=0.6)
    assert coverage.recorded == pytest.approx(np.mean(recorded), abs=0.6)
    assert coverage.recorded + coverage.carried == plan.total
    assert coverage.cut == pytest.approx(np.mean(unlimited) - np.mean(actual), abs=0.6)
    assert coverage.gaps == 1
    assert plan.before(0) == 0
    assert plan.before(1800) == 3
    assert plan.coverage(0) == Coverage()


def test_coverages_are_added_by_component() -> None:
    assert Coverage(1, 2, 3, 4) + Coverage(10, 20, 30, 40) == Coverage(11, 22, 33, 44)
