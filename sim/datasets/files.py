"""Raw files: reading in chunks or blocks of whole lines, with decompression and hashing."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sim.errors import InputError

BLOCK = 4 << 20
LONGEST_LINE = 4 << 20
_BOM = "\ufeff".encode()
_GZIP = b"\x1f\x8b"
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"BZh": "compressed with bzip2", b"\xfd7zXZ": "compressed with xz"}


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file."""

    first_line: int
    """Number of the first line, counted from 1."""
    text: bytes


class RawFile:
    """A file that is read once, sequentially."""

    def __init__(self, path: Path, advance: Callable[[int], None] = lambda _bytes: None) -> None:
        self.path = path
        self.n_bytes = 0
        """Number of bytes read from disk so far."""
        self.hash = hashlib.sha256()
        self._advance = advance

    def describe(self) -> dict[str, str | int]:
        """Return name, size and hash; call this after reading."""
        return {"name": self.path.name, "bytes": self.n_bytes, "sha256": self.hash.hexdigest()}

    def blocks(self) -> Iterator[Block]:
        """Yield decompressed whole lines without a byte order mark."""
        line = 1
        rest = b""
        for chunk in self.chunks():
            cut = chunk.rfind(b"\n") + 1
            if cut:
                text = rest + chunk[:cut]
                yield Block(line, text.removeprefix(_BOM) if line == 1 else text)
                line += text.count(b"\n")
                rest = chunk[cut:]
            else:
                rest += chunk
            if len(rest) > LONGEST_LINE:
                raise InputError(
                    f"{self.path}: a line is longer than {LONGEST_LINE:,} bytes: is it a text file?",
                    code="unreadable-file",
                )
        if rest:
            yield Block(line, rest.removeprefix(_BOM) if line == 1 else rest)

    def chunks(self) -> Iterator[bytes]:
        """Yield the decompressed content."""
        lines = 0
        with self._errors(lambda: lines), self.path.open("rb") as file:
            compressed = file.read(2) == _GZIP
            file.seek(0)
            raw: Any = _Counted(file, self, self._advance)
            stream = gzip.GzipFile(fileobj=raw, mode="rb") if compressed else raw
            start = True
            while chunk := stream.read(BLOCK):
                if start:
                    _refuse_archive(self.path, chunk)
                    start = False
                yield chunk
                lines += chunk.count(b"\n")

    def digest(self) -> None:
        """Read the file for its hash only, without decompression."""
        with self._errors(lambda: 0), self.path.open("rb") as file:
            raw = _Counted(file, self, self._advance)
            while raw.read(BLOCK):
                pass

    @contextmanager
    def _errors(self, lines: Callable[[], int]) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{self.path}: the gzip file is damaged or truncated after line {lines():,} ({error}). "
                "Download it again; nothing was written.",
                code="unreadable-file",
            ) from error
        except OSError as error:
            raise InputError(
                f"cannot read {self.path}: {error.strerror or error}. Nothing was written.", code="file-error"
            ) from error


class _Counted:
    """A file that counts and hashes the bytes read."""

    def __init__(self, file: BinaryIO, of: RawFile, advance: Callable[[int], None]) -> None:
        self._file, self._of, self._advance = file, of, advance

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._of.n_bytes += len(data)
        self._of.hash.update(data)
        self._advance(len(data))
        return data


def _refuse_archive(path: Path, text: bytes) -> None:
    """Raise InputError for archives and for compression formats other than gzip."""
    for mark, kind in _ARCHIVES.items():
        if text.startswith(mark):
            raise InputError(
                f"{path} is {kind}: unpack it first; text and gzip files are supported. Nothing was written.",
                code="unsupported-file-type",
            )
    if text[257:262] == b"ustar":
        raise InputError(
            f"{path} is a tar archive: unpack it first (tar xf) and name its folder. Nothing was written.",
            code="unsupported-file-type",
        )
