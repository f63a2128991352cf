"""Google Timeline: Records.json, Semantic Location History, and the exports of Android and iOS devices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Ignored, Invalid, Options, Point, batches
from sim.datasets.lines import moment, shown
from sim.mobility.recorded.streams import json_items

_KEYS = r'"(locations|timelineObjects|semanticSegments|rawSignals)"\s*:\s*\['
_DEVICE = r'"(startTime|endTime)"\s*:.*"(geo:|visit|activity|timelinePath)'
_MINUTE = "durationMinutesOffsetFromStartTime"
_PAIR = re.compile(r"(?:geo:)?\s*(-?[\d.]+)\s*°?\s*,\s*(-?[\d.]+)\s*°?", re.ASCII)
_E7 = 1e7

Item = Point | Invalid | Ignored


def recognises(head: Head) -> bool:
    """Return whether a file has the keys of one of the four exports."""
    if head.text.lstrip("\ufeff \r\n\t")[:1] == "[":
        return re.search(_DEVICE, head.text, re.DOTALL) is not None
    return re.search(_KEYS, head.text) is not None


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield all positions; the user is `--user`, or "1"."""
    return batches(_points(raw, options.user or "1"))


def _points(raw: RawFile, user: str) -> Iterator[Item]:
    readers = {
        "locations": _record,
        "timelineObjects": _semantic,
        "semanticSegments": _segment,
        "rawSignals": _signal,
        "": _segment,
    }
    for line, key, item in json_items(raw.chunks()):
        if key not in readers:
            continue
        try:
            yield from readers[key](line, user, item)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
            detail = f"{type(error).__name__} {error}" if not isinstance(error, ValueError) else str(error)
            yield Invalid(line, f"not an entry of {key or 'the export'}: {shown(detail)}")


def _record(line: int, user: str, item: dict[str, Any]) -> Iterator[Item]:
    """Yield the position of a record of Records.json."""
    if "latitudeE7" not in item:
        yield Ignored("records without a position")
        return
    yield _at(line, user, item, item)


def _semantic(line: int, user: str, item: dict[str, Any]) -> Iterator[Item]:
    """Yield the positions of a visit or an activity of the Semantic Location History."""
    visit, activity = item.get("placeVisit"), item.get("activitySegment")
    if visit is not None:
        yield from _ends(line, user, visit["location"], visit["location"], visit["duration"])
    elif activity is not None:
        yield from _ends(
            line, user, activity.get("startLocation", {}), activity.get("endLocation", {}), activity["duration"]
        )
        for point in activity.get("simplifiedRawPath", {}).get("points", []):
            yield _at(line, user, point, point)
        if "waypointPath" in activity:
            yield Ignored("paths of waypoints without times")
    else:
        yield Ignored("other timeline objects")


def _ends(line: int, user: str, first: dict[str, Any], last: dict[str, Any], times: dict[str, Any]) -> Iterator[Item]:
    for place, prefix in ((first, "start"), (last, "end")):
        if "latitudeE7" not in place:
            yield Ignored("ends of visits and activities without a position")
        else:
            stamp = {name: times.get(f"{prefix}{name[0].upper()}{name[1:]}") for name in ("timestamp", "timestampMs")}
            yield _at(line, user, place, stamp)


def _segment(line: int, user: str, item: dict[str, Any]) -> Iterator[Item]:
    """Yield the positions of a visit, an activity or a path of a device's export."""
    start, end = item["startTime"], item["endTime"]
    if "visit" in item:
        place = item["visit"]["topCandidate"]["placeLocation"]
        yield from (_device(line, user, place, time) for time in (start, end))
    elif "activity" in item:
        for name, time in (("start", start), ("end", end)):
            yield _device(line, user, item["activity"][name], time)
    elif "timelinePath" in item:
        for point in item["timelinePath"]:
            offset_s = 60 * float(point.get(_MINUTE, 0))
            yield _device(line, user, point["point"], point.get("time", start), 0.0 if "time" in point else offset_s)
    else:
        yield Ignored("segments without positions, such as memories")


def _signal(line: int, user: str, item: dict[str, Any]) -> Iterator[Item]:
    """Yield the position of a raw signal of a device's export."""
    position = item.get("position")
    if position is None:
        yield Ignored("raw signals without a position, such as scans of Wi-Fi")
        return
    yield _device(line, user, position["LatLng" if "LatLng" in position else "latLng"], position["timestamp"])


def _device(line: int, user: str, place: Any, time: str, offset_s: float = 0.0) -> Point:
    """Return a position written as "48.1°, 11.5°" or "geo:48.1,11.5"."""
    text = place["latLng"] if isinstance(place, dict) else place
    match = _PAIR.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"position {text}")
    seconds, fraction = moment(time, "time")
    return Point(line, user, (seconds + int(offset_s), fraction), match[1], match[2])


def _at(line: int, user: str, place: dict[str, Any], time: dict[str, Any]) -> Point:
    """Return a position in units of 1e-7 degrees."""
    lat = place["latitudeE7"] if "latitudeE7" in place else place["latE7"]
    lon = place["longitudeE7"] if "longitudeE7" in place else place["lngE7"]
    return Point(line, user, _time(time), float(lat) / _E7, float(lon) / _E7)


def _time(entry: dict[str, Any]) -> tuple[int, float]:
    """Return the time of an entry: ISO 8601 text, or milliseconds in older exports."""
    if entry.get("timestamp") is not None:
        return moment(str(entry["timestamp"]), "timestamp")
    milliseconds = int(entry["timestampMs"])
    return milliseconds // 1000, milliseconds % 1000 / 1000


GOOGLE = Format(
    name="google-timeline",
    description="Google Timeline: Records.json, Semantic Location History, Timeline.json of Android and iOS",
    source="https://locationhistoryformat.com; the exports of devices are not documented by Google",
    checks="the keys locations, timelineObjects, semanticSegments or rawSignals, or a list of segments",
    recognises=recognises,
    read=read,
    pattern="**/*.json",
    options=frozenset({"--user"}),
    folder_hint="name Records.json, Timeline.json or the folder Semantic Location History",
)
