"""Grid over a geographic region."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from sim.components.registry import component
from sim.world.grid import Grid
from sim.world.parameters import GridParameters, Latitude, Longitude, require_ordered


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
        require_ordered(self.south, self.north, self.west, self.east)
        return self

    def of_shape(self, rows: int, cols: int) -> Grid:
        """Return the grid with these numbers of rows and columns."""
        return Grid.region(rows=rows, cols=cols, south=self.south, north=self.north, west=self.west, east=self.east)
