"""Effect of changed roads on traces of cells: the cells between the ends of each trip follow another route."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from sim.interfaces import IntArray

if TYPE_CHECKING:
    from sim.world.locations import Locations
    from sim.world.roads.graph import Roads

LONGEST_GAP_S = 3_600
"""Longest time in s between two queries of the same trip."""


DETOUR = 1.5
"""Largest ratio of the length of a trip, less two cells, to the straight line; longer trips are split at a stop."""


def ways(times_s: IntArray, cells: IntArray, locations: Locations) -> Iterator[tuple[int, int]]:
    """Yield the first and the last query of each trip that has at least one query in between.

    Within a trip, consecutive queries are in different cells. Trips are separated by stays (two consecutive queries in
    the same cell), gaps and the ends of the trace. A trip with too long a detour (see `DETOUR`) is split at the query
    farthest from its start.

    >>> from sim.world.grid import Grid
    >>> line = Grid.rectangle(rows=1, cols=9, width_km=9, height_km=1)
    >>> list(ways(np.arange(10) * 300, np.array([4, 4, 5, 6, 6, 5, 3, 0, 5, 8]), line))
    [(1, 3), (4, 7), (7, 9)]
    """
    on = (cells[1:] != cells[:-1]) & (np.diff(times_s) <= LONGEST_GAP_S)
    turns = np.flatnonzero(np.diff(np.concatenate([[False], on, [False]]).astype(np.int8)))
    x_km, y_km = locations.x_km[cells], locations.y_km[cells]
    travelled_km = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x_km), np.diff(y_km)))])
    slack_km = 2 * float(np.hypot(*locations.cell_size_km))
    waiting = turns.reshape(-1, 2)[::-1].tolist()
    while waiting:
        first, last = waiting.pop()
        if last - first < 2:
            continue
        away_km = np.hypot(x_km[first : last + 1] - x_km[first], y_km[first : last + 1] - y_km[first])
        if travelled_km[last] - travelled_km[first] > DETOUR * away_km[-1] + slack_km:
            turn = first + 1 + int(away_km[1:-1].argmax())
            waiting += [[turn, last], [first, turn]]
        elif cells[first] != cells[last]:
            yield first, last


def rerouted(
    times_s: IntArray, cells: IntArray, *, locations: Locations, roads: Roads, roads_at: Callable[[int], Roads]
) -> IntArray:
    """Return the cells of a trace in which each trip uses the roads in force at its departure.

    A trip whose fastest route is the same as on the usual `roads` does not change. For any other trip, the queries
    between its ends get the cells of the new fastest route, at the same shares of the travel time.
    """
    moved = cells.copy()
    for first, last in ways(times_s, cells, locations):
        now = roads_at(int(times_s[first]))
        if now is roads:
            continue
        start, end = roads.nearest_node(
            locations.x_km[cells[[first, last]]], locations.y_km[cells[[first, last]]]
        ).tolist()
        route = now.route(start, end)
        if start == end or np.array_equal(route.nodes, roads.route(start, end).nodes):
            continue
        took_s = int(times_s[last] - times_s[first])
        between = np.arange(first + 1, last)
        done = (times_s[between] - times_s[first]) / took_s if took_s else (between - first) / (last - first)
        reached = np.searchsorted(route.arrival_s, done * route.arrival_s[-1], side="right") - 1
        moved[between] = now.cell[route.nodes[reached]]
    return moved
