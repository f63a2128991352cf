"""Locations within a circle."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

from sim.interfaces import BoolArray, IntArray
from sim.world.locations import Locations

SAME_KM = 1e-9
"""Distances that differ by less are equal."""


def in_circle(locations: Locations, centre: int, radius_km: float) -> BoolArray:
    """Return whether each location is nearer to one location than a radius."""
    away_km = np.hypot(locations.x_km - locations.x_km[centre], locations.y_km - locations.y_km[centre])
    return np.asarray(away_km < radius_km - SAME_KM)


def pairs_within(locations: Locations, radius_km: float) -> tuple[IntArray, IntArray]:
    """Return all pairs of locations that are nearer to each other than a radius, sorted.

    >>> from sim.world.grid import Grid
    >>> pairs_within(Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0), 1.5)[1].tolist()
    [0, 1, 0, 1, 2, 1, 2]
    """
    own = np.arange(locations.n_cells)
    tree = cKDTree(np.column_stack([locations.x_km, locations.y_km]))
    one, other = tree.query_pairs(max(radius_km - SAME_KM, 0.0), output_type="ndarray").T
    first, second = np.concatenate([own, one, other]), np.concatenate([own, other, one])
    order = np.lexsort((second, first))
    return first[order], second[order]
