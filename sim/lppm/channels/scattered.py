"""The exponential mechanism under the Euclidean distance between many scattered locations, without a matrix."""

from __future__ import annotations

from array import array

import numpy as np

from sim.inference.bayes import read_only
from sim.inference.dense import require_dense
from sim.inference.scattered_kernel import ScatteredKernel
from sim.inference.scattered_remap import ScatteredRemap
from sim.interfaces import BoolArray, FloatArray, Generator, IntArray
from sim.lppm.channels.base import row_through
from sim.lppm.channels.planar import require_table_of_outputs
from sim.lppm.channels.sampling import draw
from sim.lppm.remap import loss_matrix
from sim.world.distance import Distance
from sim.world.distances.euclidean import EuclideanDistance


class ScatteredExponentialChannel:
    """The exponential mechanism f(z | x) ∝ exp(-epsilon |x - z|) between locations; `epsilon_per_km` is in [0, inf)."""

    def __init__(self, distance: EuclideanDistance, *, epsilon_per_km: float) -> None:
        if not 0 <= epsilon_per_km < np.inf:
            raise ValueError(f"epsilon_per_km must be in [0, inf), got {epsilon_per_km}")
        self.kernel = ScatteredKernel(x_km=distance.x_km, y_km=distance.y_km, rate_per_km=epsilon_per_km)
        self.n_cells = self.n_outputs = distance.n_cells

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        return draw(array("d", self.kernel.decay_from(cell).cumsum().tobytes()), rng)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        return np.asarray(self.kernel.decay_from(output) / self.kernel.norm)

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        return np.asarray(self.kernel.decay_from(cell) / self.kernel.norm[cell])

    def matrix(self) -> FloatArray:
        """Return f(z | x) as a read-only matrix [cell, output], shape (n_cells, n_outputs)."""
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        return read_only(np.array([self.row(cell) for cell in range(self.n_cells)]))

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return all outputs and f(z | .) of each, shape (n_outputs, n_cells)."""
        return np.arange(self.n_outputs), self.matrix().T

    def compact_likelihood(self, output: int) -> None:
        """Return None: sums over many outputs have no faster form than their likelihoods."""

    def columns(self, table: IntArray, outputs: IntArray) -> FloatArray:
        """Return f(z | .) of the given outputs if all outputs pass through a table, shape (k, n_cells)."""
        return np.array([self.column_through(table, output) for output in outputs.tolist()])

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return self.column_of(table == output)

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return row_through(self, table, cell)

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance, reveal: float = 0.0) -> None:
        """Return None: the estimates for all outputs are computed from likelihoods."""

    def compact_through(self, table: IntArray, output: int) -> None:
        """Return None: see `compact_likelihood`."""

    def single_remap(self, prior: FloatArray, distance: EuclideanDistance) -> ScatteredRemap:
        """Return the remap of single outputs under a prior."""
        return ScatteredRemap(self.kernel, prior, best_cell=distance.best_cell, longest_km=distance.longest_km)

    def column_of(self, sources: BoolArray) -> FloatArray:
        """Return the sum of f(z | .) over some outputs z."""
        return self.kernel.column(np.flatnonzero(sources))

    def compact_of(self, sources: BoolArray) -> None:
        """Return None: see `compact_likelihood`."""

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior; an error for many locations."""
        require_table_of_outputs(self.n_cells, distance.kind)
        table = [distance.best_cell(prior * self.likelihood(output)) for output in range(self.n_outputs)]
        return np.array([output if cell < 0 else cell for output, cell in enumerate(table)], dtype=np.int64)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        if table is None:
            support = np.flatnonzero(prior).tolist()
            return sum(float(prior[cell] * (self.row(cell) @ distance.row_km(cell))) for cell in support)
        return loss_matrix(self.matrix(), prior, distance, table)
