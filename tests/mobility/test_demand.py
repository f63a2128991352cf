"""Demands compared with examples by hand, a slow reference implementation and the exact distribution."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sim.events import Visit
from sim.interfaces import Demand
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.demand.poisson import Poisson, PoissonParameters
from sim.mobility.shifts.rate import Rate

RNG = np.random.default_rng(0)


def pairs(visits: Iterator[Visit]) -> list[tuple[int, int]]:
    return [(visit.time_s, visit.cell) for visit in visits]


def trail(*points: tuple[int, int]) -> list[Visit]:
    return [Visit(time_s, cell) for time_s, cell in points]


def test_every_visit_is_a_query() -> None:
    visits = trail((3, 1), (3, 2), (900, 1))
    assert list(EveryVisit().queries(visits, RNG)) == visits


@pytest.mark.parametrize(
    ("visits", "queries"),
    [
        ([], []),
        ([(310, 5)], [(300, 5)]),
        # The last point before the end of the slot counts, although it is later than the time of the query.
        ([(0, 1), (299, 2), (300, 3)], [(0, 2), (300, 3)]),
        ([(0, 1), (300, 2), (599, 3)], [(0, 1), (300, 3)]),
        # Empty slots repeat the cell; the slot of the last visit is the last.
        ([(650, 4), (1500, 5)], [(600, 4), (900, 4), (1200, 4), (1500, 5)]),
        # Several points at one time: the last in order counts.
        ([(10, 1), (10, 2)], [(0, 2)]),
    ],
)
def test_periodic_slots(visits: list[tuple[int, int]], queries: list[tuple[int, int]]) -> None:
    assert pairs(Periodic(PeriodicParameters(period_s=300)).queries(trail(*visits), RNG)) == queries


@given(
    gaps=st.lists(st.integers(0, 50), min_size=1, max_size=20),
    period_s=st.integers(1, 20),
)
def test_periodic_queries_agree_with_their_definition(gaps: list[int], period_s: int) -> None:
    times = np.cumsum(gaps).tolist()
    visits = [Visit(time_s, cell) for cell, time_s in enumerate(times)]
    expected = []
    for slot in range(times[0] // period_s, times[-1] // period_s + 1):
        before = [visit.cell for visit in visits if visit.time_s < (slot + 1) * period_s]
        expected.append((slot * period_s, before[-1]))
    assert pairs(Periodic(PeriodicParameters(period_s=period_s)).queries(visits, RNG)) == expected


@pytest.mark.parametrize(
    "demand", [EveryVisit(), Periodic(PeriodicParameters()), Poisson(PoissonParameters(per_hour=60))]
)
def test_infinitely_many_visits_give_infinitely_many_queries(demand: EveryVisit | Periodic | Poisson) -> None:
    endless = (Visit(100 * step, step) for step in count())
    queries = pairs(islice(demand.queries(endless, np.random.default_rng(3)), 50))
    assert len(queries) == 50
    assert queries == sorted(queries)


def test_poisson_gaps_are_exponential() -> None:
    endless = (Visit(500 + 10_000 * step, step) for step in count())
    queries = pairs(islice(Poisson(PoissonParameters(per_hour=0.5)).queries(endless, np.random.default_rng(4)), 4000))
    moments = np.array([time_s for time_s, _ in queries])
    gaps = np.diff(moments, prepend=500)
    # The mean gap is two hours: rounding to whole seconds is negligible.
    assert stats.kstest(gaps, "expon", args=(0, 7200)).pvalue > 0.01
    assert all(cell == (time_s - 500) // 10_000 for time_s, cell in queries)


def test_poisson_uses_the_visit_of_the_same_second_and_ends_with_the_last() -> None:
    visits = trail(*((step, step) for step in range(2000)))
    queries = pairs(Poisson(PoissonParameters(per_hour=600)).queries(visits, np.random.default_rng(5)))
    assert 200 < len(queries) < 480
    assert all(time_s == cell for time_s, cell in queries)
    assert pairs(Poisson(PoissonParameters(per_hour=1e-3)).queries(visits, np.random.default_rng(5))) == []


def test_poisson_times_do_not_depend_on_the_visits() -> None:
    dense = trail(*((60 * step, step) for step in range(1000)))
    sparse = trail((0, 0), (59_940, 1))
    one, two = (
        pairs(Poisson(PoissonParameters(per_hour=6)).queries(v, np.random.default_rng(6))) for v in (dense, sparse)
    )
    assert [time_s for time_s, _ in one] == [time_s for time_s, _ in two]
    assert len(one) > 50


def test_invalid_parameters_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"(?s)period_s.*input_value=0"):
        Periodic(PeriodicParameters(period_s=0))
    with pytest.raises(ValueError, match=r"(?s)period_s.*input_value=1.5"):
        Periodic(PeriodicParameters(period_s=1.5))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"(?s)per_hour.*input_value=0"):
        Poisson(PoissonParameters(per_hour=0))


# ------------------------------------------------------------------------------------------------ change of rate


def walk() -> Iterator[Visit]:
    """Return visits to another cell every 100 s."""
    return (Visit(100 * step, step) for step in count())


def rated(demand: Demand, n: int = 6000, seed: int = 1, **parameters: float) -> list[Visit]:
    rate = Rate(demand, **parameters, rng=np.random.default_rng(seed))  # type: ignore[arg-type]
    return list(islice(rate.queries(walk(), np.random.default_rng(7)), n))


DEMANDS = [EveryVisit(), Periodic(PeriodicParameters(period_s=70)), Poisson(PoissonParameters(per_hour=20))]


@pytest.mark.parametrize("demand", DEMANDS, ids=lambda demand: type(demand).__name__)
@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5])
def test_a_rate_applies_in_its_window_and_nowhere_else(demand: Demand, factor: float) -> None:
    from_s, until_s = 50_000, 150_000
    plain = list(islice(demand.queries(walk(), np.random.default_rng(7)), 6000))
    changed = rated(demand, factor=factor, from_s=from_s, until_s=until_s)
    end = min(plain[-1].time_s, changed[-1].time_s)
    assert end > until_s + 10_000
    for low, high in ((0, from_s), (until_s, end)):
        assert [q for q in changed if low <= q.time_s < high] == [q for q in plain if low <= q.time_s < high]
    n_plain = sum(from_s <= q.time_s < until_s for q in plain)
    n_changed = sum(from_s <= q.time_s < until_s for q in changed)
    assert n_changed == pytest.approx(factor * n_plain, abs=4 * np.sqrt(max(factor, 1) * n_plain))
    if factor != 1:
        assert n_changed != n_plain
    assert [q.time_s for q in changed] == sorted(q.time_s for q in changed)
    if factor >= 1:
        queries = {(q.time_s, q.cell) for q in changed}
        assert all((q.time_s, q.cell) in queries for q in plain if q.time_s < end), "queries are only inserted"


def test_inserted_queries_are_at_the_current_cell() -> None:
    queries = rated(Poisson(PoissonParameters(per_hour=3)), factor=6.0, from_s=0, n=2000)
    assert all(query.cell == query.time_s // 100 for query in queries)
    assert len({query.time_s % 100 for query in queries}) > 90


@pytest.mark.parametrize("factor", [0.5, 3.0])
def test_a_rate_can_end_after_a_number_of_queries(factor: float) -> None:
    queries = rated(EveryVisit(), factor=factor, from_s=1000, for_queries=60, n=200)
    plain = list(islice(walk(), 400))
    rest = [query for query in plain if query.time_s > queries[69].time_s]
    assert queries[:10] == plain[:10]
    assert queries[70:] == rest[: len(queries) - 70], "no change after sixty queries"
    if factor < 1:
        assert set(queries[10:70]) < set(plain)
    else:
        assert sum(query in set(plain) for query in queries[10:70]) < 40


def test_the_factor_of_a_rate_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"^factor\b.* \(0, inf\), got 0"):
        rated(EveryVisit(), factor=0, from_s=0)
