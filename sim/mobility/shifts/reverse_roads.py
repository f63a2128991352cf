"""Reversal of one-way roads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sim.components.registry import component
from sim.interfaces import Generator
from sim.mobility.shifts.parameters import ShiftOfRoads, SomeShare
from sim.world.locations import Locations

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("shift")
class ReverseRoadsParameters(ShiftOfRoads):
    """Reversal of one-way roads; roads whose reversal would disconnect the network do not change."""

    kind: Literal["reverse_roads"] = "reverse_roads"
    share: SomeShare
    """Share of the one-way roads to reverse, drawn at random."""

    def changed(self, roads: Roads, locations: Locations, rng: Generator) -> Roads:
        """Return the roads with some one-way roads reversed."""
        from sim.world.roads.closures import reverse

        return reverse(roads, locations, share=self.share, rng=rng)
