"""Drifting offset: displace the reports of a user by a secret vector that changes slowly."""

from __future__ import annotations

from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import Positive
from sim.lppm.hidden.clocks import Drifting
from sim.lppm.hidden.laws import GaussianOffsets
from sim.lppm.hidden.offsets import SecretParameters, offset_design
from sim.lppm.hidden.secret import SecretDesign
from sim.lppm.parameters import ShortNames
from sim.world import World


@component("design")
class DriftingOffsetParameters(SecretParameters):
    """Drifting offset: displaces the reports of a user by a secret Gaussian vector that changes slowly."""

    short_names: ClassVar = ShortNames(design="DriftingOffset", alone={})

    kind: Literal["drifting_offset"] = "drifting_offset"
    std_km: Positive = 0.5
    """Standard deviation of each coordinate of the offset in km."""
    time_constant_h: Positive = 24.0
    """Time in hours in which the correlation of the offset decreases by the factor e: an autoregressive process of
    order 1."""

    def build(self, world: World) -> SecretDesign:
        """Return the design for the grid of a world."""
        law = GaussianOffsets(std_km=self.std_km, levels=self.levels)
        return offset_design(world, law, Drifting(3600 * self.time_constant_h))
