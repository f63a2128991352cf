"""Drawn region of a map of locations that are not the cells of a grid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from sim.world.locations import Locations

_MARGIN = 0.03
"""Distance of the locations from the border, as a share of the longer side."""
_SLENDER = 0.25
"""Smallest ratio of the shorter to the longer side."""
_LEAST_KM = 0.1
"""Smallest longer side."""
_MOST_SPACING = 0.05
"""Largest drawn extent of a location, as a share of the longer side."""


@dataclass(frozen=True, slots=True)
class MapFrame:
    """A rectangle in km around all locations, and the extent with which a location is drawn."""

    west_km: float
    south_km: float
    width_km: float
    height_km: float
    spacing_km: float

    @classmethod
    def of(cls, locations: Locations) -> Self:
        """Return the region of the locations with a margin.

        >>> from sim.world.locations import LocationSet
        >>> pair = LocationSet(kind="points", x_km=[0.0, 100.0], y_km=[0.0, 0.0], width_km=100.0, height_km=0.0)
        >>> frame = MapFrame.of(pair)
        >>> frame.west_km, frame.south_km, frame.width_km, frame.height_km
        (-3.0, -13.25, 106.0, 26.5)
        """
        middles, sides = [], []
        for at, size_km in ((locations.x_km, locations.width_km), (locations.y_km, locations.height_km)):
            low, high = min(float(at.min()), 0.0), max(float(at.max()), size_km)
            middles.append((low + high) / 2)
            sides.append(high - low)
        if max(sides) < _LEAST_KM:
            sides = [_LEAST_KM, _LEAST_KM]
        longer = (1 + 2 * _MARGIN) * max(sides)
        margin = _MARGIN * max(sides)
        width, height = (max(side + 2 * margin, _SLENDER * longer) for side in sides)
        spacing = min(*locations.cell_size_km) or longer
        west, south = middles[0] - width / 2, middles[1] - height / 2
        return cls(west, south, width, height, min(spacing, _MOST_SPACING * longer))
