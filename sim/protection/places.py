"""Outputs of a mechanism as places in degrees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.interfaces import OutputSpace
from sim.lppm.outputs import Cells, CellsOrNothing, Points
from sim.world.grid import Grid

_DIGITS = 7
"""Decimals of a degree, about 1 cm."""


class Place(NamedTuple):
    """A place in degrees."""

    lat: float
    lon: float


class ReportedPlaces(NamedTuple):
    """Places that an output reports."""

    place: Place | None
    """The place, or the centre of a region; None for a set of places and for no report."""
    cells: tuple[Place, ...]
    """Centres of the cells of a region or set; empty if the output is one cell, a point or nothing."""


def reported_places(output: int, space: OutputSpace, grid: Grid) -> ReportedPlaces:
    """Return the places that an output reports.

    >>> grid = Grid.region(rows=1, cols=2, south=0.0, north=1.0, west=10.0, east=12.0)
    >>> reported_places(1, Cells(2), grid).place
    Place(lat=0.5, lon=11.5)
    """
    if output == space.nothing:
        return ReportedPlaces(None, ())
    if isinstance(space, Points):
        return ReportedPlaces(_degrees(grid, *space.place_km(output)), ())
    if isinstance(space, Cells | CellsOrNothing):
        return ReportedPlaces(_centre(grid, output), ())
    shown = space.shown_at(output)
    return ReportedPlaces(
        None if shown < 0 else _centre(grid, shown), tuple(_centre(grid, cell) for cell in space.cells(output))
    )


def cell_at(grid: Grid, lat: float, lon: float) -> int:
    """Return the cell of a position, -1 outside the region."""
    return int(grid.cell_of(lat, lon))


def nearest_cell(grid: Grid, lat: float, lon: float) -> int:
    """Return the cell nearest to a position outside the region."""
    x_km, y_km = grid.to_km(lat, lon)
    return int(grid.cell_of_km(np.clip(x_km, 0.0, grid.width_km), np.clip(y_km, 0.0, grid.height_km)))


def _centre(grid: Grid, cell: int) -> Place:
    return _degrees(grid, float(grid.x_km[cell]), float(grid.y_km[cell]))


def _degrees(grid: Grid, x_km: float, y_km: float) -> Place:
    lat, lon = grid.to_degrees(x_km, y_km)
    return Place(round(float(lat), _DIGITS), round(float(lon), _DIGITS))
