"""Journal of a live stream: a header and one record per answer, durable before the answer is given.

Each line is JSON followed by a checksum that also covers all lines before it. A record is appended and synchronised to
the disk; opening a journal writes it again atomically, without an incomplete last line. See docs/design.md for the
states that a crash can leave.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any, NoReturn

from sim.errors import InputError
from sim.storage.atomic import atomic_file, writer_is_dead
from sim.storage.errors import RunError, named_errors

FORMAT = "lppm-sim protection state"
VERSION = 1
_DIGITS = 32
_MODE = 0o600

Record = dict[str, Any]


class Journal:
    """An open journal, which no other process can open."""

    def __init__(self, path: Path, header: Record, records: list[Record], last: str, handle: int, lock: int) -> None:
        self.path = path
        self.header = header
        """First line: the configuration."""
        self.records = records
        """Records read when the journal was opened, in order."""
        self._last = last
        self._handle = handle
        self._lock = lock
        self._process = os.getpid()
        self._closed = False

    @contextmanager
    def appended(self, record: Mapping[str, Any]) -> Iterator[None]:
        """Append a record; in the block, it is on the disk.

        After an error in writing or in the block, or an interrupt, the journal accepts no further record: the state of
        the file, or that of the caller, is unknown.
        """
        if self._closed or os.getpid() != self._process:
            raise RunError(f"the state {self.path} is closed: open it again", code="state-closed")
        self._closed = True
        line, digest = _line(record, self._last)
        with named_errors(str(self.path), "write"):
            _write_all(self._handle, line)
            os.fsync(self._handle)
        self._last = digest
        yield
        self._closed = self._handle < 0

    def close(self) -> None:
        """Close the file and release its lock."""
        if self._handle >= 0:
            os.close(self._handle)
            os.close(self._lock)
            self._handle, self._closed = -1, True


def exists(path: Path) -> bool:
    """Return whether there is a journal; an empty file is none."""
    return path.is_file() and path.stat().st_size > 0


def create(path: Path, header: Mapping[str, Any]) -> Journal:
    """Create a journal with this header; raise an error if there is a file of this name."""
    path = Path(os.path.realpath(path))
    with _locked(path) as lock:
        if exists(path):
            raise InputError(f"{path} exists: choose another name", code="file-exists")
        line, digest = _line({"format": FORMAT, "version": VERSION, **header}, "")
        handle = _rewritten(path, line)
        return Journal(path, dict(header), [], digest, handle, lock)


def open_journal(path: Path) -> Journal:
    """Open a journal and discard an incomplete last line, whose answer was never given."""
    path = Path(os.path.realpath(path))
    with _locked(path) as lock:
        with named_errors(str(path), "read"):
            content = path.read_bytes()
        (header, *records), last, length = _parsed(content, path)
        # Written again, since a page that the system failed to write may be in memory only.
        handle = _rewritten(path, content[:length])
        return Journal(path, header, records, last, handle, lock)


def _parsed(content: bytes, path: Path) -> tuple[list[Record], str, int]:
    """Return all lines, the checksum of the last one, and the length of the complete lines."""
    lines: list[Record] = []
    last, start = "", 0
    while (end := content.find(b"\n", start)) >= 0:
        body, _, digest = content[start:end].rpartition(b" ")
        if _digest(body, last) != digest.decode("ascii", "replace"):
            if end + 1 == len(content) and b"\0" in content[start:end]:
                break  # blocks of the last line that never reached the disk
            _damaged(path, f"the checksum of line {len(lines) + 1} does not match")
        lines.append(json.loads(body))
        _check_format(lines[0], path)
        last, start = digest.decode("ascii"), end + 1
    if not lines:
        _damaged(path, "it has no complete line")
    return lines, last, start


def _check_format(header: Record, path: Path) -> None:
    if header.get("format") != FORMAT:
        _damaged(path, f"its first line does not say {FORMAT!r}")
    if header.get("version") != VERSION:
        raise RunError(
            f"{path} has format version {header.get('version')}, this lppm-sim reads version {VERSION}: "
            "use the lppm-sim that wrote it",
            code="state-version",
        )


def _damaged(path: Path, fault: str) -> NoReturn:
    raise RunError(
        f"{path} is not the state of a protected stream, or damaged: {fault}. Restore it from a copy that holds every "
        "answer given, or begin a new state under another name: repeated inputs then get new answers",
        code="damaged-state",
    )


def _line(record: Mapping[str, Any], last: str) -> tuple[bytes, str]:
    body = json.dumps(record, separators=(",", ":"), allow_nan=False).encode()
    digest = _digest(body, last)
    return body + b" " + digest.encode() + b"\n", digest


def _digest(body: bytes, last: str) -> str:
    """Return the checksum of a line after a line with the checksum `last`."""
    return hashlib.sha256(last.encode() + body).hexdigest()[:_DIGITS]


def _rewritten(path: Path, content: bytes) -> int:
    """Write a journal atomically, readable by its owner only, and return a handle that appends to it."""
    for temporary in path.parent.glob(f".{escape(path.name)}.*.tmp"):
        if writer_is_dead(temporary.name):
            with suppress(OSError):
                temporary.unlink()
    with atomic_file(path, mode=_MODE) as file:
        file.write(content)
    with named_errors(str(path), "open"):
        return os.open(path, os.O_WRONLY | os.O_APPEND)


def _write_all(handle: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Lock a journal against other processes until the handle is closed; close it if the block fails.

    The lock is on a file beside the journal, which takes another inode each time it is opened.
    """
    try:
        import fcntl
    except ImportError:
        message = "protecting a stream needs file locks of POSIX systems, which this system does not have"
        raise RunError(message, code="no-file-locks") from None
    with named_errors(str(path), "open"):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path.with_name(f"{path.name}.lock"), os.O_RDWR | os.O_CREAT, _MODE)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            message = f"{path} is in use by another process: end it first; two processes would answer a query twice"
            raise RunError(message, code="state-in-use") from None
        yield lock
    except BaseException:
        with suppress(OSError):
            os.close(lock)
        raise
