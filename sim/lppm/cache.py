"""Cache of channels that take long to compute, in memory and on disk, keyed by a digest of their inputs.

The environment variable LPPM_SIM_CACHE names the folder (default: the user's cache folder); `off` disables the disk
cache. Files are written atomically, so several processes can share a folder. Folder and files are private to the user
(modes 0700 and 0600). A checksum detects damage, but anyone who can write to the folder can compute it. Therefore each
file also holds a certificate, which the design uses to verify the channel against its own problem. Entries that fail
either check are recomputed with a notice. A folder that cannot be written is ignored. The oldest files are removed
when the folder exceeds `MOST_BYTES`.
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

from sim.components.user_cache import VARIABLE, cache_folder
from sim.inference.bayes import read_only
from sim.interfaces import FloatArray

MOST_BYTES = 2**30
"""Maximum size of the folder in bytes."""

_MEMORY_BYTES = 2**26
_TIDY_EVERY_BYTES = 2**26
_FORMAT = 3
_CHECKSUM_BYTES = 32


class Solved(NamedTuple):
    """A channel and the arrays that prove it optimal for its problem."""

    channel: FloatArray
    certificate: tuple[NDArray[Any], ...] = ()


class Unusable(Exception):
    """Reason why a cached file is not used."""


def digest_of(*parts: FloatArray | str | float | None) -> str:
    """Return a digest of arrays, numbers and strings, and of the version of this package."""
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
    """Cache of channels by digest: recently used ones in memory, all verified ones on disk."""

    def __init__(self) -> None:
        self._in_memory: dict[str, FloatArray] = {}
        self._unchecked_bytes = _TIDY_EVERY_BYTES
        """Bytes written since the size of the folder was last checked."""

    def channel(self, digest: str, solve: Callable[[], Solved], fault: Callable[[Solved], str | None]) -> FloatArray:
        """Return the read-only channel of this digest from memory, from disk, or by calling `solve`.

        `fault` verifies a solution against its problem and returns a description of the first fault, or None. Only
        solutions without a fault are read from disk or written to it.
        """
        channel = self._in_memory.pop(digest, None)
        if channel is None:
            path = None if (folder := cache_folder("channels")) is None else folder / f"{digest}.npy"
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
        """Write a solution if the folder is writable, and remove the oldest files if the folder is too large."""
        with suppress(OSError):
            self._unchecked_bytes += _write(path, solved)
            if self._unchecked_bytes >= _TIDY_EVERY_BYTES:
                self._unchecked_bytes = 0
                _tidy(path.parent)

    def clear_memory(self) -> None:
        """Drop the channels in memory."""
        self._in_memory.clear()


def _verified(path: Path, fault: Callable[[Solved], str | None]) -> FloatArray | None:
    """Return the cached channel if it exists and passes verification; print a notice if it fails."""
    try:
        solved = _read(path)
        if (reason := fault(solved)) is not None:
            raise Unusable(reason)
    except FileNotFoundError:
        return None
    except Unusable as error:
        print(f"recomputing the cached channel {path}: {error}", file=sys.stderr, flush=True)
        return None
    return solved.channel


def _read(path: Path) -> Solved:
    """Read a cached file: arrays in NumPy's format, followed by the SHA-256 of their bytes."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:  # a pipe would never end
            raise Unusable("not a file of the cache")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(path) from None
    except OSError as error:
        raise Unusable(f"cannot read the file ({error.strerror})") from error
    body = content[:-_CHECKSUM_BYTES]
    if hashlib.sha256(body).digest() != content[-_CHECKSUM_BYTES:]:
        raise Unusable("damaged file: checksum does not match")
    arrays = []
    source = io.BytesIO(body)
    try:
        while source.tell() < len(body):
            arrays.append(np.lib.format.read_array(source, allow_pickle=False))
    except (ValueError, EOFError, MemoryError, OverflowError) as error:
        raise Unusable(f"no arrays in the file ({error})") from error
    if not arrays or arrays[0].dtype != np.float64:
        raise Unusable("no channel in the file")
    return Solved(arrays[0], tuple(arrays[1:]))


def _write(path: Path, solved: Solved) -> int:
    """Write a file atomically and return its size in bytes."""
    sink = io.BytesIO()
    for array in (solved.channel, *solved.certificate):
        np.lib.format.write_array(sink, np.ascontiguousarray(array), allow_pickle=False)
    content = sink.getvalue()
    _make_private(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:  # mode 0600
        try:
            file.write(content + hashlib.sha256(content).digest())
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return len(content)


def _make_private(folder: Path) -> None:
    """Create the folder with mode 0700, and restrict a default folder that an earlier version created.

    An existing folder named by LPPM_SIM_CACHE keeps its mode: its owner may share it on purpose.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.name == "posix" and not os.environ.get(VARIABLE) and stat.S_IMODE(folder.stat().st_mode) != 0o700:
        folder.chmod(0o700)


def _tidy(folder: Path) -> None:
    """Remove the oldest files until the folder holds at most `MOST_BYTES`."""
    files = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".npy", ".tmp")):
                with suppress(OSError):  # another process removed it
                    files.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= MOST_BYTES:
            break
        Path(path).unlink(missing_ok=True)
        total -= size
