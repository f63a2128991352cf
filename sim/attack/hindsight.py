"""Attacks that come back to the past: what later reports tell about earlier queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np

from sim.attack.optimal import HiddenChannel, OptimalAttack, priors_in_turn
from sim.components.spec import Count, Spec
from sim.events import Guess, Report
from sim.inference.bayes import decide_many, read_only
from sim.inference.smoothing import Link, extend, likeliest, logarithm, rescaled, smooth, trace_back
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import Belief, Channel, ChannelCapabilities, FloatArray, IntArray
from sim.world.distance import Distance

Revised = Sequence[tuple[int, int]]


class Chained(Belief, Protocol):
    """A belief that follows the user from report to report: `MarkovFilter`, or several of them in force in turn."""

    @property
    def fallbacks(self) -> int:
        """How many reports it held impossible: there it began anew."""
        ...

    def link(self, time_s: int) -> Link:
        """Return the transitions that lead from the last report to one at this time; None where it begins anew."""
        ...


class Hindsight(Spec):
    """Which past queries an adversary estimates once more, in the light of later reports."""

    lags: list[Count] = [1, 5]
    """Lags: at each report, estimate again the query this many before it."""
    final: bool = True
    """At the end, estimate all of them again from all reports."""

    def guesses(self, queries: int) -> int:
        """Return the number of guesses about the past for a user with this many queries."""
        within = [lag for lag in set(self.lags) if lag < queries]
        at_reports = sum(queries - lag for lag in within)
        at_last = max(queries - 1, 0) - len(within) if self.final else 0
        return at_reports + at_last


class SmoothingAttack:
    """Answer as the optimal Markov attack does, and estimate past queries once more in the light of later reports.

    At each report the queries `lags` before it are estimated anew (fixed-lag smoothing), and with `final`, when
    everything has been said, all of them: argmin over y of sum_x p(x^s = x | z^1 .. z^r) d_P(x, y), with the posterior
    of the forward-backward recursion (Rabiner 1989); its error is P_AE(f, h, r, s) of Oya et al. 2019, eq. (PAE). Keeps
    one row of n_cells numbers per report; a report costs two matrix-vector products for each step up to the longest
    lag.
    """

    def __init__(
        self,
        hindsight: Hindsight,
        *,
        belief_of: Callable[[str], Chained],
        distance: Distance,
        foresee: bool = False,
        tell: bool = False,
    ) -> None:
        self._belief_of = belief_of
        self._distance = distance
        self._lags = sorted(set(hindsight.lags))
        self._final = hindsight.final
        self._tell = tell
        self._users: dict[str, _Past] = {}
        self._online = OptimalAttack(
            belief_of=lambda name: self._users[name].belief, distance=distance, foresee=foresee, tell=True
        )

    @property
    def fallbacks(self) -> int:
        """How often a report had no mass under a belief."""
        return self._online.fallbacks

    def observe(self, report: Report) -> Guess:
        """Take in one report, estimate where the user was, and where she was some reports ago."""
        user = self._users.get(report.user)
        if user is None:
            user = self._users[report.user] = _Past(self._belief_of(report.user))
        link, fallbacks = user.belief.link(report.time_s), user.belief.fallbacks
        guess = self._online.observe(report)
        assert guess.posterior is not None
        user.indices.append(report.index)
        user.links.append(None if user.belief.fallbacks > fallbacks else link)
        user.filtered.append(guess.posterior)
        revised = self._estimates(user, self._lags, longest=self._lags[-1]) if self._lags else ()
        return guess._replace(revised=revised, posterior=guess.posterior if self._tell else None)

    def conclude(self) -> Iterator[Guess]:
        """Yield what all reports tell about each user's past; what the last report has led to is not said again."""
        for name, user in self._users.items() if self._final else ():
            said = set(self._lags)
            lags = [lag for lag in range(1, len(user.indices)) if lag not in said]
            revised = self._estimates(user, lags, longest=len(user.indices) - 1)
            if revised:
                yield Guess(name, user.indices[-1], revised[0][1], revised=revised)

    def _estimates(self, user: _Past, lags: Sequence[int], *, longest: int) -> Revised:
        """Return the index and the estimate of the queries so many reports ago, as far as there are any."""
        lags = [lag for lag in lags if lag < len(user.indices)]
        if not lags:
            return ()
        start = -1 - min(longest, len(user.indices) - 1)
        smoothed = smooth(np.array(user.filtered[start:]), user.links[start:])[[-1 - lag for lag in lags]]
        estimates = decide_many(smoothed, self._distance.matrix_km, self._distance.shape).tolist()
        return [(user.indices[-1 - lag], estimate) for lag, estimate in zip(lags, estimates, strict=True)]


