"""The exponential mechanism under the Euclidean distance on large grids, without a matrix.

The remapped channel computes single outputs on demand: the cell that replaces a sampled output, and the outputs that
become a report. See `sim.inference.planar_remap`.
"""

from __future__ import annotations

from array import array
from functools import cached_property

import numpy as np

from sim.errors import InvalidValue
from sim.inference.bayes import read_only
from sim.inference.compact_rows import CompactRow
from sim.inference.dense import require_dense
from sim.inference.planar_grid import PlanarGrid
from sim.inference.planar_kernel import PlanarKernel, sums_over_grid
from sim.inference.planar_remap import PlanarRemap
from sim.inference.source_sets import SourceSets, single, source_set
from sim.interfaces import FloatArray, Generator, IntArray
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.channels.sampling import draw
from sim.lppm.remap import loss_matrix
from sim.world.distance import Distance
from sim.world.distances.euclidean import EuclideanDistance

MOST_REMAPPED = 3_000
"""Largest number of cells for which all outputs are remapped."""

_CACHED_BYTES = 2**26


def require_table_of_outputs(n_cells: int, kind: str) -> None:
    """Raise `InvalidValue` if there are too many outputs to remap all of them under a distance of this kind."""
    if n_cells > MOST_REMAPPED:
        raise InvalidValue(
            f"the expected loss after the remap needs the remap of all {n_cells:,} outputs, which would take "
            f"too long under the {kind} distance; the largest number is {MOST_REMAPPED:,}. Give "
            "`epsilon_per_km` instead of `quality_budget_km`, or use the Manhattan distance, a coarser grid or "
            "`remap: false`",
            code="budget-needs-remap",
        )


class PlanarExponentialChannel:
    """The exponential mechanism f(z | x) ∝ exp(-epsilon |x - z|) on a full grid; `epsilon_per_km` is in [0, inf)."""

    def __init__(self, grid: PlanarGrid, *, epsilon_per_km: float) -> None:
        self.epsilon_per_km = epsilon_per_km
        self.kernel = PlanarKernel(grid, rate_per_km=epsilon_per_km)
        self.n_cells = self.n_outputs = grid.n_cells

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        cumulative = self.kernel.grid.around(self.kernel.decay, cell).cumsum()
        return draw(array("d", cumulative.tobytes()), rng)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .)."""
        return self.kernel.likelihood(output)

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        return self.kernel.row(cell)

    def matrix(self) -> FloatArray:
        """Return f(z | x) as a read-only matrix [cell, output], shape (n_cells, n_outputs)."""
        require_dense(self.n_cells, "the probabilities of all outputs in all cells")
        return read_only(np.array([self.row(cell) for cell in range(self.n_cells)]))

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return all outputs and f(z | .) of each, shape (n_outputs, n_cells)."""
        return np.arange(self.n_outputs), self.matrix().T

    def compact_likelihood(self, output: int) -> CompactRow:
        """Return f(z | .) in compact form."""
        return CompactRow(self.kernel, single(output))

    def columns(self, table: IntArray, outputs: IntArray) -> FloatArray:
        """Return f(z | .) of the given outputs if all outputs pass through a table, shape (k, n_cells)."""
        return np.array([self.column_through(table, output) for output in outputs.tolist()])

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return self.compact_through(table, output).dense(self.n_cells)

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return np.bincount(table, weights=self.row(cell), minlength=self.n_outputs).astype(np.float64, copy=False)

    def estimates_through(self, table: IntArray, prior: FloatArray, distance: Distance, reveal: float = 0.0) -> None:
        """Return None: the estimates for all outputs are computed from likelihoods."""

    def compact_through(self, table: IntArray, output: int) -> CompactRow:
        """Return f(z | .) in compact form if all outputs pass through a table."""
        return CompactRow(self.kernel, source_set(table == output, self.kernel.grid.cols))

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior; an error on a large grid."""
        require_table_of_outputs(self.n_cells, distance.kind)
        table = [distance.best_cell(prior * self.likelihood(output)) for output in range(self.n_outputs)]
        return np.array([output if cell < 0 else cell for output, cell in enumerate(table)], dtype=np.int64)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        grid = self.kernel.grid
        if table is None and isinstance(distance, EuclideanDistance) and distance.planar is grid:
            return float(prior / self.kernel.norm @ sums_over_grid(grid.away_km * self.kernel.decay))
        return loss_matrix(self.matrix(), prior, distance, np.arange(self.n_outputs) if table is None else table)


class PlanarRemappedChannel:
    """The exponential mechanism with remap: f(z | x) sums f~(z~ | x) over the outputs z~ that become z.

    Only outputs that occur are remapped. The probabilities of all outputs are available up to 3,000 cells.
    """

    def __init__(self, base: PlanarExponentialChannel, prior: FloatArray, distance: EuclideanDistance) -> None:
        self.base = base
        self.n_cells = self.n_outputs = base.n_cells
        self._prior, self._distance = prior, distance
        self._remap = PlanarRemap(base.kernel, prior, best_cell=distance.best_cell, longest_km=distance.longest_km)
        self._known: dict[int, tuple[SourceSets, FloatArray]] = {}

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        return self._remap.cell(self.base.sample(cell, rng))

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .), read-only; the latest are cached, because a fixed belief's channel serves many queries."""
        return self._sources_and_likelihood(output)[1]

    def compact_likelihood(self, output: int) -> CompactRow:
        """Return f(z | .) in compact form."""
        return CompactRow(self.base.kernel, self._sources_and_likelihood(output)[0])

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        return self._listed.row(cell)

    def matrix(self) -> FloatArray:
        """Return f."""
        return self._listed.matrix()

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs and f(z | .) of each."""
        return self._listed.likelihoods()

    def loss_km(self, prior: FloatArray, distance: Distance) -> float:
        """Return the expected d_Q in km between cell and output."""
        return self._listed.loss_km(prior, distance)

    def possible_outputs(self) -> IntArray:
        """Return the outputs that are possible."""
        return self._listed.table

    def estimates_revealing(self, reveal: float, prior: FloatArray, distance: Distance) -> None:
        """Return None: the estimates for all outputs are computed from likelihoods."""

    def _sources_and_likelihood(self, output: int) -> tuple[SourceSets, FloatArray]:
        known = self._known.get(output)
        if known is None:
            sources = source_set(self._remap.sources(output), self.base.kernel.grid.cols)
            known = self._known[output] = sources, read_only(self.base.kernel.column(sources, self.n_cells))
            while len(self._known) > 1 and len(self._known) * known[1].nbytes > _CACHED_BYTES:
                del self._known[next(iter(self._known))]
        return known

    @cached_property
    def _listed(self) -> RemappedChannel:
        """The same channel with a table of all outputs."""
        return RemappedChannel(self.base, self.base.remap(self._prior, self._distance))
