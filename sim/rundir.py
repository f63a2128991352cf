"""The run directory: what a run leaves, in a folder or under a URL, and the only place that reads or writes it.

Every file appears whole or not at all (see `sim.storage`): a kill at any moment loses at most the file being
written. The same content gives the same bytes, wherever the run is.
"""

from __future__ import annotations

import io
import json
import os
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from sim.storage import TEMPORARY, Folder, RequestError, RunError, Storage, atomic_file, named_errors, storage_at

__all__ = [
    "EVENTS",
    "MEASURES",
    "PARQUET_OPTIONS",
    "SCHEMA_VERSION",
    "TEXT_COLUMNS",
    "RequestError",
    "RunDirectory",
    "RunError",
    "RunFile",
    "atomic_file",
]

SCHEMA_VERSION = 3

MEASURES = (
    "quality_loss_km",
    "adversary_error_km",
    "expected_quality_loss_km",
    "expected_adversary_error_km",
)

_FIELDS: list[pa.Field[Any]] = [
    pa.field("event", pa.string(), nullable=False),
    pa.field("shift", pa.string()),
    pa.field("point", pa.int32(), nullable=False),
    pa.field("replication", pa.int32(), nullable=False),
    pa.field("user", pa.string(), nullable=False),
    pa.field("index", pa.int32(), nullable=False),
    pa.field("time_s", pa.int64(), nullable=False),
    pa.field("cell", pa.int32(), nullable=False),
    pa.field("output", pa.int64()),
    pa.field("lppm", pa.string(), nullable=False),
    pa.field("attack", pa.string()),
    pa.field("estimated_index", pa.int32()),
    pa.field("estimate", pa.int32()),
    *[pa.field(name, pa.float64()) for name in MEASURES],
    pa.field("posterior_entropy_bits", pa.float64()),
    pa.field("posterior_at_truth", pa.float64()),
    pa.field("epsilon_per_km", pa.float64()),
    pa.field("identity", pa.string()),
]
EVENTS: pa.Schema = pa.schema(_FIELDS)

# Realised distances take few values and shrink as a dictionary; expected ones are all different and shrink
# a little when their bytes are split. The types are plain, so that pandas, polars and DuckDB read them as is.
_SPLIT = [name for name in EVENTS.names if name.startswith(("expected_", "posterior_"))]
PARQUET_OPTIONS: dict[str, Any] = {
    "compression": "zstd",
    "use_dictionary": [name for name in EVENTS.names if name not in _SPLIT],
    "use_byte_stream_split": _SPLIT,
    "write_page_checksum": True,
    "store_schema": False,
}

TEXT_COLUMNS = ("event", "shift", "user", "lppm", "attack", "identity", "lag")
_NAMES = {
    "manifest.json",
    "summary.csv",
    "metrics.csv",
    "points.csv",
    "adaptation.csv",
    "tournament.csv",
    "hindsight.csv",
    "events",
    "snapshots",
    "figures",
    "report.html",
}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_MANIFEST = "manifest.json"
_NOTES = "lppm_sim"
_FIXED_DATE = (1980, 1, 1, 0, 0, 0)


