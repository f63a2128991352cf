"""Grid over a geographic region."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sim.components.registry import component
from sim.errors import InvalidValue
from sim.world.grid import Grid
from sim.world.parameters import GridParameters

Latitude = Annotated[float, Field(ge=-85, le=85)]
Longitude = Annotated[float, Field(ge=-180, le=180)]


@component("grid")
class RegionParameters(GridParameters):
    """A grid over a geographic region between two latitudes and two longitudes."""

    kind: Literal["region"] = "region"
    south: Latitude
    """Latitude of the southern edge in degrees, below `north`."""
    north: Latitude
    """Latitude of the northern edge in degrees."""
    west: Longitude
    """Longitude of the western edge in degrees, below `east`."""
    east: Longitude
    """Longitude of the eastern edge in degrees."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.south >= self.north or self.west >= self.east:
            raise InvalidValue(
                "south must be below north and west below east, "
                f"found {self.south}..{self.north} and {self.west}..{self.east}",
                code="invalid-region",
            )
        return self

    def of_shape(self, rows: int, cols: int) -> Grid:
        """Return the grid with these numbers of rows and columns."""
        return Grid.region(rows=rows, cols=cols, south=self.south, north=self.north, west=self.west, east=self.east)
