"""Cross-validation: a mixture of beliefs weighted by their predictive likelihood of the reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from sim.belief.forgetting import retention
from sim.inference.bayes import condition, normalise, read_only
from sim.interfaces import Belief, FloatArray


class Candidate(Belief, Protocol):
    """A belief that certifies its estimates."""

    worst_gap: float
    alarms: int


class CrossValidated:
    """Average several candidate beliefs, weighted by how well each predicted the reports so far.

    The score of a candidate is the sum over reports of log(L . pi), where pi is its prior *before* the report. Each
    candidate is thus evaluated on reports that it has not seen, and only released reports are used. The prior is the
    weighted mean of the candidates' priors, with weights proportional to exp(score): Bayesian model averaging under a
    uniform prior over the candidates. With `half_life_queries` (in (0, inf)), the weight of a report in the score
    halves after this number of further reports.
    """

    fixed: bool = False

    def __init__(self, *, candidates: Sequence[Candidate], half_life_queries: float | None = None) -> None:
        if not candidates:
            raise ValueError("candidates must have at least one element, got 0")
        if half_life_queries is not None and not half_life_queries > 0:
            raise ValueError(f"half_life_queries must be in (0, inf), got {half_life_queries}")
        self._candidates = tuple(candidates)
        self._retention = retention(half_life_queries)
        self._scores = np.zeros(len(self._candidates))
        self._candidate_priors: list[FloatArray] = []
        self._prior: FloatArray | None = None
        self.fallbacks = 0
        """Number of reports without mass under the prior. Their posterior is the normalised likelihood."""

    @property
    def weights(self) -> FloatArray:
        """The weights of the candidates, shape (n_candidates,)."""
        return normalise(np.exp(self._scores - self._scores.max()))

    @property
    def worst_gap(self) -> float:
        """The largest certified gap of any estimate of any candidate, in [0, inf)."""
        return max(candidate.worst_gap for candidate in self._candidates)

    @property
    def alarms(self) -> int:
        """The largest number of changes that any candidate detected."""
        return max(candidate.alarms for candidate in self._candidates)

    def prior(self, time_s: int) -> FloatArray:
        """Return the weighted mean; the same read-only array as long as the candidates' priors do not change."""
        priors = [candidate.prior(time_s) for candidate in self._candidates]
        previous = self._candidate_priors
        if self._prior is None or any(new is not old for new, old in zip(priors, previous, strict=True)):
            self._candidate_priors = priors
            self._prior = read_only(normalise(self.weights @ np.array(priors)))
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Update scores and candidates with the report; return the posterior under the prior before the report."""
        prior = self.prior(time_s)
        evidence = np.array([likelihood @ candidate_prior for candidate_prior in self._candidate_priors])
        for candidate in self._candidates:
            candidate.observe(time_s, likelihood)
        self._scores = self._retention * self._scores + np.log(np.maximum(evidence, np.finfo(np.float64).tiny))
        self._prior = None
        posterior, mass = condition(prior, likelihood)
        if mass > 0:
            return posterior
        self.fallbacks += 1
        return normalise(likelihood)
