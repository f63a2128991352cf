"""Drives along the road graph, and what a grid of cells sees of them."""

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
    """One drive: the nodes passed, and when; the first is where and when it starts."""

    times_s: IntArray
    nodes: IntArray

    @property
    def arrival_s(self) -> int:
        """Return when the drive ends."""
        return int(self.times_s[-1])


def standing(node: int, time_s: int) -> Trip:
    """Return the trip of somebody who just stands at a node."""
    return Trip(np.array([time_s], dtype=np.int64), np.array([node], dtype=np.int64))


def drive(roads: Roads, start: int, end: int, *, depart_s: int) -> Trip:
    """Return the fastest drive between two nodes, in whole seconds."""
    route = roads.route(start, end)
    seconds = np.rint(route.arrival_s).astype(np.int64)
    return Trip(depart_s + seconds, np.asarray(route.nodes, dtype=np.int64))


def node_path(trips: Iterable[Trip]) -> Iterator[tuple[int, int]]:
    """Yield (time_s, node) for every node of every trip.

    A departure repeats the node of the arrival before it, so that time spent standing can be told from time
    spent on a road: two steps in a row have the same node or are joined by an edge.
    """
    for trip in trips:
        yield from zip(trip.times_s.tolist(), trip.nodes.tolist(), strict=True)


def cell_visits(trips: Iterable[Trip], cell_of_node: IntArray) -> Iterator[Visit]:
    """Yield a visit where a trip enters another cell, and one at every arrival."""
    last = -1
    for trip in trips:
        cells = cell_of_node[trip.nodes]
        seen = np.empty(cells.size, dtype=bool)
        seen[0] = cells[0] != last
        np.not_equal(cells[1:], cells[:-1], out=seen[1:])
        seen[-1] = True
        last = int(cells[-1])
        yield from map(Visit, trip.times_s[seen].tolist(), cells[seen].tolist())
