"""Manhattan distance: distance along the axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from sim.components.files import Place
from sim.components.registry import component
from sim.inference.bayes import cheapest, decide, decide_each, decide_many, read_only
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import Distance
from sim.world.grid import Grid
from sim.world.locations import Locations
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_NO_MATRIX = np.empty((0, 0))  # medians need no distances


@component("distance")
class ManhattanParameters(DistanceParameters):
    """Distance along the two axes, east and north, as in the paper."""

    kind: Literal["manhattan"] = "manhattan"

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between locations."""
        return manhattan(locations)


class ManhattanDistance(Distance):
    """The Manhattan distance on a full grid, given the positions of its rows and columns in km.

    The optimal estimate is the weighted median of the rows and that of the columns, for any spacing.
    """

    kind = "manhattan"

    def __init__(self, *, row_y_km: FloatArray, col_x_km: FloatArray) -> None:
        self.row_y_km = read_only(np.array(row_y_km, dtype=np.float64))
        """Positions of the rows in km, ascending, shape (rows,)."""
        self.col_x_km = read_only(np.array(col_x_km, dtype=np.float64))
        """Positions of the columns in km, ascending, shape (cols,)."""
        if (np.diff(self.row_y_km) < 0).any() or (np.diff(self.col_x_km) < 0).any():
            raise ValueError("row_y_km and col_x_km must not decrease")
        self.shape = self._shape = (self.row_y_km.size, self.col_x_km.size)
        self.n_cells = self.row_y_km.size * self.col_x_km.size
        self.longest_km = float(np.ptp(self.row_y_km) + np.ptp(self.col_x_km))

    @property
    def axes_km(self) -> tuple[FloatArray, FloatArray]:
        """Return the distances between rows, shape (rows, rows), and between columns, shape (cols, cols)."""
        row_km, col_km = (np.abs(at_km - at_km[:, None]) for at_km in (self.row_y_km, self.col_x_km))
        return row_km, col_km

    def between_km(self, start: ArrayLike, end: ArrayLike) -> FloatArray:
        """Return the distances from cells to cells, element by element."""
        cols = self._shape[1]
        row, col = np.divmod(start, cols)
        to_row, to_col = np.divmod(end, cols)
        east_km = np.abs(self.col_x_km[to_col] - self.col_x_km[col])
        return np.asarray(east_km + np.abs(self.row_y_km[to_row] - self.row_y_km[row]))

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) d(x, y) for every estimate y, in O(n_cells)."""
        on_grid = weights.reshape(self._shape)
        row_cost = np.abs(self.row_y_km - self.row_y_km[:, None]) @ on_grid.sum(axis=1)
        col_cost = np.abs(self.col_x_km - self.col_x_km[:, None]) @ on_grid.sum(axis=0)
        return np.asarray(np.add.outer(row_cost, col_cost)).ravel()

    def best_cell(self, weights: FloatArray) -> int:
        """Return the optimal estimate: the median row and the median column; -1 without mass."""
        return decide(weights, _NO_MATRIX, self._shape)

    def best_cells(self, weights: FloatArray) -> IntArray:
        """Return the optimal estimate for each row of weights, shape (k, n_cells)."""
        return decide_many(weights, _NO_MATRIX, self._shape)

    def best_cell_each(self, prior: FloatArray, likelihoods: FloatArray) -> IntArray:
        """Return the optimal estimate for each likelihood row, shape (k, n_cells), under one prior."""
        return decide_each(prior, likelihoods, _NO_MATRIX, self._shape)


class PlaneManhattanDistance(Distance):
    """The Manhattan distance between locations anywhere in the plane, given their positions in km.

    The costs of all estimates are sums along two sorted axes, in O(n_cells).
    """

    kind = "manhattan"
    obeys_triangle = True

    def __init__(self, *, x_km: FloatArray, y_km: FloatArray) -> None:
        self.x_km = read_only(np.array(x_km, dtype=np.float64))
        self.y_km = read_only(np.array(y_km, dtype=np.float64))
        self.n_cells = self.x_km.size
        self.longest_km = float(np.ptp(self.x_km) + np.ptp(self.y_km))
        self._axes = [_Axis(self.x_km), _Axis(self.y_km)]

    def between_km(self, start: ArrayLike, end: ArrayLike) -> FloatArray:
        """Return the distances from locations to locations, element by element."""
        start, end = np.asarray(start), np.asarray(end)
        return np.asarray(np.abs(self.x_km[end] - self.x_km[start]) + np.abs(self.y_km[end] - self.y_km[start]))

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) d(x, y) for every estimate y, in O(n_cells)."""
        return np.asarray(self._costs_km(weights[np.newaxis])[0])

    def best_cells(self, weights: FloatArray) -> IntArray:
        """Return the optimal estimate for each row of weights, shape (k, n_cells)."""
        return cheapest(self._costs_km(weights), weights.sum(axis=1), longest_km=self.longest_km)

    def _costs_km(self, weights: FloatArray) -> FloatArray:
        return self._axes[0].costs_km(weights) + self._axes[1].costs_km(weights)


class _Axis:
    """Positions along an axis, sorted once."""

    def __init__(self, at_km: FloatArray) -> None:
        self._order = np.argsort(at_km, kind="stable")
        self._rank = np.argsort(self._order)
        self._steps_km = np.diff(at_km[self._order])

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) |x - y| for every y, for rows of weights, shape (k, n_cells).

        Crossing the step between two neighbours changes the distance to all weight on either side of it.
        """
        mass = weights[:, self._order]
        crossing = np.zeros_like(mass)
        crossing[:, 1:] = mass.cumsum(axis=1)[:, :-1] * self._steps_km
        crossing_back = np.zeros_like(mass)
        crossing_back[:, :-1] = mass[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:] * self._steps_km
        costs = crossing.cumsum(axis=1) + crossing_back[:, ::-1].cumsum(axis=1)[:, ::-1]
        return np.asarray(costs[:, self._rank])


def manhattan(locations: Locations) -> ManhattanDistance | PlaneManhattanDistance:
    """Return the Manhattan distance between locations; for cells of a grid, that of the paper's experiments."""
    if isinstance(locations, Grid):
        return ManhattanDistance(row_y_km=locations.row_y_km, col_x_km=locations.col_x_km)
    return PlaneManhattanDistance(x_km=locations.x_km, y_km=locations.y_km)
