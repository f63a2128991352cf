"""Road distance: length of the shortest path along the roads."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from sim.components.files import Place
from sim.components.registry import component
from sim.errors import InvalidValue
from sim.inference.ties import MASS_FLOOR, TIE
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import MATRIX_CELLS, Distance
from sim.world.locations import Locations
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_TABLE_BYTES = 5 * 10**8
"""Largest table of distances between nodes; beyond it, rows are computed on demand and the latest are cached."""
_CACHED_BYTES = 10**8
_MOST_PAIRS = 10**7
"""Largest number of pairs of cells to compare with the straight line."""
_NO_CELLS = np.empty(0, dtype=np.int64)


@component("distance")
class RoadDistanceParameters(DistanceParameters):
    """Length of the shortest path along the roads; differs between directions where streets are one-way."""

    needs_roads: ClassVar[bool] = True

    kind: Literal["road"] = "road"

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between locations."""
        if roads is None:
            raise InvalidValue("road distance requires `world.roads`, found none: add roads", code="no-roads")
        return road(locations, roads)


class ByNode(NamedTuple):
    """Road distances between different cells: access(x) + between(node(x), node(y)) + access(y), with exceptions."""

    between_km: FloatArray
    """Distances by road between the nodes that are nearest to a cell, shape (n_nodes, n_nodes)."""
    node_of: IntArray
    """Nearest node of each cell, shape (n_cells,)."""
    access_km: FloatArray
    """Straight distance of each cell from its nearest node, shape (n_cells,)."""
    start: IntArray
    """Start of each pair of cells whose distance is the straight line, because it is longer than the path."""
    end: IntArray
    """End of each such pair."""

    @property
    def path_km(self) -> FloatArray:
        """Return the length of the path of each such pair."""
        by_road_km = self.between_km[self.node_of[self.start], self.node_of[self.end]]
        return np.asarray(self.access_km[self.start] + by_road_km + self.access_km[self.end])


