"""Road closures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from sim.components.registry import component
from sim.errors import InvalidValue
from sim.interfaces import Generator
from sim.mobility.shifts.parameters import ShiftOfRoads, SomeShare
from sim.world.locations import Locations

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("shift")
class CloseRoadsParameters(ShiftOfRoads):
    """Closure of a share of all roads or of the roads of some cells; roads needed for connectivity stay open."""

    kind: Literal["close_roads"] = "close_roads"
    share: SomeShare | None = None
    """Share of all directed roads to close, drawn at random; either `share` or `cells` is required."""
    cells: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    """Cells whose roads are closed: all roads that start or end there; either `share` or `cells` is required."""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if (self.share is None) == (self.cells is None):
            number, code = ("none", "missing-key") if self.share is None else ("both", "exclusive-keys")
            raise InvalidValue(f"exactly one of `share` and `cells` is required, found {number}", code=code)
        return self

    def changed(self, roads: Roads, locations: Locations, rng: Generator) -> Roads:
        """Return the roads without the closed ones."""
        from sim.world.roads.closures import close

        if outside := [cell for cell in self.cells or () if cell >= locations.n_cells]:
            raise InvalidValue(
                f"`cells` must be in [0, {locations.n_cells}), found {outside[0]}", code="cell-outside-grid"
            )
        return close(roads, locations, share=self.share, cells=self.cells, rng=rng)
