"""Raw files of data sets: discovery, layout, and reading in blocks of whole lines with decompression and hashing."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from sim.datasets.lines import Layout
from sim.errors import InputError
from sim.mobility.recorded.columns import find_columns

BLOCK = 4 << 20
LONGEST_LINE = 4 << 20
_BOM = "\ufeff".encode()
_GZIP = b"\x1f\x8b"
_ARCHIVES = {b"PK\x03\x04": "a zip archive", b"BZh": "compressed with bzip2", b"\xfd7zXZ": "compressed with xz"}
_CAB = re.compile(r"new_(?P<id>.+)\.txt(\.gz)?")
_CABS = ("new_*.txt", "new_*.txt.gz")
_NAMES = {"order": "order", "time": "time_s", "user": "user", "lat": "lat", "lon": "lon"}
_MORE = {"loc_id": "location", "location": "location", "location_id": "location", "occupied": "occupied"}

SNAP = Layout(("user", "time_s", "lat", "lon", "location"), "\t", newest_first=True)
CRAWDAD = Layout(("lat", "lon", "occupied", "time_s"), " ", newest_first=True)
SOURCES = {"brightkite": SNAP, "gowalla": SNAP, "cabspotting": CRAWDAD}


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a file."""

    first_line: int
    """Number of the first line, counted from 1."""
    text: bytes


class RawFile:
    """A file that is read once, sequentially."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_bytes = 0
        """Number of bytes read from disk so far."""
        self.hash = hashlib.sha256()

    def describe(self) -> dict[str, str | int]:
        """Return name, size and hash; call this after reading."""
        return {"name": self.path.name, "bytes": self.n_bytes, "sha256": self.hash.hexdigest()}

    def blocks(self, advance: Callable[[int], None] = lambda _bytes: None) -> Iterator[Block]:
        """Yield decompressed lines without a byte order mark; `advance` receives the number of bytes read from disk."""
        line = 1
        try:
            with self.path.open("rb") as file:
                for text in self._whole_lines(_Counted(file, self, advance)):
                    if line == 1:
                        _refuse_archive(self.path, text)
                    yield Block(line, text.removeprefix(_BOM) if line == 1 else text)
                    line += text.count(b"\n")
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(
                f"{self.path}: the gzip file is damaged or truncated after line {line - 1:,} ({error}). "
                "Download it again; nothing was written.",
                code="unreadable-file",
            ) from error
        except OSError as error:
            raise InputError(
                f"cannot read {self.path}: {error.strerror or error}. Nothing was written.", code="file-error"
            ) from error

    def _whole_lines(self, raw: _Counted) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            compressed = file.read(2) == _GZIP
        stream: Any = gzip.GzipFile(fileobj=raw, mode="rb") if compressed else raw  # type: ignore[call-overload]
        rest = b""
        while chunk := stream.read(BLOCK):
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield rest + chunk[:cut]
                rest = chunk[cut:]
            else:
                rest += chunk
            if len(rest) > LONGEST_LINE:
                raise InputError(
                    f"{self.path}: a line is longer than {LONGEST_LINE:,} bytes: is it a text file?",
                    code="unreadable-file",
                )
        if rest:
            yield rest


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


def find_files(source: str, given: Sequence[Path]) -> list[Path]:
    """Return the raw files in the order given, with folders of cab files expanded in alphabetical order."""
    files: list[Path] = []
    for path in given:
        if path.is_dir():
            if source != "cabspotting":
                raise InputError(
                    f"{path} is a folder: name the file, such as loc-{source}_totalCheckins.txt.gz",
                    code="is-a-folder",
                )
            inside = sorted({file for pattern in _CABS for file in path.glob(pattern)}, key=lambda file: file.name)
            if not inside:
                raise InputError(
                    f"{path} has no file new_<cab>.txt: name the folder with the files of the cabs",
                    code="file-not-found",
                )
            files += inside
        elif path.is_file():
            files.append(path)
        else:
            raise InputError(f"{path} does not exist", code="file-not-found")
    seen = set()
    for path in files:
        if path.resolve() in seen:
            raise InputError(f"{path} is given twice: its rows would count twice", code="duplicate-file")
        seen.add(path.resolve())
    return files


def find_layout(source: str | None, path: Path) -> tuple[Layout, int]:
    """Return the layout of a file and its number of header lines, 0 or 1.

    A header is one line of names separated by commas. A file without a header has the layout of the source's
    downloads.
    """
    first = next(RawFile(path).blocks(), None)
    line = "" if first is None else first.text.partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    names = [name.strip().lower() for name in line.split(",")]
    if len(names) > 1 and not any(_is_number(name) for name in names):
        return _named_fields(path, names), 1
    if source is None:
        raise InputError(
            f"{path} is not a trace file: it has no header such as user,time_s,lat,lon. "
            "Convert a raw download with `lppm-sim data import` first.",
            code="missing-header",
        )
    layout = SOURCES[source]
    if "user" in layout.fields:
        return layout, 0
    match = _CAB.fullmatch(path.name)
    if match is None:
        raise InputError(
            f"{path}: the file of a cab must be named new_<cab>.txt, which identifies the cab",
            code="invalid-file-name",
        )
    return Layout(layout.fields, layout.separator, layout.newest_first, match["id"]), 0


def _named_fields(path: Path, names: Sequence[str]) -> Layout:
    try:
        columns = find_columns(names, {}, degrees=True)
        if "lat" not in columns:
            raise ValueError(f"no columns for lat and lon; found {', '.join(names)}")
    except ValueError as error:
        problem = str(error).partition("; name ")[0]  # the rest explains how to name columns in a scenario
        raise InputError(
            f"{path}: {problem}. Is it the right file? Its first line names its columns.", code="no-such-column"
        ) from error
    field_of = _MORE | {column: _NAMES[name] for name, column in columns.items()}
    fields: list[str] = []
    for name in names:
        field = field_of.get(name, "")
        fields.append("" if field in fields else field)
    return Layout(tuple(fields), ",")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