class _Torn(RunError):
    """A part that is there and cannot be read."""


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run, wherever the run is; `str` says where."""

    storage: Storage
    name: str

    def exists(self) -> bool:
        """Tell whether it is there."""
        return self.storage.kind(self.name) is not None

    def read_bytes(self) -> bytes:
        """Return its content."""
        return self.storage.read(self.name)

    def read_text(self) -> str:
        """Return its content as text."""
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        """Replace its content, whole or not at all."""
        self.storage.write(self.name, content)

    def unlink(self) -> None:
        """Remove it, if it is there."""
        self.storage.remove(self.name)

    def written_s(self) -> float | None:
        """Return when it was written, in seconds since 1970; None where it is not there or nobody knows."""
        return self.storage.written_s(self.name)

    def __str__(self) -> str:
        return self.storage.describe(self.name)


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run in a folder or under a URL; `str` says where. Making one touches nothing: see `create` and `open`."""

    place: str | os.PathLike[str]
    only: tuple[str, ...] | None = None
    """The parts that are looked at, see `frozen`; all that are there unless said."""

    @classmethod
    def create(cls, place: str | os.PathLike[str]) -> RunDirectory:
        """Make the directory, or take up an existing run in it, and remove what killed writers left."""
        run = cls(place)
        if (there := _file_on_the_way(run._storage)) is not None:
            raise RequestError(f"{there} is a file, but a run needs a folder. Choose another place with -o.")
        strangers = set(run._storage.names()) - _NAMES
        if not run.has(_MANIFEST) and any(not TEMPORARY.fullmatch(stranger) for stranger in strangers):
            raise RequestError(
                f"{run} is not empty and is no run directory (found {min(strangers)!r}, "
                "no manifest.json). Choose another folder with -o."
            )
        run._storage.prepare("events", "", "snapshots", "figures")
        return run

    @classmethod
    def open(cls, place: str | os.PathLike[str]) -> RunDirectory:
        """Open an existing run for reading."""
        run = cls(place)
        hint = "A run directory is what `lppm-sim run` makes, by default below outputs/."
        if (kind := run._storage.kind()) != "folder":
            what = "is a file, not a run directory" if kind else "does not exist"
            raise RequestError(f"{run} {what}. {hint}")
        needed = (_MANIFEST, "events") if run._storage.empty_folders else (_MANIFEST,)
        missing = [name for name in needed if not run.has(name)]
        if missing:
            raise RequestError(f"{run} is no run directory: it has no {' and no '.join(missing)}. {hint}")
        version = run.manifest().get("schema_version")
        if version != SCHEMA_VERSION:
            raise RequestError(
                f"{run.describe(_MANIFEST)}: schema_version must be {SCHEMA_VERSION}, got {version!r}. "
                "The run was written by another version of lppm-sim; use that one to read it."
            )
        return run

    @property
    def path(self) -> Path:
        """The folder of a run that is in one; a run under a URL has none."""
        if isinstance(self._storage, Folder):
            return self._storage.root
        raise RequestError(f"{self} is no folder of this machine, which this needs: copy the run into one first.")

    @property
    def in_folder(self) -> bool:
        """Whether the run is in a folder, and `path` can be asked for."""
        return isinstance(self._storage, Folder)

    @property
    def shared(self) -> bool:
        """Whether other processes see the same run; one in `memory://` only its own does."""
        return self._storage.shared

    def describe(self, name: str = "") -> str:
        """Return what to call the run, or a file or folder in it, in a message."""
        return self._storage.describe(name)

    def __str__(self) -> str:
        return self.describe()

    def has(self, name: str) -> bool:
        """Tell whether the run has a file or folder of this name."""
        return self._storage.kind(name) is not None

    @property
    def _storage(self) -> Storage:
        return storage_at(self.place)

    def file(self, name: str) -> RunFile:
        """Return a file of the run, whether it is there or not; folders in the name are parted by slashes."""
        return RunFile(self._storage, "/".join(_plain(part) for part in name.split("/")))

    def part_path(self, part_id: str) -> RunFile:
        """Return where the part is or will be."""
        return RunFile(self._storage, f"events/{_plain(part_id)}.parquet")

    def write_part(self, part_id: str, table: pa.Table, notes: Mapping[str, Any] | None = None) -> RunFile:
        """Write the rows of some whole simulations, with notes about them; an older part of that id is replaced."""
        sink = io.BytesIO()
        kept = json.dumps(notes or {}, sort_keys=True, allow_nan=False)
        with pq.ParquetWriter(sink, EVENTS, **PARQUET_OPTIONS) as writer:
            # Not as metadata of the table: without a stored Arrow schema that is dropped.
            writer.add_key_value_metadata({_NOTES: kept})
            writer.write_table(_checked(table))
        return self._write(self.part_path(part_id).name, sink.getvalue())

    def notes(self, part_id: str) -> dict[str, Any]:
        """Return the notes that a part was written with."""
        metadata = self.read_part(part_id, []).schema.metadata or {}
        notes: dict[str, Any] = json.loads(metadata.get(_NOTES.encode(), b"{}"))
        return notes

    def frozen(self) -> RunDirectory:
        """Return the run with the parts that are there now: what is finished later does not show in the middle."""
        return replace(self, only=tuple(self.parts()))

    def parts(self) -> list[str]:
        """Return the ids of the finished parts, sorted."""
        if self.only is not None:
            return list(self.only)
        found = (name for name in self._storage.names("events") if not name.startswith("."))
        return sorted(name.removesuffix(".parquet") for name in found if name.endswith(".parquet"))

    def read_part(self, part_id: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one part, or of some columns."""
        with self.open_part(part_id) as file:
            return file.read(columns=None if columns is None else list(columns))

    @contextmanager
    def open_part(self, part_id: str) -> Iterator[pq.ParquetFile]:
        """Open one part, to read some of it at a time."""
        place = self.part_path(part_id)
        try:
            with (
                self._storage.open(place.name) as source,
                pq.ParquetFile(source, page_checksum_verification=True) as file,
            ):
                found = file.schema_arrow
                if found.names != EVENTS.names or found.types != EVENTS.types:
                    raise pa.ArrowInvalid(f"it has not the columns of schema version {SCHEMA_VERSION}")
                yield file
        except (pa.ArrowException, OSError) as error:
            raise _Torn(
                f"{place} cannot be read: {error}. Delete it and run the scenario again: only its "
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
            except _Torn as error:
                faults.append((part_id, str(error)))
        return faults

    def write_snapshots(self, part_id: str, arrays: Mapping[str, NDArray[Any]]) -> RunFile:
        """Write arrays, such as learned profiles, as `snapshots/<part_id>.npz`."""
        sink = io.BytesIO()
        with zipfile.ZipFile(sink, "w", zipfile.ZIP_DEFLATED) as archive:
            for name in sorted(arrays):
                entry = zipfile.ZipInfo(f"{name}.npy", date_time=_FIXED_DATE)
                entry.compress_type = zipfile.ZIP_DEFLATED
                content = io.BytesIO()
                np.lib.format.write_array(content, np.asarray(arrays[name]), allow_pickle=False)
                archive.writestr(entry, content.getvalue())
        return self._write(f"snapshots/{_plain(part_id)}.npz", sink.getvalue())

    def snapshots(self, part_id: str, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return the arrays of one part, or those of some names that are there; none when it wrote none."""
        name = f"snapshots/{_plain(part_id)}.npz"
        if not self.has(name):
            return {}
        try:
            with np.load(io.BytesIO(self._storage.read(name)), allow_pickle=False) as archive:
                return {name: archive[name] for name in archive if names is None or name in names}
        except (OSError, EOFError, ValueError, zipfile.BadZipFile) as error:
            raise RunError(
                f"{self.describe(name)} cannot be read: {error}. Delete it and its part, run again."
            ) from error

    def write_manifest(self, content: Mapping[str, Any]) -> RunFile:
        """Write `manifest.json`, with the schema version added; NaN and infinity are refused."""
        full = {**content, "schema_version": SCHEMA_VERSION}
        try:
            text = json.dumps(full, sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
        except ValueError as error:
            raise ValueError(f"the manifest must hold finite numbers only: {error}") from error
        return self._write(_MANIFEST, f"{text}\n".encode())

    def manifest(self) -> dict[str, Any]:
        """Return the manifest."""
        try:
            content = json.loads(self._storage.read(_MANIFEST))
        except ValueError as error:
            raise RunError(f"{self.describe(_MANIFEST)} is not JSON: {error}. Run the scenario again.") from error
        if not isinstance(content, dict):
            raise RunError(f"{self.describe(_MANIFEST)} must hold an object, got {type(content).__name__}")
        return content

    def write_csv(self, name: str, frame: pd.DataFrame) -> RunFile:
        """Write a table, numbers in the shortest form that reads back to the same value."""
        text = frame.to_csv(None, index=False, lineterminator="\n")
        return self._write(_plain(name), text.encode())

    def read_csv(self, name: str) -> pd.DataFrame:
        """Read a table that `write_csv` wrote; names stay text, whatever they look like."""
        source = io.BytesIO(self._storage.read(_plain(name)))
        text = dict.fromkeys(TEXT_COLUMNS, "str")
        frame = pd.read_csv(source, dtype=text, keep_default_na=False, na_values=[""])
        for column in frame.columns.intersection(list(TEXT_COLUMNS)):
            frame[column] = frame[column].fillna("")
        return frame

    def write_figure(self, name: str, content: bytes) -> RunFile:
        """Write a picture as `figures/<name>`."""
        return self._write(f"figures/{_plain(name)}", content)

    def _write(self, name: str, content: bytes) -> RunFile:
        self._storage.write(name, content)
        return RunFile(self._storage, name)


def _file_on_the_way(storage: Storage) -> str | None:
    """Return the file that is where a run should be, or a folder above it."""
    if isinstance(storage, Folder):
        with named_errors(str(storage.root), "use"):
            above = (storage.root, *storage.root.parents)
            there = next((path for path in above if path.exists()), None)
            return str(there) if there is not None and not there.is_dir() else None
    return storage.describe() if storage.kind() == "file" else None


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
