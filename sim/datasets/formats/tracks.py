"""GPX and GeoJSON; the points are read by `sim.mobility.recorded.tracks`, which the audit uses too."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Invalid, Options, Point, batches
from sim.datasets.lines import moment
from sim.mobility.recorded.tracks import Track, geojson_rows, gpx_rows

_TRACK = re.compile(rb"<(\w+:)?trk[\s>]")
_OVERLAP = 16


def read_gpx(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the points of all tracks.

    The user is `--user`, else the name of the track in a file with several tracks, else the name of the file.
    """
    several = options.user is None and _tracks(RawFile(raw.path).chunks()) > 1
    return batches(_gpx(raw, options.user or stem(raw.path), several=several))


def _gpx(raw: RawFile, user: str, *, several: bool) -> Iterator[Point | Invalid]:
    tracks = 0
    for item in gpx_rows(raw.chunks()):
        if isinstance(item, Track):
            tracks += 1
        else:
            yield _point(item, (item["user"] or str(tracks)) if several else user)


def _tracks(chunks: Iterable[bytes]) -> int:
    """Return the number of tracks, without parsing the file."""
    count, rest = 0, b""
    for chunk in chunks:
        text = rest + chunk
        count += len(_TRACK.findall(text))
        rest = text[-_OVERLAP:]
        count -= len(_TRACK.findall(rest))
    return count + len(_TRACK.findall(rest))


def read_geojson(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the points of all features; the user of features without one is the name of the file."""
    user = stem(raw.path)
    return batches(
        _point(row, options.user or str(row["user"] if row["user"] is not None else user))
        for row in geojson_rows(raw.chunks())
    )


def stem(path: Path) -> str:
    """Return the name of a file without its suffixes .gpx, .geojson, .json and .gz."""
    return re.sub(r"(\.(gpx|geojson|json|rec|xml))?(\.gz)?$", "", path.name, flags=re.IGNORECASE) or path.name


def _point(row: dict[str, Any], user: str) -> Point | Invalid:
    time = row["time"]
    try:
        parsed = None if time in (None, "") else moment(str(time), "time")
    except ValueError as error:
        return Invalid(row["line"], str(error))
    return Point(row["line"], user, parsed, row["lat"], row["lon"])


GPX = Format(
    name="gpx",
    description="GPX tracks of any app or device",
    source="GPX 1.0 and 1.1, https://www.topografix.com/GPX/1/1/",
    checks="root element gpx; lat, lon and time of each trkpt; waypoints and routes are not read",
    recognises=lambda head: re.search(r"<(\w+:)?gpx[\s>]", head.text) is not None,
    read=read_gpx,
    pattern="**/*.gpx",
    options=frozenset({"--user"}),
    folder_hint="name a folder with files *.gpx",
)
GEOJSON = Format(
    name="geojson",
    description="GeoJSON features: points with a time, or lines with coordTimes",
    source="RFC 7946",
    checks="a FeatureCollection of Point and LineString; [lon, lat]; user and time among the properties",
    recognises=lambda head: re.search(r'"type"\s*:\s*"FeatureCollection"', head.text) is not None,
    read=read_geojson,
    pattern="**/*.geojson",
    options=frozenset({"--user"}),
    folder_hint="name a folder with files *.geojson",
)
