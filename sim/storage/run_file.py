"""A file of a run, in a folder or under a URL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sim.storage.backends.protocol import Storage

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run, in a folder or under a URL; `str` returns its path or URL."""

    storage: Storage
    name: str

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self.storage.kind(self.name) is not None

    def read_bytes(self) -> bytes:
        """Return the content."""
        return self.storage.read(self.name)

    def read_text(self) -> str:
        """Return the content as text."""
        return self.read_bytes().decode()

    def write_bytes(self, content: bytes) -> None:
        """Replace the content atomically."""
        self.storage.write(self.name, content)

    def unlink(self) -> None:
        """Remove the file, if it exists."""
        self.storage.remove(self.name)

    def written_s(self) -> float | None:
        """Return the time of the last write, in seconds since 1970; None if unknown, or if the file does not exist."""
        return self.storage.written_s(self.name)

    def __str__(self) -> str:
        return self.storage.describe(self.name)


def plain_name(name: str) -> str:
    """Return the name if it is a plain file name, without folders; raise ValueError otherwise."""
    if not _PLAIN_NAME.fullmatch(name):
        raise ValueError(f"name must consist of letters, digits, dots, dashes and underscores, got {name!r}")
    return name
