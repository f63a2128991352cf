"""Android coarse location by population density: a drifting offset, then the centre of an S2 cell."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.components.registry import component
from sim.components.spec import NonNegative, PeopleCount
from sim.lppm.designs.phones.android import s2_rule
from sim.lppm.designs.phones.android_coarse import FudgerParameters
from sim.lppm.designs.phones.fudger import fudger
from sim.lppm.designs.phones.s2 import mean_area_km2
from sim.lppm.hidden.secret import SecretDesign
from sim.lppm.parameters import ShortNames
from sim.world import World
from sim.world.locations import Locations

FINEST_LEVEL = 12
"""Finest S2 level to which Android coarsens, cells of 2.25 km on average."""


@component("design")
class AndroidDensityParameters(FudgerParameters):
    """Android coarse location by density: adds a drifting offset and reports the centre of an S2 cell."""

    short_names: ClassVar = ShortNames(design="AndroidS2", alone={})
    source: ClassVar[str] = "AOSP frameworks/base, LocationFudger.java and LocationFudgerCache.java (Android 16)"

    kind: Literal["android_density"] = "android_density"
    people_per_km2: NonNegative | None = None
    """Population density of the region. By default so high that the finest level applies."""
    least_people: PeopleCount = 1000
    """Least number of people in a cell, if a density is given: the finest level with cells of that many people on
    average is used. Android obtains levels from a provider whose rule is not published; this one is an assumption."""
    finest_level: Annotated[int, Field(ge=0, le=30)] = FINEST_LEVEL
    """Finest S2 level; Android's is 12, with cells of 2.25 km on average. Each level less doubles their sides."""

    @property
    def level(self) -> int:
        """The S2 level of the region."""
        if self.people_per_km2 is None:
            return self.finest_level
        return next(
            (
                level
                for level in range(self.finest_level, 0, -1)
                if self.people_per_km2 * mean_area_km2(level) >= self.least_people
            ),
            0,
        )

    def step(self, locations: Locations) -> tuple[str, float, float] | None:  # noqa: ARG002
        """Return the mean side of the S2 cells in km, after the parameter that limits it and its value."""
        return "finest_level", self.finest_level, math.sqrt(mean_area_km2(self.level))

    def build(self, world: World) -> SecretDesign:
        """Return the design for the grid and the quality distance of a world."""
        return fudger(world, s2_rule(self.level), law=self.law, clock=self.clock)
