"""Cells of a grid as places: positions, resolution, and visits within a radius of every cell."""

from __future__ import annotations

import math

import numpy as np
from scipy.signal import fftconvolve

from sim.analysis.answers.located import BORDER_KM
from sim.interfaces import FloatArray
from sim.world.grid import Grid

_DIGITS = 9
"""Decimals of convolved visits: convolution by Fourier transform rounds, and ties must stay ties."""


def positions_km(grid: Grid) -> FloatArray:
    """Return the centres of the cells, shape (n_cells, 2)."""
    return np.column_stack([grid.x_km, grid.y_km])


def cell_size_km(grid: Grid) -> tuple[float, float]:
    """Return the width and the height of a cell."""
    return grid.width_km / grid.cols, grid.height_km / grid.rows


def resolution_km(grid: Grid) -> float:
    """Return the longer side of a cell: places within a cell are not distinguished.

    >>> resolution_km(Grid.rectangle(rows=2, cols=10, width_km=5.0, height_km=2.0))
    1.0
    """
    return max(cell_size_km(grid))


def covered_visits(visits: FloatArray, grid: Grid, radius_km: float) -> FloatArray:
    """Return the visits, shape (n_cells,), to all cells whose centre is within the radius of each cell's.

    >>> grid = Grid.rectangle(rows=1, cols=4, width_km=4.0, height_km=1.0)
    >>> covered_visits(np.array([1.0, 0.0, 2.0, 0.0]), grid, 1.0).tolist()
    [1.0, 3.0, 2.0, 2.0]
    """
    width, height = cell_size_km(grid)
    reach_x, reach_y = (min(int((radius_km + BORDER_KM) / side), most) for side, most in _sides(grid))
    east = np.arange(-reach_x, reach_x + 1) * width
    north = np.arange(-reach_y, reach_y + 1) * height
    disk = np.hypot(east[None, :], north[:, None]) <= radius_km + BORDER_KM
    covered = fftconvolve(visits.reshape(grid.shape), disk.astype(float), mode="full")
    inside = covered[reach_y : reach_y + grid.rows, reach_x : reach_x + grid.cols]
    return np.asarray(np.round(inside, _DIGITS), dtype=float).ravel()


def _sides(grid: Grid) -> tuple[tuple[float, int], tuple[float, int]]:
    width, height = cell_size_km(grid)
    return (width, grid.cols), (height, grid.rows)


def best_cells(visits: FloatArray, grid: Grid, radius_km: float, count: int = 1) -> list[int]:
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
        cell = int(covered_visits(left, grid, radius_km).argmax())
        chosen.append(cell)
        apart = np.hypot(grid.x_km - grid.x_km[cell], grid.y_km - grid.y_km[cell])
        left = np.where(apart <= radius_km + BORDER_KM, 0.0, left)
    return chosen


def cells_within(grid: Grid, radius_km: float) -> FloatArray:
    """Return the number of cells within the radius of each cell; its share of all is the success of a random guess."""
    return np.round(covered_visits(np.ones(grid.n_cells), grid, radius_km))


def is_resolved(radius_km: float, resolution_km: float) -> bool:
    """Return whether a radius is at least the side of a cell."""
    return radius_km >= resolution_km or math.isclose(radius_km, resolution_km)
