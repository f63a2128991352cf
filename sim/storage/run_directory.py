"""The run directory: all files of a run, in a folder or under a URL. No other module reads or writes them.

Files are written atomically (see `sim.storage.backends`): if the process is killed, at most the file being written is
lost. Equal content gives equal bytes in every back end.
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
from sim.storage.event_schema import READABLE_VERSIONS
from sim.storage.manifest import DamagedManifest, OtherSchema, RunManifest
from sim.storage.manifest_file import MANIFEST, ManifestCache, encode
from sim.storage.parts import DamagedPart, Part
from sim.storage.run_file import RunFile, plain_name
from sim.storage.tables import read_csv, write_csv

_NAMES = {
    "training",
    "calibration",
    "checkpoints",
    "manifest.json",
    "summary.csv",
    "metrics.csv",
    "points.csv",
    "adaptation.csv",
    "tournament.csv",
    "hindsight.csv",
    "answers.csv",
    "home_exposure.csv",
    "events",
    "snapshots",
    "figures",
    "report.html",
    "ro-crate-metadata.json",
}


class DamagedManifestError(DamagedRun):
    """A manifest that exists and cannot be used."""

    code = "damaged-manifest"

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class _DamagedSnapshots(DamagedRun):
    """Snapshots that cannot be read."""

    code = "damaged-snapshots"


class PartCheck(NamedTuple):
    """The result of checking a part."""

    part: str
    fault: str | None
    """Reason why the part or its snapshots cannot be read; None if both are intact."""
    run: str | None
    """Digest of the run that the part belongs to; None if unknown."""


@dataclass(frozen=True, slots=True)
class RunDirectory:
    """A run in a folder or under a URL. The constructor reads and writes nothing: see `create` and `open`."""

    place: str | os.PathLike[str]
    only: tuple[str, ...] | None = None
    """Ids of the parts to read, see `frozen`; None for all finished parts."""
    digest: str | None = None
    """Digest of the run, recorded in its parts; a part with another digest is rejected."""
    manifest_cache: ManifestCache = field(default_factory=ManifestCache, repr=False, compare=False)

    @classmethod
    def create(cls, place: str | os.PathLike[str]) -> RunDirectory:
        """Create the directory, or resume an existing run in it; remove temporary files of terminated writers."""
        run = cls(place)
        if (file := _obstructing_file(run._storage)) is not None:
            message = f"{file} is a file, but a run needs a folder. Choose another folder with -o."
            raise RequestError(message, code="not-a-folder")
        unknown = set(run._storage.names()) - _NAMES
        if not run.has(MANIFEST) and any(not TEMPORARY.fullmatch(name) for name in unknown):
            raise RequestError(
                f"{run} is not empty and not a run directory (found {min(unknown)!r}, no manifest.json). "
                "Choose another folder with -o.",
                code="folder-not-empty",
            )
        run.clean()
        return run

    @classmethod
    def open(cls, place: str | os.PathLike[str]) -> RunDirectory:
        """Open an existing run for reading."""
        run = cls(place)
        hint = "`lppm-sim run` creates run directories, by default in outputs/."
        if (kind := run._storage.kind()) != "folder":
            problem = "is a file, not a run directory" if kind else "does not exist"
            raise RequestError(f"{run} {problem}. {hint}", code="not-a-run" if kind else "run-not-found")
        needed = (MANIFEST, "events") if run._storage.empty_folders else (MANIFEST,)
        missing = [name for name in needed if not run.has(name)]
        if missing:
            if run.parts():
                hint = f"{run.how_to_repair()} rebuilds it from the scenario and the parts."
            message = f"{run} is not a run directory: it has no {' and no '.join(missing)}. {hint}"
            raise RequestError(message, code="not-a-run")
        manifest = run.manifest()
        run._require_parts(manifest)
        return replace(run, digest=manifest.identity.digest)

    def _require_parts(self, manifest: RunManifest) -> None:
        """Reject a finished run that lacks parts: its metrics would be wrong."""
        lost = sorted(set(manifest.parts) - set(self.parts())) if manifest.finished else []
        if lost:
            raise DamagedRun(
                f"{self} is finished, but {len(lost):,} of its {len(manifest.parts):,} parts are missing, first "
                f"{self.part_path(lost[0])}. {self.how_to_repair()} simulates only these again.",
                code="missing-parts",
            )

    def clean(self) -> None:
        """Create the folder of parts, and remove temporary files of terminated writers."""
        self._storage.prepare("events", "", "snapshots", "figures", "training", "checkpoints")

    @property
    def path(self) -> Path:
        """The folder of the run; raises RequestError for a run under a URL."""
        if isinstance(self._storage, Folder):
            return self._storage.root
        message = f"{self} must be a local folder for this operation: copy the run into a folder first."
        raise RequestError(message, code="not-a-local-folder")

    @property
    def in_folder(self) -> bool:
        """Whether the run is in a folder, so that it has a `path`."""
        return isinstance(self._storage, Folder)

    @property
    def shared(self) -> bool:
        """Whether other processes can access the run; False for `memory://`."""
        return self._storage.shared

    def describe(self, name: str = "") -> str:
        """Return the path or URL of the run, or of a file or folder in it, for messages."""
        return self._storage.describe(name)

    def __str__(self) -> str:
        return self.describe()

    def has(self, name: str) -> bool:
        """Return whether the run has a file or folder of this name."""
        return self._storage.kind(name) is not None

    @property
    def _storage(self) -> Storage:
        return storage_at(self.place)

    def file(self, name: str) -> RunFile:
        """Return a file of the run, which need not exist; the name may contain folders, separated by slashes."""
        return RunFile(self._storage, "/".join(plain_name(part) for part in name.split("/")))

    def part_path(self, part_id: str) -> RunFile:
        """Return the file of a part, which need not exist."""
        return RunFile(self._storage, f"events/{plain_name(part_id)}.parquet")

    def write_part(
        self,
        part_id: str,
        table: pa.Table,
        notes: Mapping[str, Any] | None = None,
        *,
        snapshots: Mapping[str, NDArray[Any]] | None = None,
    ) -> RunFile:
        """Write the rows of one or more complete simulations, with notes; an existing part of this id is replaced.

        `snapshots`, arrays such as learned profiles, are written to `snapshots/<part_id>.npz` first, so an existing
        part is complete. The part records the digest of its snapshots.
        """
        digest = None
        if snapshots is not None:
            archive = archives.packed(snapshots)
            self._write(_snapshots_name(part_id), archive)
            digest = hashlib.sha256(archive).hexdigest()
        content = part_files.encode(table, part=part_id, run=self.digest, notes=notes or {}, snapshots=digest)
        return self._write(self.part_path(part_id).name, content)

    def notes(self, part_id: str) -> dict[str, Any]:
        """Return the notes of a part."""
        with self.open_part(part_id) as part:
            return part.notes

    def frozen(self) -> RunDirectory:
        """Return the run restricted to the parts that exist now, so that all results use the same parts."""
        return replace(self, only=tuple(self.parts()))

    def parts(self) -> list[str]:
        """Return the ids of the finished parts, sorted."""
        if self.only is not None:
            return list(self.only)
        names = (name for name in self._storage.names("events") if not name.startswith("."))
        return sorted(name.removesuffix(".parquet") for name in names if name.endswith(".parquet"))

    def read_part(self, part_id: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one part, with all or some columns."""
        with self.open_part(part_id) as part:
            return part.read(columns)

    @contextmanager
    def open_part(self, part_id: str) -> Iterator[Part]:
        """Open one part of this run for partial reading."""
        with self._any_part(part_id) as part:
            if self.digest is not None and part.run not in (None, self.digest):
                raise part.fault("it belongs to another run: scenario, input files, kernels or version differ")
            yield part

    @contextmanager
    def _any_part(self, part_id: str) -> Iterator[Part]:
        """Open one part, even if it belongs to another run."""
        place = self.part_path(part_id)
        remedy = f"{self.how_to_repair()} simulates only this part again."
        with (
            self._storage.open(place.name) as source,
            part_files.opened(source, place=str(place), remedy=remedy) as part,
        ):
            if part.part not in (None, part_id):
                raise part.fault(f"it contains part {part.part}")
            yield part

    def how_to_repair(self) -> str:
        """Return the command that repairs a damaged run, for messages."""
        return f"`lppm-sim run SCENARIO -o {shlex.quote(str(self))}`"

    def tables(self, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
        """Yield the tables of the parts in the order of their ids, with one part in memory at a time."""
        for part_id in self.parts():
            yield self.read_part(part_id, columns)

    def check_parts(self, *, thorough: bool = True) -> list[tuple[str, str]]:
        """Return (part id, reason) for each part that cannot be read; see `survey`."""
        return [(check.part, check.fault) for check in self.survey(thorough=thorough) if check.fault is not None]

    def survey(self, *, thorough: bool = True) -> list[PartCheck]:
        """Check each part.

        A thorough check reads all bytes, also of snapshots, and compares checksums. Otherwise only the footer of each
        part is read, which detects truncated parts.
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
        """Return the snapshots of one part, all or those with the given names; empty if there are none."""
        with self.open_part(part_id) as part:
            return self.snapshots_of(part_id, part, names)

    def snapshots_of(self, part_id: str, part: Part, names: Sequence[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return the snapshots of an open part."""
        archive = self._archive(part_id, part)
        if archive is None:
            return {}
        with self._named_archive(_snapshots_name(part_id)):
            return archives.unpacked(archive, names)

    def _archive(self, part_id: str, part: Part) -> bytes | None:
        """Return the verified bytes of a part's snapshots; None if the part has none."""
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
                f"{self.how_to_repair()} simulates only this part again."
            ) from error

    def write_manifest(self, manifest: RunManifest) -> RunFile:
        """Write `manifest.json` with its checksum; raises ValueError for NaN and infinity."""
        self.manifest_cache.adopt(manifest)
        return self._write(MANIFEST, encode(manifest.content))

    def manifest(self) -> RunManifest:
        """Return the manifest; its checksum, required keys and types are verified."""
        manifest = self.any_manifest()
        if isinstance(manifest, OtherSchema):
            raise RequestError(
                f"{self.describe(MANIFEST)}: schema_version must be "
                f"{' or '.join(map(str, READABLE_VERSIONS))}, got "
                f"{manifest.content['schema_version']!r}. "
                "The run was written by another version of lppm-sim; use that version to read it.",
                code="other-schema-version",
            )
        return manifest

    def any_manifest(self) -> RunManifest | OtherSchema:
        """Return the manifest, also of another schema version; it is parsed again only if it has changed."""
        try:
            return self.manifest_cache.parsed(self._storage.read(MANIFEST), self.describe(MANIFEST))
        except DamagedManifest as error:
            raise DamagedManifestError(
                f"{self.describe(MANIFEST)} is damaged: {error}. {self.how_to_repair()} rebuilds it from "
                "the scenario and the parts.",
                str(error),
            ) from error

    def write_csv(self, name: str, frame: pd.DataFrame) -> RunFile:
        """Write a table; numbers have the shortest form that parses to the same value."""
        return self._write(plain_name(name), write_csv(frame))

    def read_csv(self, name: str) -> pd.DataFrame:
        """Read a table of `write_csv`; names are read as text even if they look like numbers.

        The checksum of `points.csv`, from which other tables are derived, is verified with the manifest.
        """
        content = self._storage.read(plain_name(name))
        checksum = self.manifest().tables.get(name) if self.has(MANIFEST) else None
        try:
            return read_csv(content, checksum)
        except ValueError as error:
            raise DamagedRun(
                f"{self.describe(name)} is damaged: {str(error).rstrip('.')}. {self.how_to_repair()} writes it again.",
                code="damaged-table",
            ) from error

    def write_figure(self, name: str, content: bytes) -> RunFile:
        """Write a figure as `figures/<name>`."""
        return self._write(f"figures/{plain_name(name)}", content)

    def _write(self, name: str, content: bytes) -> RunFile:
        self._storage.write(name, content)
        return RunFile(self._storage, name)


def _obstructing_file(storage: Storage) -> str | None:
    """Return the file at the place of a run or of one of its parent folders, or None."""
    if isinstance(storage, Folder):
        with named_errors(str(storage.root), "use"):
            above = (storage.root, *storage.root.parents)
            existing = next((path for path in above if path.exists()), None)
            return str(existing) if existing is not None and not existing.is_dir() else None
    return storage.describe() if storage.kind() == "file" else None


def _snapshots_name(part_id: str) -> str:
    return f"snapshots/{plain_name(part_id)}.npz"
