"""Cross-validation: a mixture of beliefs weighted by their forecasts of the reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sim.inference.bayes import condition, normalise, read_only
from sim.interfaces import Belief, FloatArray


class Candidate(Belief, Protocol):
    """A belief that certifies its estimates."""

    worst_gap: float
    alarms: int


class CrossValidated:
    """Believe in several candidates, each as much as its forecasts of the reports so far have earned.

    A candidate's score is the sum over reports of log(L . pi), where pi is its prior *before* the report: it is judged
    by reports it has not seen, and nothing but released reports is used. The prior is the average of the candidates'
    with weights proportional to exp(score), which is Bayes' rule for candidates that were equally likely at first. With
    a half-life, old forecasts lose their weight in the score.
    """

    fixed: bool = False

    def __init__(self, *, candidates: Sequence[Candidate], half_life_queries: float | None = None) -> None:
        if not candidates:
            raise ValueError("candidates must not be empty, got none")
        if half_life_queries is not None and not half_life_queries > 0:
            raise ValueError(f"half_life_queries must be above 0, got {half_life_queries}")
        self._candidates = tuple(candidates)
        self._keep = 1.0 if half_life_queries is None else 2.0 ** (-1 / half_life_queries)
        self._scores = np.zeros(len(self._candidates))
        self._of: list[FloatArray] = []
        self._prior: FloatArray | None = None
        self.fallbacks = 0
        """How many reports the prior held impossible: there the likelihood alone was believed."""

    @property
    def weights(self) -> FloatArray:
        """Return how much each candidate is believed."""
        return normalise(np.exp(self._scores - self._scores.max()))

    @property
    def worst_gap(self) -> float:
        """Return the largest certified gap of any estimate of any candidate."""
        return max(candidate.worst_gap for candidate in self._candidates)

    @property
    def alarms(self) -> int:
        """Return how many changes were found, by the candidate that found most."""
        return max(candidate.alarms for candidate in self._candidates)

    def prior(self, time_s: int) -> FloatArray:
        """Return the average, the same read-only array while the candidates' priors are the same."""
        of = [candidate.prior(time_s) for candidate in self._candidates]
        if self._prior is None or any(now is not before for now, before in zip(of, self._of, strict=True)):
            self._of = of
            self._prior = read_only(normalise(self.weights @ np.array(of)))
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Let every candidate learn from the report, and judge it; return the posterior under the prior before it."""
        prior = self.prior(time_s)
        chances = np.array([likelihood @ own for own in self._of])
        for candidate in self._candidates:
            candidate.observe(time_s, likelihood)
        self._scores = self._keep * self._scores + np.log(np.maximum(chances, np.finfo(np.float64).tiny))
        self._prior = None
        posterior, mass = condition(prior, likelihood)
        if mass > 0:
            return posterior
        self.fallbacks += 1
        return normalise(likelihood)
