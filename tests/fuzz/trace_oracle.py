"""Reference reader of trace files, slow and exact: the csv module, scalars of pyarrow, and fractions."""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sim.mobility.recorded.columns import find_columns
from sim.world.grid import Grid

LATEST_S = 10**11
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)
_LONGEST = 4000
_FRACTION = re.compile(r"(?P<before>.*:\d\d)[.,](?P<digits>\d+)(?P<zone>.*)")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
Names = frozenset[str] | None
"""Allowed ids of a user; None if the type of the column does not determine them."""


class NoMeaningError(Exception):
    """An invalid row: a reader that accepts the file would drop or invent data."""


class UnclearError(Exception):
    """A file that the oracle cannot interpret."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a file; two rows belong to one user if and only if their `user` is equal."""

    user: Any
    when: Fraction
    cell: int
    """Cell number, -1 outside the region."""
    names: Names


@dataclass(frozen=True, slots=True)
class Reading:
    """The rows of a file in their original order."""

    rows: list[Row]
    timed: bool

    def visits(self) -> dict[Any, list[tuple[int, int]]]:
        """Return time and cell of each user's rows in the region, by time; users in order of first appearance."""
        by_user: dict[Any, list[Row]] = {row.user: [] for row in self.rows}
        for row in self.rows:
            if row.cell >= 0:
                by_user[row.user].append(row)
        ordered = {user: sorted(rows, key=lambda row: row.when) for user, rows in by_user.items()}
        return {
            user: [(math.floor(row.when) if self.timed else i, row.cell) for i, row in enumerate(rows)]
            for user, rows in ordered.items()
        }

    def names(self) -> dict[Any, Names]:
        """Return the allowed ids of each user."""
        return {row.user: row.names for row in self.rows}


def number(text: str) -> Fraction | None:
    """Return the exact number written in a text, None if it is not a number."""
    word = text.strip(" \t")
    if not _NUMBER.fullmatch(word) or len(word) > _LONGEST:
        return None
    return Fraction(word)


def moment(text: str) -> Fraction | None:
    """Return the Unix time of an ISO 8601 text, in UTC if it has no zone; None if it is not one."""
    word = text.strip()
    match = _FRACTION.fullmatch(word)
    part = Fraction(int(match["digits"][:30]), 10 ** len(match["digits"][:30])) if match else Fraction(0)
    try:
        value = datetime.fromisoformat(match["before"] + match["zone"] if match else word)
        value = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return Fraction(round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds())) + part
    except (ValueError, OverflowError):
        return None


def _times(texts: Sequence[str]) -> list[Fraction]:
    """Read a column of times: all numbers, or all ISO 8601 texts."""
    numbers = [number(text) for text in texts]
    times = numbers if None not in numbers else [moment(text) for text in texts]
    if None in times:
        invalid = texts[times.index(None)]
        if any(moment(text) is not None or re.match(r"\s*\d{4}", text) for text in texts):
            raise UnclearError(f"{invalid!r} may be a date in a format that Python does not support")
        raise NoMeaningError(f"{invalid!r} is not a time")
    valid = [value for value in times if value is not None]
    if numbers == times and any(abs(value) > LATEST_S for value in valid):
        raise NoMeaningError("a time is too large for seconds")
    return valid


def _numbers(texts: Iterable[str]) -> list[Fraction]:
    numbers = []
    for text in texts:
        if (value := number(text)) is None:
            raise NoMeaningError(f"{text!r} is not a number")
        numbers.append(value)
    return numbers


def _cells(named: dict[str, str], columns: dict[str, list[Fraction]], grid: Grid) -> list[int]:
    if "cell" in named:
        for value in columns["cell"]:
            if value.denominator != 1 or not 0 <= value < grid.n_cells:
                raise NoMeaningError(f"{value} is not a cell")
        return [int(value) for value in columns["cell"]]
    for name, most in (("lat", 90), ("lon", 180)):
        for value in columns[name]:
            if abs(value) > most:
                raise NoMeaningError(f"{name} {float(value)} is not in [-{most}, {most}]")
    lat, lon = ([float(value) for value in columns[name]] for name in ("lat", "lon"))
    return [int(cell) for cell in grid.cell_of(lat, lon)] if lat else []


