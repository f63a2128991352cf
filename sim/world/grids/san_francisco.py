"""Grid of the paper's experiments."""

from __future__ import annotations

from typing import Literal

from sim.components.registry import component
from sim.components.spec import Count
from sim.world.grid import Grid
from sim.world.parameters import GridParameters


@component("grid")
class SanFranciscoParameters(GridParameters):
    """The paper's grid: latitude 37.55 to 37.801, longitude -122.5153 to -122.3789, 25 x 10 cells."""

    kind: Literal["san_francisco"] = "san_francisco"
    rows: Count = 25
    """Number of cells from south to north."""
    cols: Count = 10
    """Number of cells from west to east."""

    def of_shape(self, rows: int, cols: int) -> Grid:
        """Return the grid with these numbers of rows and columns."""
        return Grid.san_francisco(rows=rows, cols=cols)
