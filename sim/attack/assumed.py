"""An adversary who does not know the mechanism and assumes one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sim.events import Guess, Release, Report
from sim.interfaces import (
    Attack,
    AttackCapabilities,
    Belief,
    Channel,
    ChannelCapabilities,
    Design,
    DesignCapabilities,
    FloatArray,
    Generator,
    HiddenState,
    IntArray,
    StateTracker,
    StateTrackerCapabilities,
    channel_of,
)
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.mechanism import releases_of


class AssumingAttack:
    """Run an attack with assumed channels: those that a design computes from the adversary's prior.

    The channel that a report carries is ignored. This permits attacks on mechanisms of the full type, whose reports
    carry no channel (Oya et al. 2019, Sect. III), and by adversaries with a wrong model of the mechanism. `attack`
    makes the estimates; it must use the beliefs of `belief_of`, which must return the same belief for a user each time.
    A report that is impossible under the assumed channel is treated as uninformative and counted in `fallbacks`. If not
    `readable`, the real outputs are not those of the design, and all reports are treated so.
    """

    def __init__(
        self, *, attack: Attack, belief_of: Callable[[str], Belief], design: Design, readable: bool = True
    ) -> None:
        self._attack = attack
        self._belief_of = belief_of
        self._design = design
        self._readable = readable
        self._assumed: dict[str, tuple[FloatArray, _Assumed]] = {}
        self._releases: dict[str, deque[Release]] = {}
        """Releases of each user, if the design depends on them."""
        self._impossible = 0

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under the assumed channel or a belief."""
        return self._impossible + int(AttackCapabilities.fallbacks.of(self._attack))

    @property
    def dropped(self) -> float:
        """The probability of states that the attack's trackers dropped."""
        return AttackCapabilities.dropped.of(self._attack)

    def observe(self, report: Report) -> Guess:
        """Process one report as an output of the assumed channel."""
        prior = self._belief_of(report.user).prior(report.time_s)
        if not self._readable:
            self._impossible += 1
            guess = self._attack.observe(report._replace(output=0, channel=self._uninformative(prior.size)))
            return guess._replace(estimate_by_output=None)
        assumed = self._of(report, prior)
        self._impossible += not assumed.allows(report.output)
        return self._attack.observe(report._replace(channel=assumed))

    def _of(self, report: Report, prior: FloatArray) -> _Assumed:
        """Return the channel that the design would have for this report, after the releases of the user so far."""
        if DesignCapabilities.channel_at.of(self._design) is not None:
            releases = self._releases.setdefault(report.user, releases_of(self._design))
            assumed = _Assumed(channel_of(self._design, prior, report.time_s, tuple(releases)))
            releases.append(Release(report.time_s, report.output))
            return assumed
        cached = self._assumed.get(report.user)
        if cached is None or cached[0] is not prior:
            cached = self._assumed[report.user] = prior, _Assumed(self._design(prior))
        return cached[1]

    @staticmethod
    def _uninformative(n_cells: int) -> Channel:
        """Return a channel with a single output."""
        return MatrixChannel(np.ones((n_cells, 1)))

    def conclude(self) -> Iterable[Guess]:
        """Return the final guesses of the attack."""
        return AttackCapabilities.conclude.of(self._attack)()


class _AssumedState:
    """A hidden state whose trackers treat impossible outputs as uninformative."""

    def __init__(self, hidden_state: HiddenState) -> None:
        self._hidden_state = hidden_state

    @property
    def approximation(self) -> str:
        """The approximation of the trackers."""
        return self._hidden_state.approximation

    def draw(self, secret: Any, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, Any]:
        """Draw an output from the channel."""
        return self._hidden_state.draw(secret, channel, time_s, cell, rng)

    def tracker(self) -> _AssumedTracker:
        """Return a new tracker."""
        return _AssumedTracker(self._hidden_state.tracker())


class _AssumedTracker:
    """A tracker with the likelihood of impossible outputs replaced by ones."""

    def __init__(self, tracker: StateTracker) -> None:
        self._tracker = tracker
        self._informed = False

    @property
    def dropped(self) -> float:
        """The probability of dropped states."""
        return StateTrackerCapabilities.dropped.of(self._tracker)

    def likelihood(self, report: Report, prior: FloatArray, link: Any) -> FloatArray:
        """Return the likelihood, or ones for an impossible output."""
        likelihood = self._tracker.likelihood(report, prior, link)
        self._informed = bool(likelihood.any())
        return likelihood if self._informed else np.ones_like(likelihood)

    def condition(self, posterior: FloatArray) -> None:
        """Continue from the posterior, unless the output was uninformative."""
        if self._informed:
            self._tracker.condition(posterior)


class _Assumed:
    """A channel with the likelihood of impossible outputs replaced by ones, which are uninformative."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.n_outputs = channel.n_outputs
        self.countless = bool(ChannelCapabilities.countless.of(channel))
        hidden_state = ChannelCapabilities.hidden_state.of(channel)
        self.hidden_state = None if hidden_state is None else _AssumedState(hidden_state)

    def allows(self, output: int) -> bool:
        """Return whether the output is possible in any cell."""
        return bool(self._channel.likelihood(output).any())

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .), or ones for an impossible output."""
        likelihood = self._channel.likelihood(output)
        return likelihood if likelihood.any() else np.ones_like(likelihood)

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return all outputs and their likelihoods, shape (n_outputs, n_cells)."""
        possible, rows = self._channel.likelihoods()
        every = np.ones((self.n_outputs, rows.shape[1]))
        every[possible] = rows
        return np.arange(self.n_outputs), every

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw an output from the channel."""
        return self._channel.sample(cell, rng)

    def row(self, cell: int) -> FloatArray:
        """Return the row of the channel."""
        return self._channel.row(cell)

    def matrix(self) -> FloatArray:
        """Return the matrix of the channel."""
        return self._channel.matrix()
