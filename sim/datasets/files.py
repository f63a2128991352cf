"""The raw files: which ones are meant, and their text in blocks of whole lines, unpacked, counted and hashed."""

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
_PACKED = {b"PK\x03\x04": "a zip archive", b"BZh": "packed with bzip2", b"\xfd7zXZ": "packed with xz"}
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
    """Counted from 1."""
    text: bytes


class RawFile:
    """A file to be read once, from its beginning to its end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_bytes = 0
        """How much was read so far of what lies on the disk."""
        self.hash = hashlib.sha256()

    def describe(self) -> dict[str, str | int]:
        """Return what it was, after it was read."""
        return {"name": self.path.name, "bytes": self.n_bytes, "sha256": self.hash.hexdigest()}

    def blocks(self, advance: Callable[[int], None] = lambda _bytes: None) -> Iterator[Block]:
        """Yield the lines, unpacked, without a byte order mark; `advance` is told of bytes read from the disk."""
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
                f"{self.path}: the gzip file is damaged or cut off after line {line - 1:,} ({error}). "
                "Download it again; nothing was written."
            ) from error
        except OSError as error:
            raise InputError(f"{self.path} cannot be read: {error.strerror or error}. Nothing was written.") from error

    def _whole_lines(self, raw: _Counted) -> Iterator[bytes]:
        with self.path.open("rb") as file:
            packed = file.read(2) == _GZIP
        stream: Any = gzip.GzipFile(fileobj=raw, mode="rb") if packed else raw  # type: ignore[call-overload]
        rest = b""
        while chunk := stream.read(BLOCK):
            cut = chunk.rfind(b"\n") + 1
            if cut:
                yield rest + chunk[:cut]
                rest = chunk[cut:]
            else:
                rest += chunk
            if len(rest) > LONGEST_LINE:
                raise InputError(f"{self.path}: a line is longer than {LONGEST_LINE:,} bytes: is it a text file?")
        if rest:
            yield rest


class _Counted:
    """Tell how much is read of a file."""

    def __init__(self, file: BinaryIO, of: RawFile, advance: Callable[[int], None]) -> None:
        self._file, self._of, self._advance = file, of, advance

    def read(self, size: int) -> bytes:
        data = self._file.read(size)
        self._of.n_bytes += len(data)
        self._of.hash.update(data)
        self._advance(len(data))
        return data


def _refuse_archive(path: Path, text: bytes) -> None:
    """Say how to unpack what holds several files or is packed otherwise."""
    for mark, what in _PACKED.items():
        if text.startswith(mark):
            raise InputError(f"{path} is {what}: unpack it first, text and gzip are read. Nothing was written.")
    if text[257:262] == b"ustar":
        raise InputError(f"{path} is a tar archive: unpack it first (tar xf) and name its folder. Nothing was written.")


def find_files(source: str, given: Sequence[Path]) -> list[Path]:
    """Return the raw files that are meant, in the order given; those of a folder of cabs by name."""
    found: list[Path] = []
    for path in given:
        if path.is_dir():
            if source != "cabspotting":
                raise InputError(f"{path} is a folder: name the file, such as loc-{source}_totalCheckins.txt.gz")
            inside = sorted({file for pattern in _CABS for file in path.glob(pattern)}, key=lambda file: file.name)
            if not inside:
                raise InputError(f"{path} has no file called new_<cab>.txt: name the folder that has the cabs' files")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            raise InputError(f"{path} does not exist")
    seen = set()
    for path in found:
        if path.resolve() in seen:
            raise InputError(f"{path} is named twice: its rows would count twice")
        seen.add(path.resolve())
    return found


def find_layout(source: str | None, path: Path) -> tuple[Layout, int]:
    """Return what the fields of a file are, and how many of its lines are a header, 0 or 1.

    A header is one line of names parted by commas. A file without one is as the source's own downloads are.
    """
    first = next(RawFile(path).blocks(), None)
    line = "" if first is None else first.text.partition(b"\n")[0].decode("utf-8", "replace").rstrip("\r")
    names = [name.strip().lower() for name in line.split(",")]
    if len(names) > 1 and not any(_is_number(name) for name in names):
        return _named_fields(path, names), 1
    if source is None:
        raise InputError(
            f"{path} is no trace file: it has no header such as user,time_s,lat,lon. "
            "Make one of a raw download with `lppm-sim data import` first."
        )
    layout = SOURCES[source]
    if "user" in layout.fields:
        return layout, 0
    match = _CAB.fullmatch(path.name)
    if match is None:
        raise InputError(f"{path}: a cab's file must be called new_<cab>.txt, which tells whose it is")
    return Layout(layout.fields, layout.separator, layout.newest_first, match["id"]), 0


def _named_fields(path: Path, names: Sequence[str]) -> Layout:
    try:
        found = find_columns(names, {}, degrees=True)
        if "lat" not in found:
            raise ValueError(f"no columns for lat and lon; found {', '.join(names)}")
    except ValueError as error:
        said = str(error).partition("; name ")[0]  # how to name them in a scenario helps nobody here
        raise InputError(f"{path}: {said}. Is it the right file? Its first line names its columns.") from error
    ours = _MORE | {column: _NAMES[name] for name, column in found.items()}
    fields: list[str] = []
    for name in names:
        field = ours.get(name, "")
        fields.append("" if field in fields else field)
    return Layout(tuple(fields), ",")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
