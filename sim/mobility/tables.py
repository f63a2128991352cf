"""Read recorded movement from CSV or Parquet files of many shapes into plain, checked columns."""

from __future__ import annotations

import csv
import lzma
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.mobility.columns import ACCEPTED, find_columns

if TYPE_CHECKING:
    from sim.world.grid import Grid

__all__ = ["ACCEPTED", "LATEST_S", "UNREADABLE", "Table", "read_table"]

LATEST_S = 10**11  # the year 5138: a larger number counts milliseconds, not seconds
UNREADABLE = (
    ValueError,
    OSError,
    ImportError,  # a packing that needs another package, such as .zst
    EOFError,
    pd.errors.ParserWarning,
    lzma.LZMAError,
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
)

Fault = tuple[str, str, BoolArray]
"""Which column breaks which rule, and in which rows."""

_MOST_SHOWN = 5
_MOST_LAT, _MOST_LON = 90, 180
_SWAPPED = "; are lat and lon swapped?"
_LONGEST = 40
_CHUNK = 100_000


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """The rows of a file, in its order; every array has the shape (n_rows,)."""

    users: tuple[str, ...]
    """The ids as in the file, in order of first appearance."""
    user: IntArray
    """Index into `users`."""
    when: IntArray | FloatArray
    """Unix seconds, integers, if `timed`; else any numbers that put a user's rows in order."""
    timed: bool
    cell: IntArray
    """The cell, -1 outside the region."""
    extent: str = ""
    """Where the rows lie and where the region does, in words; empty without degrees."""


def read_table(file: str | Path, *, grid: Grid, columns: Mapping[str, str] | None = None) -> Table:
    """Read a file whose columns are named by `columns` (our name to the file's) or else guessed.

    Rows that cannot be read are never dropped: a ValueError names the file, how many they are and the first few.
    """
    path = Path(file)
    frame, named = _load(path, columns, degrees=grid.south is not None)
    text, no_user = _ids(frame[named["user"]])
    timed = "time" in named
    when, wrong_when = _when(frame, named)
    cell, wrong_cell, swapped, extent = _cells(frame, named, grid)
    _refuse(path, frame, [(named["user"], "must name a user", no_user), *wrong_when, *wrong_cell], swapped)
    codes, users = pd.factorize(text)
    return Table(tuple(map(str, users)), codes.astype(np.int64), when, timed, cell, extent)


def _load(path: Path, columns: Mapping[str, str] | None, *, degrees: bool) -> tuple[pd.DataFrame, dict[str, str]]:
    """Read the file, ids as they are written, and find its columns; of Parquet no others are read."""
    given = dict(columns or {})
    try:
        if _is_parquet(path):
            named = find_columns(pq.read_schema(path).names, given, degrees=degrees)
            table = pq.read_table(path, columns=list(dict.fromkeys(named.values())), partitioning=None)
            return table.to_pandas(ignore_metadata=True), named
        separator, header = _header(path)
        named = find_columns(header, given, degrees=degrees)
        return _rows(path, separator, header, named["user"]), named
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise ValueError(f"{path}: {error}") from error


