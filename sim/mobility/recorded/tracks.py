"""GPX and GeoJSON: points of a stream of bytes, and whole files as columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from sim.errors import InvalidValue
from sim.mobility.recorded.columns import ACCEPTED
from sim.mobility.recorded.streams import Chunks, Elements, json_items

_SUFFIXES = (".gpx", ".geojson", ".json")
_EXTRA = ("sent_lat", "sent_lon")
_CHUNK = 1 << 16

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Track:
    """A track of a GPX file, before its points."""

    name: str


def is_track(path: Path) -> bool:
    """Return whether a file is GPX or GeoJSON, by its suffix."""
    return path.suffix.lower() in _SUFFIXES


def read_columns(path: Path) -> Mapping[str, Any]:
    """Return the columns user, time (or order), lat and lon of a GPX or GeoJSON file, and `sent_*` if present."""
    rows = _rows_of_gpx(path) if path.suffix.lower() == ".gpx" else list(geojson_rows(_chunks(path)))
    if not rows:
        raise InvalidValue("the file has no points", code="empty-file")
    timed = any(row["time"] not in (None, "") for row in rows)
    columns: dict[str, list[Any]] = {"user": [row["user"] or "1" for row in rows]}
    columns |= {name: [row.get(name) for row in rows] for name in ("lat", "lon")}
    columns |= {"time": [row["time"] for row in rows]} if timed else {"order": list(range(len(rows)))}
    columns |= {name: [row.get(name) for row in rows] for name in _EXTRA if any(name in row for row in rows)}
    texts = {name: [None if v is None else str(v) for v in values] for name, values in columns.items()}
    return {name: pa.chunked_array([pa.array(values, pa.string())]) for name, values in texts.items()}


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk


def _rows_of_gpx(path: Path) -> list[Row]:
    """Return the points of all tracks; a file with one track has the user "1", others the names of the tracks."""
    rows: list[Row] = []
    tracks = 0
    for item in gpx_rows(_chunks(path)):
        if isinstance(item, Track):
            tracks += 1
        else:
            rows.append(item | {"number": tracks})
    return [row | {"user": (row["user"] or str(row["number"])) if tracks > 1 else "1"} for row in rows]


def gpx_rows(chunks: Chunks) -> Iterator[Track | Row]:
    """Yield each track, then its points: line, user (name of the track or ""), time, lat and lon as text."""
    return _Gpx().run(chunks)


class _Gpx(Elements):
    """Points of tracks. The schema of GPX requires the name of a track before its points."""

    def __init__(self) -> None:
        super().__init__()
        self._path: list[str] = []
        self._name = ""
        self._row: Row = {}

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Open a track or a point."""
        if not self._path and name != "gpx":
            raise InvalidValue(f"not valid GPX: the root element is {name}, expected gpx", code="unreadable-file")
        self._path.append(name)
        if name == "trk":
            self._name = ""
            self.emit(Track(""))
        elif name == "trkpt":
            self._row = {
                "line": self.line,
                "user": self._name,
                "time": None,
                "lat": attributes.get("lat"),
                "lon": attributes.get("lon"),
            }

    def end(self, name: str, text: str) -> None:
        """Close an element; a point is complete."""
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if name == "trkpt":
            self.emit(self._row)
        elif name == "name" and parent == "trk":
            self._name = text.strip()
        elif name == "time" and parent == "trkpt":
            self._row["time"] = text.strip() or None


def geojson_rows(chunks: Chunks) -> Iterator[Row]:
    """Yield the points of all features: points, or lines with the times of their points in `coordTimes`.

    `user` is None if a feature names none.
    """
    features = 0
    collection = False
    for line, key, feature in json_items(chunks):
        collection |= (key, feature) == ("type", "FeatureCollection")
        if key != "features":
            continue
        features += 1
        try:
            for row in _points(feature["geometry"], feature.get("properties") or {}):
                yield row | {"line": line}
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise InvalidValue(
                f"line {line}: feature {features} is not a Point, or a LineString with coordTimes, with coordinates "
                "in degrees",
                code="invalid-row",
            ) from error
    if not features and not collection:
        raise InvalidValue(
            "not GeoJSON: a FeatureCollection with a list of features is required", code="unreadable-file"
        )


def _points(geometry: Mapping[str, Any], properties: Mapping[str, Any]) -> Iterator[Row]:
    known = {str(name).lower(): value for name, value in properties.items()}
    common: Row = {"user": _first(known, ACCEPTED["user"])}
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
