"""The exponential kernel exp(-rate |x - z|) of the Euclidean distance on a grid, without a matrix.

Sums over all cells are convolutions by fast Fourier transforms. Sums over a set of cells are exact to relative
rounding: the sum over a run of cells in one grid row is a difference of two entries in a table of one-sided sums.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import read_only
from sim.inference.planar_grid import Convolution, PlanarGrid
from sim.inference.source_sets import Cells32, SourceSets, scatter
from sim.interfaces import FloatArray, IntArray

_DIRECT_RUNS = 96
"""Largest number of runs of a set that are summed for every cell; beyond it, one convolution is faster."""
_PRECISION = 1e-8
"""Largest relative error of a convolution in `PlanarKernel.column`; less precise values are summed directly."""


class PlanarKernel:
    """Conditional probabilities f(z | x) ∝ exp(-rate |x - z|) on a grid; `rate_per_km` is in [0, inf)."""

    def __init__(self, grid: PlanarGrid, *, rate_per_km: float) -> None:
        if not 0 <= rate_per_km < np.inf:
            raise ValueError(f"rate_per_km must be in [0, inf), got {rate_per_km}")
        self.grid = grid
        self.rate_per_km = rate_per_km
        self.decay = read_only(np.exp(-rate_per_km * grid.away_km))
        """The kernel by the absolute numbers of rows and columns between two cells, shape (rows, cols)."""
        self.norm = read_only(sums_over_grid(self.decay))
        """Sum of the kernel over all cells, for each cell, shape (n_cells,)."""

    @cached_property
    def convolution(self) -> Convolution:
        """Sums of weights times the kernel."""
        return self.grid.convolution(self.decay)

    def apply(self, image: FloatArray) -> FloatArray:
        """Return sum_z f(z | x) image(z) for every cell x, shape (n_cells,), with image(z) in [0, inf)."""
        return np.asarray(np.maximum(self.convolution(image), 0.0) / self.norm)

    def adjoint(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) f(z | x) for every cell z, shape (n_cells,), with weights(x) in [0, inf)."""
        return np.asarray(np.maximum(self.convolution(weights / self.norm), 0.0))

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x) of one cell x, shape (n_cells,)."""
        return np.asarray(self.grid.around(self.decay, cell).ravel() / self.norm[cell])

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .) of one output z, shape (n_cells,)."""
        return np.asarray(self.grid.around(self.decay, output).ravel() / self.norm)

    def column(self, sources: SourceSets, n_cells: int) -> FloatArray:
        """Return the sum of f(z | .) over one set of outputs z, shape (n_cells,), with a relative error below 1e-8."""
        if sources.first.size == 1 and sources.stop[0] - sources.first[0] == 1:
            return self.likelihood(int(sources.first[0]))
        cells = np.arange(n_cells)
        if sources.first.size <= _DIRECT_RUNS:
            return self.entries(cells, sources)[:, 0]
        image = scatter(np.ones(1), sources, n_cells)
        sums = self.convolution(image)
        weak = cells[sums * _PRECISION < self.convolution.error(image)]
        column = np.asarray(sums / self.norm)
        column[weak] = self.entries(weak, sources)[:, 0]
        return column

    def entries(self, cells: IntArray, sets: SourceSets) -> FloatArray:
        """Return the sum of f(z | x) over each set of outputs z, for some cells x, shape (cells.size, sets.count)."""
        row, first = self.grid.split(sets.first.astype(np.int64))
        runs = (row.astype(np.int32), first.astype(np.int32), (sets.stop - row * self.grid.cols).astype(np.int32))
        if (fast := kernels.compiled()) is not None:
            sums = fast.planar_entries(cells.astype(np.int32), sets.offsets, *runs, self._one_sided)
        else:
            sums = _entries(cells, sets.offsets, runs, self._one_sided)
        return np.asarray(sums / self.norm[cells, None])

    @cached_property
    def _one_sided(self) -> FloatArray:
        return read_only(one_sided(self.decay))


def one_sided(table: FloatArray) -> FloatArray:
    """Return the sums of a table by absolute offset over its columns from each column on, shape (rows, cols + 1).

    >>> one_sided(np.array([[1.0, 0.5, 0.25]]))
    array([[1.75, 0.75, 0.25, 0.  ]])
    """
    sums = np.zeros((len(table), table.shape[1] + 1))
    sums[:, :-1] = table[:, ::-1].cumsum(axis=1)[:, ::-1]
    return sums


def sums_over_grid(table: FloatArray) -> FloatArray:
    """Return the sum of a table by absolute offset over the offsets from a cell to all cells, for each cell.

    >>> sums_over_grid(np.array([[1.0, 0.5, 0.25]]))
    array([1.75, 2.  , 1.75])
    """
    rows, cols = table.shape
    tails = one_sided(table)
    col = np.arange(cols)
    in_row = tails[:, :1] - tails[:, cols - col] + tails[:, 1:2] - tails[:, col + 1]
    up_to = in_row.cumsum(axis=0)
    row = np.arange(rows)
    return np.asarray(up_to[row] + (up_to[rows - 1 - row] - up_to[0])).ravel()


def _entries(cells: IntArray, offsets: Cells32, runs: tuple[Cells32, ...], tails: FloatArray) -> FloatArray:
    """Return the sums of a kernel over sets of runs, for some cells; `tails` are its one-sided sums."""
    row, first, stop = runs
    own_row, own_col = np.divmod(cells, tails.shape[1] - 1)
    entries = np.empty((cells.size, len(offsets) - 1))
    for place in range(cells.size):
        own = tails[np.abs(row - own_row[place])]
        begin, end = first - own_col[place], stop - own_col[place]
        each = np.arange(row.size)
        east = own[each, np.maximum(begin, 0)] - own[each, np.maximum(end, 0)]
        west = own[each, np.maximum(1 - end, 1)] - own[each, np.maximum(1 - begin, 1)]
        up_to = np.concatenate([[0.0], np.cumsum(east + west)])
        entries[place] = np.diff(up_to[offsets])
    return entries
