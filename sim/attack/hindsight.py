"""Attacks with hindsight: estimate earlier queries again after later reports (smoothing and path decoding)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from sim.attack.optimal import HiddenChannel, NewSecrets, OptimalAttack, priors_in_order, require_no_memory
from sim.components.spec import Count, Spec
from sim.events import Guess, Report
from sim.inference.bayes import read_only
from sim.inference.smoothing import Link, likeliest, logarithm, rescaled, smooth, trace_back
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import Belief, Channel, ChannelCapabilities, FloatArray, IntArray
from sim.world.distance import Distance

Revised = Sequence[tuple[int, int]]


class Chained(Belief, Protocol):
    """A belief whose transitions link consecutive reports: `MarkovFilter`, or a sequence of them by `InForce`."""

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under the prior. The chain restarts at each."""
        ...

    def link(self, time_s: int) -> Link:
        """Return the transitions from the last report to one at this time, None if the chain restarts."""
        ...


class Hindsight(Spec):
    """Past queries that an adversary estimates again after later reports."""

    lags: list[Count] = [1, 5]
    """Lags in queries. At each report the adversary estimates again the queries this many before it."""
    final: bool = True
    """Estimate all queries again from all reports at the end of the simulation."""

    def guesses(self, queries: int) -> int:
        """Return the number of revised estimates for a user with this many queries."""
        within = [lag for lag in set(self.lags) if lag < queries]
        at_reports = sum(queries - lag for lag in within)
        at_last = max(queries - 1, 0) - len(within) if self.final else 0
        return at_reports + at_last


class SmoothingAttack:
    """The optimal Markov attack, extended by smoothing: it also revises estimates of past queries.

    At each report the queries `lags` before it are estimated again (fixed-lag smoothing) and, with `final`, all
    queries at the end of the simulation: argmin over y of sum_x p(x^s = x | z^1 .. z^r) d_P(x, y), with the posterior
    of the forward-backward recursion (Rabiner 1989). The error is P_AE(f, h, r, s) of Oya et al. 2019, eq. (PAE).
    Memory: one row of n_cells numbers per report. Time per report: two products with the transitions for each step up
    to the longest lag. `all_outputs` and `with_posterior` are as in `OptimalAttack`.
    """

    def __init__(
        self,
        hindsight: Hindsight,
        *,
        belief_of: Callable[[str], Chained],
        distance: Distance,
        all_outputs: bool = False,
        with_posterior: bool = False,
        ignores_memory: bool = False,
    ) -> None:
        self._belief_of = belief_of
        self._distance = distance
        self._lags = sorted(set(hindsight.lags))
        self._final = hindsight.final
        self._with_posterior = with_posterior
        self._ignores_memory = ignores_memory
        self._users: dict[str, _Past] = {}
        self._online = OptimalAttack(
            belief_of=self._belief,
            distance=distance,
            all_outputs=all_outputs,
            with_posterior=True,
            ignores_memory=True,
        )

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under a belief."""
        return self._online.fallbacks

    def observe(self, report: Report) -> Guess:
        """Process one report; estimate the cell of the user now and at the queries `lags` before."""
        user = self._users.get(report.user)
        if user is None:
            if not self._ignores_memory:
                require_no_memory(report)
            user = self._users[report.user] = _Past(self._belief_of(report.user))
        link, fallbacks = user.belief.link(report.time_s), user.belief.fallbacks
        guess = self._online.observe(report)
        assert guess.posterior is not None
        user.indices.append(report.index)
        user.links.append(None if user.belief.fallbacks > fallbacks else link)
        user.filtered.append(guess.posterior)
        revised = self._estimates(user, self._lags, longest=self._lags[-1]) if self._lags else ()
        return guess._replace(revised=revised, posterior=guess.posterior if self._with_posterior else None)

    def _belief(self, name: str) -> Belief:
        """Return the belief about a user, which the estimates of the current query and of past ones share."""
        return self._users[name].belief

    def conclude(self) -> Iterator[Guess]:
        """Yield the final estimates of each user's past queries, except those already made at the last report."""
        for name, user in self._users.items() if self._final else ():
            lags = [lag for lag in range(1, len(user.indices)) if lag not in self._lags]
            revised = self._estimates(user, lags, longest=len(user.indices) - 1)
            if revised:
                yield Guess(name, user.indices[-1], revised[0][1], revised=revised)

    def _estimates(self, user: _Past, lags: Sequence[int], *, longest: int) -> Revised:
        """Return index and estimate of the queries `lags` before the last, omitting lags before the first query."""
        lags = [lag for lag in lags if lag < len(user.indices)]
        if not lags:
            return ()
        start = -1 - min(longest, len(user.indices) - 1)
        smoothed = smooth(np.array(user.filtered[start:]), user.links[start:])[[-1 - lag for lag in lags]]
        estimates = self._distance.best_cells(smoothed).tolist()
        return [(user.indices[-1 - lag], estimate) for lag, estimate in zip(lags, estimates, strict=True)]


