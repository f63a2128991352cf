"""The nearest points of interest: how many of them the answer to the reported location lacks."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import Count
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Locations
from sim.world.service import Service
from sim.world.services.points_of_interest import OfPoints

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

    from sim.world.roads.graph import Roads

_TIE_KM = 1e-9
"""Distances that differ by at most this are ties."""


@component("service")
class NearestPointsParameters(OfPoints):
    """The k nearest points of interest; the loss is 1 - recall, the share of them that the answer lacks."""

    kind: Literal["nearest_points"] = "nearest_points"
    k: Count = 1
    """Number of nearest points in an answer."""

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Service:  # noqa: ARG002
        """Return the service."""
        x_km, y_km = self.positions(locations, place)
        if self.k > x_km.size:
            raise InvalidValue(
                f"k must be at most the number of points in {self.file}, {x_km.size:,}, found {self.k:,}",
                code="out-of-range",
            )
        return NearestPoints(locations, x_km=x_km, y_km=y_km, k=self.k)


class NearestPoints(Service):
    """Search for the k nearest points in a straight line; of points at the same distance, the first in the file.

    The loss is |N(x) - N(z)| / k, where N(x) is the set of the k points that are nearest to x.

    >>> from sim.world import Grid
    >>> line = Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0)
    >>> cafes = NearestPoints(line, x_km=np.array([0.0, 1.0, 3.0]), y_km=np.full(3, 0.5), k=2)
    >>> cafes.true_answers.tolist(), cafes.matrix()[0].tolist()
    ([[0, 1], [0, 1], [1, 2]], [0.0, 0.0, 0.5])
    """

    kind = "nearest_points"
    unit = "share"
    unanswered = 1.0

    def __init__(self, locations: Locations, *, x_km: FloatArray, y_km: FloatArray, k: int) -> None:
        super().__init__(locations)
        if not 1 <= k <= x_km.size:
            raise ValueError(f"k must be in [1, {x_km.size}], the number of points, got {k}")
        self._positions, self._k = np.column_stack([x_km, y_km]), k

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree  # slow to import

        return cKDTree(self._positions)

    def answers(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the numbers of the k nearest points in ascending order, shape (n, k)."""
        at = np.column_stack([x_km, y_km])
        k, more = self._k, min(self._k + 1, len(self._positions))
        away_km, nearest = (np.asarray(own) for own in self._tree.query(at, k=np.arange(1, more + 1)))
        chosen = nearest[:, :k].astype(np.int64)
        if more > k:
            for row in np.flatnonzero(away_km[:, k] <= away_km[:, k - 1] + _TIE_KM).tolist():
                chosen[row] = self._first_of_ties(at[row], float(away_km[row, k - 1]))
        return np.sort(chosen, axis=1)

    def _first_of_ties(self, at: FloatArray, farthest_km: float) -> IntArray:
        """Return the points nearer than the k-th nearest one, and the first ones at its distance."""
        near = np.array(sorted(self._tree.query_ball_point(at, farthest_km + _TIE_KM)), dtype=np.int64)
        away_km = np.hypot(*(self._positions[near] - at).T)
        is_tied = away_km >= farthest_km - _TIE_KM
        return near[np.argsort(is_tied, kind="stable")[: self._k]]

    def losses(self, cell: int, answers: IntArray) -> FloatArray:
        """Return the share of the k nearest points of a location that each answer lacks."""
        is_near = np.zeros(len(self._positions), dtype=bool)
        is_near[self.true_answers[cell]] = True
        return np.asarray((self._k - is_near[answers].sum(axis=1)) / self._k)
