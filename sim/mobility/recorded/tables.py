"""Reading of CSV or Parquet trace files into checked columns."""

from __future__ import annotations

import csv
import lzma
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from sim.errors import InvalidValue, code_of
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.mobility.recorded import exact
from sim.mobility.recorded.columns import ACCEPTED, find_columns
from sim.mobility.recorded.exact import LATEST_S
from sim.mobility.recorded.importable import require_trace_file

if TYPE_CHECKING:
    from sim.world.locations import Locations

__all__ = ["ACCEPTED", "LATEST_S", "UNREADABLE", "Table", "numeric_order", "read_table"]

UNREADABLE = (
    ValueError,
    OSError,
    ImportError,  # a compression that needs another package, such as .zst
    EOFError,
    MemoryError,  # a damaged file may claim any size
    OverflowError,
    csv.Error,
    pa.ArrowException,
    pd.errors.ParserWarning,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)

Columns = Mapping[str, Any]
"""Arrow columns by their names in the file, each of shape (n_rows,)."""
Fault = tuple[str, str, BoolArray]
"""Name of a column, the rule it breaks, and a mask of the rows that break it."""

_MOST_SHOWN = 5
_MOST_LAT, _MOST_LON = 90, 180
_SWAPPED = "; are lat and lon swapped?"
_LONGEST = 40
_CHUNK = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Rows of a trace file in the order of the file; all arrays have shape (n_rows,)."""

    users: tuple[str, ...]
    """Distinct ids as in the file, in order of first appearance."""
    user: IntArray
    """Index into `users`."""
    when: IntArray | FloatArray
    """Unix seconds as integers if `timed`, else numbers that order the rows of a user."""
    timed: bool
    """Whether the file has times."""
    cell: IntArray
    """Cell, -1 outside the region."""
    extent: str = ""
    """Extents of the rows and of the region, as text for a message; empty without degrees."""
    rest: IntArray | FloatArray | None = None
    """Numbers that order rows with the same `when`, such as fractions of a second; None if not needed."""
    lat: FloatArray | None = None
    """Latitudes in degrees, if requested and in the file."""
    lon: FloatArray | None = None
    """Longitudes in degrees, if requested and in the file."""

    def order(self, user: IntArray) -> IntArray:
        """Return the rows sorted by user (a number for each row), then by exact time; ties in the order of the file."""
        keys = (self.when, user) if self.rest is None else (self.rest, self.when, user)
        return np.lexsort(keys)


def read_table(
    file: str | Path, *, locations: Locations, columns: Mapping[str, str] | None = None, degrees: bool = False
) -> Table:
    """Read a trace file; `columns` maps our column names to those of the file, others are recognised automatically.

    With `degrees`, the table holds the latitudes and longitudes of the rows, if the file has them.

    Rows that cannot be read exactly are never dropped: an `InvalidValue` states the file, their number and the first
    few.
    """
    path = Path(file)
    try:
        frame, named = load_columns(path, columns, degrees=locations.bounds is not None)
        table = _checked(path, frame, named, locations)
        if degrees and "lat" in named:
            lat, lon = (exact.numbers(frame[named[name]])[0].astype(np.float64) for name in ("lat", "lon"))
            table = replace(table, lat=lat, lon=lon)
        return table
    except FileNotFoundError:
        raise
    except BadRows:
        raise
    except UNREADABLE as error:
        raise InvalidValue(f"{path}: {reason_of(error)}", code=code_of(error, default_code(error))) from error


class BadRows(InvalidValue):
    """Rows with invalid values; the message contains the file and the first few rows."""


def reason_of(error: BaseException) -> str:
    """Return the message of a library in one line."""
    text = " ".join(str(error).split())
    return text or f"cannot be read ({type(error).__name__}): it may be damaged, create or download it again"


def default_code(error: BaseException) -> str:
    """Return the code for an error of a library; damaged archives are OSErrors without an error number."""
    if isinstance(error, ImportError):
        return "missing-extra"
    return "file-error" if isinstance(error, OSError) and error.errno is not None else "unreadable-file"


def _checked(path: Path, frame: Columns, named: Mapping[str, str], locations: Locations) -> Table:
    """Convert the columns of a file to a table; raise `InvalidValue` if rows are bad."""
    users = exact.ids(frame[named["user"]])
    timed = "time" in named
    when, rest, wrong_when = when_of(frame, named)
    cell, wrong_cell, swapped, extent = _cells(frame, named, locations)
    wrong_user = [
        (named["user"], "must be the id of a user", users.codes < 0),
        (
            named["user"],
            "must be text or an integer (different ids of this size are the same floating-point number)",
            users.ambiguous,
        ),
    ]
    reject_rows(path, frame, [*wrong_user, *wrong_when, *wrong_cell], swapped)
    return Table(users.texts, users.codes, when, timed, cell, extent, rest)


def numeric_order(users: Sequence[str]) -> list[int]:
    """Return the positions of the users in numeric order if all ids are integers, else in the given order.

    >>> numeric_order(["10", "9", "-1"]), numeric_order(["10", "9", "b"])
    ([2, 1, 0], [0, 1, 2])
    """
    if all(user.removeprefix("-").isdecimal() for user in users):
        # int() limits the number of digits, Decimal does not.
        return sorted(range(len(users)), key=lambda position: Decimal(users[position]))
    return list(range(len(users)))


def load_columns(path: Path, columns: Mapping[str, str] | None, *, degrees: bool) -> tuple[Columns, dict[str, str]]:
    """Read the required columns; return them with their names in the file by content."""
    given = dict(columns or {})
    require_trace_file(path)
    if is_parquet(path):
        named = find_columns(pq.read_schema(path).names, given, degrees=degrees)
        table = pq.read_table(path, columns=list(dict.fromkeys(named.values())), partitioning=None)
        return {name: table[name] for name in named.values()}, named
    separator, header = header_of(path)
    named = find_columns(header, given, degrees=degrees)
    frame = _rows(path, separator, header, named)
    return {name: _arrow(frame[name]) for name in named.values()}, named


def _arrow(column: pd.Series) -> Any:
    """Convert a column of a CSV file to Arrow; empty fields become empty strings."""
    values = pa.array(column, from_pandas=False)
    return values if isinstance(values, pa.ChunkedArray) else pa.chunked_array([values])


def _rows(path: Path, separator: str, header: Sequence[str], named: Mapping[str, str]) -> pd.DataFrame:
    """Read a CSV file, with ids and fractional times as text; reject rows with more fields than the header."""
    options: dict[str, Any] = {
        "sep": separator,
        "keep_default_na": False,  # "NA" may be an id
        "index_col": False,
        "low_memory": False,
        "encoding": "utf-8-sig",
    }
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            frame: pd.DataFrame = pd.read_csv(path, dtype={named["user"]: str}, **options)
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        message = _too_long(path, separator, len(header))
        raise InvalidValue(
            message or str(error).strip(), code="invalid-row" if message else "unreadable-file"
        ) from error
    when = named.get("time") or named["order"]
    inexact = [name for name in set(named.values()) if _is_inexact(frame[name], is_moment=name == when)]
    if inexact:
        frame[inexact] = pd.read_csv(path, usecols=inexact, dtype=str, **options)[inexact]
    return frame


def _is_inexact(column: pd.Series, *, is_moment: bool) -> bool:
    """Return whether pandas may have changed the values: times as floats, integers of more than 64 bits."""
    return bool(column.dtype == object or (is_moment and pd.api.types.is_float_dtype(column)))


def _too_long(path: Path, separator: str, expected: int) -> str | None:
    """Return a message with the first line that has too many fields, or None if there is none.

    The message of pandas is not used: pandas compares a row with the previous one instead of the header, and counts
    rows instead of lines.
    """
    lines = (line for chunk in _lines(path) for line in chunk)
    reader = csv.reader(lines, delimiter=separator)
    start = 1
    try:
        for fields in reader:
            if len(fields) > expected and not separator.join(fields).isspace():
                return f"line {start} has {len(fields)} fields, expected {expected}"
            start = reader.line_num + 1
    except csv.Error:  # for example a field beyond the size limit
        pass
    return None


def is_parquet(path: Path) -> bool:
    return path.suffix.lower() in {".parquet", ".pq"}


def header_of(path: Path) -> tuple[str, list[str]]:
    """Return the separator of the fields and the names of the columns."""
    header: list[str] = []
    separator = ","
    for separator in (",", "\t", ";", " "):
        try:
            frame = pd.read_csv(path, sep=separator, nrows=0, index_col=False, encoding="utf-8-sig")
        except pd.errors.EmptyDataError as error:
            raise InvalidValue(
                "the file is empty: its first line must name the columns, such as user,time_s,lat,lon",
                code="empty-file",
            ) from error
        header = frame.columns.tolist()
        if len(header) > 1:
            break
    return separator, header


def when_of(frame: Columns, named: Mapping[str, str]) -> tuple[Any, Any, list[Fault]]:
    """Return the times or else the order, numbers that order equal ones, and the faults."""
    if "time" not in named:
        order = exact.points(frame[named["order"]])
        return order.whole, order.rest, [(named["order"], "must be a finite number", order.bad)]
    times = exact.moments(frame[named["time"]])
    faults = [
        (named["time"], "must be seconds or ISO-8601 text", times.bad & ~times.too_large),
        (named["time"], "must be seconds, not milliseconds or less", times.too_large),
    ]
    return times.seconds, times.rest, faults


def _cells(frame: Columns, named: Mapping[str, str], locations: Locations) -> tuple[IntArray, list[Fault], str, str]:
    """Return the cell of each row, the faults, a hint if lat and lon seem to be swapped, and the extent as text."""
    if "cell" in named:
        numbers, bad = exact.numbers(frame[named["cell"]])
        bad = bad | (numbers < 0) | (numbers >= locations.n_cells) | (numbers != np.floor(numbers))
        cells = np.where(bad, 0, numbers).astype(np.int64)
        return cells, [(named["cell"], f"must be an integer in [0, {locations.n_cells - 1}]", bad)], "", ""
    lat, bad_lat = exact.numbers(frame[named["lat"]])
    lon, bad_lon = exact.numbers(frame[named["lon"]])
    faults = [
        (named["lat"], "must be a number of degrees", bad_lat),
        (named["lat"], f"must be in [-{_MOST_LAT}, {_MOST_LAT}]", ~bad_lat & (np.abs(lat) > _MOST_LAT)),
        (named["lon"], "must be a number of degrees", bad_lon),
        (named["lon"], f"must be in [-{_MOST_LON}, {_MOST_LON}]", ~bad_lon & (np.abs(lon) > _MOST_LON)),
    ]
    swapped = _SWAPPED if _seem_swapped(lat, lon, locations) else ""
    return locations.cell_of(lat, lon), faults, swapped, _extent(lat, lon, locations) + swapped


def _seem_swapped(lat: IntArray | FloatArray, lon: IntArray | FloatArray, locations: Locations) -> bool:
    """Return whether most rows are valid coordinates, or in the region, only if lat and lon are exchanged."""

    def most(rows: BoolArray) -> bool:
        return 2 * int(rows.sum()) > rows.size

    def on_earth(lat: IntArray | FloatArray, lon: IntArray | FloatArray) -> bool:
        return most((np.abs(lat) <= _MOST_LAT) & (np.abs(lon) <= _MOST_LON))

    if not on_earth(lon, lat):
        return False
    return not on_earth(lat, lon) or (
        most(locations.cell_of(lon, lat) >= 0) and not most(locations.cell_of(lat, lon) >= 0)
    )


def _extent(lat: IntArray | FloatArray, lon: IntArray | FloatArray, locations: Locations) -> str:
    """Return the extents of the rows and of the region as text; empty without rows."""
    if not lat.size:
        return ""

    def box(south: float, north: float, west: float, east: float) -> str:
        return f"lat {south:.9g} to {north:.9g}, lon {west:.9g} to {east:.9g}"

    region = box(*locations.require_bounds())
    return f": they lie in {box(lat.min(), lat.max(), lon.min(), lon.max())}, the region is {region}"


def reject_rows(path: Path, frame: Columns, faults: Sequence[Fault], hint: str) -> None:
    """Raise `InvalidValue` if any row is bad, with all faults of the first few rows and a hint."""
    bad = np.logical_or.reduce([mask for _, _, mask in faults])
    if not bad.any():
        return
    n_bad = int(bad.sum())
    rows = np.flatnonzero(bad)[:_MOST_SHOWN].tolist()
    lines = None if is_parquet(path) else _lines_of(path, rows)
    places = [f"row {row + 1}" for row in rows] if lines is None else [f"line {line}" for line in lines]
    wrong = [
        f"{place}: "
        + ", ".join(
            f"{name} {rule}, found {_shown(frame[name][row].as_py())}" for name, rule, mask in faults if mask[row]
        )
        for place, row in zip(places, rows, strict=True)
    ]
    more = [f"and {n_bad - len(rows)} more"] if n_bad > len(rows) else []
    raise BadRows(
        f"{path}: {n_bad} bad row{'s' if n_bad > 1 else ''}: {'; '.join([*wrong, *more])}{hint}", code="invalid-row"
    )


def _shown(value: object) -> str:
    """Return a value as written in the file, shortened."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, float) and np.isnan(value):
        return "nothing (nan)"
    if not isinstance(value, str):  # integers are floats in a column with fractions
        text = str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
        return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return repr(value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…")


def _lines_of(path: Path, rows: Sequence[int]) -> list[int] | None:
    """Return the line numbers, from 1, of rows of a CSV file; None if a row may span several lines.

    Empty lines are not rows.
    """
    filled: list[int] = []
    for lines in _lines(path):
        opened = np.flatnonzero(lines.str.count('"') % 2 == 1)
        whole = lines.iloc[: opened[0]] if opened.size else lines
        filled += (whole.index[whole.str.strip(" ") != ""] + 1).tolist()
        if len(filled) > rows[-1] + 1:  # the first line is the header
            return [filled[row + 1] for row in rows]
        if opened.size:
            break
    return None


def _lines(path: Path) -> Iterator[pd.Series]:
    """Yield the lines of a CSV file in chunks, read with pandas, which decompresses the file if necessary."""
    with pd.read_csv(
        path,
        sep="\x01",  # a separator that does not occur in text: each line is one field
        quoting=csv.QUOTE_NONE,
        header=None,
        names=["line"],
        usecols=[0],
        dtype=str,
        na_filter=False,
        skip_blank_lines=False,
        encoding="utf-8-sig",
        chunksize=_CHUNK,
    ) as chunks:
        for chunk in chunks:
            yield chunk["line"]