class PathAttack:
    """Estimate the last cell of the most likely path: Viterbi decoding, the mode of the joint posterior.

    `OptimalAttack` minimises the expected error of each query. This attack finds the single most likely sequence of
    cells given all reports (Viterbi 1967; the maximum likelihood tracking attack of Shokri et al. 2011). Ties go to the
    lowest cell. Each report can change the whole path: the queries `lags` before it are estimated again and, with
    `final`, all queries at the end. Memory: one row of n_cells numbers per report. Time per report: one pass over the
    transitions. `all_outputs` and `with_posterior` are as in `OptimalAttack`.
    """

    def __init__(
        self,
        hindsight: Hindsight,
        *,
        belief_of: Callable[[str], Chained],
        all_outputs: bool = False,
        with_posterior: bool = False,
        ignores_memory: bool = False,
    ) -> None:
        self._belief_of = belief_of
        self._lags = sorted(set(hindsight.lags))
        self._final = hindsight.final
        self._all_outputs = all_outputs
        self._with_posterior = with_posterior
        self._ignores_memory = ignores_memory
        self._users: dict[str, _Path] = {}

    @property
    def fallbacks(self) -> int:
        """The number of reports without mass under a belief."""
        impossible = [user.new_secrets.impossible for user in self._users.values() if user.new_secrets is not None]
        return sum(impossible) + sum(user.belief.fallbacks for user in self._users.values())

    def observe(self, report: Report) -> Guess:
        """Process one report; estimate the cell of the user, now and at some earlier queries, by the best path."""
        name, index, time_s, output, channel = report
        if channel is None:
            raise HiddenChannel(report)
        user = self._users.get(name)
        if user is None:
            if not self._ignores_memory:
                require_no_memory(report)
            user = self._users[name] = _Path(self._belief_of(name))
            if ChannelCapabilities.hidden_state.of(channel) is not None:
                user.new_secrets = NewSecrets()
        scores, before = user.extended(time_s)
        listed = self._all_outputs and not ChannelCapabilities.countless.of(channel)
        by_output = _likeliest_by_output(user.belief, time_s, channel, scores) if listed else None
        if user.new_secrets is None:
            likelihood = channel.likelihood(output)
        else:
            likelihood = user.new_secrets.likelihood(report, user.belief.prior(time_s), None)
        fallbacks = user.belief.fallbacks
        posterior = user.belief.observe(time_s, likelihood)
        if user.belief.fallbacks > fallbacks:
            user.follow(index, logarithm(posterior), None)
        else:
            user.follow(index, scores + logarithm(likelihood), before)
        revised = user.recall(self._lags)
        return Guess(name, index, user.cell, by_output, posterior if self._with_posterior else None, revised=revised)

    def conclude(self) -> Iterator[Guess]:
        """Yield each user's most likely path, except the estimates already made at the last report."""
        for name, user in self._users.items() if self._final else ():
            revised = user.recall([lag for lag in range(1, len(user.indices)) if lag not in self._lags])
            if revised:
                yield Guess(name, user.indices[-1], revised[0][1], revised=revised)


class _Past:
    """The belief about one user and the filtered posteriors to smooth."""

    __slots__ = ("belief", "filtered", "indices", "links")

    def __init__(self, belief: Chained) -> None:
        self.belief = belief
        self.indices: list[int] = []
        self.links: list[Link] = []
        self.filtered: list[FloatArray] = []


class _Path:
    """The most likely path of one user to each cell, and the best of them."""

    __slots__ = ("_came_from", "_closed", "_scores", "belief", "cell", "indices", "new_secrets")

    def __init__(self, belief: Chained) -> None:
        self.belief = belief
        self.new_secrets: NewSecrets | None = None
        """Likelihoods of a mechanism with hidden state, whose memory the attack ignores."""
        self.cell = -1
        """Last cell of the best path."""
        self.indices: list[int] = []
        self._scores: FloatArray = np.empty(0)
        self._came_from: list[IntArray | None] = []
        self._closed: list[int] = []
        """The path up to the last restart of the chain, which later reports do not change."""

    def extended(self, time_s: int) -> tuple[FloatArray, IntArray | None]:
        """Return log scores of the paths extended by one query and the predecessor of each cell. Changes no path."""
        link = self.belief.link(time_s)
        if link is None:
            return logarithm(self.belief.prior(time_s)), None
        return link.extend(self._scores)

    def follow(self, index: int, scores: FloatArray, before: IntArray | None) -> None:
        """Append a query with its log scores and predecessors; without predecessors, close the path so far."""
        if before is None and self.indices:
            self._closed += trace_back(self._came_from, self.cell)
            self._came_from = []
        self.indices.append(index)
        self._came_from.append(None if before is None else before.astype(np.int32))
        self._scores = rescaled(scores)
        self.cell = int(likeliest(self._scores))

    def recall(self, lags: Sequence[int]) -> Revised:
        """Return index and cell of the queries `lags` before the last, omitting lags before the first query."""
        lags = [lag for lag in lags if lag < len(self.indices)]
        if not lags:
            return ()
        longest = max(lags)
        open_end = trace_back(self._came_from[-1 - longest :], self.cell)
        cells = self._closed[len(self._closed) + len(open_end) - longest - 1 :] + open_end
        return [(self.indices[-1 - lag], cells[-1 - lag]) for lag in lags]


def _likeliest_by_output(belief: Belief, time_s: int, channel: Channel, extended: FloatArray) -> IntArray:
    """Return the last cell of the most likely path for every possible output, -1 for the others. Changes no state."""
    outputs, likelihoods = channel.likelihoods()
    estimates = np.full(channel.n_outputs, -1, dtype=np.int64)
    for attempt, prior in enumerate(priors_in_order(belief, time_s, likelihoods.shape[1])):
        scores = extended if attempt == 0 else logarithm(prior)
        possible = likelihoods @ prior > MASS_FLOOR
        if possible.any():
            estimates[outputs[possible]] = likeliest(scores + logarithm(likelihoods[possible]))
        outputs, likelihoods = outputs[~possible], likelihoods[~possible]
        if not len(outputs):
            break
    return read_only(estimates)
