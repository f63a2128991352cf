"""Locations that are areas or parts of a road, as geometries of shapely."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.errors import InvalidValue
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Bounds, LocationSet

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

INSTALL = "pip install 'lppm-sim[geo]'"


def require_shapely() -> Any:
    """Return the package shapely; raise `InvalidValue` if it is not installed."""
    try:
        import shapely
    except ImportError as error:
        raise InvalidValue(f"areas and segments need shapely ({error}): {INSTALL}", code="missing-extra") from error
    return shapely


class Inside:
    """Assignment of positions to the area that contains them; on borders and overlaps, to the lowest one."""

    def __init__(self, areas: Sequence[BaseGeometry]) -> None:
        self._shapely = require_shapely()
        self._tree = self._shapely.STRtree(areas)

    def __call__(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the area of each position, -1 outside all areas."""
        position, area = self._tree.query(self._shapely.points(x_km, y_km), predicate="intersects")
        cells = np.full(len(x_km), len(self._tree.geometries), dtype=np.int64)
        np.minimum.at(cells, position, area)
        return np.where(cells < len(self._tree.geometries), cells, -1)


class NearestLine:
    """Assignment of positions to the nearest line within a reach in km; at equal distance, to the lowest one."""

    def __init__(self, lines: Sequence[BaseGeometry], reach_km: float) -> None:
        self._shapely = require_shapely()
        self._tree = self._shapely.STRtree(lines)
        self._reach_km = reach_km

    def __call__(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the line of each position, -1 beyond the reach of all lines."""
        points = self._shapely.points(x_km, y_km)
        position, line = self._tree.query_nearest(points, max_distance=self._reach_km, all_matches=True)
        cells = np.full(len(x_km), len(self._tree.geometries), dtype=np.int64)
        np.minimum.at(cells, position, line)
        return np.where(cells < len(self._tree.geometries), cells, -1)


def areas_in_degrees(
    kind: str,
    areas: Sequence[BaseGeometry],
    *,
    labels: Sequence[str] | None,
    weights: Sequence[float] | None = None,
    centres: FloatArray | None = None,
) -> LocationSet:
    """Return locations for areas whose coordinates are (longitude, latitude).

    `centres`, shape (n_cells, 2), are positions (longitude, latitude) of the locations (default: the centroid, or a
    point inside the area if the centroid is outside).
    """
    shapely = require_shapely()
    west, south, east, north = shapely.total_bounds(areas).tolist()
    bounds = Bounds(south, north, west, east)

    def in_km(lon_lat: FloatArray) -> FloatArray:
        return np.column_stack(bounds.to_km(lon_lat[:, 1], lon_lat[:, 0]))

    on_plane = list(shapely.transform(np.array(areas), in_km))
    positions = _centres(shapely, on_plane) if centres is None else in_km(centres)
    width_km, height_km = bounds.size_km
    return LocationSet(
        kind=kind,
        x_km=positions[:, 0],
        y_km=positions[:, 1],
        width_km=width_km,
        height_km=height_km,
        bounds=bounds,
        labels=None if labels is None else tuple(labels),
        weights=None if weights is None else np.array(weights, dtype=np.float64),
        outlines=tuple(_outline(shapely, area) for area in on_plane),
        find=Inside(on_plane),
    )


def polygons_of(path: Path) -> list[tuple[BaseGeometry, dict[str, Any]]]:
    """Read the polygons and multipolygons of a GeoJSON file with their properties; other geometries are an error."""
    shapely = require_shapely()
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError) as error:
        raise InvalidValue(f"{path}: not a readable GeoJSON file: {error}", code="unreadable-file") from error
    features = content.get("features") if isinstance(content, dict) and "features" in content else [content]
    areas = []
    for number, feature in enumerate(features if isinstance(features, list) else [features], start=1):
        where = f"{path}, feature {number}"
        geometry = feature.get("geometry", feature) if isinstance(feature, dict) else None
        if not isinstance(geometry, dict) or geometry.get("type") not in ("Polygon", "MultiPolygon"):
            shape = geometry.get("type") if isinstance(geometry, dict) else geometry
            raise InvalidValue(f"{where}: must be a Polygon or MultiPolygon, found {shape!r}", code="invalid-area")
        try:
            area = shapely.from_geojson(json.dumps(geometry))
        except (shapely.errors.ShapelyError, ValueError) as error:
            raise InvalidValue(f"{where}: not a valid polygon: {error}", code="invalid-area") from error
        _check_area(shapely, area, where)
        areas.append((area, feature.get("properties") or {}))
    if not areas:
        raise InvalidValue(f"{path}: must have at least one polygon, found none", code="invalid-area")
    return areas


def _check_area(shapely: Any, area: Any, where: str) -> None:
    if area.is_empty or not shapely.is_valid(area):
        reason = "it is empty" if area.is_empty else shapely.is_valid_reason(area)
        raise InvalidValue(f"{where}: not a valid polygon: {reason}", code="invalid-area")
    west, south, east, north = area.bounds
    if not (west >= -180 and east <= 180 and south >= -85 and north <= 85):
        raise InvalidValue(
            f"{where}: coordinates must be degrees, longitude in [-180, 180] and latitude in [-85, 85], found "
            f"longitude {west:g} to {east:g} and latitude {south:g} to {north:g}",
            code="invalid-area",
        )


def _centres(shapely: Any, areas: Sequence[Any]) -> FloatArray:
    """Return the centroid of each area, or a point inside it if the centroid is outside, shape (n, 2)."""
    centroids = shapely.centroid(areas)
    points = np.where(shapely.intersects(areas, centroids), centroids, shapely.point_on_surface(areas))
    return np.asarray(shapely.get_coordinates(points), dtype=np.float64)


def _outline(shapely: Any, area: Any) -> FloatArray:
    """Return the outline of the largest part of an area, shape (n_vertices, 2)."""
    parts = shapely.get_parts(area)
    largest = parts[int(np.argmax(shapely.area(parts)))]
    return np.asarray(shapely.get_coordinates(largest.exterior), dtype=np.float64)
