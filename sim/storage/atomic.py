"""Atomic writes: a file takes its name when it is complete and on the disk."""

from __future__ import annotations

import errno
import itertools
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from sim.storage.errors import named_errors

TEMPORARY = re.compile(r"\..+\.(?P<host>[^.~]+)~(?P<pid>\d+)~\d+\.tmp")
_STALE_S = 24 * 3600
_temporary_number = itertools.count()


@contextmanager
def atomic_file(path: Path, *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a file for writing that takes its name only when it is complete and on the disk.

    The temporary name contains host and process, so that `prepare` can remove files of terminated writers. `mode` holds
    the permissions of the file from its creation on, before the umask.
    """
    temporary = path.with_name(temporary_name(path.name))
    try:
        with named_errors(str(path), "write"):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
            with os.fdopen(handle, "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, if the system can sync folders."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(handle)


def temporary_name(name: str) -> str:
    """Return a temporary name for a file, with the host and process of its writer."""
    return f".{name}.{_host()}~{os.getpid()}~{next(_temporary_number)}.tmp"


def writer_is_dead(name: str) -> bool:
    """Return whether a name is that of a temporary file whose writer has certainly terminated."""
    match = TEMPORARY.fullmatch(name)
    return match is not None and _is_dead(match["host"], int(match["pid"]))


def is_stale(modified_s: float | None) -> bool:
    """Return whether a temporary file is too old to belong to an active writer."""
    return modified_s is not None and time.time() - modified_s > _STALE_S


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "host"


def _is_dead(host: str, pid: int) -> bool:
    """Return whether a process has certainly terminated; always False for processes of other machines."""
    if os.name != "posix" or host != _host():
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:
        return False
    return _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Return whether a process has terminated but is not yet reaped, if the system provides its state."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in ("Z", "X")
