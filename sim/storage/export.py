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
    """Path and number of rows of an exported file, and a hint where its columns are described."""

    path: Path
    rows: int
    hint: str


def export(
    run: RunDirectory, destination: str | os.PathLike[str], format: Format, *, overwrite: bool = False
) -> Exported:
    """Write all finished parts, in the order of their ids, as one CSV, JSON lines or Parquet file.

    The file is written atomically, with one part in memory at a time. A Parquet file has the manifest in its metadata,
    under the key ``lppm-sim``.
    """
    if format not in _WRITERS:
        message = f"format must be one of {', '.join(get_args(Format))}, got {format!r}"
        raise RequestError(message, code="unsupported-format")
    path = checked_destination(run, destination, overwrite=overwrite, example="events.csv")
    with atomic_file(path) as file:
        rows = _WRITERS[format](file, run)
    return Exported(path, rows, f"{run.describe('manifest.json')} describes the cells and outputs")


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
    """Return a row with an infinite epsilon as text, since JSON has no infinity."""
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
    """Yield tables of several parts: a row group per small part would make the file large and slow."""
    pending: list[pa.Table] = []
    for table in run.tables():
        pending.append(table)
        if sum(part.num_rows for part in pending) >= _ROW_GROUP:
            yield pa.concat_tables(pending)
            pending = []
    if pending:
        yield pa.concat_tables(pending)


_WRITERS: dict[str, Callable[[BinaryIO, RunDirectory], int]] = {
    "csv": _write_csv,
    "jsonl": _write_jsonl,
    "parquet": _write_parquet,
}
