"""Channels: the obfuscation probabilities f(z | x) in force at one query, with sampling, likelihoods and remapping.

Base channels do not depend on a prior. `RemappedChannel` passes the outputs of a base channel through a table that was
computed for a prior.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sim.inference.bayes import distribution, read_only
from sim.inference.compact_rows import CompactRow, IdentityKernel
from sim.inference.dense import require_dense
from sim.inference.exponential_kernel import ExponentialKernel
from sim.inference.source_sets import single, source_set
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.estimates import column_product, estimates_from, estimates_hiding, estimates_product, row_product
from sim.lppm.remap import (
    columns_hiding,
    columns_matrix,
    columns_product,
    loss_hiding,
    loss_matrix,
    loss_product,
    remap_hiding,
    remap_matrix,
    remap_product,
)
from sim.world.distance import Distance
from sim.world.distances.euclidean import EuclideanDistance
from sim.world.distances.manhattan import ManhattanDistance

if TYPE_CHECKING:
    from sim.lppm.planar_channel import PlanarExponentialChannel

MATRIX_CELLS = 1_500
"""Largest number of cells for which matrices and products of kernels are used where they are faster."""


class BaseChannel(Channel, Protocol):
    """A channel that can be remapped."""

    @property
    def n_cells(self) -> int:
        """Return the number of cells, which are the inputs."""
        ...

    def columns(self, table: IntArray, outputs: IntArray) -> FloatArray:
        """Return f(z | .) of the given outputs if all outputs pass through a table, shape (k, n_cells)."""
        ...

    def compact_through(self, table: IntArray, output: int) -> CompactRow | None:
        """Return f(z | .) in compact form if all outputs pass through a table; None without such a form."""
        ...

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior, shape (n_outputs,)."""
        ...

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output, which first passes through the table if given."""
        ...

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance) -> tuple[IntArray, int] | None:
        """Return `ChannelCapabilities.estimates` if all outputs pass through a table; None: use likelihoods."""
        ...

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table, shape (n_outputs,)."""
        ...

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table, shape (n_cells,)."""
        ...


class MatrixChannel:
    """A channel given as a matrix [cell, output] with entries in [0, 1] and rows that sum to 1.

    >>> MatrixChannel(np.array([[1.0, 0.0], [0.5, 0.5]])).likelihood(1)
    array([0. , 0.5])
    """

    def __init__(self, matrix: FloatArray) -> None:
        entries = distribution(matrix, "matrix")
        if entries.ndim != 2:
            raise ValueError(f"matrix must have shape (n_cells, n_outputs), got {entries.shape}")
        self._matrix: FloatArray = read_only(entries / entries.sum(axis=1, keepdims=True))
        self.n_cells, self.n_outputs = self._matrix.shape

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        return draw(self._cumulative[cell], rng)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        return self._matrix[:, output].copy()

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x), read-only."""
        row: FloatArray = self._matrix[cell]
        return row

    def matrix(self) -> FloatArray:
        """Return f(z | x) as a read-only matrix [cell, output], shape (n_cells, n_outputs)."""
        return self._matrix

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(z | .) of each, shape (k, n_cells)."""
        return _possible(self._matrix)

    def columns(self, table: IntArray, outputs: IntArray) -> FloatArray:
        """Return f(z | .) of the given outputs if all outputs pass through a table."""
        return columns_matrix(self._matrix, table, outputs)

    def compact_through(self, table: IntArray, output: int) -> None:
        """Return None: a matrix has no compact form."""

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior."""
        return remap_matrix(self._matrix, prior, distance)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        return loss_matrix(self._matrix, prior, distance, _table_or_identity(table, self))

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance) -> None:
        """Return None: the matrix has no structure that would be faster than likelihoods."""

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return _row_through(self, table, cell)

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return _column_through(self, table, output)

    @cached_property
    def _cumulative(self) -> _Cumulative:
        return _Cumulative(self._matrix)


