"""Regular grids of the plane and convolutions on them: sums that depend on the offset between two cells alone.

A sum over all cells of weights times a function of the offset is a convolution. By fast Fourier transforms it takes
O(n log n) for all cells together. The transforms are exact up to a rounding error whose bound is proportional to the
norms of weights and function (Higham 2002, Accuracy and Stability of Numerical Algorithms, Sect. 24.1): small results
next to large ones lose relative precision, and `Convolution.error` states how much.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.inference.bayes import read_only
from sim.interfaces import FloatArray, IntArray

_ROUNDING = 8 * np.finfo(np.float64).eps / 2
"""Bound of the relative error, in the Euclidean norm, of one of the log2(size) stages of a transform."""


class PlanarGrid:
    """A full grid of cells in the plane with equal steps between rows and between columns, in km.

    >>> PlanarGrid(rows=2, cols=3, row_km=1.0, col_km=2.0).row_km(4).tolist()[0]
    2.23606797749979
    """

    def __init__(self, *, rows: int, cols: int, row_km: float, col_km: float) -> None:
        self.rows, self.cols = rows, cols
        self.row_step_km, self.col_step_km = row_km, col_km
        self.n_cells = rows * cols

    @property
    def shape(self) -> tuple[int, int]:
        """Return (rows, cols)."""
        return self.rows, self.cols

    @property
    def least_step_km(self) -> float:
        """Return the shortest distance between two cells; infinite for a single cell."""
        steps = [km for km, count in ((self.row_step_km, self.rows), (self.col_step_km, self.cols)) if count > 1]
        return min(steps, default=np.inf)

    @cached_property
    def away_km(self) -> FloatArray:
        """Distances by the absolute numbers of rows and columns between two cells, shape (rows, cols)."""
        north_km, east_km = np.arange(self.rows) * self.row_step_km, np.arange(self.cols) * self.col_step_km
        return read_only(np.hypot(north_km[:, None], east_km))

    @cached_property
    def offset_km(self) -> FloatArray:
        """Distances by signed offset, from `-rows - 1` rows and `-cols - 1` columns on, (2 rows + 3, 2 cols + 3)."""
        north_km = np.arange(-self.rows - 1, self.rows + 2) * self.row_step_km
        east_km = np.arange(-self.cols - 1, self.cols + 2) * self.col_step_km
        return read_only(np.hypot(north_km[:, None], east_km))

    def split(self, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return rows and columns of cells."""
        row, col = np.divmod(cells, self.cols)
        return row, col

    def row_km(self, cell: int) -> FloatArray:
        """Return the distances from one cell to all cells, shape (n_cells,)."""
        return self.around(self.away_km, cell).ravel()

    def around(self, table: FloatArray, cell: int) -> FloatArray:
        """Return the entries of a table by absolute offset for the offsets from one cell to all cells, (rows, cols)."""
        row, col = divmod(cell, self.cols)
        values = np.empty(table.shape)
        for rows, down in ((slice(row, None), slice(0, self.rows - row)), (slice(0, row), slice(row, 0, -1))):
            values[rows, col:] = table[down, : self.cols - col]
            values[rows, :col] = table[down, col:0:-1]
        return values

    @cached_property
    def padded(self) -> tuple[int, int]:
        """Lengths of the transforms: no two offsets coincide."""
        from scipy.fft import next_fast_len  # slow to import

        return next_fast_len(2 * self.rows - 1, real=True), next_fast_len(2 * self.cols - 1, real=True)

    def convolution(self, table: FloatArray) -> Convolution:
        """Return the convolution with a table by absolute offset, shape (rows, cols)."""
        return Convolution(self, table)


class Convolution:
    """Sums of weights times a symmetric function of the offset, given by a table, for all cells together."""

    def __init__(self, grid: PlanarGrid, table: FloatArray) -> None:
        from scipy.fft import rfft2  # slow to import

        self._grid = grid
        rows, cols = grid.shape
        wrapped = np.zeros(grid.padded)
        wrapped[:rows, :cols] = table
        wrapped[grid.padded[0] - rows + 1 :, :cols] = table[:0:-1]
        wrapped[:, grid.padded[1] - cols + 1 :] = wrapped[:, cols - 1 : 0 : -1]
        self._spectrum = rfft2(wrapped, workers=1).real  # real, since the function is symmetric
        self.nbytes = self._spectrum.nbytes
        self._norms = float(np.abs(wrapped).sum()), float(np.linalg.norm(wrapped))

    def __call__(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) table(x - y) for every cell y; `weights` has shape (..., n_cells)."""
        sums = np.empty(weights.shape)
        for image, out in zip(
            weights.reshape(-1, self._grid.n_cells), sums.reshape(-1, *self._grid.shape), strict=True
        ):
            out[:] = self._sums(image)  # one by one: a batch would not fit into the cache of the processor
        return sums

    def _sums(self, image: FloatArray) -> FloatArray:
        from scipy.fft import fft, ifft, irfft, rfft

        rows, cols = self._grid.shape
        tall, wide = self._grid.padded
        # One axis after the other: padding rows are transformed neither before nor after the columns.
        spectrum = fft(rfft(image.reshape(rows, cols), wide, workers=1), tall, axis=0, workers=1)
        spectrum *= self._spectrum
        sums = irfft(ifft(spectrum, axis=0, overwrite_x=True, workers=1)[:rows], wide, workers=1)
        return np.asarray(sums[:, :cols])

    def error(self, weights: FloatArray) -> FloatArray:
        """Return a bound of the absolute error of the sums of these weights, shape (...): the same for all cells.

        The first term is the error of the two spectra, the second that of the inverse transform, in which Young's
        inequality bounds the norm of the sums.
        """
        stages = np.log2(float(np.prod(self._grid.padded)))
        one, two = np.abs(weights).sum(axis=-1), np.linalg.norm(weights, axis=-1)
        own_one, own_two = self._norms
        norms = 2 * two * own_two + np.minimum(one * own_two, two * own_one)
        return np.asarray(_ROUNDING * stages * norms)
