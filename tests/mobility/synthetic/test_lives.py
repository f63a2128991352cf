"""Commuters and taxis: all movement follows directed edges at their speed, and the daily rhythm is as specified."""

from __future__ import annotations

from itertools import islice, pairwise, takewhile

import networkx as nx
import numpy as np
import pytest

from sim.events import Visit
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.synthetic.city import attraction
from sim.mobility.synthetic.commuters import Commuters, CommutersParameters
from sim.mobility.synthetic.taxis import Taxis, TaxisParameters
from sim.mobility.synthetic.trips import cell_visits, drive, node_path, standing
from sim.mobility.traces import live
from sim.world.grid import Grid
from sim.world.roads.closures import close
from sim.world.roads.graph import Roads
from sim.world.roads.lattice import lattice
from tests.support import made

GRID = Grid.rectangle(rows=6, cols=5, width_km=10, height_km=12)
ROADS = lattice(GRID, spacing_km=0.6, rng=np.random.default_rng(7))
HOUR_S = 3600
DAY_S = 86_400

Lives = Commuters | Taxis
MODELS: list[Lives] = [
    Commuters(CommutersParameters(), locations=GRID, roads=ROADS, seed=4),
    Taxis(TaxisParameters(), locations=GRID, roads=ROADS, seed=4),
    Taxis(TaxisParameters(shift_h=8, wait_s=0), locations=GRID, roads=ROADS, seed=4),
]
each_model = pytest.mark.parametrize("model", MODELS, ids=["commuters", "taxis", "taxis-that-rest"])


def path(model: Lives, user: str = "user-001", seed: int = 1, until_s: int = 9 * DAY_S) -> list[tuple[int, int]]:
    drives = model.drives(user, np.random.default_rng(seed))
    return list(takewhile(lambda step: step[0] < until_s, drives))


@each_model
def test_every_step_is_a_directed_edge_at_its_speed(model: Lives) -> None:
    steps = path(model)
    moves = [((t, a), (u, b)) for (t, a), (u, b) in pairwise(steps) if a != b]
    assert len(moves) > 100
    for (left_s, a), (reached_s, b) in moves:
        assert ROADS.graph.has_edge(a, b)
        edge = ROADS.graph.edges[a, b]
        # Both ends of an edge are rounded to whole seconds.
        assert reached_s - left_s == pytest.approx(edge["length_km"] / edge["speed_kmh"] * HOUR_S, abs=1)
    one_way = [(a, b) for a, b in ROADS.graph.edges if not ROADS.graph.has_edge(b, a)]
    assert {(a, b) for (_, a), (_, b) in moves} & set(one_way)  # the paths include one-way streets
    assert all(t <= u for (t, _), (u, _) in pairwise(steps))


@each_model
def test_visits_are_the_cells_of_the_drives(model: Lives) -> None:
    steps = path(model)
    visits = list(takewhile(lambda v: v.time_s < 9 * DAY_S, model.visits("user-001", np.random.default_rng(1))))
    # At any time, the cell of the last node reached is the cell of the last visit.
    times = np.array([t for t, _ in steps])
    cells = ROADS.cell[[node for _, node in steps]]
    seen_at = np.array([v.time_s for v in visits])
    seen = np.array([v.cell for v in visits])
    moments = np.random.default_rng(0).integers(times[0], times[-1], size=5000)
    by_node = cells[np.searchsorted(times, moments, side="right") - 1]
    by_visit = seen[np.searchsorted(seen_at, moments, side="right") - 1]
    np.testing.assert_array_equal(by_node, by_visit)
    assert len(visits) < len(steps)


def test_a_drive_takes_the_travel_time_of_the_route() -> None:
    route = ROADS.route(0, ROADS.n_nodes - 1)
    trip = drive(ROADS, 0, ROADS.n_nodes - 1, depart_s=1000)
    assert trip.arrival_s == 1000 + round(route.arrival_s[-1])
    assert trip.nodes.tolist() == route.nodes.tolist()
    assert trip.times_s[0] == 1000


def test_visits_by_hand() -> None:
    cell_of_node = np.array([0, 0, 1, 1, 0])
    first = drive(Line(), 0, 3, depart_s=100)
    second = drive(Line(), 3, 4, depart_s=200)
    trips = [standing(0, 5), first, second]
    assert list(node_path(trips)) == [(5, 0), (100, 0), (110, 1), (120, 2), (130, 3), (200, 3), (210, 4)]
    # Node 1 is in the same cell as node 0: no visit. Node 3 is in the same cell as node 2, but it is an arrival.
    assert list(cell_visits(trips, cell_of_node)) == [Visit(5, 0), Visit(120, 1), Visit(130, 1), Visit(210, 0)]


