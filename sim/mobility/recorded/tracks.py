"""GPX and GeoJSON files as columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa

from sim.errors import InvalidValue
from sim.mobility.recorded.columns import ACCEPTED

_SUFFIXES = (".gpx", ".geojson", ".json")
_EXTRA = ("sent_lat", "sent_lon")

Row = dict[str, Any]


def is_track(path: Path) -> bool:
    """Return whether a file is GPX or GeoJSON, by its suffix."""
    return path.suffix.lower() in _SUFFIXES


def read_columns(path: Path) -> Mapping[str, Any]:
    """Return the columns user, time (or order), lat and lon of a GPX or GeoJSON file, and `sent_*` if present."""
    rows = list(_gpx(path) if path.suffix.lower() == ".gpx" else _geojson(path))
    if not rows:
        raise InvalidValue("the file has no points", code="empty-file")
    timed = any(row["time"] not in (None, "") for row in rows)
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in ("user", "lat", "lon")}
    columns |= {"time": [row["time"] for row in rows]} if timed else {"order": list(range(len(rows)))}
    columns |= {name: [row.get(name) for row in rows] for name in _EXTRA if any(name in row for row in rows)}
    texts = {name: [None if v is None else str(v) for v in values] for name, values in columns.items()}
    return {name: pa.chunked_array([pa.array(values, pa.string())]) for name, values in texts.items()}


def _gpx(path: Path) -> Iterator[Row]:
    """Yield the points of all tracks; a file with one track has the user "1", others the names of the tracks."""
    try:
        root = ElementTree.fromstring(path.read_bytes())
    except ElementTree.ParseError as error:
        raise InvalidValue(f"not valid GPX: {error}", code="unreadable-file") from error
    tracks = [element for element in root if _local(element) == "trk"]
    for number, track in enumerate(tracks, start=1):
        name = next((child.text for child in track if _local(child) == "name" and child.text), str(number))
        for point in (element for element in track.iter() if _local(element) == "trkpt"):
            time = next((child.text for child in point if _local(child) == "time"), None)
            yield {
                "user": name.strip() if len(tracks) > 1 else "1",
                "time": time.strip() if time else None,
                "lat": point.get("lat"),
                "lon": point.get("lon"),
            }


def _local(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _geojson(path: Path) -> Iterator[Row]:
    """Yield the points of all features: points, or lines with the times of their points in `coordTimes`."""
    try:
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        raise InvalidValue(f"not valid JSON: {error}", code="unreadable-file") from error
    features = content.get("features") if isinstance(content, dict) else None
    if not isinstance(features, list):
        raise InvalidValue(
            "not GeoJSON: a FeatureCollection with a list of features is required", code="unreadable-file"
        )
    for number, feature in enumerate(features, start=1):
        try:
            yield from _points(feature["geometry"], feature.get("properties") or {})
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InvalidValue(
                f"feature {number} is not a Point, or a LineString with coordTimes, with coordinates in degrees",
                code="invalid-row",
            ) from error


def _points(geometry: Mapping[str, Any], properties: Mapping[str, Any]) -> Iterator[Row]:
    known = {str(name).lower(): value for name, value in properties.items()}
    user = _first(known, ACCEPTED["user"])
    common: Row = {"user": user if user is not None else "1"}
    if geometry["type"] == "Point":
        lon, lat, *_ = geometry["coordinates"]
        row = common | {"time": _first(known, ACCEPTED["time"]), "lat": lat, "lon": lon}
        yield row | {name: known[name] for name in _EXTRA if name in known}
        return
    if geometry["type"] != "LineString":
        raise ValueError(geometry["type"])
    points = geometry["coordinates"]
    times = known.get("coordtimes") or known.get("times") or [None] * len(points)
    for (lon, lat, *_), time in zip(points, times, strict=True):
        yield common | {"time": time, "lat": lat, "lon": lon}


def _first(known: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    return next((known[name] for name in names if name in known), None)
