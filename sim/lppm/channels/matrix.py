"""A channel given as a matrix."""

from __future__ import annotations

from functools import cached_property

from sim.inference.bayes import distribution, read_only
from sim.interfaces import FloatArray, Generator, IntArray
from sim.lppm.channels.base import column_through, possible_outputs, row_through, table_or_identity
from sim.lppm.channels.sampling import Cumulative, draw
from sim.lppm.remap import columns_matrix, loss_matrix, remap_matrix
from sim.world.distance import Distance


class MatrixChannel:
    """A channel given as a matrix [cell, output] with entries in [0, 1] and rows that sum to 1.

    >>> import numpy as np
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
        return possible_outputs(self._matrix)

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
        return loss_matrix(self._matrix, prior, distance, table_or_identity(table, self))

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance, reveal: float = 0.0) -> None:
        """Return None: the matrix has no structure that would be faster than likelihoods."""

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return row_through(self, table, cell)

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return column_through(self, table, output)

    @cached_property
    def _cumulative(self) -> Cumulative:
        return Cumulative(self._matrix)
