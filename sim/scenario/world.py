"""The world of a scenario: locations, roads, distances."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import model_validator

from sim.components.files import Place, files_of
from sim.components.registry import OneOf
from sim.components.spec import Name, Spec
from sim.errors import InvalidValue
from sim.rng import stream
from sim.world import Locations as Built
from sim.world import Service, World
from sim.world.distances.euclidean import EuclideanParameters
from sim.world.distances.manhattan import ManhattanParameters
from sim.world.grids.san_francisco import SanFranciscoParameters
from sim.world.parameters import (
    DistanceParameters,
    GridParameters,
    LocationParameters,
    RoadsParameters,
    ServiceParameters,
)

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads as RoadGraph

Grid = Annotated[GridParameters, OneOf("grid")]
Locations = Annotated[LocationParameters, OneOf("locations")]
Roads = Annotated[RoadsParameters, OneOf("roads")]
Distance = Annotated[DistanceParameters, OneOf("distance")]
AnyService = Annotated[ServiceParameters, OneOf("service")]


class WorldSpec(Spec):
    """World of the simulation: locations, roads, and distances between locations."""

    grid: Grid = SanFranciscoParameters()
    """Grid of cells, the possible locations."""
    locations: Locations | None = None
    """Locations other than the cells of a grid: points, areas or parts of a road network. Replaces `grid`."""
    roads: Roads | None = None
    """Road network; required by commuters, taxis, road distances and shifts of roads. Default: none."""
    privacy_distance: Distance = ManhattanParameters()
    """Distance d_P from the true location to the adversary's estimate: the adversary error, in km. Default: manhattan
    on grids, euclidean with `locations`."""
    quality_distance: Distance = ManhattanParameters()
    """Distance d_Q from the true location to the reported one: the user's quality loss, in km. Default: manhattan on
    grids, euclidean with `locations`."""
    services: dict[Name, AnyService] = {}
    """Services that users ask about their location, by name; `lppm-sim services` reports what wrong locations cost
    their users. Default: none."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.locations is not None and "grid" in self.model_fields_set:
            message = "`locations` replaces `grid`: found both, remove one"
            raise InvalidValue(message, code="exclusive-keys")
        if self.roads is not None and self.roads.needs_earth and not self.where.on_earth:
            message = (
                f"roads from a {self.roads.kind} file need locations with geographic coordinates, "
                f"found {self.where.kind}; allowed: grids of kind san_francisco or region, and locations in degrees"
            )
            raise InvalidValue(message, code="no-coordinates")
        if self.where.needs_roads and self.roads is None:
            message = f"locations of kind {self.where.kind} require `world.roads`, found none: add roads"
            raise InvalidValue(message, code="no-roads")
        if self.roads is None:
            for name, service in self.services.items():
                if service.needs_roads:
                    message = f"the service {name} of kind {service.kind} requires `world.roads`, found none: add roads"
                    raise InvalidValue(message, code="no-roads")
        return self

    @model_validator(mode="after")
    def _default_distances(self) -> Self:
        """Measure along straight lines between locations without rows and columns."""
        if self.locations is not None:
            for name in {"privacy_distance", "quality_distance"} - self.model_fields_set:
                vars(self)[name] = EuclideanParameters()
        return self

    @property
    def where(self) -> LocationParameters:
        """Parameters of the locations: those of `locations` if given, otherwise those of the grid."""
        return self.grid if self.locations is None else self.locations

    def canonical_locations(self) -> dict[str, Any]:
        """Return the locations in canonical form: the numbers of cells instead of their size."""
        if self.locations is not None:
            return {}
        rows, cols = self.grid.shape
        return {"grid": self.grid.model_dump(mode="json", exclude={"cell_m"}) | {"rows": rows, "cols": cols}}

    def n_cells(self, seed: int, place: Place) -> int:
        """Return the number of locations, without building a grid."""
        return self.grid.n_cells if self.locations is None else self.build_locations(seed, place).n_cells

    def build_locations(self, seed: int, place: Place) -> Built:
        """Return the locations; those from files are cached until a file changes."""
        if self.locations is None:
            return self.grid.build()
        located = [place.locate(name) for name in files_of(self)]
        stats = [(path.absolute(), path.stat().st_mtime_ns, path.stat().st_size) for path in located]
        return _located(self.model_dump_json(), tuple(stats), _Building(self, seed, place))

    def build(self, seed: int, place: Place) -> World:
        """Build the world; `place` locates the files."""
        locations = self.build_locations(seed, place)
        roads = None if self.roads is None else self._roads_on(locations, seed, place)
        privacy = self.privacy_distance.build(locations, roads, place)
        same = self.privacy_distance == self.quality_distance
        quality = privacy if same else self.quality_distance.build(locations, roads, place)
        services = build_services(self.services, locations, roads, place)
        return World(
            locations=locations,
            roads=roads,
            privacy_distance=privacy,
            quality_distance=quality,
            services=services,
        )

    def build_roads(self, seed: int, place: Place) -> RoadGraph | None:
        """Build the roads alone; None without roads."""
        return None if self.roads is None else self._roads_on(self.build_locations(seed, place), seed, place)

    def _roads_on(self, locations: Built, seed: int, place: Place) -> RoadGraph:
        assert self.roads is not None
        return self.roads.build(locations, place, stream(seed, "roads"))


def build_services(
    services: Mapping[str, ServiceParameters], locations: Built, roads: RoadGraph | None, place: Place
) -> dict[str, Service]:
    """Build services; errors name the service."""
    built = {}
    for name, service in services.items():
        try:
            built[name] = service.build(locations, roads, place)
        except InvalidValue as error:
            raise InvalidValue(f"service {name}: {error}", code=error.code) from error
    return built


class _Building:
    """A call of `LocationParameters.locate` that is not part of the key of the cache, but for the seed of the roads."""

    def __init__(self, world: WorldSpec, seed: int, place: Place) -> None:
        self._world, self._seed, self._place = world, seed, place

    def __call__(self) -> Built:
        return self._world.where.locate(
            self._place, lambda region: self._world._roads_on(region, self._seed, self._place)
        )

    def __hash__(self) -> int:
        return hash(self._seed)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, _Building) and self._seed == other._seed


@lru_cache(maxsize=8)
def _located(world: str, files: tuple[Any, ...], build: _Building) -> Built:  # noqa: ARG001 - parts of the key
    return build()
