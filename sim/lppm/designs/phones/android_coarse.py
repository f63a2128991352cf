"""Android coarse location: a drifting offset, then the nearest point of a grid of 2 km."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.components.registry import component
from sim.components.spec import Count, Share
from sim.lppm.designs.phones.android import LEAST_ACCURACY_M, METRES_PER_DEGREE, grid_rule
from sim.lppm.designs.phones.fudger import AtMostEvery, fudger
from sim.lppm.hidden.laws import GaussianOffsets
from sim.lppm.hidden.offsets import SecretParameters
from sim.lppm.hidden.secret import SecretDesign, require_pairs
from sim.lppm.parameters import ShortNames, WorldSize
from sim.world import World
from sim.world.locations import KM_PER_DEGREE, Locations

Accuracy = Annotated[float, Field(ge=LEAST_ACCURACY_M, le=1e6)]


class FudgerParameters(SecretParameters):
    """Parameters of the offset that all versions of Android's `LocationFudger` share."""

    group: ClassVar[str] = "phones and apps"
    needs_coordinates: ClassVar[bool] = True

    accuracy_m: Accuracy = 2000.0
    """Coarse accuracy in m, at least 200; the default is Android's. The standard deviation of each coordinate of the
    offset is a quarter of it."""
    update_interval_s: Count = 3600
    """Time after which a query updates the offset, in s."""
    change_per_update: Share = 0.03
    """Weight of the new offset in an update; that of the old one is the square root of 1 minus its square."""

    @property
    def law(self) -> GaussianOffsets:
        """The law of the offset."""
        return GaussianOffsets(std_km=self.accuracy_m / 4000, levels=self.levels)

    @property
    def clock(self) -> AtMostEvery:
        """The updates of the offset."""
        return AtMostEvery(interval_s=self.update_interval_s, change=self.change_per_update)

    def require_feasible(self, size: WorldSize) -> None:
        """Raise `InvalidValue` if the pairs of cell and offset are too many; no matrix of cells is needed."""
        require_pairs(size.n_cells, (self.levels + 1) ** 2)


@component("design")
class AndroidCoarseParameters(FudgerParameters):
    """Android coarse location: adds a drifting Gaussian offset and reports the nearest point of a grid of 2 km."""

    short_names: ClassVar = ShortNames(design="Android", alone={})
    source: ClassVar[str] = (
        "AOSP frameworks/base, services/core/java/com/android/server/location/fudger/LocationFudger.java"
    )

    kind: Literal["android_coarse"] = "android_coarse"

    def step(self, locations: Locations) -> tuple[str, float, float] | None:  # noqa: ARG002
        """Return the step of the grid in km, after the parameter that sets it and its value."""
        return "accuracy_m", self.accuracy_m, self.accuracy_m / METRES_PER_DEGREE * KM_PER_DEGREE

    def build(self, world: World) -> SecretDesign:
        """Return the design for the grid and the quality distance of a world."""
        return fudger(world, grid_rule(self.accuracy_m), law=self.law, clock=self.clock)
