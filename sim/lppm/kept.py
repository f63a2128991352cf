"""Channels that took long to compute, kept: a few in memory, and on disk by a digest of all that decides them.

Where: the folder that LPPM_SIM_CACHE names, else the user's own for such things; `off` keeps nothing on disk. Files
appear at once and whole, so that many processes can share a folder. One that is torn, or somebody else's, is not
believed but made anew; a folder that cannot be written to is done without. The oldest go when there is too much.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import numpy as np

from sim.inference import read_only
from sim.interfaces import FloatArray

VARIABLE = "LPPM_SIM_CACHE"
MOST_BYTES = 2**30
"""So much stays on disk."""

_MEMORY_BYTES = 2**26
_LOOK_EVERY_BYTES = 2**26
_FORMAT = 2

_in_memory: dict[str, FloatArray] = {}
_written = {"bytes": _LOOK_EVERY_BYTES}
"""Since this process last looked how much there is."""


def digest_of(*parts: FloatArray | str | float | None) -> str:
    """Return a digest of numbers, arrays and words, and of the version of this package."""
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


def kept(digest: str, make: Callable[[], FloatArray]) -> FloatArray:
    """Return the array of this digest, read-only: from memory, from disk, or made now."""
    array = _in_memory.pop(digest, None)
    if array is None:
        folder = _folder()
        array = None if folder is None else _read(folder / f"{digest}.npy")
        if array is None:
            array = read_only(np.array(make(), dtype=np.float64))
            if folder is not None:
                _write(folder / f"{digest}.npy", array)
    _in_memory[digest] = array  # the last is the one that was asked for last
    while len(_in_memory) > 1 and sum(known.nbytes for known in _in_memory.values()) > _MEMORY_BYTES:
        del _in_memory[next(iter(_in_memory))]
    return array


def forget() -> None:
    """Forget what is in memory."""
    _in_memory.clear()


def _folder() -> Path | None:
    said = os.environ.get(VARIABLE, "")
    if said:
        return None if said == "off" else Path(said)
    if sys.platform == "win32":
        own = os.environ.get("LOCALAPPDATA")
    else:
        own = os.environ.get("XDG_CACHE_HOME") or (f"{home}/.cache" if (home := os.environ.get("HOME")) else None)
    return Path(own) / "lppm-sim" / "channels" if own else None


def _read(path: Path) -> FloatArray | None:
    """Return what a file holds, if it is whole: an array, and behind it the digest of its bytes."""
    try:
        with path.open("rb") as file:
            array = np.lib.format.read_array(file, allow_pickle=False)
            said = np.lib.format.read_array(file, allow_pickle=False)
    except (OSError, ValueError, EOFError, MemoryError):
        return None
    if array.dtype != np.float64 or said.tobytes() != _checksum(array):
        return None
    return read_only(array)


def _write(path: Path, array: FloatArray) -> None:
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:
            try:
                np.lib.format.write_array(file, array, allow_pickle=False)
                np.lib.format.write_array(file, np.frombuffer(_checksum(array), dtype=np.uint8), allow_pickle=False)
                file.close()
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
        _written["bytes"] += array.nbytes
        if _written["bytes"] >= _LOOK_EVERY_BYTES:
            _written["bytes"] = 0
            _tidy(path.parent)


def _checksum(array: FloatArray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).digest()


def _tidy(folder: Path) -> None:
    """Remove the oldest files until what is left is no more than allowed."""
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".npy", ".tmp")):
                with suppress(OSError):  # another process was quicker
                    found.append((entry.stat().st_mtime, entry.stat().st_size, entry.path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= MOST_BYTES:
            break
        Path(path).unlink(missing_ok=True)
        total -= size
