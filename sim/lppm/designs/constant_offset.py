"""Constant offset: displace all reports of a user by the same secret vector."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.lppm.hidden.clocks import Constant
from sim.lppm.hidden.offsets import ShapedOffset, offset_design, offsets
from sim.lppm.hidden.secret import SecretDesign
from sim.lppm.parameters import ShortNames
from sim.world import World


@component("design")
class ConstantOffsetParameters(ShapedOffset):
    """Constant offset: displaces all reports of a user by the same secret vector, drawn once."""

    short_names: ClassVar = ShortNames(design="ConstantOffset", alone={})

    kind: Literal["constant_offset"] = "constant_offset"

    def build(self, world: World) -> SecretDesign:
        """Return the design for the grid of a world."""
        return offset_design(world, offsets(self.shape, self.scale_km, self.levels), Constant())
