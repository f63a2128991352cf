"""Straight-line distance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from sim.components.files import Place
from sim.components.registry import component
from sim.inference.bayes import read_only
from sim.inference.geometric_median import best_location
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import MATRIX_CELLS, Distance
from sim.world.grid import Grid
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class EuclideanParameters(DistanceParameters):
    """Straight-line distance between cell centres."""

    kind: Literal["euclidean"] = "euclidean"

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        return euclidean(grid)


class EuclideanDistance(Distance):
    """The Euclidean distance between locations of the plane, given their positions in km, shape (n_cells,) each."""

    kind = "euclidean"

    def __init__(self, *, x_km: FloatArray, y_km: FloatArray) -> None:
        self.x_km = read_only(np.array(x_km, dtype=np.float64))
        self.y_km = read_only(np.array(y_km, dtype=np.float64))
        self.n_cells = self.x_km.size
        self.longest_km = float(np.hypot(np.ptp(self.x_km), np.ptp(self.y_km)))

    def between_km(self, start: ArrayLike, end: ArrayLike) -> FloatArray:
        """Return the distances from cells to cells, element by element."""
        start, end = np.asarray(start), np.asarray(end)
        return np.asarray(np.hypot(self.x_km[end] - self.x_km[start], self.y_km[end] - self.y_km[start]))

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) d(x, y) for every estimate y."""
        if self.n_cells <= MATRIX_CELLS:
            return super().costs_km(weights)
        costs = np.zeros(self.n_cells)
        for cell in np.flatnonzero(weights).tolist():
            costs += weights[cell] * self.row_km(cell)
        return costs

    def best_cells(self, weights: FloatArray) -> IntArray:
        """Return the optimal estimate, the geometric median among the cells, for each row of weights."""
        if self.n_cells <= MATRIX_CELLS:
            return super().best_cells(weights)
        cells = [best_location(row, self.x_km, self.y_km, longest_km=self.longest_km) for row in weights]
        return np.array(cells, dtype=np.int64)


def euclidean(grid: Grid) -> EuclideanDistance:
    """Return the Euclidean distance between cell centres."""
    return EuclideanDistance(x_km=grid.x_km, y_km=grid.y_km)
