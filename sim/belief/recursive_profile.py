"""The recursive profile (RPEB): each report updates the profile once (Smith and Makov 1978)."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike

from sim.belief.forgetting import retention
from sim.belief.parameters import BeliefParameters
from sim.belief.regularisation import lifted
from sim.components.registry import component
from sim.components.spec import Positive
from sim.inference.bayes import condition, distribution, normalise, read_only
from sim.interfaces import FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World


@component("belief")
class RecursiveProfileParameters(BeliefParameters):
    """Sporadic, blank-slate (RPEB): each report adds to the profile the posterior it led to, once and for all."""

    short_name: ClassVar = "RPEB"

    kind: Literal["recursive_profile"] = "recursive_profile"
    initial: Literal["training", "uniform"] = "training"
    """What is believed before the first report."""
    prior_reports: Positive = 0.3
    """How many reports the initial profile is worth, which is never forgotten."""
    half_life_queries: Literal["none"] | Positive = 10.0
    """Half-life of a report's weight, in reports; none for no decay."""

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> RecursiveProfile:  # noqa: ARG002
        """Return the belief, which starts from the training profile or a uniform one."""
        return RecursiveProfile(self, initial_profile=statistics.initial_profile(self.initial))


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

    def __init__(self, parameters: RecursiveProfileParameters, *, initial_profile: ArrayLike) -> None:
        self._prior = read_only(lifted(distribution(initial_profile, "initial_profile")))
        self._pseudo = parameters.prior_reports * self._prior
        self._keep = retention(parameters.half_life_queries)
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
