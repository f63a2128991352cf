"""Optimal attacks: a belief about the user, Bayes' rule, and the estimate that minimises the expected error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.events import Guess, Report
from sim.inference import decide, decide_many
from sim.interfaces import Belief, BoolArray, Channel, FloatArray, IntArray
from sim.world.distance import Distance


class OptimalAttack:
    """Estimate each user's cell as argmin over y of sum_x p(x | z^r) d_P(x, y), with one belief per user.

    With a `FixedProfile` of the test this is the paper's optimal sporadic attack, with a `MarkovFilter` its optimal
    Markov attack (Oya et al. 2019, Sect. V). The mechanism is known through the report's channel.

    `foresee` also works out the answer to every output that might have come, which expected figures need.
    """

    def __init__(self, *, belief_of: Callable[[str], Belief], distance: Distance, foresee: bool = False) -> None:
        self._belief_of = belief_of
        self._distance = distance
        self._foresee = foresee
        self._beliefs: dict[str, Belief] = {}
        self._fixed_answers: dict[str, tuple[Channel, _Answers | None]] = {}
        self._fallbacks = 0

    @property
    def fallbacks(self) -> int:
        """How often a report had no mass under a belief."""
        return self._fallbacks + sum(int(getattr(belief, "fallbacks", 0)) for belief in self._beliefs.values())

    def observe(self, report: Report) -> Guess:
        """Take in one report and estimate where the user was."""
        belief = self._beliefs.get(report.user)
        if belief is None:
            belief = self._beliefs[report.user] = self._belief_of(report.user)
        fixed = getattr(belief, "fixed", False)
        answers = (
            self._remembered(belief, report) if fixed else self._answers(belief, report) if self._foresee else None
        )
        if answers is not None and fixed:
            self._fallbacks += int(answers.without_mass[report.output])
        else:
            posterior = belief.observe(report.time_s, report.channel.likelihood(report.output))
        if answers is None:
            estimate = decide(posterior, self._distance.matrix_km, self._distance.shape)
        else:
            estimate = int(answers.estimates[report.output])
        return Guess(report.user, report.index, estimate, answers.estimates if answers and self._foresee else None)

    def _remembered(self, belief: Belief, report: Report) -> _Answers | None:
        """Return the answers of a belief that never changes, worked out once a channel is there to stay."""
        channel, answers = self._fixed_answers.get(report.user, (None, None))
        stays = channel is report.channel
        if not stays or answers is None:
            answers = self._answers(belief, report) if stays or self._foresee else None
            self._fixed_answers[report.user] = (report.channel, answers)
        return answers

    def _answers(self, belief: Belief, report: Report) -> _Answers:
        """Return the estimate for every possible output. Changes no state."""
        outputs, likelihoods = report.channel.likelihoods()
        estimates = np.full(report.channel.n_outputs, -1, dtype=np.int64)
        without_mass = np.zeros(report.channel.n_outputs, dtype=np.bool_)
        for prior in _priors(belief, report.time_s, likelihoods.shape[1]):
            found = decide_many(likelihoods * prior, self._distance.matrix_km, self._distance.shape)
            estimates[outputs] = found
            if (found >= 0).all():
                break
            outputs, likelihoods = outputs[found < 0], likelihoods[found < 0]
            without_mass[outputs] = True
        return _Answers(estimates, without_mass)


@dataclass(frozen=True, slots=True)
class _Answers:
    """An adversary's answer to each output of a channel; -1 for one that cannot come."""

    estimates: IntArray
    without_mass: BoolArray


def _priors(belief: Belief, time_s: int, n_cells: int) -> list[FloatArray]:
    """Return the prior and what takes its place, in order, for an output that has no mass under it."""
    return [belief.prior(time_s), *getattr(belief, "fallback_priors", ()), np.full(n_cells, 1 / n_cells)]
