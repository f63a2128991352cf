"""Posterior mass around the true cell: the adversary's probability that the user is within some radii of it."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.spatial import cKDTree

from sim.interfaces import FloatArray, IntArray
from sim.storage.event_schema import POSTERIOR_WITHIN_KM
from sim.world.grid import BORDER_KM
from sim.world.locations import Locations

RADII_KM = np.array(sorted(POSTERIOR_WITHIN_KM))
"""Radii of the recorded masses."""


_MOST_STORED = 4_000_000
"""Largest number of neighbours in memory, 8 bytes each; those of further cells are computed again."""
_Neighbours = tuple[IntArray, IntArray]
"""The cells within the largest radius, by distance, and the position of the last one within each radius."""


class PosteriorMass:
    """Posterior mass within each of `RADII_KM` of a location, by the straight distance.

    The neighbours of a location are looked up when it is first asked for, and stored: time and memory are those of the
    locations within the largest radius, not of all pairs.

    >>> from sim.world.grid import Grid
    >>> mass = PosteriorMass(Grid.rectangle(rows=1, cols=4, width_km=2.0, height_km=0.5))
    >>> mass.around(np.array([0.5, 0.0, 0.25, 0.25]), 2).tolist()
    [0.25, 0.5, 0.5, 1.0]
    """

    def __init__(self, locations: Locations) -> None:
        self._locations = locations
        self._neighbours: dict[int, _Neighbours] = {}
        self._stored = 0

    def __reduce__(self) -> tuple[type[PosteriorMass], tuple[Locations]]:
        """Return how to restore it from a checkpoint, which does not need the neighbours."""
        return PosteriorMass, (self._locations,)

    def around(self, posterior: FloatArray, cell: int) -> FloatArray:
        """Return the mass within each radius of a cell, shape (n_radii,), from a posterior of shape (n_cells,)."""
        known = self._neighbours.get(cell)
        if known is None:
            known = self._found(cell)
            if self._stored < _MOST_STORED:
                self._neighbours[cell] = known
                self._stored += known[0].size
        cells, last = known
        return posterior.take(cells).cumsum().take(last)

    def _found(self, cell: int) -> _Neighbours:
        x_km, y_km = self._locations.x_km, self._locations.y_km
        near = np.array(self._tree.query_ball_point((x_km[cell], y_km[cell]), RADII_KM[-1] + 2 * BORDER_KM))
        near.sort()
        apart = np.hypot(x_km[near] - x_km[cell], y_km[near] - y_km[cell])
        order = np.argsort(apart, kind="stable")
        return near[order], np.searchsorted(apart[order], RADII_KM + BORDER_KM, side="right") - 1

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(np.column_stack([self._locations.x_km, self._locations.y_km]))
