"""YJMob100K: 100,000 people in cells of 500 m, without coordinates and dates (Yabe et al. 2024)."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Options
from sim.datasets.formats.text import body
from sim.datasets.lines import shown
from sim.world.grid import Grid

SIDE = 200
CELL_KM = 0.5
SLOT_S, SLOTS, DAY_S = 1800, 48, 86_400
_NAMES = ("uid", "d", "t", "x", "y")
_MASKED = 999
_TYPES: dict[str, Any] = dict.fromkeys(_NAMES, pa.int64())


def recognises(head: Head) -> bool:
    """Return whether the header names user, day, slot, x and y."""
    return head.matches("uid,d,t,x,y$")


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the rows: the cell in row-major order from the south-west, and the start of the slot as time."""
    for block in body(raw, 1):
        table, bad = _numbers(block.text)
        faults = [(block.first_line + row, _reason(line)) for row, line in bad.items()]
        lines = np.arange(table.num_rows + len(bad))
        if bad:
            lines = np.setdiff1d(lines, list(bad))
        yield _rows(table, options.start_s or 0, faults, lines + block.first_line)


def _numbers(text: bytes) -> tuple[pa.Table, dict[int, bytes]]:
    """Return the lines with five integers, and the others by their number."""
    try:
        table = _parsed(text)
        if table.num_rows == text.count(b"\n") + (not text.endswith(b"\n")):
            return table, {}
    except pa.ArrowInvalid:
        pass
    lines = text.removesuffix(b"\n").split(b"\n")
    bad = {row: line for row, line in enumerate(lines) if not _is_row(line)}
    return _parsed(b"\n".join(line for line in lines if _is_row(line)) + b"\n"), bad


def _is_row(line: bytes) -> bool:
    fields = line.strip().split(b",")
    return len(fields) == len(_NAMES) and all(field.lstrip(b"-").isdigit() and len(field) < 18 for field in fields)


def _parsed(text: bytes) -> pa.Table:
    if not text.strip():
        return pa.table({name: pa.array([], pa.int64()) for name in _NAMES})
    return pyarrow.csv.read_csv(
        io.BytesIO(text),
        read_options=pyarrow.csv.ReadOptions(column_names=list(_NAMES)),
        parse_options=pyarrow.csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=_TYPES, null_values=[]),
    )


def _rows(table: pa.Table, start_s: int, faults: list[tuple[int, str]], lines: Any) -> Batch:
    user, day, slot, x, y = (table[name].to_numpy() for name in _NAMES)
    masked = (x == _MASKED) & (y == _MASKED)
    valid = (day >= 0) & (day < 1000) & (slot >= 0) & (slot < SLOTS)
    valid &= (x >= 1) & (x <= SIDE) & (y >= 1) & (y <= SIDE)
    wrong = np.flatnonzero(~valid & ~masked)
    faults += [(int(lines[row]), _reason(b",".join(b"%d" % v[row] for v in (user, day, slot, x, y)))) for row in wrong]
    user, day, slot, x, y = (values[valid] for values in (user, day, slot, x, y))
    columns = {
        "user": pa.array(user).cast(pa.string()),
        "time_s": pa.array(start_s + day * DAY_S + slot * SLOT_S),
        "cell": pa.array((SIDE - y) * SIDE + x - 1),
    }
    ignored = {"masked rows (x = y = 999), which the challenge asks to predict": int(masked.sum())}
    return Batch(pa.table(columns), sorted(faults), {name: count for name, count in ignored.items() if count})


def _reason(line: bytes) -> str:
    return (
        f"must have uid, d, t in [0, {SLOTS - 1}], x and y in [1, {SIDE}], found "
        f"{shown(line.decode('utf-8', 'replace'))}"
    )


YJMOB = Format(
    name="yjmob100k",
    description="people in a Japanese city in cells of 500 m, the files yjmob100k-dataset*.csv.gz or of HuMob",
    source="Yabe, Tsubouchi, Shimizu et al., Scientific Data 11, 2024; doi 10.5281/zenodo.10142719",
    checks=f"columns uid, d, t, x, y; t in [0, {SLOTS - 1}], x and y in [1, {SIDE}]; y = 1 is the northernmost row",
    recognises=recognises,
    read=read,
    options=frozenset({"--start"}),
    grid=Grid.rectangle(rows=SIDE, cols=SIDE, width_km=SIDE * CELL_KM, height_km=SIDE * CELL_KM),
    time_note="time 0 is midnight of day 0, in local time, because the dates are not published",
    folder_hint="name the file, such as yjmob100k-dataset1.csv.gz",
)
