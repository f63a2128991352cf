"""A channel without randomness: every cell has one output."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sim.inference.bayes import read_only
from sim.inference.dense import require_dense
from sim.interfaces import FloatArray, Generator, IntArray, OutputSpace


class TableChannel:
    """A channel given as a table from cells to outputs; takes memory for one integer per cell.

    `loss_of_km(cell, output)` is the quality loss in km of an output.
    """

    countless = False

    def __init__(
        self, table: IntArray, *, n_outputs: int, space: OutputSpace, loss_km: Callable[[int, int], float]
    ) -> None:
        if table.size and not 0 <= table.min() <= table.max() < n_outputs:
            raise ValueError(f"outputs must be in [0, {n_outputs}), got {table.min()} to {table.max()}")
        self._table: IntArray = read_only(np.array(table, dtype=np.int64))
        self.n_cells, self.n_outputs = self._table.size, n_outputs
        self.space = space
        self._loss_km = loss_km

    def sample(self, cell: int, rng: Generator) -> int:  # noqa: ARG002
        """Return the output of a cell."""
        return int(self._table[cell])

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        return np.asarray(self._table == output, dtype=np.float64)

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        row = np.zeros(self.n_outputs)
        row[self._table[cell]] = 1.0
        return row

    def matrix(self) -> FloatArray:
        """Return f(z | x) as a matrix [cell, output], shape (n_cells, n_outputs)."""
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        return np.asarray(self._table[:, None] == np.arange(self.n_outputs), dtype=np.float64)

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(z | .) of each, shape (k, n_cells)."""
        possible = np.unique(self._table)
        return possible, (possible[:, None] == self._table).astype(np.float64)

    def only_cells(self) -> IntArray:
        """Return the only cell in which each output is possible, or -1 if there may be others."""
        counts = np.bincount(self._table, minlength=self.n_outputs)
        only = np.full(self.n_outputs, -1, dtype=np.int64)
        alone = counts[self._table] == 1
        only[self._table[alone]] = np.flatnonzero(alone)
        return only

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return the loss in km of an output in a cell."""
        return self._loss_km(cell, output)

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the loss in km of the output of a cell."""
        return self._loss_km(cell, int(self._table[cell]))
