"""Cells within a circle."""

from __future__ import annotations

import numpy as np

from sim.interfaces import BoolArray, IntArray
from sim.world.grid import Grid

SAME_KM = 1e-9
"""Distances that differ by less are equal."""


def in_circle(grid: Grid, centre: int, radius_km: float) -> BoolArray:
    """Return whether the centre of each cell is nearer to that of one cell than a radius."""
    away_km = np.hypot(grid.x_km - grid.x_km[centre], grid.y_km - grid.y_km[centre])
    return np.asarray(away_km < radius_km - SAME_KM)


def pairs_within(grid: Grid, radius_km: float) -> tuple[IntArray, IntArray]:
    """Return all pairs of cells whose centres are nearer to each other than a radius.

    >>> pairs_within(Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0), 1.5)[1].tolist()
    [0, 1, 0, 1, 2, 1, 2]
    """
    row, col = np.divmod(np.arange(grid.n_cells), grid.cols)
    north_km, east_km = grid.height_km / grid.rows, grid.width_km / grid.cols
    reach = int(radius_km / north_km) + 1, int(radius_km / east_km) + 1
    up, across = np.mgrid[-reach[0] : reach[0] + 1, -reach[1] : reach[1] + 1]
    near = np.hypot(up * north_km, across * east_km) < radius_km - SAME_KM
    rows, cols = row[:, None] + up[near], col[:, None] + across[near]
    inside = (rows >= 0) & (rows < grid.rows) & (cols >= 0) & (cols < grid.cols)
    cells = np.broadcast_to(np.arange(grid.n_cells)[:, None], inside.shape)
    return cells[inside], (rows * grid.cols + cols)[inside]
