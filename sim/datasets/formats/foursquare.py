"""Foursquare check-ins in New York and Tokyo (Yang et al. 2015)."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from datetime import UTC, datetime

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Invalid, Options, Point, batches
from sim.datasets.formats.text import numbered_lines
from sim.datasets.lines import shown

_FIELDS = 8
_TIME = r"\w{3} \w{3} \d\d \d\d:\d\d:\d\d \+0000 \d{4}"
_MONTHS = {
    name: number
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], 1
    )
}


def recognises(head: Head) -> bool:
    """Return whether the first or second line is a check-in with the time in the form of Twitter."""
    return any(head.matches(rf".*[\t,]-?\d+[\t,]{_TIME}$", line=line) for line in (0, 1))


def read(raw: RawFile, _options: Options) -> Iterator[Batch]:
    """Yield all check-ins; category names are in Latin-1 in the published files."""
    return batches(_points(raw))


def _points(raw: RawFile) -> Iterator[Point | Invalid]:
    for line, text in numbered_lines(raw, encoding="latin-1"):
        try:
            fields = text.split("\t") if "\t" in text else next(csv.reader([text], strict=True))
        except csv.Error:
            fields = [text]
        if line == 1 and fields[0].lower() == "userid":
            continue
        if len(fields) != _FIELDS:
            yield Invalid(line, f"must have {_FIELDS} fields, found {len(fields)}: {shown(text)}")
            continue
        user, venue, _, _, lat, lon, _, time = fields
        try:
            yield Point(line, user, (utc_s(time), 0.0), lat, lon, venue)
        except (ValueError, OverflowError):
            yield Invalid(line, f"time must be like 'Tue Apr 03 18:00:09 +0000 2012', found {shown(time)}")


def utc_s(text: str) -> int:
    """Return the Unix time of a time in UTC in the form of Twitter, independently of the locale.

    >>> utc_s("Tue Apr 03 18:00:09 +0000 2012")
    1333476009
    """
    _, month, day, clock, zone, year = text.split()
    hour, minute, second = clock.split(":")
    if month not in _MONTHS or zone != "+0000":
        raise ValueError(text)
    stamp = datetime(int(year), _MONTHS[month], int(day), int(hour), int(minute), int(second), tzinfo=UTC)
    return int(stamp.timestamp())


FOURSQUARE = Format(
    name="foursquare",
    description="check-ins in New York and Tokyo, the files dataset_TSMC2014_NYC.txt and _TKY.txt",
    source="Yang, Zhang, Zheng, Yu, IEEE Trans. SMC: Systems 45(1), 2015",
    checks="user, venue, category id, category, lat, lon, time zone offset in minutes, UTC time; separated by tabs",
    recognises=recognises,
    read=read,
    folder_hint="name the file, such as dataset_TSMC2014_NYC.txt",
)
