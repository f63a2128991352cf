"""The hardwired sporadic belief (SP): queries are independent draws from one known profile."""

from __future__ import annotations

from typing import ClassVar, Literal

from numpy.typing import ArrayLike

from sim.belief.parameters import BeliefParameters
from sim.components.registry import component
from sim.inference.bayes import condition, distribution, normalise
from sim.interfaces import FloatArray
from sim.mobility.statistics import Statistics
from sim.world import World


@component("belief")
class FixedProfileParameters(BeliefParameters):
    """Sporadic, hardwired (SP): uses a given profile that never changes."""

    short_name: ClassVar = "SP"
    hardwired: ClassVar = True
    memoryless: ClassVar = True

    kind: Literal["fixed_profile"] = "fixed_profile"

    def build(self, statistics: Statistics, restart_s: int | None, world: World) -> FixedProfile:  # noqa: ARG002
        """Return the belief with the profile of the statistics."""
        return FixedProfile(profile=statistics.profile)


class FixedProfile:
    """The hardwired sporadic model: queries are independent draws from one given profile, shape (n_cells,)."""

    fixed: bool = True

    def __init__(self, *, profile: ArrayLike) -> None:
        self._profile = distribution(profile, "profile")
        self.fallbacks = 0
        """Number of reports without mass under the profile. Their posterior is the normalised likelihood."""

    def prior(self, time_s: int) -> FloatArray:  # noqa: ARG002 - the same at all times
        """Return the profile, always the same read-only array, so that callers can cache by identity."""
        return self._profile

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Return the posterior; the profile does not change."""
        posterior, mass = condition(self.prior(time_s), likelihood)
        if mass > 0:
            return posterior
        posterior = normalise(likelihood)
        self.fallbacks += 1
        return posterior
