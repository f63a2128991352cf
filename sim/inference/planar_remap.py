"""The remap of an exponential kernel under the Euclidean distance, for single outputs: no table of all outputs.

An output z~ is replaced by the cell with the smallest expected distance under its posterior,

    t(z~) = argmin_y g(y),    g(y) = sum_x q(x) k(x - z~) |x - y|,    q(x) = prior(x) / norm(x).

The probability of a report z needs the outputs that become z. `PlanarRemap.sources` tests all outputs together, for
this one cell: by convexity, z is the best cell for an output if it is better than the cells around it (see
`sim.inference.local_optimum`), and it is the best point of the whole plane if the posterior weight of z itself is at
least the slope of the other terms. The sums for all outputs are convolutions. Outputs for which their rounding error
leaves the answer open are summed directly, and the few with ties or without proof are remapped themselves.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sim.inference import kernels
from sim.inference.local_optimum import CENTRE, NO, SIZE, UNKNOWN, YES, lowest
from sim.inference.planar_kernel import PlanarKernel
from sim.inference.ties import MASS_FLOOR, TIE
from sim.interfaces import BoolArray, FloatArray, IntArray

_SPARSE = 96
"""Largest number of cells with weight for which direct sums are faster than convolutions."""
_MANY = 100
"""Number of open outputs above which further convolutions are faster than direct sums."""
_MARGIN = 3 * TIE
"""Costs closer than this share of the longest distance are left to the exact search, which breaks ties."""
_AXES = ((0, 1), (0, -1), (1, 0), (-1, 0))
_BLOCK = 2**22  # size of temporary arrays in plain NumPy


class PlanarRemap:
    """The remap of a kernel under a prior.

    `best_cell` returns the optimal estimate of weights over cells, or -1 without mass; `longest_km` is the longest
    distance, the scale of its ties.
    """

    def __init__(
        self, kernel: PlanarKernel, prior: FloatArray, *, best_cell: Callable[[FloatArray], int], longest_km: float
    ) -> None:
        self._kernel, self._grid = kernel, kernel.grid
        self._best_cell = best_cell
        self._margin_km = _MARGIN * longest_km
        self._weights = np.ascontiguousarray(prior / kernel.norm)
        self._support = np.flatnonzero(self._weights)
        self._total: FloatArray | None = None
        self._cells: dict[int, int] = {}
        self.searched = 0
        """Number of outputs that were remapped by search so far."""

    def cell(self, output: int) -> int:
        """Return the cell that replaces an output. An output without posterior mass stays unchanged."""
        cell = self._cells.get(output)
        if cell is None:
            weights = self._weights * self._grid.around(self._kernel.decay, output).ravel()
            cell = self._best_cell(weights)
            cell = self._cells[output] = output if cell < 0 else cell
            self.searched += 1
        return cell

    def sources(self, cell: int) -> BoolArray:
        """Return which outputs become this cell, shape (n_cells,)."""
        answers = np.full(self._grid.n_cells, UNKNOWN)
        if self._support.size > _SPARSE:
            self._by_convolution(answers, cell)
        for decide in (self._directly, self._by_search):
            still_open = np.flatnonzero(answers == UNKNOWN)
            if still_open.size:
                answers[still_open] = decide(still_open, cell)
        return np.asarray(answers == YES)

    def _by_convolution(self, answers: IntArray, cell: int) -> None:
        """Fill in the answers that convolutions prove."""
        grid = self._grid
        margin = self._margin_km * self._totals()
        slopes, errors = self._sums(np.array(self._towards(cell)))
        own = self._weights[cell] * grid.around(self._kernel.decay, cell).ravel()
        lead = own - np.hypot(*slopes) - np.hypot(*errors)
        answers[lead * grid.least_step_km > margin] = YES
        steps = [step for step in _AXES if self._inside(cell, *step)]
        for step in steps:
            gain, error = self._sums(self._closer(cell, *step))
            answers[gain > margin + error] = NO
        still_open = np.flatnonzero(answers == UNKNOWN)
        if still_open.size > _MANY:
            answers[still_open] = self._in_square(still_open, cell, margin[still_open])

    def _in_square(self, outputs: IntArray, cell: int, margin: FloatArray) -> IntArray:
        """Return the answers that the costs of all cells around the cell prove, by convolutions."""
        costs = np.full((outputs.size, SIZE, SIZE), np.inf)
        costs[:, CENTRE, CENTRE] = 0.0
        error = 0.0
        for row in range(-CENTRE, CENTRE + 1):
            cols = [col for col in range(-CENTRE, CENTRE + 1) if self._inside(cell, row, col)]
            if cols:
                gains, errors = self._sums(np.array([self._closer(cell, row, col) for col in cols]))
                costs[:, row + CENTRE, np.array(cols) + CENTRE] = -gains[:, outputs].T
                error = max(error, float(errors.max()))
        return lowest(costs, margin + 4 * error)  # a bound between cells combines up to four costs

    def _directly(self, outputs: IntArray, cell: int) -> IntArray:
        """Return the answers that direct sums prove, for some outputs."""
        row, col = self._grid.split(self._support)
        toward_x, toward_y = (np.ascontiguousarray(part[self._support]) for part in self._unit(cell))
        arguments = (row, col, self._weights[self._support], toward_x, toward_y)
        tables = (self._kernel.decay, self._grid.away_km)
        limits = (self._margin_km, self._grid.least_step_km)
        if (fast := kernels.compiled()) is not None:
            row, col = row.astype(np.int32), col.astype(np.int32)
            own = (outputs.astype(np.int32), cell, row, col, *arguments[2:])
            return np.asarray(fast.planar_membership(*own, *tables, self._grid.offset_km, *limits))
        block = max(1, _BLOCK // max(1, self._support.size))
        parts = [
            _membership(outputs[start : start + block], cell, *arguments, *tables, *limits)
            for start in range(0, outputs.size, block)
        ]
        return np.concatenate(parts)

    def _by_search(self, outputs: IntArray, cell: int) -> IntArray:
        return np.array([YES if self.cell(output) == cell else NO for output in outputs.tolist()])

    def _sums(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sums of weights times the kernel for all outputs, and bounds of their errors."""
        convolution = self._kernel.convolution
        return convolution(weights), convolution.error(weights)

    def _totals(self) -> FloatArray:
        """Return upper bounds of the total posterior weights of all outputs, before normalisation."""
        if self._total is None:
            sums, error = self._sums(self._weights)
            self._total = sums + error
        return self._total

    def _unit(self, cell: int) -> tuple[FloatArray, FloatArray]:
        """Return the unit vectors from all cells to one, in x and y; zero for the cell itself."""
        grid = self._grid
        row, col = grid.split(np.arange(grid.n_cells))
        away_km = grid.row_km(cell)
        away_km[cell] = np.inf
        east_km, north_km = (cell % grid.cols - col) * grid.col_step_km, (cell // grid.cols - row) * grid.row_step_km
        return east_km / away_km, north_km / away_km

    def _towards(self, cell: int) -> tuple[FloatArray, FloatArray]:
        toward_x, toward_y = self._unit(cell)
        return self._weights * toward_x, self._weights * toward_y

    def _closer(self, cell: int, north: int, east: int) -> FloatArray:
        """Return the weights times the difference of the distances to the cell and to a cell next to it."""
        other = cell + north * self._grid.cols + east
        return np.asarray(self._weights * (self._grid.row_km(cell) - self._grid.row_km(other)))

    def _inside(self, cell: int, north: int, east: int) -> bool:
        """Return whether another cell at this offset exists."""
        row, col = divmod(cell, self._grid.cols)
        inside = 0 <= row + north < self._grid.rows and 0 <= col + east < self._grid.cols
        return inside and (north, east) != (0, 0)


def _membership(
    outputs: IntArray,
    cell: int,
    row: IntArray,
    col: IntArray,
    weights: FloatArray,
    toward_x: FloatArray,
    toward_y: FloatArray,
    decay: FloatArray,
    away_km: FloatArray,
    margin_km: float,
    least_step_km: float,
) -> IntArray:
    """Return whether each output becomes a cell, as far as direct sums prove it.

    The cells with `weights` are at `row` and `col`; `toward_x` and `toward_y` point from them to the cell. `decay` and
    `away_km` are the kernel and the distance by absolute offset.
    """
    rows, cols = decay.shape
    at_row, at_col = divmod(cell, cols)
    out_row, out_col = np.divmod(outputs, cols)
    own_weights = weights * decay[np.abs(out_row[:, None] - row), np.abs(out_col[:, None] - col)]
    total = own_weights.sum(axis=1)
    margin = margin_km * total
    costs = np.full((outputs.size, SIZE, SIZE), np.inf)
    for i in range(SIZE):
        for j in range(SIZE):
            to_row, to_col = at_row + i - CENTRE, at_col + j - CENTRE
            if 0 <= to_row < rows and 0 <= to_col < cols:
                costs[:, i, j] = own_weights @ away_km[np.abs(row - to_row), np.abs(col - to_col)]
    answers = lowest(costs, margin)
    own = own_weights[:, (row == at_row) & (col == at_col)].sum(axis=1)
    lead = own - np.hypot(own_weights @ toward_x, own_weights @ toward_y)
    answers[lead * least_step_km > margin] = YES
    answers[~(total > MASS_FLOOR)] = NO
    answers[~(total > MASS_FLOOR) & (outputs == cell)] = YES
    return answers
