"""The protocol of storage back ends."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

Kind = Literal["file", "folder"]


class Storage(Protocol):
    """Storage of the files of a run. Names are relative, with slashes; the empty name is the root.

    All failures raise a RunError that names the file.
    """

    @property
    def empty_folders(self) -> bool:
        """Whether folders without files can exist."""

    @property
    def shared(self) -> bool:
        """Whether other processes can access the files."""

    def describe(self, name: str = "") -> str:
        """Return the path or URL of a file or folder, for messages."""

    def kind(self, name: str = "") -> Kind | None:
        """Return whether the name is a file or a folder; None if it does not exist."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; an empty list if it does not exist."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def open(self, name: str) -> AbstractContextManager[Path | BinaryIO]:
        """Open a file for random access: return its path, or the open file."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically; an existing one is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def written_s(self, name: str) -> float | None:
        """Return the time of the last write, in seconds since 1970; None if unknown, or if the file does not exist."""

    def prepare(self, folder: str, *others: str) -> None:
        """Create a folder, and remove temporary files of terminated writers in it and in others."""
