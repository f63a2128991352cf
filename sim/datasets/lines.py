"""Turn lines of text into rows of a trace: quickly where all of them are well-formed, else one by one.

What a line means is told by `_row`. The quick way gives the same rows or none at all.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.csv

from sim.mobility.recorded.tables import LATEST_S

PIECE = 1 << 15
EARLIEST_S = -62_135_596_800  # the year 1
TYPES: dict[str, Any] = {
    "user": pa.string(),
    "time_s": pa.int64(),
    "order": pa.int64(),
    "lat": pa.float64(),
    "lon": pa.float64(),
    "location": pa.string(),
    "occupied": pa.bool_(),
}
"""What a field may be, and the column that it makes, in the order of a trace file's columns."""

FRACTION = "fraction"
"""Column of the fractions of seconds that `time_s` leaves off, in [0, 1): only in tables that have any."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_BOUNDS = {
    "time_s": (EARLIEST_S, LATEST_S),
    "order": (1 - 10**18, 10**18 - 1),
    "lat": (-90, 90),
    "lon": (-180, 180),
    "occupied": (0, 1),
}
_BOM = "\ufeff".encode()
_EPOCH, _SECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=1)
_LONGEST = 40


@dataclass(frozen=True, slots=True)
class Layout:
    """What the fields of a line are."""

    fields: tuple[str, ...]
    """Names of `TYPES`; an empty name is a field that is not kept."""
    separator: str
    newest_first: bool = False
    """Whether a user's rows are written backwards."""
    user: str = ""
    """Whose all rows are, if the lines do not say it."""

    @property
    def columns(self) -> list[str]:
        """The columns of the rows."""
        return [name for name in TYPES if name in self.fields or name == "user"]

    def __str__(self) -> str:
        mark = {"\t": "tabs", " ": "spaces", ",": "commas"}[self.separator]
        return f"{', '.join(name or '(not kept)' for name in self.fields)}, parted by {mark}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """What a block of lines holds."""

    table: pa.Table
    lines: int
    """How many there were, blank ones too."""
    faults: list[tuple[int, str]] = field(default_factory=list)
    """Which lines, from 0, could not be read, and why."""


def parse(block: bytes, layout: Layout) -> Rows:
    """Read whole lines; those that cannot be read are told, blank ones left out."""
    lines = _count(block)
    if (table := quick(block, layout, lines)) is not None:
        return Rows(table, lines)
    # One bad line must not make all of a large block slow.
    tables, faults, start = [], [], 0
    for piece in _pieces(block):
        table = quick(piece, layout, _count(piece))
        rows = slow(piece, layout) if table is None else Rows(table, _count(piece))
        tables.append(rows.table)
        faults += [(start + line, why) for line, why in rows.faults]
        start += rows.lines
    return Rows(joined(tables) if tables else slow(b"", layout).table, lines, faults)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of several tables; times without a fraction have the fraction 0."""
    table = pa.concat_tables(tables, promote_options="default")
    if FRACTION not in table.column_names:
        return table
    fractions: Any = table[FRACTION]
    return table.set_column(table.column_names.index(FRACTION), FRACTION, fractions.fill_null(0.0))


def _count(block: bytes) -> int:
    """Return how many lines there are; the last may have no end."""
    return block.count(b"\n") + (not block.endswith(b"\n") and bool(block))


def _pieces(block: bytes) -> Iterator[bytes]:
    """Cut a block after the first end of a line in each stretch of half a piece."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + PIECE // 2) + 1 or len(block)
        yield block[start:end]
        start = end


def quick(block: bytes, layout: Layout, lines: int) -> pa.Table | None:
    """Return the rows if every line is surely a good one, else None."""
    # Arrow reads hexadecimal integers and skips a byte order mark; quotes are for the slow way to refuse.
    if not block or any(mark in block for mark in (_BOM, b"0x", b"0X", *([b'"'] if layout.separator == "," else []))):
        return None
    for time_type in (pa.timestamp("s", "UTC"), pa.int64()) if layout.separator != " " else (pa.int64(),):
        try:
            raw = _arrow(block, layout, time_type)
        except pa.ArrowInvalid:
            continue
        return _checked(raw, layout) if raw.num_rows == lines else None
    return None


def _arrow(block: bytes, layout: Layout, time_type: Any) -> pa.Table:
    types = {
        "user": pa.dictionary(pa.int32(), pa.string()),
        "time_s": time_type,
        "order": pa.int64(),
        "lat": pa.float64(),
        "lon": pa.float64(),
        "location": pa.string(),
        "occupied": pa.int64(),
    }
    names = [name or f"unused {position}" for position, name in enumerate(layout.fields)]
    return pyarrow.csv.read_csv(
        io.BytesIO(block),
        read_options=pyarrow.csv.ReadOptions(column_names=names),
        parse_options=pyarrow.csv.ParseOptions(
            delimiter=layout.separator, quote_char=False, ignore_empty_lines=False, newlines_in_values=False
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: types.get(name, pa.string()) for name in names},
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _checked(raw: pa.Table, layout: Layout) -> pa.Table | None:
    """Return Arrow's table with our types, or None if a value is not allowed."""
    columns: dict[str, Any] = {}
    for name in layout.columns:
        if name not in raw.column_names:
            columns[name] = pa.repeat(layout.user, raw.num_rows)
            continue
        column: Any = raw[name]
        if name in ("time_s", "order"):
            column = column.cast(pa.int64())
        if name == "user":
            good = all(str(user).strip() for chunk in column.chunks for user in chunk.dictionary.to_pylist())
        else:
            good = name not in _BOUNDS or _within(column, *_BOUNDS[name])
        if not good:
            return None
        columns[name] = column if column.type == TYPES[name] else column.cast(TYPES[name])
    return pa.table(columns)


