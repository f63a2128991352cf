"""An adversary who does not know the mechanism, and assumes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from sim.events import Guess, Report
from sim.interfaces import (
    Attack,
    AttackCapabilities,
    Belief,
    Channel,
    ChannelCapabilities,
    Design,
    FloatArray,
    Generator,
    IntArray,
)
from sim.lppm.channel import MatrixChannel


class AssumingAttack:
    """Take every channel for what a design makes of the adversary's own prior, whatever the report says.

    So reports of mechanisms of the full type, which keep their channel to themselves (Oya et al. 2019, Sect. III), can
    be attacked, and others by somebody who has the mechanism wrong. `attack` does the rest; it shares the beliefs of
    `belief_of`, which must return the same one for a user each time. A report that the assumed channel holds impossible
    tells nothing and is counted; so do all, where `readable` says that the real outputs are not those of the design.
    """

    def __init__(
        self, *, attack: Attack, belief_of: Callable[[str], Belief], design: Design, readable: bool = True
    ) -> None:
        self._attack = attack
        self._belief_of = belief_of
        self._design = design
        self._readable = readable
        self._assumed: dict[str, tuple[FloatArray, _Assumed]] = {}
        self._impossible = 0

    @property
    def fallbacks(self) -> int:
        """How often a report had no mass under the assumed channel or under a belief."""
        return self._impossible + int(AttackCapabilities.fallbacks.of(self._attack))

    def observe(self, report: Report) -> Guess:
        """Take in one report as if the assumed channel had made it."""
        prior = self._belief_of(report.user).prior(report.time_s)
        if not self._readable:
            self._impossible += 1
            guess = self._attack.observe(report._replace(output=0, channel=self._silence(prior.size)))
            return guess._replace(estimate_by_output=None)
        known = self._assumed.get(report.user)
        if known is None or known[0] is not prior:
            known = self._assumed[report.user] = prior, _Assumed(self._design(prior))
        assumed = known[1]
        self._impossible += not assumed.allows(report.output)
        return self._attack.observe(report._replace(channel=assumed))

    @staticmethod
    def _silence(n_cells: int) -> Channel:
        """Return a channel with one output, which tells nothing."""
        return MatrixChannel(np.ones((n_cells, 1)))

    def conclude(self) -> Iterable[Guess]:
        """Return the final guesses of the attack."""
        return AttackCapabilities.conclude.of(self._attack)()


class _Assumed:
    """A channel in the eyes of somebody who takes an impossible output for one that tells nothing."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.n_outputs = channel.n_outputs
        self.countless = bool(ChannelCapabilities.countless.of(channel))

    def allows(self, output: int) -> bool:
        """Return whether the output can come, from any cell."""
        return bool(self._channel.likelihood(output).any())

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .), or ones for an impossible output."""
        likelihood = self._channel.likelihood(output)
        return likelihood if likelihood.any() else np.ones_like(likelihood)

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the likelihood of every output."""
        possible, rows = self._channel.likelihoods()
        every = np.ones((self.n_outputs, rows.shape[1]))
        every[possible] = rows
        return np.arange(self.n_outputs), every

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw as the channel does."""
        return self._channel.sample(cell, rng)

    def row(self, cell: int) -> FloatArray:
        """Return the row of the channel."""
        return self._channel.row(cell)

    def matrix(self) -> FloatArray:
        """Return the matrix of the channel."""
        return self._channel.matrix()
