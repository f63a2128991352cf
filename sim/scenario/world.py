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
    """Where everything happens: cells, roads, and how far apart two cells are."""

    grid: Grid = SanFranciscoParameters()
    """The cells."""
    roads: Roads | None = None
    """The streets; commuters, taxis and road distances need some."""
    privacy_distance: Distance = ManhattanParameters()
    """d_P of the paper: how far off an adversary's estimate is."""
    quality_distance: Distance = ManhattanParameters()
    """d_Q of the paper: what a false report costs the user."""

    @model_validator(mode="after")
    def _roads_on_earth(self) -> Self:
        if self.roads is not None and self.roads.needs_earth and not self.grid.on_earth:
            message = (
                f"roads from a {self.roads.kind} file need a grid with geographic coordinates, "
                f"found a {self.grid.kind}; allowed: san_francisco, region"
            )
            raise InvalidValue(message, code="needs-geographic-grid")
        return self

    def build(self, seed: int, place: Place) -> World:
        """Return the world; files are found by `place`."""
        grid = self.grid.build()
        roads = None if self.roads is None else self.roads.build(grid, place, stream(seed, "roads"))
        privacy = self.privacy_distance.build(grid, roads, place)
        same = self.privacy_distance == self.quality_distance
        quality = privacy if same else self.quality_distance.build(grid, roads, place)
        return World(grid=grid, roads=roads, privacy_distance=privacy, quality_distance=quality)
