"""Trips along the road graph, and their visits to cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sim.events import Visit
from sim.interfaces import IntArray

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

HOUR_S = 3_600


@dataclass(frozen=True, slots=True, eq=False)
class Trip:
    """One trip: the nodes passed, including both ends, and the times in s."""

    times_s: IntArray
    """Times at which the nodes are passed; the first is the departure."""
    nodes: IntArray
    """Nodes in the order of the trip."""

    @property
    def arrival_s(self) -> int:
        """Return the time of arrival in s."""
        return int(self.times_s[-1])


def standing(node: int, time_s: int) -> Trip:
    """Return a trip that consists of a single node."""
    return Trip(np.array([time_s], dtype=np.int64), np.array([node], dtype=np.int64))


def drive(roads: Roads, start: int, end: int, *, depart_s: int) -> Trip:
    """Return the fastest trip between two nodes, with times rounded to whole seconds."""
    route = roads.route(start, end)
    seconds = np.rint(route.arrival_s).astype(np.int64)
    return Trip(depart_s + seconds, np.asarray(route.nodes, dtype=np.int64))


def node_path(trips: Iterable[Trip]) -> Iterator[tuple[int, int]]:
    """Yield (time_s, node) for every node of every trip.

    A departure repeats the node of the previous arrival, which separates stops from driving: two consecutive nodes are
    equal or connected by an edge.
    """
    for trip in trips:
        yield from zip(trip.times_s.tolist(), trip.nodes.tolist(), strict=True)


def cell_visits(trips: Iterable[Trip], cell_of_node: IntArray) -> Iterator[Visit]:
    """Yield a visit whenever a trip enters another cell, and at every arrival."""
    last = -1
    for trip in trips:
        cells = cell_of_node[trip.nodes]
        seen = np.empty(cells.size, dtype=bool)
        seen[0] = cells[0] != last
        np.not_equal(cells[1:], cells[:-1], out=seen[1:])
        seen[-1] = True
        last = int(cells[-1])
        yield from map(Visit, trip.times_s[seen].tolist(), cells[seen].tolist())
