"""A mixture of revealing the true cell and another channel."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from sim.inference.bayes import read_only
from sim.inference.compact_rows import CompactRow
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.channels.base import keep
from sim.lppm.estimates import estimates_revealing
from sim.world.distance import Distance


class Mixable(Channel, Protocol):
    """A channel among cells that can be mixed with revealing the true cell."""

    @property
    def n_cells(self) -> int:
        """Return the number of cells, which are inputs and outputs."""
        ...

    def compact_likelihood(self, output: int) -> CompactRow | None:
        """Return f(z | .) in compact form; None without such a form."""
        ...

    def loss_km(self, prior: FloatArray, distance: Distance) -> float:
        """Return the expected d_Q in km between cell and output."""
        ...

    def possible_outputs(self) -> IntArray:
        """Return the outputs that are possible, in any order, possibly repeated."""
        ...

    def estimates_revealing(self, reveal: float, prior: FloatArray, distance: Distance) -> tuple[IntArray, int] | None:
        """Return `ChannelCapabilities.estimates` of the mixture; None: use likelihoods."""
        ...


class MixChannel:
    """Send the true cell with probability a in (0, 1], otherwise an output of another channel g.

    f(z | x) = a 1{z = x} + (1 - a) g(z | x). If g is remapped, each output remains the optimal estimate of the cell
    under the prior of the remap: the additional weight a prior(z) is in cell z, where it costs nothing.
    """

    def __init__(self, other: Mixable, *, reveal_probability: float) -> None:
        if not 0 < reveal_probability <= 1:
            raise ValueError(f"reveal_probability must be in (0, 1], got {reveal_probability}")
        self.other = other
        self.reveal_probability = float(reveal_probability)
        self.n_cells = self.n_outputs = other.n_cells
        self._likelihoods: dict[int, FloatArray] = {}
        self._only_cells: IntArray | None = None

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output."""
        return cell if rng.random() < self.reveal_probability else self.other.sample(cell, rng)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .), read-only; it is cached because a mechanism and several attacks use it."""
        likelihood = self._likelihoods.get(output)
        if likelihood is None:
            likelihood = self._with_truth(self.other.likelihood(output), output)
            keep(self._likelihoods, output, read_only(likelihood))
        return likelihood

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x)."""
        return self._with_truth(self.other.row(cell), cell)

    def matrix(self) -> FloatArray:
        """Return f."""
        entries: FloatArray = (1 - self.reveal_probability) * self.other.matrix()
        np.einsum("xx->x", entries)[:] += self.reveal_probability
        return entries

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return all outputs, which are possible since the true cell may be sent, and f(z | .) of each."""
        outputs, others = self.other.likelihoods()
        rows = np.zeros((self.n_outputs, self.n_cells))
        rows[outputs] = (1 - self.reveal_probability) * others
        np.einsum("zz->z", rows)[:] += self.reveal_probability
        return np.arange(self.n_outputs), rows

    def compact_likelihood(self, output: int) -> CompactRow | None:
        """Return f(z | .) in compact form; None if the other channel has no such form."""
        row = self.other.compact_likelihood(output)
        if row is None:
            return None
        share = 1 - self.reveal_probability
        return row._replace(gain=share * row.gain, base=share * row.base, cell=output, extra=self.reveal_probability)

    def estimates(self, prior: FloatArray, distance: Distance) -> tuple[IntArray, int]:
        """Return the estimate for each output: see `ChannelCapabilities.estimates`."""
        estimates = self.other.estimates_revealing(self.reveal_probability, prior, distance)
        if estimates is not None:
            return estimates
        return estimates_revealing(self.reveal_probability, self.other.likelihoods(), prior, distance)

    def only_cells(self) -> IntArray:
        """Return the cell that each output reveals, or -1: see `ChannelCapabilities.only_cells`."""
        if self._only_cells is None:
            cells = np.arange(self.n_outputs)
            cells[self.other.possible_outputs()] = -1
            self._only_cells = read_only(cells)
        return self._only_cells

    def loss_km(self, prior: FloatArray, distance: Distance) -> float:
        """Return the expected d_Q in km between cell and output: that of the other channel, times 1 - a."""
        return (1 - self.reveal_probability) * self.other.loss_km(prior, distance)

    def _with_truth(self, probabilities: FloatArray, place: int) -> FloatArray:
        mixed: FloatArray = (1 - self.reveal_probability) * probabilities
        mixed[place] += self.reveal_probability
        return mixed
