"""Points of interest that a service knows, in the plane of the locations of a world."""

from __future__ import annotations

import numpy as np

from sim.components.files import FileName, Place
from sim.errors import InvalidValue
from sim.interfaces import BoolArray, FloatArray
from sim.world.locations import Locations
from sim.world.parameters import ServiceParameters
from sim.world.sets.points import PointColumns, positions_on


class OfPoints(ServiceParameters):
    """Parameters of services that know points of interest."""

    file: FileName
    """CSV or Parquet file with a row per point: lat and lon in degrees. Coordinates in km, east and north of the
    south-west corner of the world, are named in `columns`."""
    columns: PointColumns = PointColumns()
    """Names of the columns in the file (default: the usual names)."""

    def positions(self, locations: Locations, place: Place) -> tuple[FloatArray, FloatArray]:
        """Read the positions of the points in km, of which at least one must be in the region of the locations."""
        path = place.locate(self.file)
        x_km, y_km = positions_on(path, self.columns, locations)
        inside = _between(x_km, locations.x_km, locations.width_km) & _between(
            y_km, locations.y_km, locations.height_km
        )
        if not inside.any():
            raise InvalidValue(
                f"{path}: none of the {x_km.size:,} points is in the region of the locations, which is "
                f"{locations.width_km:.3g} x {locations.height_km:.3g} km; found east {x_km.min():.5g} to "
                f"{x_km.max():.5g} km and north {y_km.min():.5g} to {y_km.max():.5g} km of its south-west corner. "
                "Check the order of latitude and longitude",
                code="points-outside",
            )
        return x_km, y_km


def _between(at_km: FloatArray, located_km: FloatArray, extent_km: float) -> BoolArray:
    """Return which coordinates are in the extent of the locations, or at most this extent (at least 1 km) away."""
    reach_km = max(extent_km, 1.0)
    return np.asarray((at_km >= located_km.min() - reach_km) & (at_km <= located_km.max() + reach_km))