def _rows(path: Path, separator: str, header: Sequence[str], user: str) -> pd.DataFrame:
    """Read a CSV file; more fields than the header has are refused, not cut off quietly."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(
                path,
                sep=separator,
                dtype={user: str},
                keep_default_na=False,  # "NA" may be somebody's id
                index_col=False,
                low_memory=False,
                encoding="utf-8-sig",
            )
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        raise ValueError(_too_long(path, separator, len(header)) or str(error).strip()) from error


def _too_long(path: Path, separator: str, expected: int) -> str | None:
    """Say which line has too many fields, or None where there is none.

    Pandas compares a row with the one before instead of the header, and takes a row of several lines for one.
    """
    lines = (line for chunk in _lines(path) for line in chunk)
    reader = csv.reader(lines, delimiter=separator)
    start = 1
    try:
        for fields in reader:
            if len(fields) > expected and not separator.join(fields).isspace():
                return f"line {start} has {len(fields)} fields, expected {expected}"
            start = reader.line_num + 1
    except csv.Error:  # such as a field that is far too long
        pass
    return None


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in {".parquet", ".pq"}


def _header(path: Path) -> tuple[str, list[str]]:
    """Return the mark between the fields and the names of the columns."""
    header: list[str] = []
    separator = ","
    for separator in (",", "\t", ";", " "):
        header = pd.read_csv(path, sep=separator, nrows=0, index_col=False, encoding="utf-8-sig").columns.tolist()
        if len(header) > 1:
            break
    return separator, header


def _ids(column: pd.Series) -> tuple[pd.Series, BoolArray]:
    """Return the ids as text, never "12.0" for 12, and where there are none."""
    missing = column.isna()
    if pd.api.types.is_float_dtype(column) and (column[~missing] % 1 == 0).all():
        column = column.fillna(0).astype(np.int64)  # a Parquet column of integers with holes
    text = column.astype(str)
    return text, (missing | (text == "")).to_numpy(dtype=bool)


def _numbers(column: pd.Series) -> tuple[IntArray | FloatArray, BoolArray]:
    """Return the numbers of a column, and where there is none or an infinite one."""
    if pd.api.types.is_bool_dtype(column):
        return np.zeros(column.size), np.ones(column.size, dtype=bool)
    values = pd.to_numeric(column, errors="coerce").to_numpy(na_value=np.nan)
    if np.issubdtype(values.dtype, np.integer):
        return values.astype(np.int64), np.zeros(values.size, dtype=bool)
    numbers = values.astype(np.float64)
    return numbers, ~np.isfinite(numbers)


def _when(frame: pd.DataFrame, named: Mapping[str, str]) -> tuple[IntArray | FloatArray, list[Fault]]:
    """Return the times or else the order, and the faults found."""
    if "time" not in named:
        numbers, bad = _numbers(frame[named["order"]])
        return numbers, [(named["order"], "must be a finite number", bad)]
    column = frame[named["time"]]
    seconds, bad = _seconds(column)
    large = bad & _is_large(column)
    return seconds, [
        (named["time"], "must be seconds or ISO-8601 text", bad & ~large),
        (named["time"], "must be seconds, not milliseconds or less", large),
    ]


def _is_large(column: pd.Series) -> BoolArray:
    """Tell which rows hold a number, but one that counts something shorter than seconds."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return np.zeros(column.size, dtype=bool)
    numbers, bad = _numbers(column)
    return ~bad & (np.abs(numbers) > LATEST_S)


def _seconds(column: pd.Series) -> tuple[IntArray, BoolArray]:
    """Return Unix seconds from numbers or from ISO-8601 text, whichever more rows can be read as."""
    if pd.api.types.is_datetime64_any_dtype(column):
        return _stamps(column)
    numbers, bad = _numbers(column)
    bad = bad | ~(np.abs(numbers) <= LATEST_S)
    if bad.any() and not pd.api.types.is_numeric_dtype(column):
        stamps, bad_stamps = _stamps(column)
        if bad_stamps.sum() < bad.sum():
            return stamps, bad_stamps
    return np.floor(np.where(bad, 0, numbers)).astype(np.int64), bad


def _stamps(column: pd.Series) -> tuple[IntArray, BoolArray]:
    """Return Unix seconds, fractions cut off, of points in time that are in UTC where they name no zone."""
    stamps = pd.to_datetime(column, utc=True, errors="coerce", format="ISO8601")
    bad = stamps.isna().to_numpy(dtype=bool)
    stamps = stamps.fillna(pd.Timestamp(0, tz="UTC")).dt.tz_localize(None)
    # Older pandas count nanoseconds, newer ones often microseconds: ask numpy for seconds, rounded down.
    return stamps.to_numpy().astype("datetime64[s]").astype(np.int64), bad


def _cells(frame: pd.DataFrame, named: Mapping[str, str], grid: Grid) -> tuple[IntArray, list[Fault], str, str]:
    """Return the cell of each row, the faults found, a word if lat and lon seem swapped, and the extent in words."""
    if "cell" in named:
        numbers, bad = _numbers(frame[named["cell"]])
        bad = bad | (numbers < 0) | (numbers >= grid.n_cells) | (numbers != np.floor(numbers))
        cells = np.where(bad, -1, numbers).astype(np.int64)
        return cells, [(named["cell"], f"must be an integer in [0, {grid.n_cells - 1}]", bad)], "", ""
    lat, bad_lat = _numbers(frame[named["lat"]])
    lon, bad_lon = _numbers(frame[named["lon"]])
    faults = [
        (named["lat"], "must be a number of degrees", bad_lat),
        (named["lat"], f"must be in [-{_MOST_LAT}, {_MOST_LAT}]", ~bad_lat & (np.abs(lat) > _MOST_LAT)),
        (named["lon"], "must be a number of degrees", bad_lon),
        (named["lon"], f"must be in [-{_MOST_LON}, {_MOST_LON}]", ~bad_lon & (np.abs(lon) > _MOST_LON)),
    ]
    swapped = _SWAPPED if _seem_swapped(lat, lon, grid) else ""
    return grid.cell_of(lat, lon), faults, swapped, _extent(lat, lon, grid) + swapped


