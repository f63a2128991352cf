"""Grid over a rectangle in km."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.components.spec import Positive
from sim.world.grid import Grid
from sim.world.parameters import GridParameters


@component("grid")
class RectangleParameters(GridParameters):
    """A grid over a rectangle in km, without latitudes and longitudes."""

    kind: Literal["rectangle"] = "rectangle"
    width_km: Positive
    """Extent from west to east in km."""
    height_km: Positive
    """Extent from south to north in km."""

    @property
    def on_earth(self) -> bool:
        """Whether the grid has latitudes and longitudes: no."""
        return False

    def of_shape(self, rows: int, cols: int) -> Grid:
        """Return the grid with these numbers of rows and columns."""
        return Grid.rectangle(rows=rows, cols=cols, width_km=self.width_km, height_km=self.height_km)
