"""Quality loss of reported places, which need not be centres of cells."""

from __future__ import annotations

import math

import numpy as np

from sim.interfaces import FloatArray
from sim.lppm.outputs import Places
from sim.world.distance import Distance
from sim.world.locations import Locations


def loss_at_km(locations: Locations, distance: Distance, cell: int, x_km: float, y_km: float) -> float:
    """Return d_Q in km between the centre of a cell and a place, or the place's cell if d_Q is between cells.

    >>> from sim.world import Grid, manhattan
    >>> locations = Grid.rectangle(rows=1, cols=2, width_km=2.0, height_km=1.0)
    >>> loss_at_km(locations, manhattan(locations), 0, 1.0, 2.0)
    2.0
    """
    east_km, north_km = x_km - float(locations.x_km[cell]), y_km - float(locations.y_km[cell])
    match distance.kind:
        case "euclidean":
            return math.hypot(east_km, north_km)
        case "manhattan":
            return abs(east_km) + abs(north_km)
    return float(distance.between_km(cell, locations.nearest(x_km, y_km)))


def loss_of_place_km(space: Places, distance: Distance, cell: int, output: int) -> float:
    """Return the loss in km of one place in one cell."""
    return loss_at_km(space.locations, distance, cell, *space.place_km(output))


def losses_km(space: Places, distance: Distance) -> FloatArray:
    """Return the loss in km of every place in every cell, shape (n_cells, n_places)."""
    locations = space.locations
    east_km = np.array(space.x_km) - locations.x_km[:, None]
    north_km = np.array(space.y_km) - locations.y_km[:, None]
    match distance.kind:
        case "euclidean":
            return np.hypot(east_km, north_km)
        case "manhattan":
            return np.abs(east_km) + np.abs(north_km)
    shown_at = np.array([space.shown_at(output) for output in range(space.count)], dtype=np.int64)
    return distance.between_km(np.arange(locations.n_cells)[:, None], shown_at)
