"""Index of recorded visits: times and cells of each user, in memory or in a file that is read user by user.

A file with millions of visits occupies no memory: names, times and cells of a user are read when they are needed.
"""

from __future__ import annotations

import hashlib
import json
import os
import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import IO, Any, Protocol, overload

import numpy as np
from numpy.typing import NDArray

from sim.interfaces import BoolArray, IntArray
from sim.mobility.user_ids import UserIds

_MAGIC = b"lppm-sim visits 2\n"
_DIGEST_BYTES = 32
_PIECE_BYTES = 2**22
_REMEMBERED = 4096
_COLUMNS = {
    "names": "<u1",
    "name_starts": "<i8",
    "by_name": "<i8",
    "starts": "<i8",
    "times_s": "<i8",
    "cells": "<i4",
    "carried": "|b1",
}


@dataclass(frozen=True, slots=True, eq=False)
class UserVisits:
    """Visits of one user in order of time; all arrays have shape (n_visits,)."""

    times_s: IntArray
    cells: IntArray
    carried: BoolArray | None = None
    """Mask of the visits that repeat an earlier position, at a fixed period; None if all are recorded."""

    def first(self, visits: int | None) -> UserVisits:
        """Return the first visits (default: all)."""
        carried = None if self.carried is None else self.carried[:visits]
        return UserVisits(self.times_s[:visits], self.cells[:visits], carried)


class DamagedIndex(Exception):
    """An index file that cannot be used."""


class Column(Protocol):
    """Numbers that are read in slices."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice) -> NDArray[Any]: ...


class IndexFile:
    """A file that is read at any position, and closed with its last reference."""

    def __init__(self, path: Path) -> None:
        self.size = path.stat().st_size
        self._file = path.open("rb", buffering=0)
        weakref.finalize(self, self._file.close)

    def read(self, size: int, offset: int) -> bytes:
        """Read bytes without moving a position that forked processes would share, if the system can."""
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), size, offset)
        self._file.seek(offset)
        return self._file.read(size)


@dataclass(frozen=True, slots=True)
class FileColumn:
    """Numbers in a part of a file."""

    file: IndexFile
    dtype: np.dtype[Any]
    offset: int
    length: int

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: slice) -> NDArray[Any]:
        start, stop, _ = place.indices(self.length)
        size, offset = max(stop - start, 0) * self.dtype.itemsize, self.offset + start * self.dtype.itemsize
        return np.frombuffer(self.file.read(size, offset), dtype=self.dtype)


@dataclass(frozen=True, slots=True)
class VisitIndex:
    """Visits of all users, sorted by user and time."""

    names: Column
    """UTF-8 names of all users, one after another."""
    name_starts: Column
    """Position of the first byte of each name, and of the end."""
    by_name: Column
    """Positions of the users in the order of their names as bytes."""
    starts: Column
    """Position of the first visit of each user, and of the end."""
    times_s: Column
    cells: Column
    carried: Column
    """Whether each visit repeats an earlier position; empty if all visits are recorded."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Further facts about the file."""

    @classmethod
    def of(cls, visits: Mapping[str, UserVisits], notes: Mapping[str, Any]) -> VisitIndex:
        """Return the index in memory of the visits of each user."""
        encoded = [user.encode() for user in visits]
        return cls(
            names=np.frombuffer(b"".join(encoded), dtype=np.uint8),
            name_starts=_starts(map(len, encoded)),
            by_name=np.array(sorted(range(len(encoded)), key=encoded.__getitem__), dtype=np.int64),
            starts=_starts(own.cells.size for own in visits.values()),
            times_s=np.concatenate([own.times_s for own in visits.values()]),
            cells=np.concatenate([own.cells for own in visits.values()]).astype(np.int32),
            carried=np.concatenate(
                [np.zeros(0, dtype=bool)] + [own.carried for own in visits.values() if own.carried is not None]
            ),
            notes=dict(notes),
        )

    def write(self, file: IO[bytes]) -> None:
        """Write the index with a checksum at the end."""
        header = json.dumps({"lengths": {name: len(getattr(self, name)) for name in _COLUMNS}, "notes": self.notes})
        digest = hashlib.sha256()
        for piece in self._pieces(header.encode()):
            digest.update(piece)
            file.write(piece)
        file.write(digest.digest())

    def _pieces(self, header: bytes) -> Iterable[bytes]:
        yield _MAGIC + len(header).to_bytes(8, "little") + header
        for name, dtype in _COLUMNS.items():
            column, step = getattr(self, name), _PIECE_BYTES // np.dtype(dtype).itemsize
            for start in range(0, len(column), step):
                yield np.ascontiguousarray(column[start : start + step], dtype=dtype).tobytes()

    @classmethod
    def open(cls, path: Path) -> VisitIndex:
        """Return the index in a file, which stays open; raise DamagedIndex if the checksum does not match."""
        file = IndexFile(path)
        _verify(file)
        prefix = len(_MAGIC) + 8
        length = int.from_bytes(file.read(prefix, 0)[len(_MAGIC) :], "little")
        header = json.loads(file.read(length, prefix))
        columns, offset = {}, prefix + length
        for name, dtype in _COLUMNS.items():
            columns[name] = FileColumn(file, np.dtype(dtype), offset, header["lengths"][name])
            offset += columns[name].length * columns[name].dtype.itemsize
        return cls(**columns, notes=header["notes"])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def visits(self, place: int) -> UserVisits:
        """Return the visits of the user at a position."""
        first, stop = (int(number) for number in self.starts[place : place + 2])
        times_s, cells = self.times_s[first:stop].astype(np.int64), self.cells[first:stop].astype(np.int64)
        return UserVisits(times_s, cells, self.carried[first:stop] if len(self.carried) else None)

    def name(self, place: int) -> str:
        """Return the name of the user at a position."""
        return self._encoded(place).decode()

    def _encoded(self, place: int) -> bytes:
        first, stop = (int(number) for number in self.name_starts[place : place + 2])
        return self.names[first:stop].tobytes()

    def place(self, user: str) -> int | None:
        """Return the position of a user, or None if the index does not contain them."""
        encoded, low, high = user.encode(), 0, len(self)
        while low < high:
            middle = (low + high) // 2
            place = int(self.by_name[middle : middle + 1][0])
            if (other := self._encoded(place)) == encoded:
                return place
            low, high = (middle + 1, high) if other < encoded else (low, middle)
        return None


