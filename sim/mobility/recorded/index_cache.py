"""Cache of the indexes of large trace files, in the user's cache folder.

A large file is read once, in a child process if the platform allows it, so that reading it does not enlarge the memory
of the run. All processes of a run then read the visits of single users from the index. The environment variable
LPPM_SIM_CACHE names the folder (default: the user's cache folder); `off` disables the cache. Folder and files are
private to the user. Corrupt entries are computed again with a notice, and a folder that cannot be written is ignored.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from sim.components.user_cache import cache_folder
from sim.mobility.recorded.visit_index import DamagedIndex, VisitIndex

LARGE_BYTES = 1_000_000
"""Size of a trace file from which its index is cached; smaller files are read into memory."""
MOST_BYTES = 2**33
"""Maximum size of all cached indexes; the oldest ones are removed."""

Build = Callable[[], VisitIndex]


def index_of(file: Path, options: str, build: Build) -> VisitIndex:
    """Return the index of a trace file for reading options: from the cache if the file is large, else by `build`."""
    folder = cache_folder("traces")
    if folder is None or file.stat().st_size < LARGE_BYTES:
        return build()
    path = folder / f"{_digest(file, options)}.visits"
    index = _opened(path)
    if index is None:
        with suppress(OSError):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _build_apart(build, path)
            _tidy(folder, path)
            index = _opened(path)
    return build() if index is None else index


def _digest(file: Path, options: str) -> str:
    """Return a digest of the content of a file, the reading options and the version of this package."""
    digest = hashlib.sha256(f"{version('lppm-sim')}|{options}|".encode())
    with file.open("rb") as source:
        while piece := source.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def _opened(path: Path) -> VisitIndex | None:
    """Return the index in a file; None if it is missing or damaged."""
    try:
        return VisitIndex.open(path)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (DamagedIndex, OSError) as error:
        print(f"reading the trace file again, its index {path} is unusable: {error}", file=sys.stderr, flush=True)
        return None


def _build_apart(build: Build, path: Path) -> None:
    """Build an index and write it, in a child process if this one can fork safely.

    If the child fails, the index is built here, which raises the error that explains why.
    """
    daemon = multiprocessing.current_process().daemon
    if not hasattr(os, "fork") or sys.platform == "darwin" or threading.active_count() > 1 or daemon:
        _write(build(), path)
        return
    process = multiprocessing.get_context("fork").Process(target=_write_built, args=(build, path), daemon=True)
    process.start()
    process.join()
    if process.exitcode:
        _write(build(), path)


def _write_built(build: Build, path: Path) -> None:
    with Path(os.devnull).open("w") as nowhere:
        sys.stderr = nowhere  # an error is raised again by the parent process
        _write(build(), path)


def _write(index: VisitIndex, path: Path) -> None:
    """Write an index atomically."""
    with tempfile.NamedTemporaryFile(dir=path.parent, suffix=".tmp", delete=False) as file:  # mode 0600
        try:
            index.write(file.file)
            file.close()
            Path(file.name).replace(path)
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise


def _tidy(folder: Path, newest: Path) -> None:
    """Remove the oldest indexes until the folder holds at most `MOST_BYTES`, but never the newest."""
    others = [path for path in folder.glob("*.visits") if path != newest]
    total = newest.stat().st_size
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True):
        total += path.stat().st_size
        if total > MOST_BYTES:
            path.unlink(missing_ok=True)