def _seem_swapped(lat: IntArray | FloatArray, lon: IntArray | FloatArray, grid: Grid) -> bool:
    """Tell whether most rows are on the earth, or in the region, with lat and lon exchanged but not as they are."""

    def most(rows: BoolArray) -> bool:
        return 2 * int(rows.sum()) > rows.size

    def on_earth(lat: IntArray | FloatArray, lon: IntArray | FloatArray) -> bool:
        return most((np.abs(lat) <= _MOST_LAT) & (np.abs(lon) <= _MOST_LON))

    if not on_earth(lon, lat):
        return False
    return not on_earth(lat, lon) or (most(grid.cell_of(lon, lat) >= 0) and not most(grid.cell_of(lat, lon) >= 0))


def _extent(lat: IntArray | FloatArray, lon: IntArray | FloatArray, grid: Grid) -> str:
    """Say where the rows lie and where the region does; empty without rows."""
    if not lat.size:
        return ""

    def box(south: float, north: float, west: float, east: float) -> str:
        return f"lat {south:.9g} to {north:.9g}, lon {west:.9g} to {east:.9g}"

    region = box(*(float(bound) for bound in (grid.south, grid.north, grid.west, grid.east) if bound is not None))
    return f": they lie in {box(lat.min(), lat.max(), lon.min(), lon.max())}, the region is {region}"


def _refuse(path: Path, frame: pd.DataFrame, faults: Sequence[Fault], hint: str) -> None:
    """Raise ValueError if any row is bad, and show the first few with all that is wrong in them, and a hint."""
    bad = np.logical_or.reduce([mask for _, _, mask in faults])
    if not bad.any():
        return
    n_bad = int(bad.sum())
    rows = np.flatnonzero(bad)[:_MOST_SHOWN].tolist()
    lines = None if _is_parquet(path) else _lines_of(path, rows)
    places = [f"row {row + 1}" for row in rows] if lines is None else [f"line {line}" for line in lines]
    wrong = [
        f"{place}: "
        + ", ".join(f"{name} {rule}, found {_shown(frame[name].iloc[row])}" for name, rule, mask in faults if mask[row])
        for place, row in zip(places, rows, strict=True)
    ]
    more = [f"and {n_bad - len(rows)} more"] if n_bad > len(rows) else []
    raise ValueError(f"{path}: {n_bad} bad row{'s' if n_bad > 1 else ''}: {'; '.join([*wrong, *more])}{hint}")


def _shown(value: object) -> str:
    """Write a value as it stands in the file, shortened."""
    if value is None or value is pd.NA or value is pd.NaT or value == "":
        return "nothing"
    if isinstance(value, float) and np.isnan(value):
        return "nothing (nan)"
    if not isinstance(value, str):  # whole numbers are floats in a column with others
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
    return repr(value if len(value) <= _LONGEST else f"{value[: _LONGEST - 1]}…")


def _lines_of(path: Path, rows: Sequence[int]) -> list[int] | None:
    """Return the lines, from 1, that hold these rows of a CSV file; None where a row may have several lines.

    Empty lines are no rows.
    """
    filled: list[int] = []
    for lines in _lines(path):
        opened = np.flatnonzero(lines.str.count('"') % 2 == 1)
        whole = lines.iloc[: opened[0]] if opened.size else lines
        filled += (whole.index[whole.str.strip(" ") != ""] + 1).tolist()
        if len(filled) > rows[-1] + 1:  # the first is the header
            return [filled[row + 1] for row in rows]
        if opened.size:
            break
    return None


def _lines(path: Path) -> Iterator[pd.Series]:
    """Yield the lines of a CSV file, in chunks; pandas reads them too, since it unpacks what is packed."""
    with pd.read_csv(
        path,
        sep="\x01",  # a mark that no text has: each line is one field
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
