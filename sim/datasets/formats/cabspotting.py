"""Cabspotting: one file per cab (CRAWDAD epfl/mobility)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Options
from sim.datasets.formats.checkins import read_with_header
from sim.datasets.formats.text import read_layout
from sim.datasets.lines import Layout
from sim.datasets.regions import SAN_FRANCISCO
from sim.errors import InputError

CRAWDAD = Layout(("lat", "lon", "occupied", "time_s"), " ", newest_first=True)
_CAB = re.compile(r"new_(?P<id>.+)\.txt(\.gz)?")


def recognises(head: Head) -> bool:
    """Return whether the first line has the four fields of a cab's file."""
    return head.matches(r"-?\d+\.\d+ -?\d+\.\d+ [01] \d{9,10}$")


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the rows of a cab."""
    if (rows := read_with_header(raw, options)) is not None:
        return rows
    match = _CAB.fullmatch(raw.path.name)
    if match is None:
        raise InputError(
            f"{raw.path}: the file of a cab must be named new_<cab>.txt, which identifies the cab",
            code="invalid-file-name",
        )
    return read_layout(raw, replace(CRAWDAD, user=match["id"]))


CABSPOTTING = Format(
    name="cabspotting",
    description="cabs in San Francisco, the folder of files new_<cab>.txt of CRAWDAD epfl/mobility",
    source="Piorkowski, Sarafijanovic-Djukic, Grossglauser, doi 10.15783/C7J010",
    checks=str(CRAWDAD),
    recognises=recognises,
    read=read,
    accepts_header=True,
    pattern="new_*.txt",
    region=SAN_FRANCISCO,
    folder_hint="name the folder with the files of the cabs, new_<cab>.txt",
)
