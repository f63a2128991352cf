"""Cache of channels that take long to compute: a few in memory, and on disk by a digest of all that determines them.

The folder is LPPM_SIM_CACHE, by default the user's cache folder; `off` disables the disk. Files appear whole or not at
all, so many processes can share a folder; folder and files are private to the user (0700, 0600). A file's checksum
finds damage, but anyone who can write to the folder can compute it. Therefore a file also holds a certificate, with
which the design verifies the channel against its own problem. What fails either check is computed again, with a notice.
A folder that cannot be written is not used. The oldest files are removed when the folder grows too large.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.inference.bayes import read_only
from sim.interfaces import FloatArray

VARIABLE = "LPPM_SIM_CACHE"
MOST_BYTES = 2**30
"""Largest size of the folder."""

_MEMORY_BYTES = 2**26
_TIDY_EVERY_BYTES = 2**26
_FORMAT = 3
_CHECKSUM_BYTES = 32


class Solved(NamedTuple):
    """A channel, and arrays that prove it optimal for its problem."""

    channel: FloatArray
    certificate: tuple[NDArray[Any], ...] = ()


class Unusable(Exception):
    """Reason why a cached file is not used."""


def digest_of(*parts: FloatArray | str | float | None) -> str:
    """Return a digest of numbers, arrays and texts, and of the version of this package."""
    try:
        release = version("lppm-sim")
    except PackageNotFoundError:
        release = "unknown"
    digest = hashlib.sha256(f"{_FORMAT} {release}".encode())
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"|{part.dtype.str}{part.shape}|".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            digest.update(f"|{part!r}|".encode())
    return digest.hexdigest()


class ChannelCache:
    """Channels by digest: the most recently used in memory, all verified ones on disk."""

    def __init__(self) -> None:
        self._in_memory: dict[str, FloatArray] = {}
        self._unchecked_bytes = _TIDY_EVERY_BYTES
        """Bytes written since the size of the folder was last checked."""

    def channel(self, digest: str, solve: Callable[[], Solved], fault: Callable[[Solved], str | None]) -> FloatArray:
        """Return the channel of this digest, read-only: from memory, from disk, or computed now.

        `fault` verifies a solution against its problem and returns what is wrong with it, or None. Only solutions
        without a fault are read from disk or written to it.
        """
        channel = self._in_memory.pop(digest, None)
        if channel is None:
            path = None if (folder := _folder()) is None else folder / f"{digest}.npy"
            channel = None if path is None else _verified(path, fault)
            if channel is None:
                solved = solve()
                channel = np.array(solved.channel, dtype=np.float64)
                if path is not None and fault(solved) is None:
                    self.write(path, Solved(channel, solved.certificate))
            channel = read_only(channel)
        self._in_memory[digest] = channel  # the last entry is the most recently used
        while len(self._in_memory) > 1 and sum(entry.nbytes for entry in self._in_memory.values()) > _MEMORY_BYTES:
            del self._in_memory[next(iter(self._in_memory))]
        return channel

    def write(self, path: Path, solved: Solved) -> None:
        """Write a solution to a file, if the folder can be written; remove the oldest files if it is too large."""
        with suppress(OSError):
            self._unchecked_bytes += _write(path, solved)
            if self._unchecked_bytes >= _TIDY_EVERY_BYTES:
                self._unchecked_bytes = 0
                _tidy(path.parent)

    def clear_memory(self) -> None:
        """Drop the channels in memory."""
        self._in_memory.clear()


def _folder() -> Path | None:
    """Return the folder of the cache; None if it is disabled, or the user has no home."""
    if named := os.environ.get(VARIABLE, ""):
        return None if named == "off" else Path(named)
    from platformdirs import user_cache_path

    try:
        return user_cache_path("lppm-sim", appauthor=False) / "channels"
    except RuntimeError:  # the user has no home folder
        return None


def _verified(path: Path, fault: Callable[[Solved], str | None]) -> FloatArray | None:
    """Return the cached channel if there is one that passes verification; print a notice if it does not pass."""
    try:
        solved = _read(path)
        if (reason := fault(solved)) is not None:
            raise Unusable(reason)
    except FileNotFoundError:
        return None
    except Unusable as error:
        print(f"cached channel {path} is not used but computed again: {error}", file=sys.stderr, flush=True)
        return None
    return solved.channel


def _read(path: Path) -> Solved:
    """Return the content of a cached file: arrays in NumPy's format, followed by the SHA-256 of their bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:  # a pipe would never end
            raise Unusable("it is not a file of the cache")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise Unusable(f"it cannot be read ({error.strerror})") from error
    body = content[:-_CHECKSUM_BYTES]
    if hashlib.sha256(body).digest() != content[-_CHECKSUM_BYTES:]:
        raise Unusable("its checksum does not match, it is damaged")
    arrays = []
    source = io.BytesIO(body)
    try:
        while source.tell() < len(body):
            arrays.append(np.lib.format.read_array(source, allow_pickle=False))
    except (ValueError, EOFError, MemoryError, OverflowError) as error:
        raise Unusable(f"it does not hold arrays ({error})") from error
    if not arrays or arrays[0].dtype != np.float64:
        raise Unusable("it does not hold a channel")
    return Solved(arrays[0], tuple(arrays[1:]))


def _write(path: Path, solved: Solved) -> int:
    """Write a file, whole or not at all, and return its size."""
    sink = io.BytesIO()
    for array in (solved.channel, *solved.certificate):
        np.lib.format.write_array(sink, np.ascontiguousarray(array), allow_pickle=False)
    content = sink.getvalue()
    _make_private(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:  # its mode is 0600
        try:
            file.write(content + hashlib.sha256(content).digest())
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return len(content)


def _make_private(folder: Path) -> None:
    """Create the folder for this user alone; the default folder of an earlier version becomes private too.

    A folder that LPPM_SIM_CACHE names and that exists keeps its mode: its owner may share it on purpose.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix" and not os.environ.get(VARIABLE) and stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


def _tidy(folder: Path) -> None:
    """Remove the oldest files until the folder is no larger than `MOST_BYTES`."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".npy", ".tmp")):
                with suppress(OSError):  # another process was quicker
                    files.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= MOST_BYTES:
            break
        Path(path).unlink(missing_ok=True)
        total -= size
