"""A run in a folder: files are written under a temporary name, synced and renamed."""

from __future__ import annotations

import itertools
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from sim.storage.atomic import TEMPORARY, atomic_file, is_stale, writer_is_dead
from sim.storage.backends.protocol import Kind
from sim.storage.errors import named_errors


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this machine, or one shared by several machines."""

    root: Path

    @property
    def empty_folders(self) -> bool:
        """True: folders may be empty."""
        return True

    @property
    def shared(self) -> bool:
        """True: all processes of a machine can access its folders."""
        return True

    def describe(self, name: str = "") -> str:
        """Return the path."""
        return str(self.root / name)

    def kind(self, name: str = "") -> Kind | None:
        """Return whether the name is a file or a folder; None if it does not exist."""
        with named_errors(self.describe(name), "access"):
            path = self.root / name
            return "folder" if path.is_dir() else "file" if path.exists() else None

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted."""
        path = self.root / folder
        with named_errors(str(path), "list"):
            return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with named_errors(self.describe(name), "read"):
            return (self.root / name).read_bytes()

    def open(self, name: str) -> AbstractContextManager[Path]:
        """Return the path: reading from a path is faster than from an open file."""
        return nullcontext(self.root / name)

    def write(self, name: str, content: bytes) -> None:
        """Write under a temporary name, sync and rename."""
        with atomic_file(self.root / name) as file:
            file.write(content)

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with named_errors(self.describe(name), "remove"):
            (self.root / name).unlink(missing_ok=True)

    def written_s(self, name: str) -> float | None:
        """Return the time of the last write, in seconds since 1970; None if the file does not exist."""
        with named_errors(self.describe(name), "access"):
            try:
                return (self.root / name).stat().st_mtime
            except FileNotFoundError:
                return None

    def prepare(self, folder: str, *others: str) -> None:
        """Create the folder, and remove temporary files of terminated writers."""
        with named_errors(str(self.root), "use"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
            for path in itertools.chain(*((self.root / name).glob(".*.tmp") for name in (folder, *others))):
                if TEMPORARY.fullmatch(path.name):
                    with suppress(FileNotFoundError):  # another process may remove it at the same time
                        if writer_is_dead(path.name) or is_stale(path.stat().st_mtime):
                            path.unlink()
