"""Geolife GPS trajectories: folders of PLT files by user (Zheng et al. 2009)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from sim.datasets.files import RawFile
from sim.datasets.formats import columns
from sim.datasets.formats.base import Batch, Format, Head, Options
from sim.datasets.formats.text import read_layout
from sim.datasets.lines import Layout
from sim.errors import InputError

HEADER_LINES = 6
_FIELDS = ("lat", "lon", "", "", "", "time_s")
_DATE_AND_TIME = re.compile(rb"(\d{4}-\d\d-\d\d),(\d\d:\d\d:\d\d)(?=\r?$)", re.MULTILINE)


def recognises(head: Head) -> bool:
    """Return whether a file begins with the header of PLT files."""
    return head.matches("Geolife trajectory")


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the rows of a PLT file, or of the CSV form `lat,lng,datetime,uid` that scikit-mobility distributes."""
    if not raw.path.name.lower().endswith((".plt", ".plt.gz")):
        return columns.read(raw, options)
    layout = Layout(_FIELDS, ",", user=options.user or _user(raw.path))
    return read_layout(raw, layout, header=HEADER_LINES, prepare=lambda text: _DATE_AND_TIME.sub(rb"\1 \2", text))


def _user(path: Path) -> str:
    """Return the user of a file USER/Trajectory/NAME.plt."""
    folder = path.resolve().parent
    user = folder.parent.name if folder.name == "Trajectory" else folder.name
    if not user:
        raise InputError(
            f"{path}: a PLT file must be in a folder USER/Trajectory, which identifies the user; use --user NAME",
            code="invalid-file-name",
        )
    return user


GEOLIFE = Format(
    name="geolife",
    description="GPS tracks in Beijing, the folder Data with USER/Trajectory/*.plt, or CSV lat,lng,datetime,uid",
    source="Zheng, Zhang, Xie, Ma, WWW 2009; Geolife GPS Trajectories 1.3, Microsoft Research",
    checks="6 header lines, then lat, lon, 0, altitude in feet, days since 1899-12-30, date, time (GMT)",
    recognises=recognises,
    read=read,
    accepts_header=True,
    pattern="**/*.plt",
    options=frozenset({"--user", "--columns"}),
    folder_hint="name the folder Data, with USER/Trajectory/*.plt",
)
