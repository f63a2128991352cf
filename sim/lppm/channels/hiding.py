"""Location hiding: reveal the true cell or report another one."""

from __future__ import annotations

import numpy as np

from sim.inference.compact_rows import IDENTITY_KERNEL, CompactRow
from sim.inference.dense import require_dense
from sim.inference.source_sets import single, source_set
from sim.interfaces import FloatArray, Generator, IntArray
from sim.lppm.channels.base import column_through, possible_outputs, row_through, table_or_identity
from sim.lppm.estimates import estimates_hiding
from sim.lppm.remap import columns_hiding, loss_hiding, remap_hiding
from sim.world.distance import Distance


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
        return possible_outputs(self.matrix())

    def compact_likelihood(self, output: int) -> CompactRow:
        """Return f(z | .) in compact form."""
        gain = self.reveal_probability - self.other_probability
        return CompactRow(IDENTITY_KERNEL, single(output), gain, self.other_probability)

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
        return CompactRow(IDENTITY_KERNEL, source_set(members, members.size), inside - outside, outside)

    def remap(self, prior: FloatArray, distance: Distance) -> IntArray:
        """Return the optimal cell to report instead of each output under this prior."""
        return remap_hiding(self.reveal_probability, self.other_probability, prior, distance)

    def loss_km(self, prior: FloatArray, distance: Distance, table: IntArray | None = None) -> float:
        """Return the expected d_Q in km between cell and output."""
        table = table_or_identity(table, self)
        return loss_hiding(self.reveal_probability, self.other_probability, prior, distance, table)

    def estimates(self, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output: see `ChannelCapabilities.estimates`."""
        return self._estimates(np.arange(self.n_cells), prior, distance)

    def estimates_through(
        self, table: IntArray, prior: FloatArray, distance: Distance, reveal: float = 0.0
    ) -> tuple[IntArray, int] | None:
        """Return the estimate for each output if all outputs pass through a table; None if the truth is revealed."""
        return None if reveal > 0 else self._estimates(table, prior, distance)

    def _estimates(self, table: IntArray, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        return estimates_hiding(self.reveal_probability, self.other_probability, table, prior, distance)

    def row_through(self, table: IntArray, cell: int) -> FloatArray:
        """Return f(. | x) if all outputs pass through a table."""
        return row_through(self, table, cell)

    def column_through(self, table: IntArray, output: int) -> FloatArray:
        """Return f(z | .) if all outputs pass through a table."""
        return column_through(self, table, output)


def location_hiding(n_cells: int, reveal_probability: float) -> LocationHidingChannel:
    """Return the location hiding channel."""
    return LocationHidingChannel(n_cells=n_cells, reveal_probability=reveal_probability)


def identity(n_cells: int) -> LocationHidingChannel:
    """Return the channel that reports the true cell.

    >>> identity(3).row(1)
    array([0., 1., 0.])
    """
    return LocationHidingChannel(n_cells=n_cells, reveal_probability=1.0)
