"""Optimal attacks: a belief about the user, Bayes' rule and the estimate with the least expected error."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from sim.errors import UserError
from sim.events import Guess, Report
from sim.inference.bayes import read_only
from sim.interfaces import (
    Belief,
    BeliefCapabilities,
    Channel,
    ChannelCapabilities,
    FloatArray,
    IntArray,
    StateTracker,
    StateTrackerCapabilities,
    observe_output,
)
from sim.lppm.estimates import estimates_from
from sim.world.distance import Distance

_is_countless = ChannelCapabilities.countless.of
_estimates_of = ChannelCapabilities.estimates.of
_only_cells_of = ChannelCapabilities.only_cells.of
_Estimates = tuple[IntArray, IntArray]
"""The estimate for each output of a channel, -1 for an impossible one, and the same, but -1 also without prior mass."""
MOST_LISTED = 3_000
"""Largest number of outputs for which a repeated channel's estimates are computed for all outputs together."""


class OptimalAttack:
    """Estimate each user's cell as argmin over y of sum_x p(x | z^r) d_P(x, y), with one belief per user.

    With a `FixedProfile` of the test queries this is the optimal sporadic attack of the paper, with a `MarkovFilter`
    its optimal Markov attack (Oya et al. 2019, Sect. V). The attack knows the mechanism by the channel in each report.

    Reports of a mechanism with hidden state are not independent given the cells. The attack tracks the pair (cell,
    state) of each user, unless it `ignores_memory` and takes each report as one with a new secret.

    With `all_outputs`, guesses also carry the estimate for every possible output, which expected metrics need, unless
    the outputs are too many to list or depend on a hidden state. With `with_posterior`, guesses carry the posterior.
    """

    def __init__(
        self,
        *,
        belief_of: Callable[[str], Belief],
        distance: Distance,
        all_outputs: bool = False,
        with_posterior: bool = False,
        ignores_memory: bool = False,
    ) -> None:
        self._belief_of = belief_of
        self._ignores_memory = ignores_memory
        self._distance = distance
        self._all_outputs = all_outputs
        self._with_posterior = with_posterior
        self._users: dict[str, _Target] = {}
        self._fallbacks = 0

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under a belief."""
        forgetful = [user.tracker for user in self._users.values() if isinstance(user.tracker, NewSecrets)]
        missing = self._fallbacks + sum(tracker.impossible for tracker in forgetful)
        return missing + sum(int(BeliefCapabilities.fallbacks.of(user.belief)) for user in self._users.values())

    @property
    def dropped(self) -> float:
        """The probability of states that trackers dropped, mean over users."""
        shares = [
            StateTrackerCapabilities.dropped.of(user.tracker)
            for user in self._users.values()
            if user.tracker is not None
        ]
        return float(np.mean(shares)) if shares else 0.0

    def observe(self, report: Report) -> Guess:
        """Process one report and estimate the cell of the user."""
        name, index, time_s, output, channel = report
        if channel is None:
            raise HiddenChannel(report)
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _Target(self._belief_of(name), self._tracker(channel))
        if user.tracker is not None:
            return self._tracked(user, user.tracker, report)
        posterior = None
        if not user.fixed:
            listed = self._all_outputs and not _is_countless(channel)
            estimates = self._estimates(user, time_s, channel) if listed else None
            posterior = observe_output(user.belief, time_s, channel, output)
        else:
            estimates = user.estimates if user.channel is channel else None
            if estimates is None and not _is_countless(channel):
                estimates = self._cached_estimates(user, time_s, channel)
            if estimates is None or self._with_posterior:
                posterior = observe_output(user.belief, time_s, channel, output)
            elif estimates[1].item(output) < 0:
                self._fallbacks += 1
        in_guess = posterior if self._with_posterior else None
        if estimates is None:
            assert posterior is not None
            estimate = self._distance.best_cell(posterior)
            return Guess(name, index, estimate, None, in_guess)
        by_output = estimates[0]
        return Guess(name, index, by_output.item(output), by_output if self._all_outputs else None, in_guess)

    def _tracker(self, channel: Channel) -> StateTracker | None:
        """Return a new tracker of the hidden state of a channel, None without one."""
        hidden = ChannelCapabilities.hidden_state.of(channel)
        if hidden is None:
            return None
        return NewSecrets() if self._ignores_memory else hidden.tracker()

    def _tracked(self, user: _Target, tracker: StateTracker, report: Report) -> Guess:
        """Process a report of a mechanism with hidden state."""
        name, index, time_s, _, _ = report
        link = user.link
        likelihood = tracker.likelihood(report, user.belief.prior(time_s), None if link is None else link(time_s))
        posterior = user.belief.observe(time_s, likelihood)
        tracker.condition(posterior)
        in_guess = posterior if self._with_posterior else None
        return Guess(name, index, self._distance.best_cell(posterior), None, in_guess)

    def _cached_estimates(self, user: _Target, time_s: int, channel: Channel) -> _Estimates | None:
        """Return the estimates under a fixed belief, computed when a channel is seen twice or all are needed."""
        if channel.n_outputs > MOST_LISTED and not self._all_outputs:
            return None
        repeated = user.channel is channel
        user.channel = channel
        user.estimates = self._estimates(user, time_s, channel) if repeated or self._all_outputs else None
        return user.estimates

    def _estimates(self, user: _Target, time_s: int, channel: Channel) -> _Estimates:
        """Return the estimate for every possible output. Changes no belief."""
        by_output, missing = self._under(user.belief.prior(time_s), channel)
        return self._completed(user, by_output, missing, channel) if missing else by_output, by_output

    def _under(self, prior: FloatArray, channel: Channel) -> tuple[IntArray, int]:
        """Return the estimate for every output under one prior, and the number of possible outputs without mass."""
        estimates_of = _estimates_of(channel)
        if estimates_of is not None:
            return estimates_of(prior, self._distance)
        return estimates_from(channel.likelihoods(), channel.n_outputs, prior, self._distance)

    def _completed(self, user: _Target, by_output: IntArray, missing: int, channel: Channel) -> IntArray:
        """Return the estimates completed by those under the fallback priors and, last, under a uniform prior."""
        only_cells_of = _only_cells_of(channel)
        if only_cells_of is not None:
            revealed = (by_output < 0) & ((cells := only_cells_of()) >= 0)
            if np.count_nonzero(revealed) == missing:  # these estimates are the same under any prior
                return read_only(np.where(revealed, self._distance.certain_cells[cells], by_output))
        priors = tuple(BeliefCapabilities.fallback_priors.of(user.belief))
        fallback = user.fallback
        if fallback is None or not fallback.serves(channel, priors):
            uniform = np.full(self._distance.n_cells, 1 / self._distance.n_cells)
            others = [self._under(prior, channel)[0] for prior in (*priors, uniform)]
            fallback = user.fallback = _Fallback(channel, priors, _first_known(others))
        return _first_known([by_output, fallback.by_output])


class HiddenChannel(UserError):
    """A report without a channel, from a mechanism of the full type, for an attack that requires the channel."""

    code = "no-channel"

    def __init__(self, report: Report) -> None:
        super().__init__(
            f"the report of query {report.index} of {report.user} carries no channel: the mechanism learns from true "
            "cells, so that its channel is unknown and no optimal attack can be computed. Allowed are attacks that "
            "need no channel (`face-value`, or a belief with `assumes`)."
        )


class HiddenMemory(UserError):
    """A report of a mechanism with a secret, for an attack that cannot track it."""

    code = "hidden-memory"

    def __init__(self, report: Report) -> None:
        super().__init__(
            f"the outputs of the mechanism of {report.user} depend on a secret, and this attack cannot track it: "
            "attacks with `hindsight` or `decides: path` need `ignores_memory: true`, with which they take each report "
            "as one with a new secret"
        )


def require_no_memory(report: Report) -> None:
    """Raise `HiddenMemory` for a report of a mechanism with hidden state."""
    if report.channel is not None and ChannelCapabilities.hidden_state.of(report.channel) is not None:
        raise HiddenMemory(report)


class NewSecrets:
    """The tracker of an adversary who takes each report as one with a new secret.

    A report that is then impossible, such as an old answer of another channel, carries no information.
    """

    def __init__(self) -> None:
        self.impossible = 0
        """Number of impossible reports so far."""

    def likelihood(self, report: Report, prior: FloatArray, link: Any) -> FloatArray:  # noqa: ARG002
        """Return f(z | .) of a new secret."""
        assert report.channel is not None
        likelihood = report.channel.likelihood(report.output)
        if likelihood.any():
            return likelihood
        self.impossible += 1
        return np.ones_like(likelihood)

    def condition(self, posterior: FloatArray) -> None:
        """Do nothing."""


class _Target:
    """The belief about one user and, if it is fixed, the cached estimates for one channel.

    If the channel has a hidden state, there is a tracker of it.
    """

    __slots__ = ("belief", "channel", "estimates", "fallback", "fixed", "link", "tracker")

    def __init__(self, belief: Belief, tracker: StateTracker | None) -> None:
        self.tracker = tracker
        self.link = BeliefCapabilities.link.of(belief)
        self.belief = belief
        self.fixed = bool(BeliefCapabilities.fixed.of(belief))
        self.channel: Channel | None = None
        self.estimates: _Estimates | None = None
        self.fallback: _Fallback | None = None


class _Fallback(NamedTuple):
    """The estimates for a channel under the fallback priors of a belief, which seldom change."""

    channel: Channel
    priors: tuple[FloatArray, ...]
    by_output: IntArray

    def serves(self, channel: Channel, priors: tuple[FloatArray, ...]) -> bool:
        """Return whether channel and priors are the same objects."""
        same_number = len(priors) == len(self.priors)
        return channel is self.channel and same_number and all(map(operator.is_, priors, self.priors))


def _first_known(estimates: Sequence[IntArray]) -> IntArray:
    """Return, for each output, the first of several estimates that is not -1.

    >>> _first_known([np.array([3, -1, -1]), np.array([4, 5, -1])])
    array([ 3,  5, -1])
    """
    known = estimates[0]
    for other in estimates[1:]:
        known = np.where(known < 0, other, known)
    return read_only(known)


def priors_in_order(belief: Belief, time_s: int, n_cells: int) -> Iterator[FloatArray]:
    """Yield the prior, the fallback priors and a uniform one: the order to try for an output without mass."""
    yield belief.prior(time_s)
    yield from BeliefCapabilities.fallback_priors.of(belief)
    yield np.full(n_cells, 1 / n_cells)
