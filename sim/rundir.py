"""The run directory: what a run leaves on disk, and the only place that reads or writes it.

Every file appears whole or not at all: it is written under a temporary name in the same folder, synced and
renamed. A kill at any moment loses at most the file being written. The same content gives the same bytes.
"""

from __future__ import annotations

import errno
import io
import itertools
import json
import os
import re
import socket
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sim.errors import UserError

SCHEMA_VERSION = 1

MEASURES = (
    "quality_loss_km",
    "adversary_error_km",
    "expected_quality_loss_km",
    "expected_adversary_error_km",
)

_FIELDS: list[pa.Field[Any]] = [
    pa.field("event", pa.string(), nullable=False),
    pa.field("point", pa.int32(), nullable=False),
    pa.field("replication", pa.int32(), nullable=False),
    pa.field("user", pa.string(), nullable=False),
    pa.field("index", pa.int32(), nullable=False),
    pa.field("time_s", pa.int64(), nullable=False),
    pa.field("cell", pa.int32(), nullable=False),
    pa.field("output", pa.int32()),
    pa.field("lppm", pa.string(), nullable=False),
    pa.field("attack", pa.string()),
    pa.field("estimated_index", pa.int32()),
    pa.field("estimate", pa.int32()),
    *[pa.field(name, pa.float64()) for name in MEASURES],
]
EVENTS: pa.Schema = pa.schema(_FIELDS)

# Realised distances take few values and shrink as a dictionary; expected ones are all different and shrink
# a little when their bytes are split. The types are plain, so that pandas, polars and DuckDB read them as is.
_SPLIT = [name for name in EVENTS.names if name.startswith("expected_")]
PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [name for name in EVENTS.names if name not in _SPLIT],
    "use_byte_stream_split": _SPLIT,
    "write_page_checksum": True,
    "store_schema": False,
}

TEXT_COLUMNS = ("event", "user", "lppm", "attack")
_NAMES = {"manifest.json", "summary.csv", "points.csv", "events", "snapshots", "figures", "report.html"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_TEMPORARY = re.compile(r"\..+\.(?P<host>[^.~]+)~(?P<pid>\d+)~\d+\.tmp")
_NOTES = "lppm_sim"
_STALE_S = 24 * 3600
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)
_temporary_number = itertools.count()


class RunError(UserError):
    """Something about a run on disk went wrong; the message says what and what to do."""


