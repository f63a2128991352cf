"""Base classes of the parameters of locations, roads and distances."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, ClassVar, Self

from pydantic import Field, model_validator

from sim.components.files import Place
from sim.components.registry import Parameters
from sim.components.spec import Count, Positive, Spec
from sim.errors import InvalidValue
from sim.interfaces import Generator
from sim.world.distance import Distance
from sim.world.grid import Grid
from sim.world.locations import Bounds, Locations
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

MOST_CELLS = 10_000_000
"""Largest number of cells; more indicate a mistake in the scenario. What a run can use is limited by memory, which
`lppm-sim check` estimates."""


class LocationParameters(Parameters):
    """Parameters of a finite set of locations."""

    needs_roads: ClassVar[bool] = False
    """Whether the locations are parts of the roads of the world."""

    @property
    def on_earth(self) -> bool:
        """Whether the locations are georeferenced, that is, have latitudes and longitudes."""
        return True

    @abstractmethod
    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Locations:
        """Return the locations; `place` resolves file names, and `roads_on` builds the roads in a region."""


Latitude = Annotated[float, Field(ge=-85, le=85)]
Longitude = Annotated[float, Field(ge=-180, le=180)]


def require_ordered(south: float, north: float, west: float, east: float) -> None:
    """Raise `InvalidValue` unless the edges of a region are in order."""
    if south >= north or west >= east:
        raise InvalidValue(
            f"south must be below north and west below east, found {south}..{north} and {west}..{east}",
            code="invalid-region",
        )


class OptionalRegion(Spec):
    """A region between two latitudes and two longitudes, or none."""

    south: Latitude | None = None
    """Latitude of the southern edge in degrees, below `north`."""
    north: Latitude | None = None
    """Latitude of the northern edge in degrees."""
    west: Longitude | None = None
    """Longitude of the western edge in degrees, below `east`."""
    east: Longitude | None = None
    """Longitude of the eastern edge in degrees."""

    @model_validator(mode="after")
    def _whole_region(self) -> Self:
        edges = {name: getattr(self, name) for name in ("south", "north", "west", "east")}
        missing = [name for name, edge in edges.items() if edge is None]
        if 0 < len(missing) < len(edges):
            raise InvalidValue(f"a region needs all four edges, missing: {', '.join(missing)}", code="missing-key")
        if self.region is not None:
            require_ordered(*self.region)
        return self

    @property
    def region(self) -> Bounds | None:
        """The region; None if it is not given."""
        if self.south is None or self.north is None or self.west is None or self.east is None:
            return None
        return Bounds(self.south, self.north, self.west, self.east)


class GridParameters(LocationParameters):
    """Parameters of a grid."""

    rows: Count | None = None
    """Number of cells from south to north."""
    cols: Count | None = None
    """Number of cells from west to east."""
    cell_m: Positive | None = None
    """Approximate height and width of a cell in m; `rows` and `cols` follow. Replaces these two keys."""

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        if self.cell_m is not None:
            whole = self.of_shape(1, 1)
            return _cells_in(whole.height_km, self.cell_m), _cells_in(whole.width_km, self.cell_m)
        if self.rows is None or self.cols is None:
            given = "neither" if self.rows is self.cols else "only `rows`" if self.cols is None else "only `cols`"
            raise InvalidValue(f"a grid needs `rows` and `cols`, or `cell_m`, found {given}", code="missing-key")
        return self.rows, self.cols

    @property
    def n_cells(self) -> int:
        """Number of cells."""
        rows, cols = self.shape
        return rows * cols

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        given = [name for name in ("rows", "cols") if name in self.model_fields_set and vars(self)[name] is not None]
        if given and self.cell_m is not None:
            message = f"`cell_m` and `{given[0]}` exclude each other: found both, remove one"
            raise InvalidValue(message, code="exclusive-keys")
        rows, cols = self.shape
        if rows * cols > MOST_CELLS:
            raise InvalidValue(
                f"a grid must have at most {MOST_CELLS:,} cells, rows x cols, found {rows:,} x {cols:,}",
                code="too-many-cells",
            )
        return self

    @abstractmethod
    def of_shape(self, rows: int, cols: int) -> Grid:
        """Return the grid with these numbers of rows and columns."""

    def build(self) -> Grid:
        """Return the grid."""
        return self.of_shape(*self.shape)

    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Grid:  # noqa: ARG002
        """Return the grid."""
        return self.build()


def _cells_in(extent_km: float, cell_m: float) -> int:
    """Return the number of cells of about this size along an extent.

    >>> _cells_in(12.0, 100), _cells_in(0.26, 100), _cells_in(0.04, 100)
    (120, 3, 1)
    """
    return max(round(extent_km * 1000 / cell_m), 1)


class RoadsParameters(Parameters):
    """Parameters of a road graph."""

    needs_earth: ClassVar[bool] = False
    """Whether the nodes are in degrees, which requires a georeferenced grid."""

    @abstractmethod
    def build(self, locations: Locations, place: Place, rng: Generator) -> Roads:
        """Return the roads in the region of some locations; `place` resolves file names."""


class DistanceParameters(Parameters):
    """Parameters of a distance between locations."""

    needs_roads: ClassVar[bool] = False
    """Whether the distance is measured along roads."""
    is_dense: ClassVar[bool] = False
    """Whether the distance is held as a matrix over all pairs of locations of any world."""

    @abstractmethod
    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Distance:
        """Return the distance between locations; `place` resolves file names."""


class ServiceParameters(Parameters):
    """Parameters of a service that users ask about their location."""

    @property
    def needs_roads(self) -> bool:
        """Whether the loss is measured along roads."""
        return False

    @abstractmethod
    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Service:
        """Return the service; `place` resolves file names."""