def read_csv(path: Path, grid: Grid) -> Reading:
    """Read a CSV file with a header."""
    content = path.read_bytes()
    try:
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8-sig")
    except (UnicodeDecodeError, OSError, EOFError) as error:
        raise NoMeaningError(f"not UTF-8 text: {error}") from error
    header, table = _table(text)
    named = find_columns(header, {}, degrees=grid.south is not None)
    if not set(named.values()) <= set(header):
        raise UnclearError("the reader renamed a column")
    columns = {}
    for name, title in named.items():
        at = header.index(title)
        if any(len(fields) <= at for fields in table):
            raise NoMeaningError(f"a row has no {title}")
        columns[name] = [fields[at] for fields in table]
    if any(len(fields) > len(header) and any(field.strip() for field in fields[len(header) :]) for fields in table):
        raise NoMeaningError("a row has more fields than the header")
    when = _times(columns["time"]) if "time" in named else _numbers(columns["order"])
    cells = _cells(named, {name: _numbers(columns[name]) for name in ("lat", "lon", "cell") if name in named}, grid)
    if any(not user for user in columns["user"]):
        raise NoMeaningError("a row has no user id")
    parts = zip(columns["user"], when, cells, strict=True)
    rows = [Row(user, moment_s, cell, frozenset({user})) for user, moment_s, cell in parts]
    return Reading(rows, timed="time" in named)


def _table(text: str) -> tuple[list[str], list[list[str]]]:
    header: list[str] = []
    table: list[list[str]] = []
    for separator in (",", "\t", ";", " "):
        try:
            lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
        except csv.Error as error:
            raise UnclearError(str(error)) from error
        filled = [fields for fields in lines if fields and not (len(fields) == 1 and not fields[0].strip())]
        if not filled:
            raise NoMeaningError("the file is empty")
        header, table = filled[0], filled[1:]
        if len(header) > 1:
            break
    return header, table


def read_parquet(path: Path, grid: Grid) -> Reading:
    """Read a Parquet file with columns of any types; raise `UnclearError` if pyarrow cannot read it."""
    try:
        names = pq.read_schema(path).names
        named = find_columns(names, {}, degrees=grid.south is not None)
        table = pq.read_table(path, columns=list(dict.fromkeys(named.values())), partitioning=None)
    except (pa.ArrowException, OSError, ValueError, UnicodeDecodeError) as error:
        raise UnclearError(str(error)) from error
    columns = {name: table[title] for name, title in named.items()}
    users = [_user(value) for value in _scalars(columns["user"])]
    when = _arrow_numbers(columns["time"], time=True) if "time" in named else _arrow_numbers(columns["order"])
    if "time" in named and any(abs(value) > LATEST_S for value in when):
        raise UnclearError("a time beyond the year 5138")
    numbers: dict[str, list[Fraction]] = {
        name: _arrow_numbers(columns[name]) for name in ("lat", "lon", "cell") if name in named
    }
    cells = _cells(named, numbers, grid)
    parts = zip(users, when, cells, strict=True)
    rows = [Row(key, moment_s, cell, names) for (key, names), moment_s, cell in parts]
    return Reading(rows, timed="time" in named)


def _scalars(column: Any) -> list[Any]:
    try:
        return list(column.to_pylist())
    except (ValueError, OverflowError, ImportError, UnicodeDecodeError) as error:
        raise UnclearError(str(error)) from error


def _user(value: Any) -> tuple[Any, Names]:
    match value:
        case None | "":
            raise NoMeaningError("a row has no user id")
        case bool():
            return value, None
        case int() | str():
            return value, frozenset({str(value)})
        case float() if not math.isfinite(value):
            raise NoMeaningError(f"{value} is not a user id")
        case float():
            whole = {str(int(value))} if value.is_integer() else set()
            return value, frozenset({repr(value), f"{value:g}", *whole})
        case _:
            return str(value), None


def _arrow_numbers(column: Any, *, time: bool = False) -> list[Fraction]:
    """Return the exact numbers of an Arrow column."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if column.null_count or pa.types.is_boolean(kind):
        raise NoMeaningError(f"a column of {kind} with {column.null_count} nulls is not numeric")
    if pa.types.is_timestamp(kind):
        ticks = pc.cast(column, pa.int64()).to_pylist()
        return [Fraction(tick, _PER_SECOND[kind.unit]) for tick in ticks]
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _times(_scalars(column)) if time else _numbers(_scalars(column))
    values = _scalars(column)
    if not all(isinstance(value, int | float | Decimal) for value in values):
        raise UnclearError(f"{kind} as a number")
    if any(not math.isfinite(value) for value in values):
        raise NoMeaningError("a number is not finite")
    return [Fraction(value) for value in values]


def in_order(names: Sequence[str]) -> list[str]:
    """Return the names in numeric order if all are integers of any length, else in their original order."""
    if all(name.removeprefix("-").isdecimal() for name in names):
        return sorted(names, key=_size)
    return list(names)


def _size(name: str) -> tuple[int, int, tuple[int, ...]]:
    digits = [unicodedata.decimal(letter) for letter in name.removeprefix("-")]
    while len(digits) > 1 and digits[0] == 0:
        del digits[0]
    if name.startswith("-") and digits != [0]:
        return -1, -len(digits), tuple(-digit for digit in digits)
    return 1, len(digits), tuple(digits)
