"""Manhattan distance: distance along the axes of the grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from sim.components.files import Place
from sim.components.registry import component
from sim.inference.bayes import decide, decide_each, decide_many, read_only
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import Distance
from sim.world.grid import Grid
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_NO_MATRIX = np.empty((0, 0))  # medians need no distances


@component("distance")
class ManhattanParameters(DistanceParameters):
    """Distance along the two axes of the grid, as in the paper."""

    kind: Literal["manhattan"] = "manhattan"

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        return manhattan(grid)


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


def manhattan(grid: Grid) -> ManhattanDistance:
    """Return the Manhattan distance between cell centres, used in the paper's experiments."""
    return ManhattanDistance(row_y_km=grid.row_y_km, col_x_km=grid.col_x_km)
