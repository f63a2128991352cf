"""Parameters that all mechanisms of phones and apps share."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from sim.lppm.designs.phones.coarsening import Coarsening, Rule
from sim.lppm.parameters import DesignParameters
from sim.world import World
from sim.world.locations import KM_PER_DEGREE, Locations


class PhoneParameters(DesignParameters):
    """Parameters of a mechanism that phones or apps use; the class attribute `source` cites it."""

    group: ClassVar[str] = "phones and apps"


class CoarseningParameters(PhoneParameters):
    """Parameters of a mechanism that replaces coordinates by those of a coarser grid, without randomness."""

    needs_coordinates: ClassVar[bool] = True

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior: never."""
        return False

    @abstractmethod
    def rule(self) -> Rule:
        """Return the function from latitudes and longitudes to those that are reported."""

    @abstractmethod
    def step_degrees(self) -> tuple[str, float, float]:
        """Return the step of latitude in degrees, after the parameter that sets it and its value."""

    def step(self, locations: Locations) -> tuple[str, float, float] | None:  # noqa: ARG002
        """Return the step of latitude in km, after the parameter that sets it and its value."""
        name, value, degrees = self.step_degrees()
        return name, value, degrees * KM_PER_DEGREE

    def build(self, world: World) -> Coarsening:
        """Return the design for the grid and the quality distance of a world."""
        return Coarsening(self.rule(), locations=world.locations, distance=world.quality_distance)
