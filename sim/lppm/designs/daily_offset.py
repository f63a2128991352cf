"""Daily offset: displace the reports of a user by a secret vector that is drawn once a day."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.lppm.hidden.clocks import Periodic
from sim.lppm.hidden.offsets import ShapedOffset, offset_design, offsets
from sim.lppm.hidden.secret import SecretDesign
from sim.lppm.parameters import ShortNames
from sim.world import World


@component("design")
class DailyOffsetParameters(ShapedOffset):
    """Daily offset: displaces the reports of a user by a secret vector, drawn once a day."""

    short_names: ClassVar = ShortNames(design="DailyOffset", alone={})

    kind: Literal["daily_offset"] = "daily_offset"

    def build(self, world: World) -> SecretDesign:
        """Return the design for the grid of a world."""
        return offset_design(world, offsets(self.shape, self.scale_km, self.levels), Periodic())
