"""The run directory: all files of a run, in a folder or under a URL. No other module reads or writes them.

Every file appears whole or not at all (see `sim.storage.backends`): a kill at any moment loses at most the file being
written. The same content gives the same bytes, wherever the run is.
"""

from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from sim.storage import archives
from sim.storage import parts as part_files
from sim.storage.atomic import TEMPORARY
from sim.storage.backends import storage_at
from sim.storage.backends.folder import Folder
from sim.storage.backends.protocol import Storage
from sim.storage.errors import DamagedRun, RequestError, named_errors
from sim.storage.event_schema import SCHEMA_VERSION
from sim.storage.manifest import DamagedManifest, OtherSchema, RunManifest
from sim.storage.manifest_file import MANIFEST, ManifestCache, encode
from sim.storage.parts import DamagedPart, Part
from sim.storage.run_file import RunFile, plain_name
from sim.storage.tables import read_csv, write_csv

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


class DamagedManifestError(DamagedRun):
    """A manifest that exists and cannot be used."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class _DamagedSnapshots(DamagedRun):
    """Snapshots that exist and cannot be read."""


class PartCheck(NamedTuple):
    """The result of checking a part."""

    part: str
    fault: str | None
    """Why it, or its snapshots, cannot be read."""
    run: str | None
    """The digest of the run that it belongs to; None where that is not known."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run in a folder or under a URL; `str` says where. Making one touches nothing: see `create` and `open`."""

    place: str | os.PathLike[str]
    only: tuple[str, ...] | None = None
    """The only parts that are read, see `frozen`; None reads all finished parts."""
    digest: str | None = None
    """Digest of the run, written into its parts; a part with another one is refused."""
    manifest_cache: ManifestCache = field(default_factory=ManifestCache, repr=False, compare=False)

    @classmethod
    def create(cls, place: str | os.PathLike[str]) -> RunDirectory:
        """Make the directory, or take up an existing run in it, and remove what killed writers left."""
        run = cls(place)
        if (file := _file_on_the_way(run._storage)) is not None:
            raise RequestError(f"{file} is a file, but a run needs a folder. Choose another place with -o.")
        unknown = set(run._storage.names()) - _NAMES
        if not run.has(MANIFEST) and any(not TEMPORARY.fullmatch(name) for name in unknown):
            raise RequestError(
                f"{run} is not empty and is no run directory (found {min(unknown)!r}, "
                "no manifest.json). Choose another folder with -o."
            )
        run.clean()
        return run

    @classmethod
    def open(cls, place: str | os.PathLike[str]) -> RunDirectory:
        """Open an existing run for reading."""
        run = cls(place)
        hint = "A run directory is what `lppm-sim run` makes, by default below outputs/."
        if (kind := run._storage.kind()) != "folder":
            what = "is a file, not a run directory" if kind else "does not exist"
            raise RequestError(f"{run} {what}. {hint}")
        needed = (MANIFEST, "events") if run._storage.empty_folders else (MANIFEST,)
        missing = [name for name in needed if not run.has(name)]
        if missing:
            if run.parts():
                hint = f"{run.how_to_repair()} rebuilds it from the scenario and the parts."
            raise RequestError(f"{run} is no run directory: it has no {' and no '.join(missing)}. {hint}")
        manifest = run.manifest()
        run._require_parts(manifest)
        return replace(run, digest=manifest.identity.digest)

    def _require_parts(self, manifest: RunManifest) -> None:
        """Refuse a finished run that lacks parts: its metrics would be those of something else."""
        lost = sorted(set(manifest.parts) - set(self.parts())) if manifest.finished else []
        if lost:
            raise DamagedRun(
                f"{self} has lost {len(lost):,} of the {len(manifest.parts):,} parts of its finished run, first "
                f"{self.part_path(lost[0])}. {self.how_to_repair()} simulates them again, and nothing else."
            )

    def clean(self) -> None:
        """Make the folder of parts and remove the temporary files of writers that are dead."""
        self._storage.prepare("events", "", "snapshots", "figures")

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
        """Return a file of the run, which need not exist; the name may contain folders, separated by slashes."""
        return RunFile(self._storage, "/".join(plain_name(part) for part in name.split("/")))

    def part_path(self, part_id: str) -> RunFile:
        """Return where the part is or will be."""
        return RunFile(self._storage, f"events/{plain_name(part_id)}.parquet")

    def write_part(
        self,
        part_id: str,
        table: pa.Table,
        notes: Mapping[str, Any] | None = None,
        *,
        snapshots: Mapping[str, NDArray[Any]] | None = None,
    ) -> RunFile:
        """Write the rows of some whole simulations, with notes about them; an older part of that id is replaced.

        `snapshots`, arrays such as learned profiles, go to `snapshots/<part_id>.npz` first: a part that exists is
        complete. It holds the digest of its snapshots.
        """
        digest = None
        if snapshots is not None:
            archive = archives.packed(snapshots)
            self._write(_snapshots_name(part_id), archive)
            digest = hashlib.sha256(archive).hexdigest()
        content = part_files.encode(table, part=part_id, run=self.digest, notes=notes or {}, snapshots=digest)
        return self._write(self.part_path(part_id).name, content)

    def notes(self, part_id: str) -> dict[str, Any]:
        """Return the notes that a part was written with."""
        with self.open_part(part_id) as part:
            return part.notes

    def frozen(self) -> RunDirectory:
        """Return the run restricted to the parts that exist now, so that all results are of the same parts."""
        return replace(self, only=tuple(self.parts()))

    def parts(self) -> list[str]:
        """Return the ids of the finished parts, sorted."""
        if self.only is not None:
            return list(self.only)
        names = (name for name in self._storage.names("events") if not name.startswith("."))
        return sorted(name.removesuffix(".parquet") for name in names if name.endswith(".parquet"))

    def read_part(self, part_id: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one part, or of some columns."""
        with self.open_part(part_id) as part:
            return part.read(columns)

    @contextmanager
    def open_part(self, part_id: str) -> Iterator[Part]:
        """Open one part of this run, to read some of it at a time."""
        with self._any_part(part_id) as part:
            if self.digest is not None and part.run not in (None, self.digest):
                raise part.fault("it belongs to another run: scenario, input files, kernels or version differ")
            yield part

    @contextmanager
    def _any_part(self, part_id: str) -> Iterator[Part]:
        """Open one part, whichever run it belongs to."""
        place = self.part_path(part_id)
        remedy = f"{self.how_to_repair()} simulates it again, and nothing else."
        with (
            self._storage.open(place.name) as source,
            part_files.opened(source, place=str(place), remedy=remedy) as part,
        ):
            if part.part not in (None, part_id):
                raise part.fault(f"it holds part {part.part}")
            yield part

    def how_to_repair(self) -> str:
        """Return the command that repairs a damaged run, for a message."""
        return f"`lppm-sim run SCENARIO -o {shlex.quote(str(self))}`"

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the parts one after another in the order of their ids, so that memory holds one at a time."""
        for part_id in self.parts():
            yield self.read_part(part_id, columns)

    def check_parts(self, *, thorough: bool = True) -> list[tuple[str, str]]:
        """Return (part id, reason) for each part that cannot be read; see `survey`."""
        return [(check.part, check.fault) for check in self.survey(thorough=thorough) if check.fault is not None]

    def survey(self, *, thorough: bool = True) -> list[PartCheck]:
        """Check each part.

        A thorough check reads every byte, of snapshots too, and compares checksums. The other looks at the end of each
        part alone, which finds torn ones.
        """
        return [self._checked_part(part_id, thorough=thorough) for part_id in self.parts()]

    def _checked_part(self, part_id: str, *, thorough: bool) -> PartCheck:
        run = None
        try:
            with self._any_part(part_id) as part:
                run = part.run
                if thorough:
                    part.verify()
                    self._archive(part_id, part)
        except (DamagedPart, _DamagedSnapshots) as error:
            return PartCheck(part_id, str(error), run)
        return PartCheck(part_id, None, run)

    def snapshots(self, part_id: str, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return the snapshots of one part, or only those with some names; an empty mapping if it wrote none."""
        with self.open_part(part_id) as part:
            return self.snapshots_of(part_id, part, names)

    def snapshots_of(self, part_id: str, part: Part, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return the arrays of a part that is open."""
        archive = self._archive(part_id, part)
        if archive is None:
            return {}
        with self._named_archive(_snapshots_name(part_id)):
            return archives.unpacked(archive, names)

    def _archive(self, part_id: str, part: Part) -> bytes | None:
        """Return the file of a part's snapshots, verified; None when the part wrote none."""
        name = _snapshots_name(part_id)
        exists = self.has(name)
        with self._named_archive(name):
            if part.snapshots is not None and not exists:
                raise archives.DamagedArchive("it does not exist")
            if not exists or (part.knows_snapshots and part.snapshots is None):
                return None
            archive = self._storage.read(name)
            archives.verify(archive)
            if part.snapshots not in (None, hashlib.sha256(archive).hexdigest()):
                raise archives.DamagedArchive("it does not belong to its part")
            return archive

    @contextmanager
    def _named_archive(self, name: str) -> Iterator[None]:
        try:
            yield
        except archives.DamagedArchive as error:
            raise _DamagedSnapshots(
                f"{self.describe(name)} cannot be read: {str(error).rstrip('.')}. "
                f"{self.how_to_repair()} simulates its part again, and nothing else."
            ) from error

    def write_manifest(self, manifest: RunManifest) -> RunFile:
        """Write `manifest.json`, with its checksum; NaN and infinity are refused."""
        self.manifest_cache.adopt(manifest)
        return self._write(MANIFEST, encode(manifest.content))

    def manifest(self) -> RunManifest:
        """Return the manifest, verified: its checksum, the keys that it must have and their types."""
        manifest = self.any_manifest()
        if isinstance(manifest, OtherSchema):
            raise RequestError(
                f"{self.describe(MANIFEST)}: schema_version must be {SCHEMA_VERSION}, got "
                f"{manifest.content['schema_version']!r}. "
                "The run was written by another version of lppm-sim; use that one to read it."
            )
        return manifest

    def any_manifest(self) -> RunManifest | OtherSchema:
        """Return the manifest, also of a run that another version wrote. It is parsed again only if it has changed."""
        try:
            return self.manifest_cache.parsed(self._storage.read(MANIFEST), self.describe(MANIFEST))
        except DamagedManifest as error:
            raise DamagedManifestError(
                f"{self.describe(MANIFEST)} is damaged: {error}. {self.how_to_repair()} rebuilds it from "
                "the scenario and the parts.",
                str(error),
            ) from error

    def write_csv(self, name: str, frame: pd.DataFrame) -> RunFile:
        """Write a table, numbers in the shortest form that reads back to the same value."""
        return self._write(plain_name(name), write_csv(frame))

    def read_csv(self, name: str) -> pd.DataFrame:
        """Read a table that `write_csv` wrote; names stay text, whatever they look like.

        The manifest has the checksum of `points.csv`, from which other tables take values.
        """
        content = self._storage.read(plain_name(name))
        checksum = self.manifest().tables.get(name) if self.has(MANIFEST) else None
        try:
            return read_csv(content, checksum)
        except ValueError as error:
            raise DamagedRun(
                f"{self.describe(name)} is damaged: {str(error).rstrip('.')}. {self.how_to_repair()} writes it again."
            ) from error

    def write_figure(self, name: str, content: bytes) -> RunFile:
        """Write a picture as `figures/<name>`."""
        return self._write(f"figures/{plain_name(name)}", content)

    def _write(self, name: str, content: bytes) -> RunFile:
        self._storage.write(name, content)
        return RunFile(self._storage, name)


def _file_on_the_way(storage: Storage) -> str | None:
    """Return the file that is where a run should be, or a folder above it."""
    if isinstance(storage, Folder):
        with named_errors(str(storage.root), "use"):
            above = (storage.root, *storage.root.parents)
            existing = next((path for path in above if path.exists()), None)
            return str(existing) if existing is not None and not existing.is_dir() else None
    return storage.describe() if storage.kind() == "file" else None


def _snapshots_name(part_id: str) -> str:
    return f"snapshots/{plain_name(part_id)}.npz"
