"""A channel that reports the same cell always."""

from __future__ import annotations

import numpy as np

from sim.inference.bayes import read_only
from sim.inference.compact_rows import IDENTITY_KERNEL, CompactRow
from sim.inference.dense import require_dense
from sim.inference.source_sets import single
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray, Generator, IntArray
from sim.world.distance import Distance


class ConstantChannel:
    """Report one cell, whatever the true cell is.

    >>> ConstantChannel(n_cells=3, output=1).row(0)
    array([0., 1., 0.])
    """

    def __init__(self, *, n_cells: int, output: int) -> None:
        if not 0 <= output < n_cells:
            raise ValueError(f"output must be in [0, {n_cells - 1}], got {output}")
        self.n_cells = self.n_outputs = n_cells
        self.output = output

    def sample(self, cell: int, rng: Generator) -> int:  # noqa: ARG002
        """Return the constant output."""
        return self.output

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        return np.full(self.n_cells, 1.0 if output == self.output else 0.0)

    def row(self, cell: int) -> FloatArray:  # noqa: ARG002
        """Return f(. | x)."""
        row = np.zeros(self.n_cells)
        row[self.output] = 1.0
        return row

    def matrix(self) -> FloatArray:
        """Return f."""
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        entries = np.zeros((self.n_cells, self.n_outputs))
        entries[:, self.output] = 1.0
        return entries

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible output and its likelihood, shape (1, n_cells)."""
        return np.array([self.output]), np.ones((1, self.n_cells))

    def compact_likelihood(self, output: int) -> CompactRow:
        """Return f(z | .) in compact form."""
        return CompactRow(IDENTITY_KERNEL, single(output), gain=0.0, base=float(output == self.output))

    def possible_outputs(self) -> IntArray:
        """Return the constant output."""
        return np.array([self.output])

    def loss_km(self, prior: FloatArray, distance: Distance) -> float:
        """Return the expected d_Q in km between cell and output."""
        return float(prior @ distance.column_km(self.output))

    def estimates_revealing(self, reveal: float, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output if the true cell is revealed with a positive probability.

        Any output but the constant one is the true cell.
        """
        weights = (1 - reveal) * prior
        weights[self.output] += reveal * prior[self.output]
        estimates = np.where(reveal * prior > MASS_FLOOR, distance.certain_cells, -1)
        estimates[self.output] = distance.best_cell(weights)
        return read_only(estimates), int(np.count_nonzero(estimates < 0))
