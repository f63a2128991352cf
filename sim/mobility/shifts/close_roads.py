"""Closed roads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from sim.components.registry import component
from sim.interfaces import Generator
from sim.mobility.shifts.parameters import ShiftOfRoads, SomeShare
from sim.world.grid import Grid

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("shift")
class CloseRoadsParameters(ShiftOfRoads):
    """Closed roads: a share of all roads or those of some cells, as long as every place remains reachable."""

    kind: Literal["close_roads"] = "close_roads"
    share: SomeShare | None = None
    """Share of all roads, by direction, drawn at random; either this or `cells` is required."""
    cells: Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] | None = None
    """Cells whose roads, those with an end in the cell, are closed."""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        if (self.share is None) == (self.cells is None):
            both = "none" if self.share is None else "both"
            raise ValueError(f"say which roads: allowed is one of `share` and `cells`, found {both}")
        return self

    def changed(self, roads: Roads, grid: Grid, rng: Generator) -> Roads:
        """Return the roads without the closed ones."""
        from sim.world.roads.closures import close

        if outside := [cell for cell in self.cells or () if cell >= grid.n_cells]:
            raise ValueError(f"`cells` must be below {grid.n_cells}, found {outside[0]}")
        return close(roads, grid, share=self.share, cells=self.cells, rng=rng)
