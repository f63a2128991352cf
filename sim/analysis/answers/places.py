"""Locations as places: positions, resolution, and visits within a radius of every location."""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import fftconvolve
from scipy.spatial import cKDTree

from sim.analysis.answers.located import BORDER_KM
from sim.interfaces import FloatArray
from sim.world.grid import Grid
from sim.world.locations import Locations

_DIGITS = 9
"""Decimals of convolved visits: convolution by Fourier transform rounds, and ties must stay ties."""
_BLOCK = 256  # locations whose neighbours are listed together


def positions_km(locations: Locations) -> FloatArray:
    """Return the positions of the locations, shape (n_cells, 2)."""
    return np.column_stack([locations.x_km, locations.y_km])


def resolution_km(locations: Locations) -> float:
    """Return the longer side of a cell: places within a cell are not distinguished.

    >>> resolution_km(Grid.rectangle(rows=2, cols=10, width_km=5.0, height_km=2.0))
    1.0
    """
    return max(locations.cell_size_km)


def covered_visits(visits: FloatArray, locations: Locations, radius_km: float) -> FloatArray:
    """Return the visits, shape (n_cells,), to all locations within the radius of each location.

    >>> grid = Grid.rectangle(rows=1, cols=4, width_km=4.0, height_km=1.0)
    >>> covered_visits(np.array([1.0, 0.0, 2.0, 0.0]), grid, 1.0).tolist()
    [1.0, 3.0, 2.0, 2.0]
    """
    if isinstance(locations, Grid):
        return _covered_on_grid(visits, locations, radius_km)
    tree = cKDTree(positions_km(locations))
    visited = np.flatnonzero(visits)
    covered = np.zeros(locations.n_cells)
    for block in np.array_split(visited, max(1, visited.size // _BLOCK)):  # lists of neighbours take much memory
        near = tree.query_ball_point(tree.data[block], radius_km + BORDER_KM)
        for cell, cells in zip(block.tolist(), near, strict=True):
            covered[cells] += visits[cell]
    return np.round(covered, _DIGITS)


def _covered_on_grid(visits: FloatArray, grid: Grid, radius_km: float) -> FloatArray:
    width, height = grid.cell_size_km
    limits = ((width, grid.cols), (height, grid.rows))
    reach_x, reach_y = (min(int((radius_km + BORDER_KM) / side), most) for side, most in limits)
    east = np.arange(-reach_x, reach_x + 1) * width
    north = np.arange(-reach_y, reach_y + 1) * height
    disk = np.hypot(east[None, :], north[:, None]) <= radius_km + BORDER_KM
    covered = fftconvolve(visits.reshape(grid.shape), disk.astype(float), mode="full")
    inside = covered[reach_y : reach_y + grid.rows, reach_x : reach_x + grid.cols]
    return np.asarray(np.round(inside, _DIGITS), dtype=float).ravel()


def best_cells(visits: FloatArray, locations: Locations, radius_km: float, count: int = 1) -> list[int]:
    """Return the best guesses without any report: greedily the cells with the most of the remaining visits around.

    >>> grid = Grid.rectangle(rows=1, cols=4, width_km=4.0, height_km=1.0)
    >>> best_cells(np.array([1.0, 0.0, 2.0, 0.0]), grid, 1.0, 2)
    [1]
    >>> best_cells(np.array([1.0, 0.0, 2.0, 0.0]), grid, 0.5, 2)
    [2, 0]
    """
    left = visits.astype(float)
    chosen: list[int] = []
    while len(chosen) < count and left.sum() > 0:
        cell = int(covered_visits(left, locations, radius_km).argmax())
        chosen.append(cell)
        apart = np.hypot(locations.x_km - locations.x_km[cell], locations.y_km - locations.y_km[cell])
        left = np.where(apart <= radius_km + BORDER_KM, 0.0, left)
    return chosen


def cells_within(locations: Locations, radius_km: float) -> FloatArray:
    """Return the number of cells within the radius of each cell; its share of all is the success of a random guess."""
    return np.round(covered_visits(np.ones(locations.n_cells), locations, radius_km))


def is_resolved(radius_km: float, resolution_km: float) -> bool:
    """Return whether a radius is at least the side of a cell."""
    return radius_km >= resolution_km or math.isclose(radius_km, resolution_km)
