"""CSV files with a header and Parquet files, with the columns user, time (or order), lat and lon under any name."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Batch, Format, Head, Options
from sim.datasets.formats.text import read_layout
from sim.datasets.lines import EARLIEST_S, FRACTION, Layout, moment, shown
from sim.errors import InputError
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.mobility.recorded import exact
from sim.mobility.recorded.columns import ACCEPTED, MissingColumns, find_columns
from sim.mobility.recorded.importable import column_options
from sim.mobility.recorded.tables import LATEST_S, UNREADABLE, is_parquet, reason_of

_NAMES = {"order": "order", "time": "time_s", "user": "user", "lat": "lat", "lon": "lon"}
_MORE = {"loc_id": "location", "location": "location", "location_id": "location", "occupied": "occupied"}


def recognises(head: Head) -> bool:
    """Return whether a file is Parquet, or its first line names the columns of a position."""
    if head.text.startswith("PAR1"):
        return True
    header = header_of(head.lines[0]) if head.lines else None
    lower = [name.lower() for name in header[1]] if header else []
    return all(any(name in lower for name in ACCEPTED[field]) for field in ("lat", "lon"))


def header_of(line: str) -> tuple[str, list[str]] | None:
    """Return the separator and the names of the columns; None if a line is not a header."""
    for separator in (",", "\t", ";"):
        try:
            names = [name.strip() for name in next(csv.reader([line.rstrip("\r")], delimiter=separator), [])]
        except csv.Error:  # such as a carriage return within the line
            return None
        if len(names) > 1:
            return None if any(_is_number(name) for name in names) else (separator, names)
    return None


def read(raw: RawFile, options: Options) -> Iterator[Batch]:
    """Yield the rows of a file."""
    if is_parquet(raw.path):
        return _parquet(raw, options)
    first = next(RawFile(raw.path).blocks(), None)
    header = header_of(first.text.partition(b"\n")[0].decode("utf-8", "replace")) if first else None
    if header is None:
        raise InputError(
            f"{raw.path} has no header such as user,time_s,lat,lon: its first line must name its columns. "
            "Nothing was written.",
            code="missing-header",
        )
    return read_layout(raw, layout_of(raw, *header, options, quoted=True), header=1)


def layout_of(raw: RawFile, separator: str, names: Sequence[str], options: Options, *, quoted: bool) -> Layout:
    """Return the layout of the lines below a header."""
    columns = _columns(raw, names, options)
    known = {name: _MORE[name.lower()] for name in names if name.lower() in _MORE}
    field_of = known | {column: _NAMES[name] for name, column in columns.items()}
    fields: list[str] = []
    for name in names:
        field = field_of.get(name, "")
        fields.append("" if field in fields or (field == "user" and options.user) else field)
    return Layout(tuple(fields), separator, user=options.user or "", quoted=quoted)


def _columns(raw: RawFile, names: Sequence[str], options: Options) -> dict[str, str]:
    """Return the columns of user, time or order, lat and lon."""
    try:
        columns = find_columns([*names, *(["user"] if options.user else [])], dict(options.columns), degrees=True)
        if "lat" not in columns:
            raise ValueError(f"no columns for lat and lon; found {', '.join(names)}")
    except ValueError as error:
        missing = error if isinstance(error, MissingColumns) else None
        named = column_options(missing.guesses if missing else {}) or "--columns user=NAME and so on"
        raise InputError(
            f"{raw.path}: {missing.problem if missing else error}. Is it the right file? Its first line names its "
            f"columns; name them with {named}. If no column names the user, `lppm-sim data import --user NAME` does.",
            code="no-such-column",
        ) from error
    return columns


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parquet(raw: RawFile, options: Options) -> Iterator[Batch]:
    raw.digest()
    try:
        with pq.ParquetFile(raw.path) as file:
            names = _columns(raw, file.schema_arrow.names, options)
            if options.user:
                names.pop("user")
            first = 1
            for batch in file.iter_batches(columns=list(dict.fromkeys(names.values()))):
                table = pa.Table.from_batches([batch])
                yield rows_of(table, names, user=options.user, first=first)
                first += table.num_rows
    except UNREADABLE as error:
        raise InputError(
            f"cannot read {raw.path} as Parquet: {reason_of(error)}. It may be damaged: create or download it again.",
            code="unreadable-file",
        ) from error


def rows_of(table: pa.Table, names: Mapping[str, str], *, user: str | None = None, first: int = 1) -> Batch:
    """Return the rows of an Arrow table with typed columns; `names` maps user, time, order, lat and lon to columns."""
    n_rows = table.num_rows
    faults: list[tuple[BoolArray, str, str]] = []
    columns: dict[str, Any] = {"user": pa.repeat(user, n_rows)}
    if user is None:
        texts, bad = _users(table[names["user"]])
        faults.append((bad, names["user"], "must be the id of a user"))
        columns["user"] = texts
    when = names.get("time") or names["order"]
    if "time" in names:
        seconds, fraction, bad = _times(table[when])
        faults.append((bad, when, "must be seconds or ISO 8601 text, not milliseconds or a smaller unit"))
        columns["time_s"] = pa.array(seconds)
        if fraction.any():
            columns[FRACTION] = pa.array(fraction)
    else:
        order = exact.points(_plain(table[when]))
        whole = np.asarray(order.whole)
        faults.append((order.bad | (order.rest is not None and order.rest != whole), when, "must be a whole number"))
        columns["order"] = pa.array(whole.astype(np.int64))
    for name, most in (("lat", 90), ("lon", 180)):
        degrees, missing = exact.numbers(_plain(table[names[name]]))
        values = np.where(missing, np.nan, degrees)
        faults.append((~(np.abs(values) <= most), names[name], f"must be degrees in [-{most}, {most}]"))
        columns[name] = pa.array(values)
    wrong = np.logical_or.reduce([bad for bad, _, _ in faults])
    reasons = [(first + row, _reason(table, faults, row)) for row in np.flatnonzero(wrong).tolist()]
    rows = pa.table(columns)
    return Batch(rows.filter(pa.array(~wrong)) if reasons else rows, reasons)


def _reason(table: pa.Table, faults: Sequence[tuple[BoolArray, str, str]], row: int) -> str:
    return ", ".join(
        f"{name} {rule}, found {shown(str(table[name][row].as_py()))}" for bad, name, rule in faults if bad[row]
    )


def _plain(column: Any) -> Any:
    """Return a column without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _users(column: Any) -> tuple[Any, BoolArray]:
    """Return ids as text; whole floats, which pandas makes of integers beside missing ids, become integers."""
    column = _plain(column)
    if pa.types.is_floating(column.type):
        floats = column.to_pylist()
        known = [value is not None and np.isfinite(value) for value in floats]
        texts = [_number_text(value) if ok else "" for value, ok in zip(floats, known, strict=True)]
        return pa.array(texts, pa.string()), ~np.array(known, dtype=bool)
    ids = exact.ids(column)
    names = np.array([*ids.texts, ""], dtype=object)
    return pa.array(names[ids.codes], pa.string()), (ids.codes < 0) | ids.ambiguous


