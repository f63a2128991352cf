"""Optimal attacks: a belief about the user, Bayes' rule, and the estimate that minimises the expected error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from sim.errors import UserError
from sim.events import Guess, Report
from sim.inference.bayes import decide, decide_each, read_only
from sim.interfaces import Belief, BeliefCapabilities, Channel, ChannelCapabilities, FloatArray, IntArray
from sim.world.distance import Distance

_is_countless = ChannelCapabilities.countless.of


class OptimalAttack:
    """Estimate each user's cell as argmin over y of sum_x p(x | z^r) d_P(x, y), with one belief per user.

    With a `FixedProfile` of the test this is the paper's optimal sporadic attack, with a `MarkovFilter` its optimal
    Markov attack (Oya et al. 2019, Sect. V). The mechanism is known through the report's channel.

    `foresee` also works out the answer to every output that might have come, which expected figures need; where there
    are too many to list, it does without. With `tell`, guesses carry the posterior.
    """

    def __init__(
        self,
        *,
        belief_of: Callable[[str], Belief],
        distance: Distance,
        foresee: bool = False,
        tell: bool = False,
    ) -> None:
        self._belief_of = belief_of
        self._distance = distance
        self._foresee = foresee
        self._tell = tell
        self._users: dict[str, _Watched] = {}
        self._fallbacks = 0

    @property
    def fallbacks(self) -> int:
        """How often a report had no mass under a belief."""
        return self._fallbacks + sum(int(BeliefCapabilities.fallbacks.of(user.belief)) for user in self._users.values())

    def observe(self, report: Report) -> Guess:
        """Take in one report and estimate where the user was."""
        name, index, time_s, output, channel = report
        if channel is None:
            raise HiddenChannel(report)
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _Watched(self._belief_of(name))
        posterior = None
        if not user.fixed:
            foreseeable = self._foresee and not _is_countless(channel)
            answers = self._answers(user.belief, time_s, channel) if foreseeable else None
            posterior = user.belief.observe(time_s, channel.likelihood(output))
        else:
            answers = user.answers if user.channel is channel else None
            if answers is None and not _is_countless(channel):
                answers = self._remembered(user, time_s, channel)
            if answers is None or self._tell:
                posterior = user.belief.observe(time_s, channel.likelihood(output))
            elif output in answers.without_mass:
                self._fallbacks += 1
        told = posterior if self._tell else None
        if answers is None:
            assert posterior is not None
            estimate = decide(posterior, self._distance.matrix_km, self._distance.shape)
            return Guess(name, index, estimate, None, told)
        by_output = answers.estimates if self._foresee else None
        return Guess(name, index, answers.estimates.item(output), by_output, told)

    def _remembered(self, user: _Watched, time_s: int, channel: Channel) -> _Answers | None:
        """Return the answers of a belief that never changes, worked out once a channel is there to stay."""
        stays = user.channel is channel
        user.channel = channel
        user.answers = self._answers(user.belief, time_s, channel) if stays or self._foresee else None
        return user.answers

    def _answers(self, belief: Belief, time_s: int, channel: Channel) -> _Answers:
        """Return the estimate for every possible output. Changes no state."""
        outputs, likelihoods = channel.likelihoods()
        estimates = np.full(channel.n_outputs, -1, dtype=np.int64)
        without_mass: set[int] = set()
        for prior in priors_in_turn(belief, time_s, likelihoods.shape[1]):
            found = decide_each(prior, likelihoods, self._distance.matrix_km, self._distance.shape)
            estimates[outputs] = found
            if (found >= 0).all():
                break
            outputs, likelihoods = outputs[found < 0], likelihoods[found < 0]
            without_mass.update(outputs.tolist())
        return _Answers(read_only(estimates), without_mass)


class HiddenChannel(UserError):
    """A report came without its channel, from a mechanism of the full type, and the attack cannot do without."""

    def __init__(self, report: Report) -> None:
        super().__init__(
            f"the report of query {report.index} of {report.user} carries no channel: its mechanism learns from real "
            "cells, which nobody else can follow, so that no optimal attack can be computed. Allowed are attacks that "
            "need no channel (`face-value`, or a belief with `assumes`)."
        )


class _Watched:
    """What the adversary has of one user: a belief, and what she would answer if it never changes."""

    __slots__ = ("answers", "belief", "channel", "fixed")

    def __init__(self, belief: Belief) -> None:
        self.belief = belief
        self.fixed = bool(BeliefCapabilities.fixed.of(belief))
        self.channel: Channel | None = None
        self.answers: _Answers | None = None


@dataclass(frozen=True, slots=True)
class _Answers:
    """An adversary's answer to each output of a channel; -1 for one that cannot come."""

    estimates: IntArray
    without_mass: set[int]


def priors_in_turn(belief: Belief, time_s: int, n_cells: int) -> Iterator[FloatArray]:
    """Yield the prior and what takes its place, in order, for an output that has no mass under it."""
    yield belief.prior(time_s)
    yield from BeliefCapabilities.fallback_priors.of(belief)
    yield np.full(n_cells, 1 / n_cells)