def _within(column: Any, least: float, most: float) -> bool:
    """Tell whether all numbers are in [least, most]; nan never is."""
    values = column.to_numpy()
    return not values.size or bool(values.min() >= least and values.max() <= most)  # min is nan where one is


def slow(block: bytes, layout: Layout) -> Rows:
    """Read the lines one by one."""
    found: list[tuple[Any, ...]] = []
    faults: list[tuple[int, str]] = []
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines):
        try:
            line = raw.decode("utf-8").rstrip("\r")
            if line.strip():
                found.append(_row(line, layout))
        except UnicodeDecodeError:
            faults.append((number, f"is not UTF-8 text: {_shown(raw.decode('utf-8', 'replace'))}"))
        except ValueError as error:
            faults.append((number, str(error)))
    columns = list(zip(*found, strict=True)) if found else [()] * (len(layout.columns) + 1)
    arrays = {name: pa.array(values, type=TYPES[name]) for name, values in zip(layout.columns, columns, strict=False)}
    if any(columns[-1]):
        arrays[FRACTION] = pa.array(columns[-1], type=pa.float64())
    return Rows(pa.table(arrays), len(lines), faults)


def _row(line: str, layout: Layout) -> tuple[Any, ...]:
    """Return the values of one line, in the order of the layout's columns, and the fraction of its second.

    Raises ValueError with what is wrong.
    """
    if layout.separator == "," and '"' in line:
        raise ValueError(f"has quotes, which are not read here: {_shown(line)}")
    texts = line.split() if layout.separator == " " else line.split(layout.separator)
    if len(texts) != len(layout.fields):
        raise ValueError(f"must have {len(layout.fields)} fields, found {len(texts)}: {_shown(line)}")
    values: dict[str, Any] = {"user": layout.user}
    for name, text in zip(layout.fields, texts, strict=True):
        if name:
            values[name] = text if name == "location" else _READERS[name](text, name)
    seconds, fraction = values.get("time_s", (0, 0.0))
    values["time_s"] = seconds
    return (*(values[name] for name in layout.columns), fraction)


def _user(text: str, _name: str) -> str:
    if not text.strip():
        raise ValueError("must name a user, found nothing")
    return text


def _time(text: str, name: str) -> tuple[int, float]:
    """Read seconds or ISO-8601 text, in UTC where it names no zone; return whole seconds and the fraction."""
    word = text.strip()
    try:
        if _NUMBER.fullmatch(word):
            seconds, fraction = (int(word), 0.0) if _INTEGER.fullmatch(word) else _split(Decimal(word))
        else:
            moment = datetime.fromisoformat(word)
            moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
            since = moment - _EPOCH
            seconds, fraction = since // _SECOND, since % _SECOND / _SECOND
    except (ValueError, OverflowError, ArithmeticError):
        raise ValueError(f"{name} must be seconds or ISO-8601 text, found {_shown(text)}") from None
    least, most = _BOUNDS[name]
    if not least <= seconds <= most:
        raise ValueError(f"{name} must be seconds, not milliseconds or less, found {_shown(text)}")
    return seconds, fraction


def _split(number: Decimal) -> tuple[int, float]:
    """Return a number rounded down, and the rest; of one that is far too large any that is."""
    if abs(number) > 2 * LATEST_S:
        return math.trunc(math.copysign(2 * LATEST_S, number)), 0.0
    whole = math.floor(number)
    return whole, float(number - whole)


def _integer(text: str, name: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError(f"{name} must be a whole number, found {_shown(text)}")
    return int(text)


def _degrees(text: str, name: str) -> float:
    _, most = _BOUNDS[name]
    value = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not abs(value) <= most:
        raise ValueError(f"{name} must be degrees in [-{most}, {most}], found {_shown(text)}")
    return value


def _flag(text: str, name: str) -> bool:
    if not _INTEGER.fullmatch(text.strip()) or int(text) not in (0, 1):
        raise ValueError(f"{name} must be 0 or 1, found {_shown(text)}")
    return bool(int(text))


_READERS: Mapping[str, Any] = {
    "user": _user,
    "time_s": _time,
    "order": _integer,
    "lat": _degrees,
    "lon": _degrees,
    "occupied": _flag,
}


def _shown(text: str) -> str:
    """Write text from a file so that nothing in it is acted upon, shortened."""
    if not text.strip():
        return "nothing"
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
