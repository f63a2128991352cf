"""Distances between cells: d_P and d_Q of the paper, as operators.

A distance answers what mechanisms and adversaries ask: the distance of pairs, the distances from or to one cell, the
expected distance of every estimate, and the optimal estimate. None of these needs the n x n matrix if the distance has
structure. `matrix_km` is the reference for all of them, for grids on which it fits into memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from sim.errors import InvalidValue
from sim.inference.bayes import cheapest, read_only
from sim.inference.dense import require_dense
from sim.inference.ties import TIE
from sim.interfaces import FloatArray, IntArray

MATRIX_CELLS = 1_000
"""Largest number of cells for which the matrix (8 MB) is used where it is faster than the structure of a distance."""


class Distance(ABC):
    """Distances in km from every cell to every other cell.

    >>> from sim.world import Grid, manhattan
    >>> line = manhattan(Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0))
    >>> line.row_km(0).tolist(), line.best_cell(np.array([0.4, 0.0, 0.6]))
    ([0.0, 1.0, 2.0], 2)
    """

    kind: str
    """Kind of the distance, such as ``manhattan``."""
    n_cells: int
    """Number of cells."""
    longest_km: float
    """Upper bound of all distances in km; ties between estimates are judged on this scale."""

    obeys_triangle: bool = False
    """Whether d(x, y) <= d(x, v) + d(v, y) is known to hold for all cells."""
    shape: tuple[int, int] | None = None
    """(rows, cols) if estimates are weighted medians: the Manhattan distance on a full grid; else None."""

    @property
    def axes_km(self) -> tuple[FloatArray, FloatArray]:
        """Return the distances between rows, shape (rows, rows), and columns, (cols, cols), of a Manhattan grid."""
        raise ValueError(f"distance must be Manhattan on a full grid, got kind {self.kind!r} without shape")

    @abstractmethod
    def between_km(self, start: ArrayLike, end: ArrayLike) -> FloatArray:
        """Return the distances from cells to cells, element by element; the arguments are broadcast."""

    def row_km(self, cell: int) -> FloatArray:
        """Return the distances from one cell to all cells, shape (n_cells,)."""
        if self.n_cells <= MATRIX_CELLS:
            row_km: FloatArray = self.matrix_km[cell]
            return row_km
        return self.between_km(cell, np.arange(self.n_cells))

    def column_km(self, cell: int) -> FloatArray:
        """Return the distances from all cells to one cell, shape (n_cells,)."""
        return self.between_km(np.arange(self.n_cells), cell)

    @cached_property
    def matrix_km(self) -> FloatArray:
        """All distances [from cell, to cell], shape (n_cells, n_cells), read-only; an error if too large for memory."""
        require_dense(self.n_cells, f"the {self.kind} distances between all pairs of cells")
        cells = np.arange(self.n_cells)
        return read_only(self.between_km(cells[:, None], cells))

    @cached_property
    def certain_cells(self) -> IntArray:
        """The optimal estimate if the cell is certain, for each cell, read-only: the lowest cell at distance 0."""
        if self.shape is not None:
            return read_only(np.arange(self.n_cells))
        nearest = [int((self.row_km(cell) <= TIE * self.longest_km).argmax()) for cell in range(self.n_cells)]
        return read_only(np.array(nearest, dtype=np.int64))

    def costs_km(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) d(x, y) for every estimate y, shape (n_cells,)."""
        return np.asarray(weights @ self.matrix_km)

    def _costs_by_rows_km(self, weights: FloatArray) -> FloatArray:
        """Return the same as `costs_km` without a matrix, from the distances of each cell with weight."""
        costs = np.zeros(self.n_cells)
        for cell in np.flatnonzero(weights).tolist():
            costs += weights[cell] * self.row_km(cell)
        return costs

    def best_cell(self, weights: FloatArray) -> int:
        """Return the optimal estimate argmin_y sum_x weights(x) d(x, y); -1 if the weights have no mass.

        Costs within `TIE` of the total weight times `longest_km` are ties, which go to the lowest cell.
        """
        return int(self.best_cells(weights[np.newaxis])[0])

    def best_cells(self, weights: FloatArray) -> IntArray:
        """Return the optimal estimate for each row of weights, shape (k, n_cells)."""
        return cheapest(weights @ self.matrix_km, weights.sum(axis=1), longest_km=self.longest_km)

    def best_cell_each(self, prior: FloatArray, likelihoods: FloatArray) -> IntArray:
        """Return the optimal estimate for each likelihood row, shape (k, n_cells), under one prior."""
        return self.best_cells(likelihoods * prior)


class MatrixDistance(Distance):
    """A distance given by its matrix [from cell, to cell], for distances without known structure."""

    def __init__(self, *, kind: str, matrix_km: FloatArray) -> None:
        matrix = np.array(matrix_km, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
            raise ValueError(f"matrix_km must have shape (n_cells, n_cells), got {matrix.shape}")
        _check_values(matrix)
        self.kind = kind
        self.n_cells = len(matrix)
        self.matrix_km = read_only(matrix)
        self.longest_km = float(matrix.max())

    def between_km(self, start: ArrayLike, end: ArrayLike) -> FloatArray:
        """Return the distances from cells to cells, element by element."""
        return np.asarray(self.matrix_km[np.asarray(start), np.asarray(end)])


def _check_values(matrix_km: FloatArray) -> None:
    bad = ~(np.isfinite(matrix_km) & (matrix_km >= 0.0))
    off_diagonal = np.diag(np.diag(matrix_km) != 0.0)
    for fault, rule in ((bad, "be in [0, inf)"), (off_diagonal, "be 0 on the diagonal")):
        if fault.any():
            start, end = np.argwhere(fault)[0]
            value = matrix_km[start, end]
            others = f", and {fault.sum() - 1:,} more" if fault.sum() > 1 else ""
            raise InvalidValue(
                f"distances must {rule}, found {value} from cell {start} to cell {end}{others}",
                code="invalid-distance",
            )


def smoothing_kernel(distance_km: FloatArray, smooth_km: float) -> FloatArray | None:
    """Return the kernel exp(-distance / smooth_km), [to cell, from cell], with columns that sum to 1; None for 0.

    >>> smoothing_kernel(np.array([[0.0, 1.0], [1.0, 0.0]]), 1 / np.log(3)).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    if smooth_km == 0:
        return None
    kernel = np.exp(-distance_km.T / smooth_km)
    kernel = np.ascontiguousarray(kernel / kernel.sum(axis=0))
    kernel.flags.writeable = False
    return kernel
