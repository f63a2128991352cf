"""The recursive profile belief (RPEB): each report updates the profile once (Smith and Makov 1978)."""

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
    """Sporadic, blank-slate (RPEB): each report adds its posterior to the profile, once."""

    short_name: ClassVar = "RPEB"

    kind: Literal["recursive_profile"] = "recursive_profile"
    initial: Literal["training", "uniform"] = "training"
    """Initial profile: that of the training data, or uniform over all cells."""
    prior_reports: Positive = 0.3
    """Weight of the initial profile, in reports. It does not decay."""
    half_life_queries: Literal["none"] | Positive = 10.0
    """Half-life of a report's weight, in reports; none: no decay."""

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> RecursiveProfile:  # noqa: ARG002
        """Return the belief, which starts at the training profile or a uniform one."""
        return RecursiveProfile(self, initial_profile=statistics.initial_profile(self.initial))


class RecursiveProfile:
    """Learn the profile recursively: each report adds its posterior at that time to counts of cells.

    The profile is (prior_reports pi_ini + counts) / (prior_reports + sum of counts): quasi-Bayes (Smith and Makov 1978,
    J. R. Statist. Soc. B 40, 106-112), one step of EM per report. With a half-life the counts decay and the initial
    profile does not. It keeps a minimum share, so that the belief can follow a user who moves away from a place where
    all counts are concentrated. Time and memory per query do not grow with the number of reports. The estimate does not
    maximise the likelihood and has no certified gap.
    """

    fixed: bool = False

    def __init__(self, parameters: RecursiveProfileParameters, *, initial_profile: ArrayLike) -> None:
        self._prior = read_only(lifted(distribution(initial_profile, "initial_profile")))
        self._pseudo = parameters.prior_reports * self._prior
        self._retention = retention(parameters.half_life_queries)
        self._counts = np.zeros(self._prior.size)
        self.fallbacks = 0
        """Number of reports without mass under the prior. Their posterior is the normalised likelihood."""

    def prior(self, time_s: int) -> FloatArray:  # noqa: ARG002 - the same until the next report
        """Return the prior of the next query, the same read-only array until the next report."""
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:  # noqa: ARG002 - reports are counted
        """Learn from a report; return the posterior under the prior before the report."""
        posterior, mass = condition(self._prior, likelihood)
        if not mass > 0:
            posterior = normalise(likelihood)
            self.fallbacks += 1
        self._counts = self._retention * self._counts + posterior
        self._prior = read_only(normalise(self._pseudo + self._counts))
        return posterior