class PathAttack:
    """Estimate the last cell of the most likely path: Viterbi decoding, the mode of the joint posterior.

    Where `OptimalAttack` minimises the expected error of each query, this asks for the one sequence of cells that
    explains all reports best (Viterbi 1967; the maximum likelihood tracking attack of Shokri et al. 2011). Ties
    go to the lowest cell. With each report the path may change: the queries `lags` before it are answered anew, and
    with `final` all of them in the end. Keeps one row of n_cells numbers per report; a report costs n_cells^2.
    """

    def __init__(
        self,
        hindsight: Hindsight,
        *,
        belief_of: Callable[[str], Chained],
        foresee: bool = False,
        tell: bool = False,
    ) -> None:
        self._belief_of = belief_of
        self._lags = sorted(set(hindsight.lags))
        self._final = hindsight.final
        self._foresee = foresee
        self._tell = tell
        self._users: dict[str, _Path] = {}

    @property
    def fallbacks(self) -> int:
        """How often a report had no mass under a belief."""
        return sum(user.belief.fallbacks for user in self._users.values())

    def observe(self, report: Report) -> Guess:
        """Take in one report, and read the user's cell, and some earlier ones, off the most likely path."""
        name, index, time_s, output, channel = report
        if channel is None:
            raise HiddenChannel(report)
        user = self._users.get(name)
        if user is None:
            user = self._users[name] = _Path(self._belief_of(name))
        ahead, before = user.ahead(time_s)
        listed = self._foresee and not ChannelCapabilities.countless.of(channel)
        by_output = _likeliest_by_output(user.belief, time_s, channel, ahead) if listed else None
        likelihood = channel.likelihood(output)
        fallbacks = user.belief.fallbacks
        posterior = user.belief.observe(time_s, likelihood)
        if user.belief.fallbacks > fallbacks:
            user.follow(index, logarithm(posterior), None)
        else:
            user.follow(index, ahead + logarithm(likelihood), before)
        revised = user.recall(self._lags)
        return Guess(name, index, user.cell, by_output, posterior if self._tell else None, revised=revised)

    def conclude(self) -> Iterator[Guess]:
        """Yield the rest of each user's most likely path; what the last report has led to is not said again."""
        for name, user in self._users.items() if self._final else ():
            said = set(self._lags)
            revised = user.recall([lag for lag in range(1, len(user.indices)) if lag not in said])
            if revised:
                yield Guess(name, user.indices[-1], revised[0][1], revised=revised)


class _Past:
    """What the adversary keeps of one user to look back on."""

    __slots__ = ("belief", "filtered", "indices", "links")

    def __init__(self, belief: Chained) -> None:
        self.belief = belief
        self.indices: list[int] = []
        self.links: list[Link] = []
        self.filtered: list[FloatArray] = []


class _Path:
    """The most likely paths of one user to each cell, and which of them is the best."""

    __slots__ = ("_came_from", "_closed", "_link", "_log_link", "_scores", "belief", "cell", "indices")

    def __init__(self, belief: Chained) -> None:
        self.belief = belief
        self.cell = -1
        """Where the best one ends."""
        self.indices: list[int] = []
        self._scores: FloatArray = np.empty(0)
        self._came_from: list[IntArray | None] = []
        self._closed: list[int] = []
        """The path up to where the chain last began anew: nothing that comes later changes it."""
        self._link: Link = None
        self._log_link: FloatArray = np.empty(0)

    def ahead(self, time_s: int) -> tuple[FloatArray, IntArray | None]:
        """Return the log scores of the best paths one query on, and where each comes from. Changes no path."""
        link = self.belief.link(time_s)
        if link is None:
            return logarithm(self.belief.prior(time_s)), None
        if link is not self._link:
            self._link, self._log_link = link, logarithm(link)
        return extend(self._scores, self._log_link)

    def follow(self, index: int, scores: FloatArray, before: IntArray | None) -> None:
        """Go on with new scores; without predecessors the path so far is closed."""
        if before is None and self.indices:
            self._closed += trace_back(self._came_from, self.cell)
            self._came_from = []
        self.indices.append(index)
        self._came_from.append(None if before is None else before.astype(np.int32))
        self._scores = rescaled(scores)
        self.cell = int(likeliest(self._scores))

    def recall(self, lags: Sequence[int]) -> Revised:
        """Return the index and the cell of the queries so many reports ago, as far as there are any."""
        lags = [lag for lag in lags if lag < len(self.indices)]
        if not lags:
            return ()
        longest = max(lags)
        open_end = trace_back(self._came_from[-1 - longest :], self.cell)
        cells = self._closed[len(self._closed) + len(open_end) - longest - 1 :] + open_end
        return [(self.indices[-1 - lag], cells[-1 - lag]) for lag in lags]


def _likeliest_by_output(belief: Belief, time_s: int, channel: Channel, ahead: FloatArray) -> IntArray:
    """Return the end of the most likely path for every possible output, -1 for the others. Changes no state."""
    outputs, likelihoods = channel.likelihoods()
    estimates = np.full(channel.n_outputs, -1, dtype=np.int64)
    for place, prior in enumerate(priors_in_turn(belief, time_s, likelihoods.shape[1])):
        scores = ahead if place == 0 else logarithm(prior)
        possible = likelihoods @ prior > MASS_FLOOR
        if possible.any():
            estimates[outputs[possible]] = likeliest(scores + logarithm(likelihoods[possible]))
        outputs, likelihoods = outputs[~possible], likelihoods[~possible]
        if not len(outputs):
            break
    return read_only(estimates)