def _number_text(value: float) -> str:
    return str(int(value)) if value == int(value) else str(value)


def _times(column: Any) -> tuple[IntArray, FloatArray, BoolArray]:
    """Return whole seconds, fractions of seconds, and a mask of invalid times."""
    column = _plain(column)
    kind = column.type
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        unit: Any = kind.unit if pa.types.is_timestamp(kind) else "s"
        per_s = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
        missing = np.asarray(column.is_null().to_numpy(), dtype=bool)
        ticks = column.cast(pa.timestamp(unit)).cast(pa.int64()).fill_null(0).to_numpy()
        return ticks // per_s, ticks % per_s / per_s, missing
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values, bad = exact.numbers(column)
        bad = bad | (values < EARLIEST_S) | (values > LATEST_S)
        values = np.where(bad, 0, values)
        whole = np.floor(values)
        return whole.astype(np.int64), np.asarray(values - whole, dtype=np.float64), bad
    parsed = [_moment(value) for value in column.to_pylist()]
    return (
        np.array([0 if time is None else time[0] for time in parsed], dtype=np.int64),
        np.array([0.0 if time is None else time[1] for time in parsed]),
        np.array([time is None for time in parsed], dtype=bool),
    )


def _moment(value: object) -> tuple[int, float] | None:
    try:
        return moment(str(value), "time")
    except ValueError:
        return None


COLUMNS = Format(
    name="columns",
    description="CSV with a header, or Parquet, with columns for user, time or order, lat and lon",
    source="any; scikit-mobility's sample of Geolife (lat,lng,datetime,uid) is an example",
    checks="a header with columns for lat and lon; ids, times in seconds or ISO 8601 and degrees in every row",
    recognises=recognises,
    read=read,
    options=frozenset({"--columns", "--user"}),
)
