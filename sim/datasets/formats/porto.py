"""Porto taxis: one trip per line with a position every 15 s (ECML/PKDD 2015 challenge)."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Ignored, Invalid, Options, Point, batches
from sim.datasets.formats.text import numbered_lines
from sim.datasets.lines import moment, shown
from sim.errors import InvalidValue

PERIOD_S = 15
NAMES = ("TRIP_ID", "CALL_TYPE", "ORIGIN_CALL", "ORIGIN_STAND", "TAXI_ID", "TIMESTAMP", "DAY_TYPE", "MISSING_DATA",
         "POLYLINE")  # fmt: skip
_NEEDED = ("TAXI_ID", "TIMESTAMP", "POLYLINE")


def recognises(head: Head) -> bool:
    """Return whether the header names the columns of a trip."""
    return head.matches('"?TRIP_ID"?,.*"?TAXI_ID"?,"?TIMESTAMP"?,.*"?POLYLINE"?$')


def read(raw: RawFile, _options: Options) -> Iterator[Batch]:
    """Yield the positions of all trips."""
    return batches(_points(raw))


def _points(raw: RawFile) -> Iterator[Point | Invalid | Ignored]:
    names: list[str] = []
    for line, text in numbered_lines(raw):
        try:
            fields = next(csv.reader([text], strict=True))
        except csv.Error as error:
            yield Invalid(line, f"must have closed quotes ({error}), found {shown(text)}")
            continue
        if not names:
            names = fields
            if missing := [name for name in _NEEDED if name not in names]:
                raise InvalidValue(f"no column {', '.join(missing)}; found {', '.join(names)}", code="no-such-column")
            continue
        if len(fields) != len(names):
            yield Invalid(line, f"must have {len(names)} fields, found {len(fields)}: {shown(text)}")
            continue
        yield from _trip(line, dict(zip(names, fields, strict=True)))


def _trip(line: int, trip: dict[str, str]) -> Iterator[Point | Invalid | Ignored]:
    """Yield the positions of a trip: the k-th is k * 15 s after its start."""
    if trip.get("MISSING_DATA", "").lower() == "true":
        yield Ignored("trips with missing positions (MISSING_DATA), whose times are unknown")
        return
    try:
        start_s, _ = moment(trip["TIMESTAMP"], "TIMESTAMP")
        positions = [(lat, lon) for lon, lat in json.loads(trip["POLYLINE"])]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason = str(error) if "TIMESTAMP" in str(error) else "POLYLINE must be a list of [lon, lat]"
        yield Invalid(line, reason)
        return
    if not positions:
        yield Ignored("trips without positions")
    for number, (lat, lon) in enumerate(positions):
        yield Point(line, trip["TAXI_ID"], (start_s + PERIOD_S * number, 0.0), lat, lon)


PORTO = Format(
    name="porto",
    description="taxis in Porto, the file train.csv of the ECML/PKDD 2015 challenge",
    source="Moreira-Matias et al., IEEE Trans. ITS 14(3), 2013; UCI, Taxi Service Trajectory",
    checks=f"columns {', '.join(NAMES)}; POLYLINE is a JSON list of [lon, lat] every 15 s from TIMESTAMP",
    recognises=recognises,
    read=read,
    area=(40.0, 42.5, -9.5, -7.0),
    folder_hint="name the file train.csv",
)
