"""T-Drive: a week of taxis in Beijing (Yuan et al. 2010)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Options
from sim.datasets.formats.text import read_layout
from sim.datasets.lines import Layout

BEIJING_H = 8
LAYOUT = Layout(("user", "time_s", "lon", "lat"), ",")


def recognises(head: Head) -> bool:
    """Return whether the first line has the four fields of a taxi's file."""
    return head.matches(r"\d+,\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,-?[\d.]+,-?[\d.]+$")


def read(raw: RawFile, _options: Options) -> Iterator[Batch]:
    """Yield the rows of a taxi; the local times of Beijing become UTC."""
    for batch in read_layout(raw, LAYOUT):
        table = batch.table
        local: Any = table["time_s"]
        times = pa.array(local.to_numpy() - BEIJING_H * 3600)
        yield replace(batch, table=table.set_column(table.column_names.index("time_s"), "time_s", times))


TDRIVE = Format(
    name="tdrive",
    description="taxis in Beijing, the folder of files TAXI.txt of T-Drive",
    source="Yuan, Zheng, Zhang et al., GIS 2010; T-Drive sample, Microsoft Research",
    checks=f"{LAYOUT}; the time is YYYY-MM-DD hh:mm:ss",
    recognises=recognises,
    read=read,
    pattern="**/*.txt",
    area=(38.0, 42.0, 114.0, 119.0),
    time_note="times are taken as local time of Beijing (UTC+8)",
    folder_hint="name the folder with the files TAXI.txt",
)
