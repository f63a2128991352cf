"""Parsing of lines of text into rows of a trace: with Arrow if all lines are valid, otherwise line by line.

`_row` defines the meaning of a line. The fast parser returns the same rows, or None.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
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
    "cell": pa.int64(),
    "location": pa.string(),
    "occupied": pa.bool_(),
}
"""Names and types of the fields, in the order of the columns of a trace file."""

FRACTION = "fraction"
"""Column of the fractional seconds in [0, 1) that `time_s` omits; present only if any fraction is not zero."""

_MICRO = 10**6
_DECIMAL: Any = pa.decimal128(24, 6)
_TIME_TYPES: tuple[Any, ...] = (
    pa.timestamp("s", "UTC"),
    pa.int64(),
    pa.timestamp("s"),
    pa.timestamp("us", "UTC"),
    pa.timestamp("us"),
    _DECIMAL,
)

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
    """Layout of the lines of a file."""

    fields: tuple[str, ...]
    """Names of `TYPES`; an empty name is a field that is ignored."""
    separator: str
    newest_first: bool = False
    """Whether the rows of a user are in reverse order of time."""
    user: str = ""
    """User of all rows, if the lines do not name one."""
    quoted: bool = False
    """Whether fields may be enclosed in double quotes; a quoted field must not contain a line break."""

    @property
    def columns(self) -> list[str]:
        """The columns of the rows."""
        return [name for name in TYPES if name in self.fields or name == "user"]

    def __str__(self) -> str:
        separators = {"\t": "tabs", " ": "spaces", ",": "commas", ";": "semicolons"}[self.separator]
        return f"{', '.join(name or '(ignored)' for name in self.fields)}, separated by {separators}"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of a block of lines."""

    table: pa.Table
    lines: int
    """Number of lines, including blank ones."""
    faults: list[tuple[int, str]] = field(default_factory=list)
    """Invalid lines, counted from 0, with the reason."""


def parse(block: bytes, layout: Layout) -> Rows:
    """Parse whole lines; invalid lines are reported, blank lines are ignored."""
    lines = _count(block)
    if (table := quick(block, layout, lines)) is not None:
        return Rows(table, lines)
    # One invalid line must not slow down a whole block.
    tables, faults, start = [], [], 0
    for piece in _pieces(block):
        table = quick(piece, layout, _count(piece))
        rows = slow(piece, layout) if table is None else Rows(table, _count(piece))
        tables.append(rows.table)
        faults += [(start + line, reason) for line, reason in rows.faults]
        start += rows.lines
    return Rows(joined(tables) if tables else slow(b"", layout).table, lines, faults)


