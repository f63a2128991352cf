"""Trace files: recorded movement in a region as one Parquet file, sorted by user and time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sim.components.wording import counted
from sim.datasets.lines import FRACTION, TYPES
from sim.errors import InputError
from sim.interfaces import FloatArray, IntArray
from sim.mobility.recorded.tables import UNREADABLE, numeric_order
from sim.storage.backends import is_url
from sim.storage.errors import RequestError
from sim.world.grid import Grid

FORMAT_VERSION = 1
SIDES = ("south", "north", "west", "east")
_NOTES = "lppm-sim"
_ROW_GROUP = 1 << 18
_SUFFIXES = (".parquet", ".pq")


@dataclass(frozen=True, slots=True, eq=False)
class Traces:
    """Recorded movement, sorted by user and time; every array has shape (n_rows,)."""

    users: tuple[str, ...]
    user: IntArray
    """Index into `users`, never decreasing."""
    when: IntArray
    """Unix seconds if `timed`, otherwise integers that order the rows of a user."""
    timed: bool
    lat: FloatArray
    lon: FloatArray
    others: Mapping[str, Any]
    """Further columns, `location` and `occupied`, as Arrow arrays."""
    notes: Mapping[str, Any]
    """Metadata of the file: source, region, counts."""
    cell: IntArray | None = None
    """Cells of a grid without degrees; `lat` and `lon` are NaN then."""


def checked_destination(out: str | os.PathLike[str], *, inputs: Sequence[Path] = (), overwrite: bool = False) -> Path:
    """Return the path of a trace file to write; raise RequestError if a trace file cannot be written there."""
    path = Path(out)
    if is_url(os.fspath(out)):
        raise RequestError(f"a trace file must be a local file, got {out}", code="not-a-local-file")
    if path.suffix.lower() not in _SUFFIXES:
        raise RequestError(
            f"a trace file must be named NAME.parquet, so that scenarios recognise it, got {path}",
            code="unsupported-file-type",
        )
    return check_output(path, inputs=inputs, overwrite=overwrite)


def check_output(path: Path, *, inputs: Sequence[Path] = (), overwrite: bool = False) -> Path:
    """Return the path if a file may be written there: not inside a run directory, and not over an existing file."""
    if path.is_dir():
        raise RequestError(f"{path} is a folder: name the file to write", code="is-a-folder")
    if not path.parent.is_dir():
        raise RequestError(f"folder {path.parent} does not exist: create it first", code="folder-not-found")
    if path.exists() and path.resolve() in {file.resolve() for file in inputs}:
        raise RequestError(f"{path} is one of the input files: choose another name", code="output-is-input")
    if path.exists() and not overwrite:
        raise RequestError(f"{path} exists: choose another name, or replace it with --overwrite", code="file-exists")
    for folder in path.resolve().parents:
        if (folder / "manifest.json").is_file() and (folder / "events").is_dir():
            raise RequestError(
                f"{folder} is a run directory, which holds only the files of one run: choose another folder",
                code="inside-run-directory",
            )
    return path


def write(file: BinaryIO, traces: Traces) -> None:
    """Write a trace file; equal traces give identical bytes."""
    columns = {
        "user": pa.array(traces.user.astype(np.int32)),
        "when": pa.array(traces.when),
        **({} if traces.cell is None else {"cell": pa.array(traces.cell)}),
        **({} if traces.cell is not None else {"lat": pa.array(traces.lat), "lon": pa.array(traces.lon)}),
        **traces.others,
    }
    with Writer(file, traces.users, timed=traces.timed) as writer:
        writer.add(pa.table(columns))
        writer.notes = traces.notes


class Writer:
    """Writer of a trace file, part by part; the division into parts does not change the bytes."""

    def __init__(self, file: BinaryIO, users: Sequence[str], *, timed: bool) -> None:
        self.notes: Mapping[str, Any] = {}
        """Metadata of the file, written at the end."""
        self._file, self._users = file, pa.array(users, pa.string())
        self._moment = "time_s" if timed else "order"
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.Table] = []
        self._n_waiting = 0

    def __enter__(self) -> Writer:
        return self

    def add(self, table: pa.Table) -> None:
        """Write sorted rows: user (index of the user), when, and the columns of the file."""
        self._waiting.append(table)
        self._n_waiting += table.num_rows
        if self._n_waiting >= _ROW_GROUP:
            rows = pa.concat_tables(self._waiting)
            whole = rows.num_rows // _ROW_GROUP * _ROW_GROUP
            for start in range(0, whole, _ROW_GROUP):
                self._write(rows.slice(start, _ROW_GROUP))
            self._waiting, self._n_waiting = [rows.slice(whole)], rows.num_rows - whole

    def _write(self, rows: pa.Table) -> None:
        names = {"user": "user", "when": self._moment} | {name: name for name in TYPES if name in rows.column_names}
        columns: dict[str, Any] = {ours: rows[name].combine_chunks() for name, ours in names.items()}
        columns["user"] = pa.DictionaryArray.from_arrays(_one(columns["user"]), self._users)
        schema = pa.schema([pa.field(name, TYPES[name], nullable=False) for name in columns])
        if self._writer is None:
            options: dict[str, Any] = {
                "compression": "zstd",
                "use_dictionary": [name for name in columns if name not in (self._moment, "occupied")],
                "column_encoding": {self._moment: "DELTA_BINARY_PACKED"},
                "write_page_checksum": True,
                "store_schema": False,
            }
            self._writer = pq.ParquetWriter(self._file, schema, **options)
        self._writer.write_table(
            pa.table({name: column.cast(TYPES[name]) for name, column in columns.items()}, schema=schema)
        )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._n_waiting:
                self._write(pa.concat_tables(self._waiting))
            if kind is None and self._writer is not None:
                notes = {"format": "traces", "format_version": FORMAT_VERSION, **self.notes}
                self._writer.add_key_value_metadata({_NOTES: json.dumps(notes, sort_keys=True, allow_nan=False)})
        finally:
            if self._writer is not None:
                self._writer.close()


def _one(column: Any) -> Any:
    """Return the column as one array; `combine_chunks` returns a chunked array for columns without chunks."""
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def read(path: Path) -> Traces:
    """Read a trace file, or any Parquet file with the same columns."""
    try:
        table = pq.read_table(path, partitioning=None)
    except UNREADABLE as error:
        raise InputError(
            f"cannot read {path} as a trace file: {error}. It may be damaged: create or download it again.",
            code="unreadable-file",
        ) from error
    names = table.column_names
    timed = "time_s" in names
    notes = _notes((table.schema.metadata or {}).get(_NOTES.encode(), b"{}"))
    in_cells = "lat" not in names and "cell" in names and grid_of(notes) is not None
    needed = ["user", "time_s" if timed else "order", *(["cell"] if in_cells else ["lat", "lon"])]
    if missing := [name for name in needed if name not in names]:
        raise InputError(
            f"{path} is not a trace file: missing columns {', '.join(missing)}; found {', '.join(names)}",
            code="no-such-column",
        )
    used = [name for name in (*needed, "location", "occupied") if name in names]
    columns = {name: _column(path, name, table[name], notes, needed=name in needed) for name in used}
    return ordered(columns, notes=notes)


def _column(path: Path, name: str, column: Any, notes: Mapping[str, Any], *, needed: bool) -> Any:
    """Return a column converted to its required type."""
    try:
        if TYPES[name] == pa.int64() and not pa.types.is_integer(column.type):
            raise pa.ArrowInvalid(f"found {column.type}")
        column = column.cast(TYPES[name])
    except UNREADABLE as error:
        raise InputError(
            f"{path}: column {name} must be {TYPES[name]}: {error}{_where(column)}", code="invalid-column"
        ) from error
    if needed and column.null_count:
        raise InputError(
            f"{path}: every row must have {name}, {counted(column.null_count, 'row has', 'rows have')} none",
            code="invalid-row",
        )
    if name == "cell":
        grid = grid_of(notes)
        cells = column.to_numpy()
        if grid is not None and (wrong := int(((cells < 0) | (cells >= grid.n_cells)).sum())):
            raise InputError(
                f"{path}: cell must be in [0, {grid.n_cells - 1}], {counted(wrong, 'row is', 'rows are')} not",
                code="invalid-row",
            )
    if name in ("lat", "lon"):
        degrees = column.to_numpy()
        if wrong := int((~(np.abs(degrees) <= (90 if name == "lat" else 180))).sum()):
            limit = 90 if name == "lat" else 180
            raise InputError(
                f"{path}: {name} must be degrees in [-{limit}, {limit}], {counted(wrong, 'row is', 'rows are')} not",
                code="invalid-row",
            )
    return column


def _where(column: Any) -> str:
    """Return the first row with an integer that exceeds signed 64 bits, as part of a message; empty if none."""
    if column.type != pa.uint64():
        return ""
    rows = np.flatnonzero(column.fill_null(0).to_numpy() > np.iinfo(np.int64).max)
    return f" (row {rows[0] + 1})" if rows.size else ""


def _notes(text: bytes) -> dict[str, Any]:
    """Return the metadata of a file; empty if it does not have the form that `write` produces."""
    try:
        notes = json.loads(text)
    except ValueError:
        return {}
    return notes if isinstance(notes, dict) and notes.get("format") == "traces" else {}


def region_of(notes: Mapping[str, Any]) -> tuple[float, float, float, float] | None:
    """Return the region that the metadata of a file states (south, north, west, east), or None."""
    region = notes.get("region")
    try:
        south, north, west, east = (float(region[side]) for side in SIDES)  # type: ignore[index]
    except (KeyError, TypeError, ValueError):
        return None
    if not (-90 <= south < north <= 90 and -180 <= west < east <= 180):
        return None
    return south, north, west, east


def grid_of(notes: Mapping[str, Any]) -> Grid | None:
    """Return the grid without degrees that the metadata of a file state for its cells, or None."""
    grid = notes.get("grid")
    try:
        return Grid.rectangle(**grid) if isinstance(grid, dict) else None
    except (TypeError, ValueError):
        return None


def ordered(columns: Mapping[str, Any], *, notes: Mapping[str, Any], newest_first: bool = False) -> Traces:
    """Return the rows of Arrow columns, sorted by user and time.

    Users are in numeric order if all ids are integers, otherwise in order of first appearance. Rows are sorted by exact
    time, including fractions of seconds. Rows with equal times keep their order, which is reversed with `newest_first`.
    """
    timed = "time_s" in columns
    encoded: Any = pc.dictionary_encode(columns["user"])
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    if isinstance(encoded, pa.ChunkedArray):  # without chunks, or with different dictionaries
        encoded = pa.concat_arrays(encoded.unify_dictionaries().chunks)
    users = [str(user) for user in encoded.dictionary.to_pylist()]
    ranked = numeric_order(users)
    rank = np.empty(len(users), dtype=np.int64)
    rank[ranked] = np.arange(len(users))
    user = rank[encoded.indices.to_numpy()]
    when = columns["time_s" if timed else "order"].to_numpy()
    keys = (columns[FRACTION].to_numpy(), when, user) if FRACTION in columns else (when, user)
    order = np.lexsort([key[::-1] for key in keys] if newest_first else keys)
    if newest_first:
        order = order.size - 1 - order
    missing = np.full(order.size, np.nan)
    others = {name: columns[name].take(pa.array(order)) for name in ("location", "occupied") if name in columns}
    return Traces(
        users=tuple(users[code] for code in ranked),
        user=user[order],
        when=np.asarray(when[order], dtype=np.int64),
        timed=timed,
        lat=np.asarray(columns["lat"].to_numpy()[order], dtype=np.float64) if "lat" in columns else missing,
        lon=np.asarray(columns["lon"].to_numpy()[order], dtype=np.float64) if "lat" in columns else missing,
        others={
            name: column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
            for name, column in others.items()
        },
        notes=notes,
        cell=np.asarray(columns["cell"].to_numpy()[order], dtype=np.int64) if "cell" in columns else None,
    )
