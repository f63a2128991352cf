"""The world of a scenario: grid, roads, distances."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import model_validator

from sim.components.files import Place
from sim.components.registry import OneOf
from sim.components.spec import Spec
from sim.errors import InvalidValue
from sim.rng import stream
from sim.world import World
from sim.world.distances.manhattan import ManhattanParameters
from sim.world.grids.san_francisco import SanFranciscoParameters
from sim.world.parameters import DistanceParameters, GridParameters, RoadsParameters

Grid = Annotated[GridParameters, OneOf("grid")]
Roads = Annotated[RoadsParameters, OneOf("roads")]
Distance = Annotated[DistanceParameters, OneOf("distance")]


class WorldSpec(Spec):
    """World of the simulation: cells, roads, and distances between cells."""

    grid: Grid = SanFranciscoParameters()
    """Grid of cells, the possible locations."""
    roads: Roads | None = None
    """Road network; required by commuters, taxis, road distances and shifts of roads. Default: none."""
    privacy_distance: Distance = ManhattanParameters()
    """Distance d_P from the true cell to the adversary's estimate: the adversary error, in km."""
    quality_distance: Distance = ManhattanParameters()
    """Distance d_Q from the true cell to the reported one: the user's quality loss, in km."""

    @model_validator(mode="after")
    def _roads_on_earth(self) -> Self:
        if self.roads is not None and self.roads.needs_earth and not self.grid.on_earth:
            message = (
                f"roads from a {self.roads.kind} file need a grid with geographic coordinates, "
                f"found a {self.grid.kind}; allowed: san_francisco, region"
            )
            raise InvalidValue(message, code="no-coordinates")
        return self

    def build(self, seed: int, place: Place) -> World:
        """Build the world; `place` locates the files."""
        grid = self.grid.build()
        roads = None if self.roads is None else self.roads.build(grid, place, stream(seed, "roads"))
        privacy = self.privacy_distance.build(grid, roads, place)
        same = self.privacy_distance == self.quality_distance
        quality = privacy if same else self.quality_distance.build(grid, roads, place)
        return World(grid=grid, roads=roads, privacy_distance=privacy, quality_distance=quality)
