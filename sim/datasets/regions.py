"""Regions in degrees, and grids over them."""

from __future__ import annotations

from sim.world.grid import Grid

Box = tuple[float, float, float, float]
"""South, north, west and east bound in degrees."""


def box_of(grid: Grid) -> Box:
    """Return the region of a grid with geographic coordinates."""
    if grid.south is None or grid.north is None or grid.west is None or grid.east is None:
        raise ValueError("grid must have geographic coordinates, got a rectangle in km")
    return grid.south, grid.north, grid.west, grid.east


SAN_FRANCISCO = box_of(Grid.san_francisco())
"""The paper's region."""


def grid_over(box: Box, *, rows: int, cols: int) -> Grid:
    """Return a grid over a region."""
    south, north, west, east = box
    return Grid.region(rows=rows, cols=cols, south=south, north=north, west=west, east=east)
