"""The exponential mechanism under the Euclidean distance on large grids, without a matrix.

The remapped channel computes single outputs on demand: the cell that replaces a sampled output, and the outputs that
become a report. See `sim.inference.planar_remap`, and `sim.inference.scattered_remap` for scattered locations.
"""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import Protocol

import numpy as np

from sim.errors import InvalidValue
from sim.inference.bayes import read_only
from sim.inference.compact_rows import CompactRow
from sim.inference.dense import require_dense
from sim.inference.planar_grid import PlanarGrid
from sim.inference.planar_kernel import PlanarKernel, sums_over_grid
from sim.inference.planar_remap import PlanarRemap
from sim.inference.source_sets import single, source_set
from sim.interfaces import BoolArray, FloatArray, Generator, IntArray
from sim.lppm.channels.base import BaseChannel
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

    def single_remap(self, prior: FloatArray, distance: EuclideanDistance) -> PlanarRemap:
        """Return the remap of single outputs under a prior."""
        return PlanarRemap(self.kernel, prior, best_cell=distance.best_cell, longest_km=distance.longest_km)

    def column_of(self, sources: BoolArray) -> FloatArray:
        """Return the sum of f(z | .) over some outputs z."""
        return self.kernel.column(source_set(sources, self.kernel.grid.cols), self.n_cells)

    def compact_of(self, sources: BoolArray) -> CompactRow:
        """Return the sum of f(z | .) over some outputs z in compact form."""
        return CompactRow(self.kernel, source_set(sources, self.kernel.grid.cols))

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


class PlanarBase(BaseChannel, Protocol):
    """A base channel whose outputs can be remapped one at a time."""

    def single_remap(self, prior: FloatArray, distance: EuclideanDistance) -> SingleRemap:
        """Return the remap of single outputs under a prior."""
        ...

    def column_of(self, sources: BoolArray) -> FloatArray:
        """Return the sum of f(z | .) over some outputs z, shape (n_cells,)."""
        ...

    def compact_of(self, sources: BoolArray) -> CompactRow | None:
        """Return the sum of f(z | .) over some outputs z in compact form; None without such a form."""
        ...


class SingleRemap(Protocol):
    """A remap that is computed for the outputs that occur."""

    def cell(self, output: int) -> int:
        """Return the cell that replaces an output."""
        ...

    def sources(self, cell: int) -> BoolArray:
        """Return which outputs become this cell, shape (n_cells,)."""
        ...


class PlanarRemappedChannel:
    """The exponential mechanism with remap: f(z | x) sums f~(z~ | x) over the outputs z~ that become z.

    Only outputs that occur are remapped. The probabilities of all outputs are available up to 3,000 cells.
    """

    def __init__(self, base: PlanarBase, prior: FloatArray, distance: EuclideanDistance) -> None:
        self.base = base
        self.n_cells = self.n_outputs = base.n_cells
        self._prior, self._distance = prior, distance
        self._remap = base.single_remap(prior, distance)
        self._known: dict[int, tuple[CompactRow | None, FloatArray]] = {}

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        return self._remap.cell(self.base.sample(cell, rng))

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .), read-only; the latest are cached, because a fixed belief's channel serves many queries."""
        return self._forms(output)[1]

    def compact_likelihood(self, output: int) -> CompactRow | None:
        """Return f(z | .) in compact form; None without such a form."""
        return self._forms(output)[0]

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

    def _forms(self, output: int) -> tuple[CompactRow | None, FloatArray]:
        """Return f(z | .) in compact form and in full."""
        known = self._known.get(output)
        if known is None:
            sources = self._remap.sources(output)
            known = self._known[output] = self.base.compact_of(sources), read_only(self.base.column_of(sources))
            while len(self._known) > 1 and len(self._known) * known[1].nbytes > _CACHED_BYTES:
                del self._known[next(iter(self._known))]
        return known

    @cached_property
    def _listed(self) -> RemappedChannel:
        """The same channel with a table of all outputs."""
        return RemappedChannel(self.base, self.base.remap(self._prior, self._distance))
