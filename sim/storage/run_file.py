"""One file of a run, wherever the run is."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sim.storage.backends.protocol import Storage

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class RunFile:
    """A file of a run, wherever the run is; `str` says where."""

    storage: Storage
    name: str

    def exists(self) -> bool:
        """Return whether the file exists."""
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
        """Remove the file, if it exists."""
        self.storage.remove(self.name)

    def written_s(self) -> float | None:
        """Return when it was written, in seconds since 1970; None if it does not exist or the time is unknown."""
        return self.storage.written_s(self.name)

    def __str__(self) -> str:
        return self.storage.describe(self.name)


def plain_name(name: str) -> str:
    """Return a name of a file that stays in its folder, or raise a ValueError."""
    if not _PLAIN_NAME.fullmatch(name):
        raise ValueError(f"a file name must be letters, digits, dots, dashes, underscores, got {name!r}")
    return name
