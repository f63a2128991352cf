"""Checkpoints inside long simulations, from which an interrupted chunk continues.

A checkpoint is the pickled state of a chunk between two instants. Reading a pickle can run code, and a run directory
may come from another person. A checkpoint therefore carries a keyed hash (HMAC, RFC 2104) whose key only the user can
read; without a valid one it is ignored, and the chunk starts from the beginning. Objects that each process builds from
the scenario, the world and its distances, are stored as references.
"""

from __future__ import annotations

import hmac
import io
import os
import pickle
import secrets
import stat
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from sim.components.user_cache import cache_folder
from sim.inference import kernels
from sim.storage.run_directory import RunDirectory

SAVE_EVERY_S = 30.0
"""Minimum time between two checkpoints in s. Work of less than this time is never saved."""
_MOST_SHARE = 0.05  # of the time is spent on checkpoints
_HASH = "sha256"
_HASH_BYTES = _KEY_BYTES = 32


class Checkpoint:
    """The checkpoint of one chunk. Without a folder for the key, none is saved.

    `built` are the objects, by name, that a process builds itself: they and their attributes are stored as references.
    """

    def __init__(self, directory: RunDirectory, chunk: str) -> None:
        self._file = directory.file(f"checkpoints/{chunk}.checkpoint")
        folder = cache_folder("checkpoints")
        self._key = None if folder is None else _key_in(folder)
        self._purpose = f"{directory.digest}|{chunk}|{version('lppm-sim')}|{kernels.describe()}|".encode()
        self._exists = False
        self._saved_s = time.monotonic()
        self._every_s = SAVE_EVERY_S

    def is_due(self) -> bool:
        """Return whether the last checkpoint is old enough for another one."""
        return self._key is not None and time.monotonic() - self._saved_s >= self._every_s

    def save(self, state: object, built: Mapping[str, object]) -> None:
        """Replace the checkpoint; a state that cannot be saved is reported once."""
        began_s = time.monotonic()
        sink = io.BytesIO()
        try:
            _Pickler(sink, built).dump(state)
        except Exception as error:  # a custom component may raise anything
            self._key = None
            print(f"no checkpoints, an interrupt loses this simulation: {error!r}", file=sys.stderr, flush=True)
            return
        self._exists = True
        sink.write(self._signature(sink.getbuffer()))
        self._file.write_bytes(sink.getvalue())
        self._saved_s = time.monotonic()
        self._every_s = max(SAVE_EVERY_S, (self._saved_s - began_s) / _MOST_SHARE)

    def load(self, built: Mapping[str, object]) -> Any:
        """Return the saved state; None without a checkpoint that this user has saved."""
        if self._key is None or not self._file.exists():
            return None
        self._exists = True
        saved = memoryview(self._file.read_bytes())
        content, signature = saved[:-_HASH_BYTES], saved[-_HASH_BYTES:]
        if not hmac.compare_digest(signature, self._signature(content)):
            print(f"{self._file} is not a checkpoint of this user and run: ignored", file=sys.stderr, flush=True)
            return None
        try:
            return _Unpickler(io.BytesIO(content), built).load()
        except Exception as error:  # a custom component may raise anything
            print(f"{self._file} cannot be read and is ignored: {error!r}", file=sys.stderr, flush=True)
            return None

    def _signature(self, content: memoryview) -> bytes:
        """Return the keyed hash of a checkpoint of this chunk, which has no copy of the content in memory."""
        assert self._key is not None
        signer = hmac.new(self._key, self._purpose, _HASH)
        signer.update(content)
        return signer.digest()

    def remove(self) -> None:
        """Remove the checkpoint, if there is one."""
        if self._exists:
            self._file.unlink()


class _Pickler(pickle.Pickler):
    """Stores objects that every process builds as references."""

    def __init__(self, sink: io.BytesIO, built: Mapping[str, object]) -> None:
        super().__init__(sink, protocol=5)
        self._names = _names(built)

    def persistent_id(self, item: object) -> str | None:
        """Return the name of an object to store as a reference."""
        return self._names.get(id(item))


class _Unpickler(pickle.Unpickler):
    """Replaces references by the objects that this process has built."""

    def __init__(self, source: io.BytesIO, built: Mapping[str, object]) -> None:
        super().__init__(source)
        self._built = SimpleNamespace(**built)

    def persistent_load(self, name: str) -> object:
        """Return the object with a name."""
        return attrgetter(name)(self._built)


def _names(built: Mapping[str, object]) -> dict[int, str]:
    """Return the names of objects, and of those among their attributes that are arrays or objects of this package."""
    names: dict[int, str] = {}
    queue = [(name, item) for name, item in built.items() if item is not None]
    while queue:
        name, item = queue.pop()
        if id(item) in names:
            continue
        names[id(item)] = name
        for attribute, value in getattr(item, "__dict__", {}).items():
            if isinstance(value, np.ndarray) or type(value).__module__.startswith("sim."):
                queue.append((f"{name}.{attribute}", value))
    return names


@cache
def _key_in(folder: Path) -> bytes | None:
    """Return the key in a folder, made if it is missing; None if the folder cannot hold a file for this user alone."""
    path = folder / "checkpoint.key"
    with suppress(OSError):
        if not path.exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder) as file:  # mode 0600
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                with suppress(FileExistsError):  # another process was faster
                    os.link(file.name, path)
        if _is_private(path):
            return path.read_bytes()
    return None


def _is_private(path: Path) -> bool:
    """Return whether only the user can read and write a file."""
    status = path.stat(follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode) or status.st_size != _KEY_BYTES:
        return False
    return os.name != "posix" or (status.st_uid == os.geteuid() and not status.st_mode & 0o077)
