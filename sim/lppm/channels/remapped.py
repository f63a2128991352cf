"""A base channel whose outputs pass through a table that was computed for a prior."""

from __future__ import annotations

import numpy as np

from sim.inference.bayes import read_only
from sim.inference.compact_rows import CompactRow
from sim.inference.dense import require_dense
from sim.interfaces import FloatArray, Generator, IntArray
from sim.lppm.channels.base import LIKELIHOODS_BYTES, BaseChannel, keep
from sim.lppm.estimates import estimates_from
from sim.lppm.remap import remap_matrix
from sim.world.distance import Distance


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
            likelihood = read_only(self.base.column_through(self.table, output))
            keep(self._likelihoods, output, likelihood)
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

    def possible_outputs(self) -> IntArray:
        """Return the outputs to which the table leads, possibly repeated."""
        return self.table

    def estimates_revealing(self, reveal: float, prior: FloatArray, distance: Distance) -> tuple[IntArray, int] | None:
        """Return the estimate for each output if the true cell may be sent instead; None: use likelihoods."""
        return self.base.estimates_through(self.table, prior, distance, reveal)

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
            while len(_LIKELIHOODS) > 1 and len(_LIKELIHOODS) * likelihoods[1].nbytes > LIKELIHOODS_BYTES:
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

    def estimates_through(
        self, table: IntArray, prior: FloatArray, distance: Distance, reveal: float = 0.0
    ) -> tuple[IntArray, int] | None:
        """Return the estimate for each output if all outputs also pass through another table."""
        return self.base.estimates_through(table[self.table], prior, distance, reveal)

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
