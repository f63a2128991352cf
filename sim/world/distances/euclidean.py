"""Straight-line distance."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from sim.components.files import Place
from sim.components.registry import component
from sim.inference.bayes import read_only
from sim.inference.geometric_median import best_location
from sim.inference.planar_grid import Convolution, PlanarGrid
from sim.inference.ties import MASS_FLOOR, TIE
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import MATRIX_CELLS, Distance
from sim.world.grid import Grid
from sim.world.locations import Locations
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class EuclideanParameters(DistanceParameters):
    """Straight-line distance between two locations."""

    kind: Literal["euclidean"] = "euclidean"

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between locations."""
        return euclidean(locations)


_FEW = 8
"""Largest number of cells with weight for which direct sums are faster than one convolution."""
_DENSE = 3_000
"""Number of cells with weight above which the optimal estimate is faster from the costs of all cells."""
_MOST_CANDIDATES = 100
"""Number of estimates of nearly the same cost above which the search by tangents is faster."""


class EuclideanDistance(Distance):
    """The Euclidean distance between locations of the plane, given their positions in km, shape (n_cells,) each.

    If the locations are the cells of a full grid, `planar` describes it, and sums over many cells are convolutions.
    """

    kind = "euclidean"
    obeys_triangle = True

    def __init__(self, *, x_km: FloatArray, y_km: FloatArray, planar: PlanarGrid | None = None) -> None:
        self.x_km = read_only(np.array(x_km, dtype=np.float64))
        self.y_km = read_only(np.array(y_km, dtype=np.float64))
        self.n_cells = self.x_km.size
        self.planar = planar
        self.longest_km = float(np.hypot(np.ptp(self.x_km), np.ptp(self.y_km)))

    def between_km(self, start: ArrayLike, end: ArrayLike) -> FloatArray:
        """Return the distances from cells to cells, element by element."""
        start, end = np.asarray(start), np.asarray(end)
        return np.asarray(np.hypot(self.x_km[end] - self.x_km[start], self.y_km[end] - self.y_km[start]))

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) d(x, y) for every estimate y."""
        if self.n_cells <= MATRIX_CELLS:
            return super().costs_km(weights)
        if self._convolution is not None and np.count_nonzero(weights) > _FEW:
            return self._convolution(weights)
        return self._costs_by_rows_km(weights)

    def best_cells(self, weights: FloatArray) -> IntArray:
        """Return the optimal estimate, the geometric median among the cells, for each row of weights."""
        if self.n_cells <= MATRIX_CELLS:
            return super().best_cells(weights)
        return np.array([self._best_cell(row) for row in weights], dtype=np.int64)

    def _best_cell(self, weights: FloatArray) -> int:
        if self._convolution is not None and np.count_nonzero(weights) > _DENSE:
            total = float(weights.sum())
            if not total > MASS_FLOOR:
                return -1
            best = self._cheapest(self._convolution, weights / total)
            if best is not None:
                return best
        return best_location(weights, self.x_km, self.y_km, longest_km=self.longest_km)

    def _cheapest(self, convolution: Convolution, weights: FloatArray) -> int | None:
        """Return the optimal estimate from the costs of all cells; None if too many are close to the lowest cost.

        The weights sum to 1. Costs within the rounding error of the convolution are computed again by direct sums.
        """
        costs = convolution(weights)
        tie_km = TIE * self.longest_km
        candidates = np.flatnonzero(costs <= costs.min() + 2 * float(convolution.error(weights)) + 2 * tie_km)
        if candidates.size > _MOST_CANDIDATES:
            return None
        exact = np.array([(weights * self.row_km(cell)).sum() for cell in candidates.tolist()])
        return int(candidates[exact <= exact.min() + tie_km][0])

    @cached_property
    def _convolution(self) -> Convolution | None:
        """Sums of weights times distances; None if the locations are not a grid."""
        return None if self.planar is None else self.planar.convolution(self.planar.away_km)


def euclidean(locations: Locations) -> EuclideanDistance:
    """Return the Euclidean distance between locations."""
    planar = None
    if isinstance(locations, Grid):
        col_km, row_km = locations.cell_size_km
        planar = PlanarGrid(rows=locations.rows, cols=locations.cols, row_km=row_km, col_km=col_km)
    return EuclideanDistance(x_km=locations.x_km, y_km=locations.y_km, planar=planar)
