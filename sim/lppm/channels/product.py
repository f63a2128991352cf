"""Channels on a grid that are products of a row and a column channel, among them the exponential mechanism."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sim.inference.bayes import read_only
from sim.inference.compact_rows import CompactRow
from sim.inference.dense import require_dense
from sim.inference.exponential_kernel import ExponentialKernel
from sim.inference.source_sets import single, source_set
from sim.interfaces import FloatArray, Generator, IntArray
from sim.lppm.channels.base import possible_outputs, table_or_identity
from sim.lppm.channels.sampling import Cumulative, draw
from sim.lppm.estimates import column_product, estimates_from, estimates_product, row_product
from sim.lppm.remap import columns_product, loss_matrix, loss_product, remap_matrix, remap_product
from sim.world.distance import Distance
from sim.world.distances.manhattan import ManhattanDistance

MATRIX_CELLS = 1_500
"""Largest number of cells for which matrices and products of kernels are used where they are faster."""


class ProductChannel:
    """A channel on a full grid that is the product of a row and a column channel: f = A[xr, zr] B[xc, zc].

    `rows` (A) and `cols` (B) are square matrices whose rows sum to 1. The n x n matrix is built only when `matrix` or
    `likelihoods` is called.
    """

    def __init__(self, rows: FloatArray, cols: FloatArray) -> None:
        self._rows, self._cols = read_only(rows), read_only(cols)
        self._shape = (len(rows), len(cols))
        self.n_cells = self.n_outputs = len(rows) * len(cols)

    @property
    def factors(self) -> tuple[FloatArray, FloatArray]:
        """Return A and B."""
        return self._rows, self._cols

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output: first its row, then its column."""
        cols = self._shape[1]
        row, col = divmod(cell, cols)
        rows_up_to, cols_up_to = self._cumulative
        return draw(rows_up_to[row], rng) * cols + draw(cols_up_to[col], rng)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        row, col = divmod(output, self._shape[1])
        return np.outer(self._rows[:, row], self._cols[:, col]).ravel()

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        row, col = divmod(cell, self._shape[1])
        return np.asarray(np.multiply.outer(self._rows[row], self._cols[col])).ravel()

    def matrix(self) -> FloatArray:
        """Return f(z | x) as a read-only matrix [cell, output], shape (n_cells, n_outputs)."""
        return self._matrix

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(z | .) of each, shape (k, n_cells)."""
        return possible_outputs(self._matrix)

    def columns(self, table: IntArray, outputs: IntArray) -> FloatArray:
        """Return f(z | .) of the given outputs if all outputs pass through a table."""
        return columns_product(self._rows, self._cols, table, outputs)

    def compact_through(self, table: IntArray, output: int) -> CompactRow | None:  # noqa: ARG002
        """Return None: arbitrary kernels have no compact form."""
        return None

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior."""
        if distance.shape != self._shape:
            return remap_matrix(self._matrix, prior, distance)
        return remap_product(self._rows, self._cols, prior)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        table = table_or_identity(table, self)
        if distance.shape != self._shape:
            return loss_matrix(self._matrix, prior, distance, table)
        return loss_product(self._rows, self._cols, prior, distance, table)

    def estimates(self, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output: see `ChannelCapabilities.estimates`."""
        estimates = self.estimates_through(np.arange(self.n_cells), prior, distance)
        return estimates_from(self.likelihoods(), self.n_outputs, prior, distance) if estimates is None else estimates

    def estimates_through(
        self, table: IntArray, prior: FloatArray, distance: Distance, reveal: float = 0.0
    ) -> tuple[IntArray, int] | None:
        """Return the estimate for each output if all outputs pass through a table; None for another distance."""
        if distance.shape != self._shape:
            return None
        return estimates_product(self._rows, self._cols, table, prior, distance, reveal)

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return row_product(self._rows, self._cols, table, cell)

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return column_product(self._rows, self._cols, table, output)

    @cached_property
    def _cumulative(self) -> tuple[Cumulative, Cumulative]:
        return Cumulative(self._rows), Cumulative(self._cols)

    @cached_property
    def _matrix(self) -> FloatArray:
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        return read_only(np.asarray(np.kron(self._rows, self._cols), dtype=np.float64))


class ExponentialChannel(ProductChannel):
    """The exponential mechanism f(z | x) ∝ exp(-epsilon d(x, z)) on a full grid with the Manhattan distance.

    The normalised kernel is a product of row and column kernels, and recursive filters compute remap, likelihoods and
    loss in O(n_cells): see `sim.inference.exponential_kernel`. `epsilon_per_km` is in [0, inf). For other distances see
    `exponential`.
    """

    def __init__(self, *, distance: Distance, epsilon_per_km: float) -> None:
        row_km, col_km = distance.axes_km
        assert isinstance(distance, ManhattanDistance)
        self.epsilon_per_km = epsilon_per_km
        super().__init__(exponential_kernel(row_km, epsilon_per_km), exponential_kernel(col_km, epsilon_per_km))
        self.kernel = ExponentialKernel(row_km=distance.row_y_km, col_km=distance.col_x_km, rate_per_km=epsilon_per_km)

    def compact_likelihood(self, output: int) -> CompactRow:
        """Return f(z | .) in compact form."""
        return CompactRow(self.kernel, single(output))

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        if self.n_cells <= MATRIX_CELLS:  # sums over the product of kernels are faster there
            return super().column_through(table, output)
        return self.kernel.apply((table == output).astype(np.float64))

    def compact_through(self, table: IntArray, output: int) -> CompactRow:
        """Return f(z | .) in compact form if all outputs pass through a table."""
        return CompactRow(self.kernel, source_set(table == output, self._shape[1]))

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior."""
        if distance.shape != self._shape or prior.size != self.n_cells:
            return super().remap(prior, distance)
        return self.kernel.remap(prior)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        if not isinstance(distance, ManhattanDistance) or distance.shape != self._shape:
            return super().loss_km(prior, distance, table)
        return self.kernel.loss_km(prior, table_or_identity(table, self), distance.row_y_km, distance.col_x_km)


def exponential_kernel(distance_km: FloatArray, epsilon_per_km: float) -> FloatArray:
    """Return exp(-epsilon d[x, z]) with each row normalised to sum 1."""
    if not 0 <= epsilon_per_km < np.inf:
        raise ValueError(f"epsilon_per_km must be in [0, inf), got {epsilon_per_km}")
    weights = np.exp(-epsilon_per_km * distance_km)
    normalised: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return normalised
