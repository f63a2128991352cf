"""Outputs of a mechanism as places in degrees."""

from __future__ import annotations

from typing import NamedTuple

from sim.interfaces import OutputSpace
from sim.lppm.outputs import Cells, CellsOrNothing, Points
from sim.world.locations import Locations

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


def reported_places(output: int, space: OutputSpace, locations: Locations) -> ReportedPlaces:
    """Return the places that an output reports.

    >>> from sim.world.grid import Grid
    >>> locations = Grid.region(rows=1, cols=2, south=0.0, north=1.0, west=10.0, east=12.0)
    >>> reported_places(1, Cells(2), locations).place
    Place(lat=0.5, lon=11.5)
    """
    if output == space.nothing:
        return ReportedPlaces(None, ())
    if isinstance(space, Points):
        return ReportedPlaces(_degrees(locations, *space.place_km(output)), ())
    if isinstance(space, Cells | CellsOrNothing):
        return ReportedPlaces(_centre(locations, output), ())
    shown = space.shown_at(output)
    return ReportedPlaces(
        None if shown < 0 else _centre(locations, shown),
        tuple(_centre(locations, cell) for cell in space.cells(output)),
    )


def cell_at(locations: Locations, lat: float, lon: float) -> int:
    """Return the cell of a position, -1 outside the region."""
    return int(locations.cell_of(lat, lon))


def nearest_cell(locations: Locations, lat: float, lon: float) -> int:
    """Return the cell nearest to a position outside the region."""
    x_km, y_km = locations.to_km(lat, lon)
    return int(locations.nearest(x_km, y_km))


def _centre(locations: Locations, cell: int) -> Place:
    return _degrees(locations, float(locations.x_km[cell]), float(locations.y_km[cell]))


def _degrees(locations: Locations, x_km: float, y_km: float) -> Place:
    lat, lon = locations.to_degrees(x_km, y_km)
    return Place(round(float(lat), _DIGITS), round(float(lon), _DIGITS))