class Line(Roads):
    """Roads with five nodes in a row, ten seconds apart."""

    def __init__(self) -> None:
        graph: nx.DiGraph[int] = nx.DiGraph()
        for node in range(5):
            graph.add_node(node, x_km=node * 2.0, y_km=1.0)
        for node in range(4):
            for ends in ((node, node + 1), (node + 1, node)):
                graph.add_edge(*ends, length_km=0.1, speed_kmh=36.0)
        super().__init__(graph=graph, locations=GRID)


@each_model
def test_users_are_reproducible_and_independent_of_each_other(model: Lives) -> None:
    one = path(model)[:500]
    again = type(model).__new__(type(model))
    again.__dict__.update(model.__dict__)
    list(islice(again.drives("user-002", np.random.default_rng(5)), 1000))
    assert path(again)[:500] == one
    assert path(model, seed=2)[:500] != one
    # Another replication has other days of the same user, who starts at the same home or depot.
    assert path(model, seed=2)[0] == one[0]


def test_visits_are_generated_lazily() -> None:
    visits = Taxis(TaxisParameters(), locations=GRID, roads=ROADS, seed=4).visits("user-001", np.random.default_rng(1))
    assert next(visits).time_s == 0
    assert len(list(islice(visits, 1000))) == 1000


def test_the_week_of_a_commuter() -> None:
    model = Commuters(CommutersParameters(jitter_h=0.0, leisure_share=0.0), locations=GRID, roads=ROADS, seed=4)
    home, work, leisure = model.places("user-003")
    assert len({home, work, *leisure.tolist()}) > 3
    steps = path(model, "user-003", until_s=7 * DAY_S)
    assert steps[0] == (0, home)
    stops = [(t, u, a) for (t, a), (u, b) in pairwise(steps) if a == b]
    commute_s = round(ROADS.route(home, work).arrival_s[-1])
    return_s = round(ROADS.route(work, home).arrival_s[-1])
    for day in range(5):
        nine = day * DAY_S + 9 * HOUR_S
        assert (nine + commute_s, nine + commute_s + 8 * HOUR_S, work) in stops
        assert (nine + commute_s + 8 * HOUR_S + return_s, home) in steps
    weekend = {node for t, u, node in stops if t > 5 * DAY_S} - {home}
    assert weekend
    assert weekend <= set(leisure.tolist())


def test_commuters_without_leisure_stay_at_home_at_the_weekend() -> None:
    model = Commuters(CommutersParameters(leisure_places=0), locations=GRID, roads=ROADS, seed=4)
    home, _, leisure = model.places("user-001")
    assert leisure.size == 0
    at_weekend = [node for t, node in path(model) if 5 * DAY_S + 6 * HOUR_S < t < 7 * DAY_S]
    assert set(at_weekend) <= {home}


