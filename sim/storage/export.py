"""Write a run's events as one file, for programs that want one.

The values are those of the log, unchanged. A spreadsheet runs text that starts with ``=``, ``+``, ``-`` or
``@`` as a formula; ids are kept as they are all the same, since an altered id would no longer match its own
data. Import a CSV of names you do not trust as text, or use JSON lines or Parquet.

An epsilon may be infinite. CSV says ``inf``; JSON has no such number, and JSON lines say ``"Infinity"``, which both
Python's `float` and JavaScript's `Number` read.
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

from sim.storage.atomic import atomic_file
from sim.storage.backends import is_url
from sim.storage.errors import RequestError
from sim.storage.event_schema import EPSILON_PER_KM, EVENTS
from sim.storage.parts import PARQUET_OPTIONS
from sim.storage.run_directory import RunDirectory

Format = Literal["csv", "jsonl", "parquet"]
_ROW_GROUP = 1 << 18


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written, and where the reader finds what the columns mean."""

    path: Path
    rows: int
    hint: str


def export(
    run: RunDirectory, destination: str | os.PathLike[str], format: Format, *, overwrite: bool = False
) -> Exported:
    """Write all finished parts, in the order of their ids, as one CSV, JSON lines or Parquet file.

    The file takes its name when it is whole. One part is in memory at a time. A Parquet file carries the
    manifest in its metadata, under the key ``lppm-sim``.
    """
    if format not in _WRITERS:
        raise RequestError(f"format must be one of {', '.join(get_args(Format))}, got {format!r}")
    path = checked_destination(run, destination, overwrite=overwrite, example="events.csv")
    with atomic_file(path) as file:
        rows = _WRITERS[format](file, run)
    return Exported(path, rows, f"{run.describe('manifest.json')} says what cells and outputs stand for")


def checked_destination(
    run: RunDirectory, destination: str | os.PathLike[str], *, overwrite: bool, example: str
) -> Path:
    """Return the path of a file that may be written, made from a run."""
    path = Path(destination)
    if str(destination) == "-":
        raise RequestError("the destination must be a file, got '-': standard output cannot be taken back")
    if is_url(destination):
        raise RequestError(f"the destination must be a file on this machine, got {destination}")
    if path.is_dir():
        raise RequestError(f"{path} is a folder: name the file to write, such as {path / example}")
    if path.exists() and not overwrite:
        raise RequestError(f"{path} exists: choose another name, or replace it with --overwrite")
    if not path.parent.is_dir():
        raise RequestError(f"{path.parent} is no folder: make it first")
    if run.in_folder and path.parent.resolve() == (run.path / "events").resolve():
        raise RequestError(f"{path.parent} holds the parts of the run and nothing else: choose another folder")
    return path


def _write_csv(file: BinaryIO, run: RunDirectory) -> int:
    rows = 0
    with pyarrow.csv.CSVWriter(file, EVENTS) as writer:
        for table in run.tables():
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _write_jsonl(file: BinaryIO, run: RunDirectory) -> int:
    rows = 0
    for table in run.tables():
        for batch in table.to_batches(max_chunksize=10_000):
            lines = (json.dumps(_finite(row), ensure_ascii=False, allow_nan=False) for row in batch.to_pylist())
            file.write("".join(f"{line}\n" for line in lines).encode())
        rows += table.num_rows
    return rows


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON can say it."""
    return row | {EPSILON_PER_KM: "Infinity"} if row[EPSILON_PER_KM] == math.inf else row


def _write_parquet(file: BinaryIO, run: RunDirectory) -> int:
    rows = 0
    manifest = json.dumps(run.manifest().content, sort_keys=True, ensure_ascii=False)
    with pq.ParquetWriter(file, EVENTS, **PARQUET_OPTIONS) as writer:
        writer.add_key_value_metadata({"lppm-sim": manifest})
        for table in _regrouped(run):
            writer.write_table(table)
            rows += table.num_rows
    return rows


def _regrouped(run: RunDirectory) -> Iterator[pa.Table]:
    """Join small parts: a row group for each would make the file large and slow."""
    waiting: list[pa.Table] = []
    for table in run.tables():
        waiting.append(table)
        if sum(part.num_rows for part in waiting) >= _ROW_GROUP:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


_WRITERS: dict[str, Callable[[BinaryIO, RunDirectory], int]] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