def joined(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables; missing fractions of seconds become 0."""
    table = pa.concat_tables(tables, promote_options="default")
    if FRACTION not in table.column_names:
        return table
    fractions: Any = table[FRACTION]
    return table.set_column(table.column_names.index(FRACTION), FRACTION, fractions.fill_null(0.0))


def _count(block: bytes) -> int:
    """Return the number of lines; the last one may lack a line break."""
    return block.count(b"\n") + (not block.endswith(b"\n") and bool(block))


def _pieces(block: bytes) -> Iterator[bytes]:
    """Split a block into whole lines of about half of `PIECE` bytes."""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start + PIECE // 2) + 1 or len(block)
        yield block[start:end]
        start = end


def quick(block: bytes, layout: Layout, lines: int) -> pa.Table | None:
    """Return the rows if all lines are certainly valid, otherwise None."""
    # Arrow accepts hexadecimal integers and skips byte order marks; `slow` reports quotes.
    quotes = [b'"'] if layout.separator == "," and not layout.quoted else []
    if not block or any(mark in block for mark in (_BOM, b"0x", b"0X", *quotes)):
        return None
    first = block.partition(b"\n")[0] + b"\n"
    for time_type in _TIME_TYPES if layout.separator != " " else _TIME_TYPES[1:2]:
        try:
            if "time_s" in layout.fields and lines > 1:
                _arrow(first, layout, time_type)  # most types fail here, at no cost
            raw = _arrow(block, layout, time_type)
            if raw.num_rows != lines or _has_quotes(raw, layout):
                return None
            return _checked(raw, layout)
        except pa.ArrowInvalid:
            continue
    return None


def _has_quotes(raw: pa.Table, layout: Layout) -> bool:
    """Return whether a user id has quotes: `slow` decides whether they are those of a broken field."""
    if not layout.quoted or "user" not in raw.column_names:
        return False
    column: Any = raw["user"]
    return any('"' in str(user) for chunk in column.chunks for user in chunk.dictionary.to_pylist())


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
            delimiter=layout.separator,
            quote_char='"' if layout.quoted else False,
            ignore_empty_lines=False,
            newlines_in_values=False,
        ),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types={name: types.get(name, pa.string()) for name in names},
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _checked(raw: pa.Table, layout: Layout) -> pa.Table | None:
    """Convert Arrow's table to the types of a trace file; return None if a value is not allowed."""
    columns: dict[str, Any] = {}
    for name in layout.columns:
        if name not in raw.column_names:
            columns[name] = pa.repeat(layout.user, raw.num_rows)
            continue
        column: Any = raw[name]
        if name == "time_s":
            column, fraction = _seconds(column)
            if fraction is not None and fraction.any():
                columns[FRACTION] = pa.array(fraction)
        if name == "order":
            column = column.cast(pa.int64())
        if name == "user":
            valid = all(str(user).strip() for chunk in column.chunks for user in chunk.dictionary.to_pylist())
        else:
            valid = name not in _BOUNDS or _within(column, *_BOUNDS[name])
        if not valid:
            return None
        columns[name] = column if column.type == TYPES[name] else column.cast(TYPES[name])
    if FRACTION in columns:
        columns[FRACTION] = columns.pop(FRACTION)
    return pa.table(columns)


def _seconds(column: Any) -> tuple[Any, Any]:
    """Return times as whole seconds, rounded down, and the fractions of seconds or None."""
    if column.type == _DECIMAL:
        ticks = pc.multiply(column, pa.scalar(Decimal(_MICRO), pa.decimal128(7, 0))).cast(pa.int64()).to_numpy()
    elif pa.types.is_timestamp(column.type) and column.type.unit == "us":
        ticks = column.cast(pa.int64()).to_numpy()
    else:
        return column.cast(pa.int64()), None
    return pa.chunked_array([pa.array(ticks // _MICRO)]), ticks % _MICRO / _MICRO


def _within(column: Any, least: float, most: float) -> bool:
    """Return whether all numbers are in [least, most]; NaN never is."""
    values = column.to_numpy()
    return not values.size or bool(values.min() >= least and values.max() <= most)  # min propagates NaN


def slow(block: bytes, layout: Layout) -> Rows:
    """Parse lines one by one."""
    rows: list[tuple[Any, ...]] = []
    faults: list[tuple[int, str]] = []
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    for number, raw in enumerate(lines):
        try:
            line = raw.decode("utf-8").rstrip("\r")
            if line.strip():
                rows.append(_row(line, layout))
        except UnicodeDecodeError:
            faults.append((number, f"must be UTF-8 text, found {shown(raw.decode('utf-8', 'replace'))}"))
        except ValueError as error:
            faults.append((number, str(error)))
    columns = list(zip(*rows, strict=True)) if rows else [()] * (len(layout.columns) + 1)
    arrays = {name: pa.array(values, type=TYPES[name]) for name, values in zip(layout.columns, columns, strict=False)}
    if any(columns[-1]):
        arrays[FRACTION] = pa.array(columns[-1], type=pa.float64())
    return Rows(pa.table(arrays), len(lines), faults)


def _row(line: str, layout: Layout) -> tuple[Any, ...]:
    """Return the values of one line in the order of the layout's columns, followed by the fraction of its second.

    Raise ValueError with the reason if the line is invalid.
    """
    texts = _fields(line, layout)
    if len(texts) != len(layout.fields):
        raise ValueError(f"must have {len(layout.fields)} fields, found {len(texts)}: {shown(line)}")
    values: dict[str, Any] = {"user": layout.user}
    for name, text in zip(layout.fields, texts, strict=True):
        if name:
            values[name] = text if name == "location" else _READERS[name](text, name)
    seconds, fraction = values.get("time_s", (0, 0.0))
    values["time_s"] = seconds
    return (*(values[name] for name in layout.columns), fraction)


def _fields(line: str, layout: Layout) -> list[str]:
    if layout.quoted and '"' in line:
        if line.count('"') % 2:
            raise ValueError(f"must have closed quotes on one line, found {shown(line)}")
        try:
            return next(csv.reader([line], delimiter=layout.separator, strict=True))
        except (csv.Error, StopIteration) as error:
            raise ValueError(f"must have valid quotes ({error}), found {shown(line)}") from None
    if layout.separator == "," and '"' in line:
        raise ValueError(f"must not have quotes, which are not supported, found {shown(line)}")
    return line.split() if layout.separator == " " else line.split(layout.separator)


def _user(text: str, _name: str) -> str:
    if not text.strip():
        raise ValueError("user must not be empty, found nothing")
    return text


def moment(text: str, name: str) -> tuple[int, float]:
    """Parse seconds or ISO 8601 text, in UTC if it names no time zone; return whole seconds and the fraction."""
    stripped = text.strip()
    try:
        if _NUMBER.fullmatch(stripped):
            seconds, fraction = (int(stripped), 0.0) if _INTEGER.fullmatch(stripped) else _split(Decimal(stripped))
        else:
            stamp = datetime.fromisoformat(stripped)
            stamp = stamp.replace(tzinfo=UTC) if stamp.tzinfo is None else stamp
            since = stamp - _EPOCH
            seconds, fraction = since // _SECOND, since % _SECOND / _SECOND
    except (ValueError, OverflowError, ArithmeticError):
        raise ValueError(f"{name} must be seconds or ISO 8601 text, found {shown(text)}") from None
    if not EARLIEST_S <= seconds <= LATEST_S:
        raise ValueError(f"{name} must be in seconds, not milliseconds or a smaller unit, found {shown(text)}")
    return seconds, fraction


def _split(number: Decimal) -> tuple[int, float]:
    """Return a number rounded down and the remainder; numbers far out of range are clipped to another such number."""
    if abs(number) > 2 * LATEST_S:
        return math.trunc(math.copysign(2 * LATEST_S, number)), 0.0
    whole = math.floor(number)
    return whole, float(number - whole)


def _integer(text: str, name: str) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise ValueError(f"{name} must be a whole number, found {shown(text)}")
    return int(text)


def degrees(text: str, name: str) -> float:
    """Parse a latitude or longitude."""
    _, most = _BOUNDS[name]
    value = float(text) if _NUMBER.fullmatch(text.strip()) else math.nan
    if not abs(value) <= most:
        raise ValueError(f"{name} must be degrees in [-{most}, {most}], found {shown(text)}")
    return value


def _flag(text: str, name: str) -> bool:
    if not _INTEGER.fullmatch(text.strip()) or int(text) not in (0, 1):
        raise ValueError(f"{name} must be 0 or 1, found {shown(text)}")
    return bool(int(text))


_READERS: Mapping[str, Any] = {
    "user": _user,
    "time_s": moment,
    "order": _integer,
    "lat": degrees,
    "lon": degrees,
    "occupied": _flag,
}


def shown(text: str) -> str:
    """Return text from a file, escaped and shortened."""
    if not text.strip():
        return "nothing"
    return repr(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")
