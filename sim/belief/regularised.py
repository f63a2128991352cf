"""Ways to keep an estimate from saying more than the reports do: a prior, neighbours, a choice among candidates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.interfaces import Belief, FloatArray

EVEN_SHARE = 1e-3
"""So much of the centre of a prior is spread over all cells, so that no place can be held impossible for ever."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regularisation:
    """A Dirichlet prior centred on the initial profile, and a kernel that spreads the mass of a cell to others."""

    prior_reports: float
    """How many reports the prior is worth, above 0."""
    kernel: FloatArray | None = None
    """[to cell, from cell], whose columns sum to 1; None if nothing is spread."""

    def __post_init__(self) -> None:
        if not 0 < self.prior_reports < np.inf:
            raise ValueError(f"prior_reports must be in (0, inf), got {self.prior_reports}")


def smoothing_kernel(distance_km: FloatArray, smooth_km: float) -> FloatArray | None:
    """Return the kernel that falls by e with every `smooth_km`, None for 0.

    >>> smoothing_kernel(np.array([[0.0, 1.0], [1.0, 0.0]]), 1 / np.log(3)).round(3).tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    """
    if smooth_km == 0:
        return None
    kernel = np.exp(-distance_km.T / smooth_km)
    return read_only(np.ascontiguousarray(kernel / kernel.sum(axis=0)))


def lifted(profile: FloatArray) -> FloatArray:
    """Return the profile, or each row of several, with `EVEN_SHARE` of it spread over all cells."""
    return np.asarray((1 - EVEN_SHARE) * profile + EVEN_SHARE / profile.shape[-1])


class RecursiveProfile:
    """Learn the profile report by report: each adds the posterior it led to, at the time, to counts of cells.

    The profile is (prior_reports pi_ini + counts) / (prior_reports + amount), where the amount is the sum of the
    counts: quasi-Bayes (Smith and Makov 1978, J. R. Statist. Soc. B 40, 106-112), one step of EM for each report and no
    second look at it. With a half-life the counts fade and the initial profile does not, so that it keeps its share
    however sure the counts are of one place: without it, a user who moves away from there would never be found again.
    A query costs no more after a thousand reports than after one, nothing is kept but the counts, and there is no
    likelihood that is certainly the best.
    """

    fixed: bool = False

    def __init__(
        self, *, initial_profile: ArrayLike, prior_reports: float = 0.3, half_life_queries: float | None = 10.0
    ) -> None:
        if not 0 < prior_reports < np.inf:
            raise ValueError(f"prior_reports must be in (0, inf), got {prior_reports}")
        if half_life_queries is not None and not half_life_queries > 0:
            raise ValueError(f"half_life_queries must be above 0, got {half_life_queries}")
        self._prior = read_only(lifted(distribution(initial_profile, "initial_profile")))
        self._pseudo = prior_reports * self._prior
        self._keep = 1.0 if half_life_queries is None else 2.0 ** (-1 / half_life_queries)
        self._counts = np.zeros(self._prior.size)
        self.fallbacks = 0
        """How many reports the prior held impossible: there the likelihood alone was believed."""

    def prior(self, time_s: int) -> FloatArray:  # noqa: ARG002 - the same until the next report
        """Return the profile before the next query, the same read-only array until the next report."""
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:  # noqa: ARG002 - reports are counted
        """Learn from a report; return the posterior under the prior before it."""
        posterior, mass = condition(self._prior, likelihood)
        if not mass > 0:
            posterior = normalise(likelihood)
            self.fallbacks += 1
        self._counts = self._keep * self._counts + posterior
        self._prior = read_only(normalise(self._pseudo + self._counts))
        return posterior


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
