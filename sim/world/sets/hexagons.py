"""Hexagons of the H3 grid."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.errors import InvalidValue
from sim.world.areas import INSTALL, areas_in_degrees, polygons_of, require_shapely
from sim.world.locations import Locations
from sim.world.parameters import MOST_CELLS, LocationParameters, OptionalRegion

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("locations")
class HexagonsParameters(OptionalRegion, LocationParameters):
    """H3 hexagons that cover a region or polygons; labels are their H3 indices."""

    kind: Literal["hexagons"] = "hexagons"
    resolution: Annotated[int, Field(ge=0, le=15)]
    """Resolution of H3: the mean edge is 1.4 km at 7, 531 m at 8, 201 m at 9 and 76 m at 10."""
    file: FileName | None = None
    """GeoJSON file with polygons to cover, instead of a region between two latitudes and two longitudes."""

    @model_validator(mode="after")
    def _one_region(self) -> Self:
        if (self.file is None) == (self.region is None):
            given = "neither" if self.file is None else "both"
            raise InvalidValue(
                f"hexagons need either `file`, or `south`, `north`, `west` and `east`, found {given}",
                code="missing-key" if self.file is None else "exclusive-keys",
            )
        return self

    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Locations:  # noqa: ARG002
        """Return the hexagons that overlap the region, ordered by index."""
        h3, shapely = _require_h3(), require_shapely()
        if self.region is not None:
            covered = [shapely.box(self.region.west, self.region.south, self.region.east, self.region.north)]
        else:
            assert self.file is not None
            covered = [area for area, _ in polygons_of(place.locate(self.file))]
        cells: set[str] = set()
        for area in covered:
            _require_few(h3, area, self.resolution)
            cells.update(h3.h3shape_to_cells_experimental(h3.geo_to_h3shape(area), self.resolution, contain="overlap"))
        indices = sorted(cells)
        outlines = [shapely.Polygon([(lon, lat) for lat, lon in h3.cell_to_boundary(index)]) for index in indices]
        centres = np.array([h3.cell_to_latlng(index) for index in indices])[:, ::-1]
        return areas_in_degrees("hexagons", outlines, labels=indices, centres=centres)


def _require_few(h3: Any, area: Any, resolution: int) -> None:
    """Raise `InvalidValue` if there are certainly too many hexagons, before they are listed."""
    _, south, _, north = area.bounds
    mean_km2 = h3.average_hexagon_area(resolution, unit="km^2")
    area_km2 = area.area * 111.2**2 * float(np.cos(np.radians((south + north) / 2)))
    if area_km2 / mean_km2 > MOST_CELLS / 10:
        raise InvalidValue(
            f"resolution {resolution} gives about {area_km2 / mean_km2:,.0f} hexagons, allowed are "
            f"{MOST_CELLS // 10:,}: choose a lower resolution or a smaller region",
            code="too-many-cells",
        )


def _require_h3() -> Any:
    try:
        import h3
    except ImportError as error:
        raise InvalidValue(f"hexagons need h3 ({error}): {INSTALL}", code="missing-extra") from error
    return h3
