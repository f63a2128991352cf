"""The protocol of storage back ends."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO, Literal, Protocol

Kind = Literal["file", "folder"]


class Storage(Protocol):
    """Where the files of a run are. Names are relative, with slashes; the empty one is the place itself.

    What goes wrong is a RunError that names the file.
    """

    @property
    def empty_folders(self) -> bool:
        """Whether folders without files can exist."""

    @property
    def shared(self) -> bool:
        """Whether other processes see the same files."""

    def describe(self, name: str = "") -> str:
        """Return what to call a file or folder in a message."""

    def kind(self, name: str = "") -> Kind | None:
        """Return whether the name is a file or a folder; None if it does not exist."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; an empty list if it does not exist."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def open(self, name: str) -> AbstractContextManager[Path | BinaryIO]:
        """Give a file for random access: its path, or the open file."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all; an older one is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""

    def written_s(self, name: str) -> float | None:
        """Return when a file was written, in seconds since 1970; None if it does not exist or the time is unknown."""

    def prepare(self, folder: str, *others: str) -> None:
        """Make this folder, and remove what killed writers left in it and in others."""