class ProductChannel:
    """A channel on a full grid that is the product of a row and a column channel: f = A[xr, zr] B[xc, zc].

    `rows` (A) and `cols` (B) are square matrices whose rows sum to 1. The n x n matrix is built only when `matrix` or
    `likelihoods` is called.
    """

    def __init__(self, rows: FloatArray, cols: FloatArray) -> None:
        self._rows, self._cols = read_only(rows), read_only(cols)
        self._shape = (len(rows), len(cols))
        self.n_cells = self.n_outputs = len(rows) * len(cols)

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
        return _possible(self._matrix)

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
        table = _table_or_identity(table, self)
        if distance.shape != self._shape:
            return loss_matrix(self._matrix, prior, distance, table)
        return loss_product(self._rows, self._cols, prior, distance, table)

    def estimates(self, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output: see `ChannelCapabilities.estimates`."""
        estimates = self.estimates_through(np.arange(self.n_cells), prior, distance)
        return estimates_from(self.likelihoods(), self.n_outputs, prior, distance) if estimates is None else estimates

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance) -> tuple[IntArray, int] | None:
        """Return the estimate for each output if all outputs pass through a table; None for another distance."""
        if distance.shape != self._shape:
            return None
        return estimates_product(self._rows, self._cols, table, prior, distance)

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return row_product(self._rows, self._cols, table, cell)

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return column_product(self._rows, self._cols, table, output)

    @cached_property
    def _cumulative(self) -> tuple[_Cumulative, _Cumulative]:
        return _Cumulative(self._rows), _Cumulative(self._cols)

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
        return self.kernel.loss_km(prior, _table_or_identity(table, self), distance.row_y_km, distance.col_x_km)


class LocationHidingChannel:
    """Reveal the true cell with probability alpha in [0, 1], otherwise report another cell drawn uniformly.

    Each other cell has probability (1 - alpha) / (n - 1). On a grid of one cell, that cell is reported.
    """

    def __init__(self, *, n_cells: int, reveal_probability: float) -> None:
        if n_cells < 1:
            raise ValueError(f"n_cells must be in [1, inf), got {n_cells}")
        if not 0 <= reveal_probability <= 1:
            raise ValueError(f"reveal_probability must be in [0, 1], got {reveal_probability}")
        self.n_cells = self.n_outputs = n_cells
        self.reveal_probability = float(reveal_probability) if n_cells > 1 else 1.0
        self.other_probability = (1 - self.reveal_probability) / max(n_cells - 1, 1)

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output from one uniform random number."""
        uniform = rng.random()
        if uniform < self.reveal_probability:
            return cell
        share = (uniform - self.reveal_probability) / (1 - self.reveal_probability)
        other = min(int(share * (self.n_cells - 1)), self.n_cells - 2)
        return other + (other >= cell)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        column = np.full(self.n_cells, self.other_probability)
        column[output] = self.reveal_probability
        return column

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x), which equals f(x | .) because the matrix is symmetric."""
        return self.likelihood(cell)

    def matrix(self) -> FloatArray:
        """Return f."""
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        entries = np.full((self.n_cells, self.n_cells), self.other_probability)
        np.fill_diagonal(entries, self.reveal_probability)
        return entries

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(z | .) of each, shape (k, n_cells)."""
        return _possible(self.matrix())

    def compact_likelihood(self, output: int) -> CompactRow:
        """Return f(z | .) in compact form."""
        gain = self.reveal_probability - self.other_probability
        return CompactRow(_HIDING_KERNEL, single(output), gain, self.other_probability)

    def columns(self, table: IntArray, outputs: IntArray) -> FloatArray:
        """Return f(z | .) of the given outputs if all outputs pass through a table."""
        return columns_hiding(self.reveal_probability, self.other_probability, table, outputs)

    def compact_through(self, table: IntArray, output: int) -> CompactRow:
        """Return f(z | .) in compact form if all outputs pass through a table."""
        members = table == output
        count = np.count_nonzero(members)
        inside = self.reveal_probability + (count - 1) * self.other_probability
        outside = count * self.other_probability
        if 2 * count > members.size:  # the complement is the smaller set
            members, inside, outside = ~members, outside, inside
        return CompactRow(_HIDING_KERNEL, source_set(members, members.size), inside - outside, outside)

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior."""
        return remap_hiding(self.reveal_probability, self.other_probability, prior, distance)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        table = _table_or_identity(table, self)
        return loss_hiding(self.reveal_probability, self.other_probability, prior, distance, table)

    def estimates(self, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output: see `ChannelCapabilities.estimates`."""
        return self.estimates_through(np.arange(self.n_cells), prior, distance)

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output if all outputs pass through a table."""
        return estimates_hiding(self.reveal_probability, self.other_probability, table, prior, distance)

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return _row_through(self, table, cell)

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return _column_through(self, table, output)


class RemappedChannel:
    """A base channel whose outputs pass through a table of cells: f(z | x) sums f~(z~ | x) over table[z~] = z."""

    def __init__(self, base: BaseChannel, table: IntArray) -> None:
        if table.shape != (base.n_outputs,):
            raise ValueError(f"table must have shape ({base.n_outputs},), got {table.shape}")
        self.table = read_only(np.array(table, dtype=np.int64))
        if self.table.view(np.uint64).max() >= base.n_cells:  # unsigned: one comparison covers negative entries too
            raise ValueError(f"table must be in [0, {base.n_cells - 1}], got {table.min()} to {table.max()}")
        self.base = base
        self.n_cells = self.n_outputs = base.n_cells
        self._likelihoods: dict[int, FloatArray] = {}

    @classmethod
    def optimal(cls, base: BaseChannel, prior: FloatArray, distance: Distance) -> RemappedChannel:
        """Return the channel with the optimal remap under a prior, whose table needs no check."""
        channel = cls.__new__(cls)
        channel.table = read_only(base.remap(prior, distance))
        channel.base = base
        channel.n_cells = channel.n_outputs = base.n_cells
        channel._likelihoods = {}
        return channel

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        return self.table.item(self.base.sample(cell, rng))

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .), read-only; it is cached because the channel of a fixed belief serves many queries."""
        likelihood = self._likelihoods.get(output)
        if likelihood is None:
            likelihood = self._likelihoods[output] = read_only(self.base.column_through(self.table, output))
            while len(self._likelihoods) > 1 and len(self._likelihoods) * likelihood.nbytes > _LIKELIHOODS_BYTES:
                del self._likelihoods[next(iter(self._likelihoods))]
        return likelihood

    def compact_likelihood(self, output: int) -> CompactRow | None:
        """Return f(z | .) in compact form; None without such a form."""
        return self.base.compact_through(self.table, output)

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        return self.base.row_through(self.table, cell)

    def estimates(self, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output: see `ChannelCapabilities.estimates`."""
        estimates = self.base.estimates_through(self.table, prior, distance)
        return estimates_from(self.likelihoods(), self.n_outputs, prior, distance) if estimates is None else estimates

    def matrix(self) -> FloatArray:
        """Return f."""
        outputs, rows = self.likelihoods()
        entries = np.zeros((self.n_cells, self.n_outputs))
        entries[:, outputs] = rows.T
        return entries

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(z | .) of each, read-only; cached for recently used channels."""
        likelihoods = _LIKELIHOODS.get(self)
        if likelihoods is None:
            likelihoods = _LIKELIHOODS[self] = self._possible()
            while len(_LIKELIHOODS) > 1 and len(_LIKELIHOODS) * likelihoods[1].nbytes > _LIKELIHOODS_BYTES:
                del _LIKELIHOODS[next(iter(_LIKELIHOODS))]
        return likelihoods

    def _possible(self) -> tuple[IntArray, FloatArray]:
        outputs = np.flatnonzero(np.bincount(self.table, minlength=self.n_outputs))
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        rows = self.base.columns(self.table, outputs)
        possible = rows @ np.ones(self.n_cells) > 0  # a matrix product is three times as fast as `any`
        return (outputs, read_only(rows)) if possible.all() else (outputs[possible], read_only(rows[possible]))

    def columns(self, table: IntArray, outputs: IntArray) -> FloatArray:
        """Return f(z | .) of the given outputs if all outputs also pass through another table."""
        return self.base.columns(table[self.table], outputs)

    def compact_through(self, table: IntArray, output: int) -> CompactRow | None:
        """Return f(z | .) in compact form if all outputs also pass through another table."""
        return self.base.compact_through(table[self.table], output)

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior."""
        return remap_matrix(self.matrix(), prior, distance)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        return self.base.loss_km(prior, distance, self.table if table is None else table[self.table])

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance) -> tuple[IntArray, int] | None:
        """Return the estimate for each output if all outputs also pass through another table."""
        return self.base.estimates_through(table[self.table], prior, distance)

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs also pass through another table."""
        return self.base.row_through(table[self.table], cell)

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs also pass through another table."""
        return self.base.column_through(table[self.table], output)


_LIKELIHOODS: dict[RemappedChannel, tuple[IntArray, FloatArray]] = {}
"""Cache of the likelihoods of recently used channels, which several attacks use one after another.

Those of a large population would not fit into memory. Weak references are avoided: an interrupt during their clean-up
would be lost.
"""

_LIKELIHOODS_BYTES = 2**24


def exponential(
    distance: Distance, epsilon_per_km: float
) -> ExponentialChannel | MatrixChannel | PlanarExponentialChannel:
    """Return the exponential mechanism for any distance, without a matrix if the distance allows it."""
    if isinstance(distance, ManhattanDistance):
        return ExponentialChannel(distance=distance, epsilon_per_km=epsilon_per_km)
    if isinstance(distance, EuclideanDistance) and distance.planar is not None and distance.n_cells > MATRIX_CELLS:
        from sim.lppm.planar_channel import PlanarExponentialChannel  # which imports this module

        return PlanarExponentialChannel(distance.planar, epsilon_per_km=epsilon_per_km)
    return MatrixChannel(exponential_kernel(distance.matrix_km, epsilon_per_km))


def location_hiding(n_cells: int, reveal_probability: float) -> LocationHidingChannel:
    """Return the location hiding channel."""
    return LocationHidingChannel(n_cells=n_cells, reveal_probability=reveal_probability)


def identity(n_cells: int) -> LocationHidingChannel:
    """Return the channel that reports the true cell.

    >>> identity(3).row(1)
    array([0., 1., 0.])
    """
    return LocationHidingChannel(n_cells=n_cells, reveal_probability=1.0)


def exponential_kernel(distance_km: FloatArray, epsilon_per_km: float) -> FloatArray:
    """Return exp(-epsilon d[x, z]) with each row normalised to sum 1."""
    if not 0 <= epsilon_per_km < np.inf:
        raise ValueError(f"epsilon_per_km must be in [0, inf), got {epsilon_per_km}")
    weights = np.exp(-epsilon_per_km * distance_km)
    normalised: FloatArray = weights / weights.sum(axis=1, keepdims=True)
    return normalised


def draw(cumulative: Sequence[float], rng: Generator) -> int:
    """Draw an index from cumulative weights; an index of weight 0 is never drawn."""
    total = cumulative[-1]
    index = bisect_right(cumulative, rng.random() * total)
    if index < len(cumulative):
        return index
    return bisect_left(cumulative, total)  # the product was rounded up to the total


class _Cumulative(dict[int, "array[float]"]):
    """Cumulative sums of the rows of a matrix, computed when a row is first sampled.

    For single draws, arrays of the standard library are faster than NumPy arrays.
    """

    def __init__(self, matrix: FloatArray) -> None:
        super().__init__()
        self._matrix = matrix

    def __missing__(self, row: int) -> array[float]:
        sums = self[row] = array("d", self._matrix[row].cumsum().tobytes())
        return sums


_HIDING_KERNEL = IdentityKernel()
"""Kernel of all location hiding channels, which thereby share a family of rows."""


def _possible(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    outputs = np.flatnonzero(matrix.any(axis=0))
    return outputs, matrix.T[outputs]


def _row_through(base: BaseChannel, table: IntArray, cell: int) -> FloatArray:
    sums = np.bincount(table, weights=base.row(cell), minlength=base.n_cells)
    return sums.astype(np.float64, copy=False)


def _column_through(base: BaseChannel, table: IntArray, output: int) -> FloatArray:
    column: FloatArray = base.columns(table, np.array([output], dtype=np.int64))[0]
    return column


def _table_or_identity(table: IntArray | None, channel: BaseChannel) -> IntArray:
    return np.arange(channel.n_outputs) if table is None else table
