"""Export the event log of a run as one file.

The values are those of the log, unchanged. Spreadsheets evaluate text that starts with ``=``, ``+``, ``-`` or ``@`` as
a formula. User ids are not escaped, since an altered id would no longer match the original data. Import a CSV file with
untrusted names as text, or use JSON lines or Parquet.

An epsilon may be infinite. CSV files contain ``inf``. JSON has no infinite number, so JSON lines contain
``"Infinity"``, which Python's `float` and JavaScript's `Number` parse.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, get_args

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from sim.storage import summary_rows
from sim.storage.atomic import atomic_file
from sim.storage.backends import is_url
from sim.storage.errors import RequestError
from sim.storage.event_schema import EPSILON_PER_KM, EVENT, EVENTS
from sim.storage.geographic.features import Features, features
from sim.storage.geographic.geojson import write_geojson
from sim.storage.geographic.geoparquet import write_geoparquet
from sim.storage.geographic.kml import write_kml
from sim.storage.parts import PARQUET_OPTIONS
from sim.storage.place_columns import place_schema, with_places
from sim.storage.positions import Positions
from sim.storage.run_directory import RunDirectory

Format = Literal["csv", "jsonl", "parquet", "geoparquet", "geojson", "kml"]
SUFFIXES: dict[Format, str] = {
    **{name: name for name in get_args(Format)},
    "geoparquet": "geo.parquet",  # the specification asks for files that end in .parquet
}
"""Usual suffix of a file of each format."""
_ROW_GROUP = 1 << 18


@dataclass(frozen=True, slots=True)
class Exported:
    """Path and number of rows or features of an exported file, and a hint where its columns are described."""

    path: Path
    rows: int
    hint: str
    notes: tuple[str, ...] = ()
    """Sentences on positions that could not be written."""


@dataclass(frozen=True, slots=True)
class _Log:
    """The log of a run as it is exported."""

    run: RunDirectory
    positions: Positions
    places: bool
    """Whether rows have the columns of positions."""

    @property
    def schema(self) -> pa.Schema:
        return place_schema(self.positions) if self.places else EVENTS

    @property
    def name(self) -> str:
        return str(self.run.manifest().recorded_scenario["name"])

    def tables(self) -> Iterator[pa.Table]:
        """Yield the table of each part."""
        for table in self.run.tables():
            yield with_places(self._with_cells(table), self.positions) if self.places else table

    def features(self) -> Iterator[Features]:
        """Yield the positions of all queries."""
        for table in self.run.tables():
            yield from features(self._with_cells(table), self.positions)

    def metadata(self) -> dict[str, str]:
        """Return the metadata of Parquet files."""
        return {"lppm-sim": json.dumps(self.run.manifest().content, sort_keys=True, ensure_ascii=False)}

    def require_degrees(self, format: str) -> None:
        """Raise an error if the world of the run has no latitudes and longitudes."""
        if not self.positions.in_degrees:
            raise RequestError(
                f"{self.run}: {format} needs latitudes and longitudes, but the world of this run is a plane in km. "
                "Use --places with csv, jsonl or parquet, or geoparquet, which have positions in km.",
                code="no-coordinates",
            )

    def _with_cells(self, table: pa.Table) -> pa.Table:
        summary_rows.require_cells(self.run, table[EVENT])
        return table


def export(
    run: RunDirectory,
    destination: str | os.PathLike[str],
    format: Format,
    *,
    places: bool = False,
    overwrite: bool = False,
) -> Exported:
    """Write all finished parts, in the order of their ids, as one file.

    `csv`, `jsonl` and `parquet` have the rows of the log; with `places`, also the positions of the true cells, reports
    and estimates. `geoparquet`, `geojson` and `kml` have one feature per position instead. The file is written
    atomically, with one part in memory at a time. Parquet files have the manifest in their metadata, under the key
    ``lppm-sim``.
    """
    if format not in _WRITERS:
        message = f"format must be one of {', '.join(get_args(Format))}, got {format!r}"
        raise RequestError(message, code="unsupported-format")
    path = checked_destination(run, destination, overwrite=overwrite, example=f"events.{SUFFIXES[format]}")
    log = _Log(run, Positions(run.manifest()), places)
    with atomic_file(path) as file:
        rows = _WRITERS[format](file, log)
    return Exported(path, rows, f"{run.describe('manifest.json')} describes the cells and outputs", _notes(log))


def _notes(log: _Log) -> tuple[str, ...]:
    if not (count := log.positions.beyond_poles):
        return ()
    return (f"{count:,} rows have a report beyond a pole, which has no coordinates: the noise is very strong",)


def checked_destination(
    run: RunDirectory, destination: str | os.PathLike[str], *, overwrite: bool, example: str
) -> Path:
    """Return the path of a file that is made from a run, if it may be written."""
    path = Path(destination)
    if str(destination) == "-":
        message = "the destination must be a file, got '-': standard output is not supported"
        raise RequestError(message, code="not-a-local-file")
    if is_url(destination):
        message = f"the destination must be a file on this machine, got {destination}"
        raise RequestError(message, code="not-a-local-file")
    if path.is_dir():
        message = f"{path} is a folder: name the file to write, such as {path / example}"
        raise RequestError(message, code="is-a-folder")
    if path.exists() and not overwrite:
        message = f"{path} exists: choose another name, or replace it with --overwrite"
        raise RequestError(message, code="file-exists")
    if not path.parent.is_dir():
        message = f"folder {path.parent} does not exist: create it first"
        raise RequestError(message, code="folder-not-found")
    if run.in_folder and path.parent.resolve() == (run.path / "events").resolve():
        message = f"{path.parent} is reserved for the parts of the run: choose another folder"
        raise RequestError(message, code="inside-run-directory")
    return path


def _write_csv(file: BinaryIO, log: _Log) -> int:
    rows = 0
    with pyarrow.csv.CSVWriter(file, log.schema) as writer:
        for table in log.tables():
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _write_jsonl(file: BinaryIO, log: _Log) -> int:
    rows = 0
    for table in log.tables():
        for batch in table.to_batches(max_chunksize=10_000):
            lines = (json.dumps(_finite(row), ensure_ascii=False, allow_nan=False) for row in batch.to_pylist())
            file.write("".join(f"{line}\n" for line in lines).encode())
        rows += table.num_rows
    return rows


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with an infinite epsilon as text, since JSON has no infinity."""
    return row | {EPSILON_PER_KM: "Infinity"} if row[EPSILON_PER_KM] == math.inf else row


def _write_parquet(file: BinaryIO, log: _Log) -> int:
    rows = 0
    with pq.ParquetWriter(file, log.schema, **PARQUET_OPTIONS) as writer:
        writer.add_key_value_metadata(log.metadata())
        for table in _regrouped(log):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _write_geoparquet(file: BinaryIO, log: _Log) -> int:
    return write_geoparquet(file, log.features(), in_degrees=log.positions.in_degrees, metadata=log.metadata())


def _write_geojson(file: BinaryIO, log: _Log) -> int:
    log.require_degrees("geojson")
    return write_geojson(file, log.features(), name=log.name)


def _write_kml(file: BinaryIO, log: _Log) -> int:
    log.require_degrees("kml")
    return write_kml(file, log.features(), name=log.name)


def _regrouped(log: _Log) -> Iterator[pa.Table]:
    """Yield tables of several parts: a row group per small part would make the file large and slow."""
    pending: list[pa.Table] = []
    for table in log.tables():
        pending.append(table)
        if sum(part.num_rows for part in pending) >= _ROW_GROUP:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)


_WRITERS: dict[str, Callable[[BinaryIO, _Log], int]] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
    "geoparquet": _write_geoparquet,
    "geojson": _write_geojson,
    "kml": _write_kml,
}