class RecordedUsers(UserIds):
    """Names of the users of an index in their order, read when they are needed; recent ones are remembered."""

    def __init__(self, index: VisitIndex, places: range | None = None) -> None:
        self._index = index
        self._places = range(len(index)) if places is None else places
        self._recent: OrderedDict[str, int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._places)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> RecordedUsers: ...

    def __getitem__(self, place: int | slice) -> str | RecordedUsers:
        if isinstance(place, slice):
            users = RecordedUsers(self._index, self._places[place])
            users._recent = self._recent
            return users
        at = self._places[place]
        name = self._index.name(at)
        self._recent[name] = at
        if len(self._recent) > _REMEMBERED:
            self._recent.popitem(last=False)
        return name

    def __contains__(self, user: object) -> bool:
        return isinstance(user, str) and self.place(user) in self._places

    def index(self, user: str, start: int = 0, stop: int | None = None) -> int:
        """Return the position of a user; raise ValueError if it is not in the slice `start:stop`."""
        place = self.place(user)
        if place is None or place not in self._places[start:stop]:
            raise ValueError(f"{user!r} is not among the users")
        return self._places.index(place)

    def place(self, user: str) -> int | None:
        """Return the position of a user in the index, or None if it does not contain them."""
        return self._recent[user] if user in self._recent else self._index.place(user)


def _starts(lengths: Iterable[int]) -> IntArray:
    return np.fromiter(accumulate(lengths, initial=0), dtype=np.int64)


def _verify(file: IndexFile) -> None:
    """Raise DamagedIndex if a file is not an index or its checksum does not match."""
    end, digest = file.size - _DIGEST_BYTES, hashlib.sha256()
    if end < len(_MAGIC) + 8 or file.read(len(_MAGIC), 0) != _MAGIC:
        raise DamagedIndex("it is not an index of visits")
    for offset in range(0, end, _PIECE_BYTES):
        digest.update(file.read(min(_PIECE_BYTES, end - offset), offset))
    if file.read(_DIGEST_BYTES, end) != digest.digest():
        raise DamagedIndex("its checksum does not match")
