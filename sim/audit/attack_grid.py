"""Places that an estimate of an attack can be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from sim.audit.displacement import Plane, Sample
from sim.interfaces import BoolArray, FloatArray, IntArray

MOST_FINE = 1_500
_COARSE_CELLS = 21
_CELLS_PER_DISPLACEMENT = 3.0
_LEAST_CELL_M = 25.0


@dataclass(frozen=True)
class AttackGrid:
    """Places that an estimate can be: fine cells that were visited in the past, and coarse cells everywhere."""

    plane: Plane
    x_m: FloatArray
    y_m: FloatArray
    cell_m: float
    """Side of the fine cells."""
    side_m: FloatArray
    """Sides of the rectangles that the places stand for, to the east and north, shape (n_places, 2)."""
    n_fine: int
    """Number of fine cells, which come first."""
    wanted_cell_m: float
    """Cell size that would resolve the mechanism; smaller than `cell_m` if that takes too many cells."""

    def cell_of(self, sample: Sample) -> IntArray:
        """Return the nearest place of each true position."""
        return self.nearest(sample.lat, sample.lon)

    def nearest(self, lat: FloatArray, lon: FloatArray) -> IntArray:
        """Return the nearest place of each position."""
        _, nearest = self._tree.query(np.column_stack(self.plane.to_m(lat, lon)))
        return np.asarray(nearest, dtype=np.int64)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(np.column_stack([self.x_m, self.y_m]))

    @property
    def distance_m(self) -> FloatArray:
        """Distances between all places, shape (n_places, n_places)."""
        return np.hypot(self.x_m[:, None] - self.x_m, self.y_m[:, None] - self.y_m)


def grid_of(sample: Sample, past: BoolArray) -> AttackGrid:
    """Return the places of an attack.

    The side of the fine cells is a third of the mean displacement, or larger if that takes too many cells.
    """
    plane = sample.plane
    kept = sample.rows(sample.sent)
    resolving_m = max(_LEAST_CELL_M, float(kept.distance_m.mean()) / _CELLS_PER_DISPLACEMENT)
    visited = np.column_stack(plane.to_m(sample.lat[past], sample.lon[past]))
    cell = resolving_m
    while len(fine := np.unique(np.rint(visited / cell), axis=0)) > MOST_FINE:
        cell *= 1.2
    x, y = plane.to_m(sample.lat, sample.lon)
    axes = [np.linspace(side.min(), side.max(), _COARSE_CELLS) for side in (x, y)]
    coarse = np.column_stack([side.ravel() for side in np.meshgrid(*axes)])
    places = np.concatenate([fine * cell, coarse])
    spacing = [float(np.ptp(side)) / (_COARSE_CELLS - 1) for side in axes]
    sides = np.concatenate([np.full((len(fine), 2), cell), np.tile(spacing, (len(coarse), 1))])
    return AttackGrid(plane, places[:, 0], places[:, 1], cell, sides, len(fine), resolving_m)