class RoadDistance(Distance):
    """The length of the shortest path by road, which one-way streets make asymmetric.

    A path leads straight from the centre of a cell to the nearest node, by road to the node nearest to the centre of
    the other cell, and straight to that centre. The distance is at least the Euclidean distance, so two cells with the
    same nearest node have a positive distance. Memory: the distances between the nodes that are nearest to a cell.
    """

    kind = "road"
    obeys_triangle = True

    def __init__(self, *, x_km: FloatArray, y_km: FloatArray, roads: Roads) -> None:
        node = roads.nearest_node(x_km, y_km)
        self._x_km, self._y_km, self._roads = x_km, y_km, roads
        self._access_km = np.hypot(x_km - roads.x_km[node], y_km - roads.y_km[node])
        self._nodes, self._node_of = np.unique(node, return_inverse=True)
        self._rows: dict[int, FloatArray] = {}
        self.n_cells = x_km.size

    @cached_property
    def longest_km(self) -> float:  # type: ignore[override]
        """Upper bound of all distances in km."""
        if self.n_cells <= MATRIX_CELLS:
            return float(self.matrix_km.max())
        # No path is longer than one via any node: to that node and on from it.
        via = self._roads.distances_km(self._nodes[:1])[0]
        back = self._roads.distances_to_km(int(self._nodes[0]))
        longest = float(via.max() + back.max() + 2 * self._access_km.max())
        return max(longest, float(np.hypot(np.ptp(self._x_km), np.ptp(self._y_km))))

    def between_km(self, start: ArrayLike, end: ArrayLike) -> FloatArray:
        """Return the distances from cells to cells, element by element."""
        first, last = np.asarray(start), np.asarray(end)
        path_km = self._access_km[first] + self._by_road_km(self._node_of[first], self._node_of[last])
        path_km = path_km + self._access_km[last]
        straight_km = np.hypot(self._x_km[last] - self._x_km[first], self._y_km[last] - self._y_km[first])
        return np.where(first == last, 0.0, np.maximum(path_km, straight_km))

    @cached_property
    def by_node(self) -> ByNode | None:
        """The distances as paths between nodes, with the pairs of cells whose straight distance is longer.

        None if the table of the nodes is too large or the lengths of the roads are so understated that there are too
        many such pairs.
        """
        if self._table is None:
            return None
        pairs = self._pairs_off_path(self._table)
        return None if pairs is None else ByNode(self._table, self._node_of, self._access_km, *pairs)

    def _pairs_off_path(self, between_km: FloatArray) -> tuple[IntArray, IntArray] | None:
        """Return the pairs of cells whose straight distance exceeds the path, or None if there may be too many.

        By the triangle inequality, their nodes are closer by road than in a straight line.
        """
        x_km, y_km = self._roads.x_km[self._nodes], self._roads.y_km[self._nodes]
        cells_at = np.split(np.argsort(self._node_of, kind="stable"), np.bincount(self._node_of).cumsum()[:-1])
        start, end, checked = [_NO_CELLS], [_NO_CELLS], 0
        for node, row_km in enumerate(between_km):
            straight_km = np.hypot(x_km - x_km[node], y_km - y_km[node])
            shorter = np.flatnonzero(row_km < straight_km * (1 - 1e-12))  # by more than rounding
            if shorter.size == 0:
                continue
            others = np.concatenate([cells_at[other] for other in shorter])
            checked += cells_at[node].size * others.size
            if checked > _MOST_PAIRS:
                return None
            first, last = np.repeat(cells_at[node], others.size), np.tile(others, cells_at[node].size)
            path_km = self._access_km[first] + row_km[self._node_of[last]] + self._access_km[last]
            off = path_km < np.hypot(self._x_km[last] - self._x_km[first], self._y_km[last] - self._y_km[first])
            start.append(first[off])
            end.append(last[off])
        return np.concatenate(start), np.concatenate(end)

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) d(x, y) for every estimate y."""
        if self.n_cells <= MATRIX_CELLS:
            return super().costs_km(weights)
        if (paths := self.by_node) is not None:
            missing_km = weights[paths.start] * (self.between_km(paths.start, paths.end) - paths.path_km)
            return self._path_costs_km(weights) + np.bincount(paths.end, missing_km, self.n_cells)
        return self._costs_by_rows_km(weights)

    def best_cells(self, weights: FloatArray) -> IntArray:
        """Return the optimal estimate for each row of weights, shape (k, n_cells)."""
        if self.n_cells <= MATRIX_CELLS:
            return super().best_cells(weights)
        return np.array([self._best_cell(row) for row in weights], dtype=np.int64)

    def _best_cell(self, weights: FloatArray) -> int:
        """Evaluate the cells with the lowest bounds until all other bounds exceed the best cost."""
        total = float(weights.sum())
        if not total > MASS_FLOOR:
            return -1
        tie_km = TIE * total * self.longest_km
        support = np.flatnonzero(weights)
        bounds = self._path_costs_km(weights) - tie_km  # the difference to the exact sum is rounding
        best = np.inf
        costs: dict[int, float] = {}
        for cell in np.argsort(bounds, kind="stable").tolist():
            if bounds[cell] > best + 2 * tie_km:
                break
            costs[cell] = float(weights[support] @ self.between_km(support, cell))
            best = min(best, costs[cell])
        return min(cell for cell, cost in costs.items() if cost <= best + tie_km)

    def _path_costs_km(self, weights: FloatArray) -> FloatArray:
        """Return lower bounds of the costs of all estimates: paths may be shorter than the straight line."""
        by_node = np.bincount(self._node_of, weights=weights, minlength=self._nodes.size)
        if self._table is not None:
            costs = by_node @ self._table
        else:
            costs = np.zeros(self._nodes.size)
            for node in np.flatnonzero(by_node).tolist():
                costs += by_node[node] * self._row_of_node(node)
        to_access_km = float(weights @ self._access_km)
        # A cell has no distance from itself: its own weight contributes neither access.
        path_km: FloatArray = costs[self._node_of] + to_access_km + (weights.sum() - 2 * weights) * self._access_km
        return path_km

    def _by_road_km(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return the distances between nodes, numbered among those nearest to a cell, element by element."""
        if self._table is not None:
            return np.asarray(self._table[start, end])
        start, end = np.broadcast_arrays(start, end)
        distances = np.empty(start.shape)
        for node in np.unique(start).tolist():
            own = start == node
            distances[own] = self._row_of_node(node)[end[own]]
        return distances

    def _row_of_node(self, node: int) -> FloatArray:
        if self._table is not None:
            return np.asarray(self._table[node])
        row = self._rows.pop(node, None)
        if row is None:
            row = self._roads.distances_km(self._nodes[[node]])[0, self._nodes]
            if len(self._rows) >= max(1, _CACHED_BYTES // row.nbytes):
                del self._rows[next(iter(self._rows))]
        self._rows[node] = row  # the last entry is the most recently used
        return row

    @cached_property
    def _table(self) -> FloatArray | None:
        """Distances between the nodes nearest to a cell, or None if the table is too large."""
        if self._nodes.size**2 * 8 > _TABLE_BYTES:
            return None
        return self._roads.distances_km(self._nodes)[:, self._nodes]

    def __getstate__(self) -> dict[str, object]:
        return self.__dict__ | {"_rows": {}}  # workers need no cache


def road(locations: Locations, roads: Roads) -> RoadDistance:
    """Return the road distance between cell centres."""
    return RoadDistance(x_km=locations.x_km, y_km=locations.y_km, roads=roads)
