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
from sim.world.grid import Grid
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_TABLE_BYTES = 5 * 10**8
"""Largest table of distances between nodes; beyond it, rows are computed on demand and the latest are cached."""
_CACHED_BYTES = 10**8


@component("distance")
class RoadDistanceParameters(DistanceParameters):
    """Length of the shortest path along the roads; differs between directions where streets are one-way."""

    needs_roads: ClassVar[bool] = True

    kind: Literal["road"] = "road"

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        if roads is None:
            raise InvalidValue("road distance requires `world.roads`, found none: add roads", code="no-roads")
        return road(grid, roads)


class ByNode(NamedTuple):
    """Road distances between different cells: access(x) + between(node(x), node(y)) + access(y)."""

    between_km: FloatArray
    """Distances by road between the nodes that are nearest to a cell, shape (n_nodes, n_nodes)."""
    node_of: IntArray
    """Nearest node of each cell, shape (n_cells,)."""
    access_km: FloatArray
    """Straight distance of each cell from its nearest node, shape (n_cells,)."""


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
        """The distances as paths between nodes.

        None if the table of the nodes is too large, or if roads are shorter than the straight line between their ends:
        then a distance may exceed the length of the path.
        """
        if self._table is None or not self._roads.at_least_straight:
            return None
        return ByNode(self._table, self._node_of, self._access_km)

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) d(x, y) for every estimate y."""
        if self.n_cells <= MATRIX_CELLS:
            return super().costs_km(weights)
        if self.by_node is not None:
            return self._path_costs_km(weights)
        costs = np.zeros(self.n_cells)
        for cell in np.flatnonzero(weights).tolist():
            costs += weights[cell] * self.row_km(cell)
        return costs

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


def road(grid: Grid, roads: Roads) -> RoadDistance:
    """Return the road distance between cell centres."""
    return RoadDistance(x_km=grid.x_km, y_km=grid.y_km, roads=roads)