class RequestError(RunError):
    """What was asked for cannot be done, and nothing was done."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run on disk. Making one touches nothing: see `create` and `open`."""

    path: Path

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Make the directory, or take up an existing run in it, and remove what killed writers left."""
        run = cls(Path(path))
        with _named_errors(run.path, "use"):
            there = next((above for above in (run.path, *run.path.parents) if above.exists()), None)
            if there is not None and not there.is_dir():
                raise RequestError(f"{there} is a file, but a run needs a folder. Choose another place with -o.")
            if run.path.is_dir():
                strangers = {entry.name for entry in run.path.iterdir()} - _NAMES
                if not run._manifest_path.exists() and any(not _TEMPORARY.fullmatch(s) for s in strangers):
                    raise RequestError(
                        f"{run.path} is not empty and is no run directory (found {min(strangers)!r}, "
                        "no manifest.json). Choose another folder with -o."
                    )
            run._events.mkdir(parents=True, exist_ok=True)
            for folder in (run.path, run._events, run._snapshots, run.path / "figures"):
                _remove_leftovers(folder)
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> RunDirectory:
        """Open an existing run for reading."""
        run = cls(Path(path))
        hint = "A run directory is what `lppm-sim run` makes, by default below outputs/."
        if not run.path.is_dir():
            what = "is a file, not a run directory" if run.path.exists() else "does not exist"
            raise RequestError(f"{run.path} {what}. {hint}")
        missing = [p.name for p in (run._manifest_path, run._events) if not p.exists()]
        if missing:
            raise RequestError(f"{run.path} is no run directory: it has no {' and no '.join(missing)}. {hint}")
        version = run.manifest().get("schema_version")
        if version != SCHEMA_VERSION:
            raise RequestError(
                f"{run._manifest_path}: schema_version must be {SCHEMA_VERSION}, got {version!r}. "
                "The run was written by another version of lppm-sim; use that one to read it."
            )
        return run

    @property
    def _events(self) -> Path:
        return self.path / "events"

    @property
    def _snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def _manifest_path(self) -> Path:
        return self.path / "manifest.json"

    def part_path(self, part_id: str) -> Path:
        """Return where the part is or will be."""
        return self._events / f"{_plain(part_id)}.parquet"

    def write_part(self, part_id: str, table: pa.Table, notes: Mapping[str, Any] | None = None) -> Path:
        """Write the rows of some whole simulations, with notes about them; an older part of that id is replaced."""
        sink = io.BytesIO()
        kept = json.dumps(notes or {}, sort_keys=True, allow_nan=False)
        with pq.ParquetWriter(sink, EVENTS, **PARQUET_OPTIONS) as writer:
            # Not as metadata of the table: without a stored Arrow schema that is dropped.
            writer.add_key_value_metadata({_NOTES: kept})
            writer.write_table(_checked(table))
        return self._write(self.part_path(part_id), sink.getvalue())

    def notes(self, part_id: str) -> dict[str, Any]:
        """Return the notes that a part was written with."""
        metadata = self.read_part(part_id, []).schema.metadata or {}
        notes: dict[str, Any] = json.loads(metadata.get(_NOTES.encode(), b"{}"))
        return notes

    def parts(self) -> list[str]:
        """Return the ids of the finished parts, sorted."""
        with _named_errors(self._events, "list"):
            found = self._events.glob("*.parquet") if self._events.is_dir() else ()
            return sorted(path.stem for path in found if not path.name.startswith("."))

    def read_part(self, part_id: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one part, or of some columns."""
        path = self.part_path(part_id)
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                found = file.schema_arrow
                if found.names != EVENTS.names or found.types != EVENTS.types:
                    raise pa.ArrowInvalid(f"it has not the columns of schema version {SCHEMA_VERSION}")
                return file.read(columns=None if columns is None else list(columns))
        except (pa.ArrowException, OSError) as error:
            raise RunError(
                f"{path} cannot be read: {error}. Delete it and run the scenario again: only its "
                "simulations are repeated."
            ) from error

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the parts one after another in the order of their ids, so that memory holds one at a time."""
        for part_id in self.parts():
            yield self.read_part(part_id, columns)

    def check_parts(self, *, thorough: bool = True) -> list[tuple[str, str]]:
        """Return (part id, reason) for each part that cannot be read.

        A thorough check reads every page and compares its checksum. The other looks at the end of each file
        alone, which finds torn ones.
        """
        faults = []
        for part_id in self.parts():
            try:
                self.read_part(part_id, None if thorough else [])
            except RunError as error:
                faults.append((part_id, str(error)))
        return faults

    def write_snapshots(self, part_id: str, arrays: Mapping[str, NDArray[Any]]) -> Path:
        """Write arrays, such as learned profiles, as `snapshots/<part_id>.npz`."""
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(arrays):
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=_FIXED_DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                content = io.BytesIO()
                np.lib.format.write_array(content, np.asarray(arrays[name]), allow_pickle=False)
                archive.writestr(entry, content.getvalue())
        return self._write(self._snapshots / f"{_plain(part_id)}.npz", sink.getvalue())

    def snapshots(self, part_id: str) -> dict[str, NDArray[Any]]:
        """Return the arrays of one part; none when it wrote none."""
        path = self._snapshots / f"{_plain(part_id)}.npz"
        if not path.exists():
            return {}
        try:
            with np.load(path, allow_pickle=False) as archive:
                return dict(archive)
        except (OSError, ValueError, zipfile.BadZipFile) as error:
            raise RunError(f"{path} cannot be read: {error}. Delete it and its part, run again.") from error

    def write_manifest(self, content: Mapping[str, Any]) -> Path:
        """Write `manifest.json`, with the schema version added; NaN and infinity are refused."""
        full = {**content, "schema_version": SCHEMA_VERSION}
        try:
            text = json.dumps(full, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise ValueError(f"the manifest must hold finite numbers only: {error}") from error
        return self._write(self._manifest_path, f"{text}\n".encode())

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        try:
            content = json.loads(self._read(self._manifest_path))
        except ValueError as error:
            raise RunError(f"{self._manifest_path} is not JSON: {error}. Run the scenario again.") from error
        if not isinstance(content, dict):
            raise RunError(f"{self._manifest_path} must hold an object, got {type(content).__name__}")
        return content

    def write_csv(self, name: str, frame: pd.DataFrame) -> Path:
        """Write a table, numbers in the shortest form that reads back to the same value."""
        text = frame.to_csv(None, index=False, lineterminator="\n")
        return self._write(self.path / _plain(name), text.encode())

    def read_csv(self, name: str) -> pd.DataFrame:
        """Read a table that `write_csv` wrote; names stay text, whatever they look like."""
        source = io.BytesIO(self._read(self.path / _plain(name)))
        text = dict.fromkeys(TEXT_COLUMNS, "str")
        frame = pd.read_csv(source, dtype=text, keep_default_na=False, na_values=[""])
        for column in frame.columns.intersection(list(TEXT_COLUMNS)):
            frame[column] = frame[column].fillna("")
        return frame

    def _write(self, path: Path, content: bytes) -> Path:
        with atomic_file(path) as file:
            file.write(content)
        return path

    def _read(self, path: Path) -> bytes:
        with _named_errors(path, "read"):
            return path.read_bytes()


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write that takes its name only when it is whole and on the disk.

    The temporary name tells host and process, so that `RunDirectory.create` knows whose writer is dead.
    """
    temporary = path.with_name(f".{path.name}.{_host()}~{os.getpid()}~{next(_temporary_number)}.tmp")
    try:
        with _named_errors(path, "write"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def _named_errors(path: Path, verb: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        cause = error.strerror or str(error)
        hint = " Free some space and run again: finished parts are kept." if error.errno == errno.ENOSPC else ""
        raise RunError(f"cannot {verb} {path}: {cause}.{hint}") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system lets a folder be synced."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def _remove_leftovers(folder: Path) -> None:
    """Remove temporary files of dead writers; those of living ones may become parts yet."""
    for path in folder.glob(".*.tmp"):
        match = _TEMPORARY.fullmatch(path.name)
        with suppress(FileNotFoundError):  # somebody else cleans as well
            if match and (_is_dead(match["host"], int(match["pid"])) or _age_s(path) > _STALE_S):
                path.unlink()


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "host"


def _age_s(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def _is_dead(host: str, pid: int) -> bool:
    """Tell whether a process is surely gone: only a process of this machine can be."""
    if os.name != "posix" or host != _host():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return False


def _plain(name: str) -> str:
    if not _PLAIN_NAME.fullmatch(name):
        raise ValueError(f"a file name must be letters, digits, dots, dashes, underscores, got {name!r}")
    return name


def _checked(table: pa.Table) -> pa.Table:
    """Return the table in the types of the contract, or say which column breaks it."""
    if table.column_names != EVENTS.names:
        wrong = sorted(set(table.column_names) ^ set(EVENTS.names)) or "their order"
        raise ValueError(f"an event table must have the columns of EVENTS, they differ in {wrong}")
    table = table.cast(EVENTS)
    for name in MEASURES:
        strange = table[name].filter(pc.invert(pc.is_finite(table[name])))
        if len(strange):
            raise ValueError(f"{name} must be finite or null, got {strange[0].as_py()}")
    return table
