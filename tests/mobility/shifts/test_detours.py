"""Other routes between the same places, for traces of cells."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from sim.interfaces import IntArray
from sim.mobility.shifts.detours import rerouted, ways
from sim.world.grid import Grid
from sim.world.roads.closures import close
from sim.world.roads.graph import Roads

GRID = Grid.rectangle(rows=3, cols=4, width_km=4, height_km=3)


def streets() -> Roads:
    """Return two-way streets of 2 minutes that connect the centre of each cell with those of its neighbours."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    for cell in range(GRID.n_cells):
        graph.add_node(cell, x_km=float(GRID.x_km[cell]), y_km=float(GRID.y_km[cell]))
    for cell in range(GRID.n_cells):
        for other in (cell + 1, cell + 4):
            if other < GRID.n_cells and (other != cell + 1 or other % 4):
                graph.add_edge(cell, other, length_km=1.0, speed_kmh=30.0)
                graph.add_edge(other, cell, length_km=1.0, speed_kmh=30.0)
    return Roads(graph=graph, locations=GRID)


ROADS = streets()
CLOSED = close(ROADS, GRID, cells=[1, 2], rng=np.random.default_rng(0))


def moved(cells: list[int], times_s: list[int] | None = None, from_s: int = 0) -> list[int]:
    when = np.array(times_s if times_s is not None else range(0, 120 * len(cells), 120))
    result = rerouted(
        when,
        np.array(cells),
        locations=GRID,
        roads=ROADS,
        roads_at=lambda time_s: CLOSED if time_s >= from_s else ROADS,
    )
    return [int(cell) for cell in result]


@pytest.mark.parametrize(
    ("cells", "times_s", "trips"),
    [
        ([0, 1, 2, 3], [0, 60, 120, 180], [(0, 3)]),
        ([0, 0, 1, 2, 2, 2, 3, 1], [0, 1, 2, 3, 4, 5, 6, 7], [(1, 3), (5, 7)]),
        ([0, 1, 2, 3], [0, 60, 60 + 3601, 4000], []),
        ([0, 1, 2, 3], [0, 3600, 7200, 10_800], [(0, 3)]),
        ([0, 1, 2, 0], [0, 1, 2, 3], [(0, 2)]),
        ([0, 1, 0], [0, 1, 2], []),
        ([0, 1], [0, 1], []),
        ([5], [0], []),
        ([], [], []),
    ],
)
def test_trips_are_separated_by_stays_and_gaps(
    cells: list[int], times_s: list[int], trips: list[tuple[int, int]]
) -> None:
    as_array: IntArray = np.array(cells, dtype=np.int64)
    assert list(ways(np.array(times_s, dtype=np.int64), as_array, GRID)) == trips


def test_a_trip_that_turns_back_is_split() -> None:
    line = Grid.rectangle(rows=1, cols=12, width_km=12, height_km=1)
    out_and_back = np.array([0, 3, 6, 9, 11, 8, 5, 2, 1])
    assert list(ways(np.arange(9), out_and_back, line)) == [(0, 4), (4, 8)]
    to_and_fro = np.array([0, 4, 8, 4, 0, 5, 10])
    assert list(ways(np.arange(7), to_and_fro, line)) == [(0, 2), (2, 4), (4, 6)]


def test_a_trip_avoids_closed_roads() -> None:
    # The usual route passes 1 and 2; the new one uses the second row.
    assert ROADS.route(0, 3).nodes.tolist() == [0, 1, 2, 3]
    assert CLOSED.route(0, 3).nodes.tolist() == [0, 4, 5, 6, 7, 3]
    # Queries at one third and two thirds of the travel time: after 3.3 and 6.7 minutes of 10.
    assert moved([0, 0, 1, 2, 3, 3]) == [0, 0, 4, 6, 3, 3]


def test_queries_at_the_same_time_are_spread_along_the_route() -> None:
    assert moved([0, 1, 2, 3], [50, 50, 50, 50]) == [0, 4, 6, 3]


def test_trips_with_an_unchanged_fastest_route_stay_as_recorded() -> None:
    around = [0, 4, 8, 9, 10, 11]  # not the fastest route, but the fastest from 0 to 11 avoids the first row as well
    assert CLOSED.route(0, 11).nodes.tolist() == ROADS.route(0, 11).nodes.tolist()
    assert moved(around) == around


def test_trips_that_departed_before_the_change_are_not_rerouted() -> None:
    cells = [0, 1, 2, 3, 3, 2, 1, 0]
    times_s = [0, 100, 200, 300, 400, 500, 600, 700]
    assert moved(cells, times_s, from_s=1) == [0, 1, 2, 3, 3, 7, 5, 0]
    assert moved(cells, times_s, from_s=401) == cells


def test_check_ins_hours_apart_do_not_form_a_trip() -> None:
    assert moved([0, 1, 2, 3], [0, 4000, 8000, 12_000]) == [0, 1, 2, 3]
