"""A file of a run, in a folder or under a URL."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from sim.storage.backends.protocol import Storage
from sim.storage.errors import named_errors

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

    def size_and_sha256(self) -> tuple[int, str]:
        """Return the size in bytes and the SHA-256 of the content, which need not fit into memory in a folder."""
        with named_errors(str(self), "read"), self.storage.open(self.name) as source:
            if isinstance(source, Path):
                with source.open("rb") as file:
                    return source.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
            digest = hashlib.file_digest(source, "sha256").hexdigest()  # type: ignore[arg-type]
            return source.seek(0, os.SEEK_END), digest

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
