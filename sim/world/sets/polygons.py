"""Polygons from a GeoJSON file, such as wards or the cells of a mobile network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.errors import InvalidValue
from sim.world.areas import areas_in_degrees, polygons_of
from sim.world.locations import Locations
from sim.world.parameters import LocationParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("locations")
class PolygonsParameters(LocationParameters):
    """Polygons from a GeoJSON file; a position belongs to the first polygon that contains it."""

    kind: Literal["polygons"] = "polygons"
    file: FileName
    """GeoJSON file with polygons or multipolygons in degrees, one per location."""
    label: str | None = None
    """Property with the label of a polygon (default: `name`, where there is one)."""
    weight: str | None = None
    """Property with the weight of a polygon, in [0, inf), such as its number of residents."""

    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Locations:  # noqa: ARG002
        """Read the polygons."""
        path = place.locate(self.file)
        areas, properties = zip(*polygons_of(path), strict=True)
        name = self.label or "name"
        if self.label is not None and not all(self.label in one for one in properties):
            raise InvalidValue(f"{path}: a polygon has no property {self.label!r}", code="no-such-column")
        labels = [str(one.get(name, "")) for one in properties] if any(name in one for one in properties) else None
        weights = None if self.weight is None else [_weight(one, self.weight, str(path)) for one in properties]
        return areas_in_degrees("polygons", areas, labels=labels, weights=weights)


def _weight(properties: dict[str, Any], name: str, path: str) -> float:
    value = properties.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InvalidValue(
            f"{path}: property {name!r} must be a number in [0, inf), found {value!r}", code="invalid-row"
        )
    return float(value)
