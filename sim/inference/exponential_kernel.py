"""The exponential kernel exp(-rate (|dx| + |dy|)) on a grid, by recursive filters.

Along an axis the kernel is a product of factors between neighbours, exp(-rate |a - c|) = exp(-rate |a - b|)
exp(-rate |b - c|). A sum over all cells is therefore two passes, one in each direction, and costs O(n) for any rate.
All terms are positive, so the passes lose no relative precision.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import read_only
from sim.inference.source_sets import SourceSets, scatter
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray


class ExponentialKernel:
    """Conditional probabilities f(z | x) ∝ exp(-rate d(x, z)) under the Manhattan distance on a grid.

    `row_km` and `col_km` are the ascending positions of rows and columns, `rate_per_km` is in [0, inf).
    """

    def __init__(self, *, row_km: FloatArray, col_km: FloatArray, rate_per_km: float) -> None:
        self.shape = (row_km.size, col_km.size)
        self.rate_per_km = rate_per_km
        self._decay = tuple(read_only(np.exp(-rate_per_km * np.diff(at_km))) for at_km in (row_km, col_km))
        self._between = tuple(
            read_only(np.exp(-rate_per_km * np.abs(at_km - at_km[:, None]))) for at_km in (row_km, col_km)
        )
        norms = [between.sum(axis=1) for between in self._between]
        self._scale = read_only(1.0 / np.multiply.outer(norms[0], norms[1]))

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        return self.shape[0] * self.shape[1]

    def apply(self, image: FloatArray) -> FloatArray:
        """Return sum_z f(z | x) image(z) for every cell x, shape (n_cells,)."""
        return np.asarray(self._scale * smooth(image.reshape(self.shape), *self._decay)).ravel()

    def adjoint(self, weights: FloatArray) -> FloatArray:
        """Return sum_x weights(x) f(z | x) for every cell z, shape (n_cells,)."""
        return smooth(self._scale * weights.reshape(self.shape), *self._decay).ravel()

    def column(self, sources: SourceSets, n_cells: int) -> FloatArray:
        """Return the sum of f(z | .) over one set of outputs z, shape (n_cells,)."""
        return self.apply(scatter(np.ones(1), sources, n_cells))

    def remap(self, prior: FloatArray) -> IntArray:
        """Return the optimal cell under the Manhattan distance for each output, shape (n_cells,)."""
        weights = self._scale * prior.reshape(self.shape)
        return remap_exponential(weights, *self._decay, *self._between)

    def loss_km(self, prior: FloatArray, table: IntArray, row_km: FloatArray, col_km: FloatArray) -> float:
        """Return the expected Manhattan distance between a cell and its output, which passes through a table of cells.

        `row_km` and `col_km` are the positions of rows and columns in which the distance is measured.
        """
        weights = self._scale * prior.reshape(self.shape)
        row, col = np.divmod(table.reshape(self.shape), self.shape[1])
        (row_decay, col_decay), (row_between, col_between) = self._decay, self._between
        by_row = _distance_sums(weights, col_decay, row, row_decay, row_between, row_km)
        by_col = _distance_sums(weights.T, row_decay, col.T, col_decay, col_between, col_km)
        return float(by_row.sum() + by_col.sum())

    def entries(self, cells: IntArray, sets: SourceSets) -> FloatArray:
        """Return the sum of f(z | x) over each set of outputs z, for some cells x, shape (cells.size, sets.count)."""
        scale = self._scale.ravel()[cells, None]
        if (fast := kernels.compiled()) is not None:
            row_between, col_between = self._between
            arguments = (cells.astype(np.int32), *sets, row_between, col_between, *self._one_sided)
            return np.asarray(scale * fast.run_entries(*arguments))
        rows = [self._entries_of(int(cell), sets) for cell in cells]
        return np.asarray(scale * np.array(rows).reshape(cells.size, sets.count))

    def _entries_of(self, cell: int, sets: SourceSets) -> FloatArray:
        cols = self.shape[1]
        row_between, col_between = self._between
        in_row, in_col = row_between[cell // cols], col_between[cell % cols]
        runs = np.array(
            [
                in_row[first // cols] * in_col[first % cols : first % cols + stop - first].sum()
                for first, stop in zip(sets.first.tolist(), sets.stop.tolist(), strict=True)
            ]
        )
        return np.array([runs[a:b].sum() for a, b in zip(sets.offsets[:-1], sets.offsets[1:], strict=True)])

    @cached_property
    def _one_sided(self) -> tuple[FloatArray, FloatArray]:
        """Sums of the column kernel of each column over the columns up to it, and over those from it on."""
        between = self._between[1]
        return read_only(np.tril(between).sum(axis=1)), read_only(np.triu(between).sum(axis=1))


def smooth(image: FloatArray, row_decay: FloatArray, col_decay: FloatArray) -> FloatArray:
    """Return the sum over all cells of an image, weighted by the decay along both axes, shape (rows, cols).

    `row_decay` has the factor between each row and the next, shape (rows - 1,); `col_decay` that between columns.

    >>> smooth(np.array([[1.0, 0.0, 0.0]]), np.empty(0), np.array([0.5, 0.5]))
    array([[1.  , 0.5 , 0.25]])
    """
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.smooth(np.ascontiguousarray(image), row_decay, col_decay))
    return _along(_along(image.T, col_decay).T, row_decay)


def remap_exponential(
    weights: FloatArray, row_decay: FloatArray, col_decay: FloatArray, row_between: FloatArray, col_between: FloatArray
) -> IntArray:
    """Return the cell of the median row and the median column for each output of an exponential kernel.

    The weights of an output z are weights(x) decay(x, z), shape (rows, cols). An output without mass stays unchanged.
    `row_between` and `col_between` hold the decay between all rows and between all columns.

    >>> half, decay = np.array([0.5]), np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> remap_exponential(np.array([[0.1, 0.9]]), np.empty(0), half, np.ones((1, 1)), decay)
    array([1, 1])
    """
    if (fast := kernels.compiled()) is not None:
        table: IntArray = np.empty(weights.size, dtype=np.int64)
        fast.remap_exponential(np.ascontiguousarray(weights), row_decay, col_decay, row_between, col_between, table)
        return table
    row = _medians(_along(weights.T, col_decay).T, row_decay, row_between)
    col = _medians(_along(weights, row_decay).T, col_decay, col_between).T
    cells = np.arange(weights.size).reshape(weights.shape)
    return np.where((row < 0) | (col < 0), cells, row * weights.shape[1] + col).ravel()


def _one_way(image: FloatArray, decay: FloatArray) -> FloatArray:
    """Return the sums of an image over the rows up to each row, with decay."""
    sums = np.array(image, dtype=np.float64, order="C")
    for row in range(1, len(sums)):
        sums[row] += decay[row - 1] * sums[row - 1]
    return sums


def _along(image: FloatArray, decay: FloatArray) -> FloatArray:
    """Return the sums of an image over all rows, with decay, for each column."""
    sums, above = _one_way(image, decay), _one_way(image[::-1], decay[::-1])[::-1]
    sums[:-1] += decay[:, None] * above[1:]
    return sums


def _distance_sums(
    image: FloatArray, across: FloatArray, place: IntArray, decay: FloatArray, between: FloatArray, at_km: FloatArray
) -> FloatArray:
    """Return sum_x between(output, x) image(x) |at(x) - at(place)| for each output and column, in O(1) for each.

    The image is first summed over its columns with the decay `across`. `place` is the row to which the distance is
    measured, of the same shape as `image`. With the one-sided sums of
    weights and of weighted distances, the sum is that of the signed distances plus twice the part on the shorter side.
    """
    if (fast := kernels.compiled()) is not None:
        arrays = np.ascontiguousarray(image), across, np.ascontiguousarray(place)
        return np.asarray(fast.distance_sums(*arrays, decay, between, at_km))
    image = _along(image.T, across).T
    below, above = _one_way(image, decay), _one_way(image[::-1], decay[::-1])[::-1]
    steps_km = np.diff(at_km)[:, None]
    below_km, above_km = np.zeros_like(below), np.zeros_like(above)
    for row in range(1, len(image)):
        below_km[row] = decay[row - 1] * (below_km[row - 1] + steps_km[row - 1] * below[row - 1])
    for row in range(len(image) - 2, -1, -1):
        above_km[row] = decay[row] * (above_km[row + 1] + steps_km[row] * above[row + 1])
    total = below + above - image
    output = np.arange(len(image))[:, None]
    column = np.arange(image.shape[1])
    ahead_km = (at_km[:, None] - at_km[place]) * total + above_km - below_km  # signed, from place to x
    inner = between[output, place]
    one_sided_km = np.where(place <= output, below_km[place, column], above_km[place, column])
    return np.where(place <= output, ahead_km, -ahead_km) + 2 * inner * one_sided_km


def _medians(image: FloatArray, decay: FloatArray, between: FloatArray) -> IntArray:
    """Return the lower median row of the weights between(output, x) image(x) for each output and column, or -1."""
    below, above = _one_way(image, decay), _one_way(image[::-1], decay[::-1])[::-1]
    total = below.copy()
    total[:-1] += decay[:, None] * above[1:]
    medians = np.empty(image.shape, dtype=np.int64)
    for output in range(len(image)):
        reaches = np.empty(image.shape, dtype=np.bool_)
        reaches[:output] = between[output, :output, None] * below[:output] >= HALF * total[output]
        after = between[output, output + 1 :, None] * above[output + 1 :]
        reaches[output:-1] = after <= (1 - HALF) * total[output]
        reaches[-1] = True
        medians[output] = reaches.argmax(axis=0)
    return np.where(total > MASS_FLOOR, medians, -1)
