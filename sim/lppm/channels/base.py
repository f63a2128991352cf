"""Protocol of base channels, which do not depend on a prior, and what their implementations share."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sim.inference.compact_rows import CompactRow
from sim.interfaces import Channel, FloatArray, IntArray
from sim.world.distance import Distance

LIKELIHOODS_BYTES = 2**24
"""Maximum size of a cache of likelihoods."""


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

    def estimates_through(
        self, table: IntArray, prior: FloatArray, distance: Distance, reveal: float = 0.0
    ) -> tuple[IntArray, int] | None:
        """Return `ChannelCapabilities.estimates` if all outputs pass through a table; None: use likelihoods.

        With probability `reveal`, the true cell is sent instead of such an output.
        """
        ...

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table, shape (n_outputs,)."""
        ...

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table, shape (n_cells,)."""
        ...


def possible_outputs(matrix: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the possible outputs of a matrix [cell, output] and f(z | .) of each, shape (k, n_cells)."""
    outputs = np.flatnonzero(matrix.any(axis=0))
    return outputs, matrix.T[outputs]


def row_through(base: BaseChannel, table: IntArray, cell: int) -> FloatArray:
    """Return f(. | x) if all outputs pass through a table, from the row without it."""
    sums = np.bincount(table, weights=base.row(cell), minlength=base.n_cells)
    return sums.astype(np.float64, copy=False)


def column_through(base: BaseChannel, table: IntArray, output: int) -> FloatArray:
    """Return f(z | .) if all outputs pass through a table, as one of the columns."""
    column: FloatArray = base.columns(table, np.array([output], dtype=np.int64))[0]
    return column


def table_or_identity(table: IntArray | None, channel: BaseChannel) -> IntArray:
    """Return the table, or without one that in which each output keeps itself."""
    return np.arange(channel.n_outputs) if table is None else table


def keep(cache: dict[int, FloatArray], output: int, likelihood: FloatArray) -> None:
    """Add the likelihood of an output to a cache, and drop the oldest ones of a cache that is too large."""
    cache[output] = likelihood
    while len(cache) > 1 and len(cache) * likelihood.nbytes > LIKELIHOODS_BYTES:
        del cache[next(iter(cache))]