def test_leisure_share_is_the_share_of_evenings_with_leisure() -> None:
    model = Commuters(CommutersParameters(leisure_share=0.3, jitter_h=0.0), locations=GRID, roads=ROADS, seed=4)
    _, work, _ = model.places("user-001")
    weeks = 200
    steps = path(model, seed=3, until_s=7 * DAY_S * weeks)
    stays = [(t // DAY_S % 7, a) for (t, a), (u, b) in pairwise(steps) if a == b and u - t == 2 * HOUR_S]
    weekday = sum(day < 5 for day, node in stays)
    # 1,000 evenings at 0.3: three standard deviations are 44.
    assert weekday == pytest.approx(300, abs=44)
    assert work not in {node for _, node in stays}


def test_taxis_rest_at_their_depot() -> None:
    model = MODELS[2]
    steps = path(model)
    depot = steps[0][1]
    rests = [(t, u, a) for (t, a), (u, b) in pairwise(steps) if a == b and u - t > 10 * HOUR_S]
    assert len(rests) >= 7
    assert {node for _, _, node in rests} == {depot}
    starts = {u % DAY_S for _, u, _ in rests}
    assert max(starts) - min(starts) <= 2  # the starting hour of the cab, and one second of waiting


def test_taxis_never_rest_by_default() -> None:
    steps = path(MODELS[1])
    assert max(u - t for (t, _), (u, _) in pairwise(steps)) < 2 * HOUR_S


def test_destinations_follow_the_attraction() -> None:
    model = Taxis(TaxisParameters(near_share=0.0, wait_s=0), locations=GRID, roads=ROADS, seed=4)
    trace = live(
        model,
        EveryVisit(),
        "user-001",
        moves=np.random.default_rng(1),
        moments=np.random.default_rng(1),
        until_s=40 * DAY_S,
    ).test
    share = np.bincount(trace.cells, minlength=GRID.n_cells) / len(trace)
    life = attraction(GRID, seed=4, roads=ROADS, centres=6)
    np.testing.assert_allclose(model.attraction, life)
    assert np.corrcoef(share, life)[0, 1] > 0.5
    assert set(np.unique(trace.cells)) <= set(ROADS.cells())


def test_near_share_determines_the_distance_of_passengers() -> None:
    def mean_km(near_share: float) -> float:
        model = Taxis(TaxisParameters(near_share=near_share, near_km=0.5), locations=GRID, roads=ROADS, seed=4)
        rng = np.random.default_rng(1)
        picked = np.array([model._passenger(0, rng) for _ in range(500)])
        return float(np.hypot(ROADS.x_km[picked] - ROADS.x_km[0], ROADS.y_km[picked] - ROADS.y_km[0]).mean())

    assert mean_km(1.0) < 0.5 * mean_km(0.0)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        (Commuters, {"leisure_places": -1}, r"(?s)leisure_places.*input_value=-1"),
        (Commuters, {"leisure_share": 2}, r"(?s)leisure_share.*input_value=2"),
        (Commuters, {"work_start_h": 24}, r"(?s)work_start_h.*input_value=24"),
        (Commuters, {"work_hours": 0}, r"(?s)work_hours.*input_value=0"),
        (Commuters, {"jitter_h": -1}, r"(?s)jitter_h.*input_value=-1"),
        (Taxis, {"hotspots": 0}, r"(?s)hotspots.*input_value=0"),
        (Taxis, {"wait_s": -1}, r"(?s)wait_s.*input_value=-1"),
        (Taxis, {"shift_h": 25}, r"(?s)shift_h.*input_value=25"),
        (Taxis, {"near_share": -0.5}, r"(?s)near_share.*input_value=-0.5"),
        (Taxis, {"near_km": 0}, r"(?s)near_km.*input_value=0"),
    ],
)
def test_invalid_parameters_are_rejected(
    kind: type[Commuters] | type[Taxis], parameters: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        made(kind, locations=GRID, roads=ROADS, seed=4, **parameters)


# ------------------------------------------------------------------------------------------------ other places

PEOPLE = Commuters(CommutersParameters(), locations=GRID, roads=ROADS, seed=4)


@pytest.mark.parametrize("user", [f"user-{i:03d}" for i in range(1, 6)])
def test_elsewhere_changes_only_the_given_places(user: str) -> None:
    home, work, leisure = PEOPLE.places(user)
    new_home, new_work, new_leisure = (PEOPLE.elsewhere(what, "x") for what in ("home", "work", "places"))
    assert new_home is not None
    assert new_work is not None
    assert new_leisure is not None
    assert ROADS.cell[new_home.places(user)[0]] != ROADS.cell[home]
    assert new_home.places(user)[1] == work
    assert new_home.places(user)[2].tolist() != leisure.tolist()
    assert (new_work.places(user)[0], new_work.places(user)[2].tolist()) == (home, leisure.tolist())
    assert ROADS.cell[new_work.places(user)[1]] != ROADS.cell[work]
    assert new_leisure.places(user)[:2] == (home, work)
    assert new_leisure.places(user)[2].tolist() != leisure.tolist()


@each_model
def test_trips_use_the_roads_open_at_departure(model: Lives) -> None:
    closed = close(ROADS, GRID, share=0.4, rng=np.random.default_rng(1))
    rerouted = model.rerouted(lambda time_s: closed if 2 * DAY_S <= time_s < 4 * DAY_S else ROADS)
    drives = rerouted.drives("user-001", np.random.default_rng(1))
    steps = list(takewhile(lambda step: step[0] < 6 * DAY_S, drives))
    plain = path(model, until_s=2 * DAY_S)
    assert steps[: len(plain)] == plain, "no change before the closure"
    removed = set(ROADS.graph.edges) - set(closed.graph.edges)
    on_removed = [t for (t, a), (_, b) in pairwise(steps) if a != b and (a, b) in removed]
    # A trip that departs before the closure may continue on closed roads for less than an hour.
    assert not [t for t in on_removed if 2 * DAY_S + HOUR_S < t < 4 * DAY_S]
    assert [t for t in on_removed if t < 2 * DAY_S]
    assert [t for t in on_removed if t > 4 * DAY_S]
    assert all(ROADS.graph.has_edge(a, b) for (_, a), (_, b) in pairwise(steps) if a != b)
