"""Where a run is kept: a folder, or what fsspec reaches under a URL, such as an object store.

Both give the same promise: a file appears whole or not at all, and of two writers of one file either leaves a
whole one. fsspec is imported for URLs alone.
"""

from __future__ import annotations

import errno
import io
import itertools
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, cast

from sim.errors import UserError

Kind = Literal["file", "folder"]

TEMPORARY = re.compile(r"\..+\.(?P<host>[^.~]+)~(?P<pid>\d+)~\d+\.tmp")
_STALE_S = 24 * 3600
_LOCAL = re.compile(r"(?:file|local)://(?P<path>.*)", re.DOTALL)
# What is left of a URL that was made a path. A letter alone is a drive.
_ONE_SLASH = re.compile(r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]+):/(?P<rest>.*)", re.DOTALL)
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
_FULL = (errno.ENOSPC, errno.EDQUOT)
# A put into these shows the whole file or nothing. Elsewhere a half-written file could be seen under its name.
_WHOLE_PUTS = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "oss", "obs"})
_DRIVERS = {
    "s3": "s3fs",
    "s3a": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "abfs": "adlfs",
    "abfss": "adlfs",
    "az": "adlfs",
    "oci": "ocifs",
    "oss": "ossfs",
    "sftp": "paramiko",
    "ssh": "paramiko",
    "smb": "smbprotocol",
    "http": "aiohttp",
    "https": "aiohttp",
    "webdav": "webdav4",
}
_temporary_number = itertools.count()


class RunError(UserError):
    """Something about a run on disk went wrong; the message says what and what to do."""


class DamagedRun(RunError):
    """A file of a run is damaged; the message names the command that repairs it. Never to be passed over."""


class RequestError(RunError):
    """What was asked for cannot be done, and nothing was done."""

    exit_code = 2


class Storage(Protocol):
    """Where the files of a run are. Names are relative, with slashes; the empty one is the place itself.

    What goes wrong is a RunError that names the file.
    """

    @property
    def empty_folders(self) -> bool:
        """Whether a folder can be there without a file in it."""

    @property
    def shared(self) -> bool:
        """Whether other processes see the same files."""

    def describe(self, name: str = "") -> str:
        """Return what to call a file or folder in a message."""

    def kind(self, name: str = "") -> Kind | None:
        """Return what is there, if anything."""

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted; none where there is no folder."""

    def read(self, name: str) -> bytes:
        """Return the content of a file."""

    def open(self, name: str) -> AbstractContextManager[Path | BinaryIO]:
        """Give a file to a reader that wants to read here and there in it: its path, or the open file."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file, whole or not at all; an older one is replaced."""

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    def written_s(self, name: str) -> float | None:
        """Return when a file was written, in seconds since 1970; None where it is not there or nobody knows."""

    def prepare(self, folder: str, *others: str) -> None:
        """Make this folder, and remove what killed writers left in it and in others."""


def is_url(place: str | os.PathLike[str]) -> bool:
    """Tell whether a place is a URL rather than a path."""
    return isinstance(place, str) and "://" in place


def storage_at(place: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or URL, without touching it."""
    if not is_url(place):
        if half := _ONE_SLASH.fullmatch(os.fspath(place)):
            whole = f"{half['protocol']}://{half['rest']}"
            raise RequestError(f"{half[0]} is half a URL: write {whole}, as text, or name a folder with its full path.")
        return Folder(Path(place))
    url = str(place)
    # A folder written as a URL keeps the guarantees of a folder, which fsspec does not give: it syncs nothing.
    local = _LOCAL.fullmatch(url)
    return Folder(Path(local["path"])) if local else Remote(url.rstrip("/") if not url.endswith("://") else url)


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of this machine, or one that several machines share."""

    root: Path

    @property
    def empty_folders(self) -> bool:
        """A folder may be empty."""
        return True

    @property
    def shared(self) -> bool:
        """All processes of a machine see its folders."""
        return True

    def describe(self, name: str = "") -> str:
        """Return the path."""
        return str(self.root / name)

    def kind(self, name: str = "") -> Kind | None:
        """Return what is there, if anything."""
        with named_errors(self.describe(name), "look at"):
            path = self.root / name
            return "folder" if path.is_dir() else "file" if path.exists() else None

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted."""
        path = self.root / folder
        with named_errors(str(path), "list"):
            return sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with named_errors(self.describe(name), "read"):
            return (self.root / name).read_bytes()

    def open(self, name: str) -> AbstractContextManager[Path]:
        """Give the path: readers of paths are faster than those of open files."""
        return nullcontext(self.root / name)

    def write(self, name: str, content: bytes) -> None:
        """Write under a temporary name, sync and rename."""
        with atomic_file(self.root / name) as file:
            file.write(content)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with named_errors(self.describe(name), "remove"):
            (self.root / name).unlink(missing_ok=True)

    def written_s(self, name: str) -> float | None:
        """Return when a file was written."""
        with named_errors(self.describe(name), "look at"):
            try:
                return (self.root / name).stat().st_mtime
            except FileNotFoundError:
                return None

    def prepare(self, folder: str, *others: str) -> None:
        """Make the folder and remove what killed writers left."""
        with named_errors(str(self.root), "use"):
            (self.root / folder).mkdir(parents=True, exist_ok=True)
            for path in itertools.chain(*((self.root / name).glob(".*.tmp") for name in (folder, *others))):
                if TEMPORARY.fullmatch(path.name):
                    with suppress(FileNotFoundError):  # somebody else cleans as well
                        if _is_dead_writers(path.name) or _is_old(path.stat().st_mtime):
                            path.unlink()


@dataclass(frozen=True, slots=True)
class Remote:
    """What fsspec reaches under a URL.

    A put into an object store is all or nothing. Where files can be seen half-written, they are written under a
    temporary name and moved.
    """

    url: str

    @property
    def empty_folders(self) -> bool:
        """Most object stores have no folders but those of their files."""
        return False

    @property
    def shared(self) -> bool:
        """Every process has a memory of its own."""
        return self._protocol() != "memory"

    def describe(self, name: str = "") -> str:
        """Return the URL without a password that it may hold."""
        url = _PASSWORD.sub(r"\1:***@", self.url)
        return f"{url.rstrip('/')}/{name}" if name and not url.endswith("://") else url + name

    def kind(self, name: str = "") -> Kind | None:
        """Return what is there, if anything."""
        with self._named("look at", name) as (system, path):
            try:
                return "folder" if system.info(path)["type"] == "directory" else "file"
            except FileNotFoundError:
                return None

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted."""
        with self._named("list", folder) as (system, path):
            try:
                found = system.ls(path, detail=False)
            except FileNotFoundError:
                return []
        names = {entry.rstrip("/").rpartition("/")[2] for entry in found if entry.strip("/") != path.strip("/")}
        return sorted(names - {""})

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._named("read", name) as (system, path):
            return cast(bytes, system.cat_file(path))

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Give the whole content: bit by bit, one file could turn into the next while it is read."""
        return io.BytesIO(self.read(name))

    def write(self, name: str, content: bytes) -> None:
        """Put the file, or write it under a temporary name and move it."""
        with self._named("write", name) as (system, path):
            if self._puts_whole():
                system.pipe_file(path, content)
                return
            folder, _, last = path.rpartition("/")
            temporary = f"{folder}/{_temporary_name(last)}"
            try:
                system.makedirs(folder, exist_ok=True)
                system.pipe_file(temporary, content)
                system.mv(temporary, path)
            except BaseException:
                with suppress(Exception):  # the first error is the one to tell
                    system.rm_file(temporary)
                raise

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        with self._named("remove", name) as (system, path), suppress(FileNotFoundError):
            system.rm_file(path)

    def written_s(self, name: str) -> float | None:
        """Return when a file was written, if its driver can tell."""
        with self._named("look at", name) as (system, path):
            try:
                moment: datetime = system.modified(path)
            except (FileNotFoundError, NotImplementedError):
                return None
        return moment.timestamp()

    def prepare(self, folder: str, *others: str) -> None:
        """Remove what killed writers left; folders come with their first file."""
        if self._puts_whole():
            return
        for place in (folder, *others):
            for name in filter(TEMPORARY.fullmatch, self.names(place)):
                if _is_dead_writers(name) or _is_old(self.written_s(f"{place}/{name}".strip("/"))):
                    self.remove(f"{place}/{name}".strip("/"))

    def _protocol(self) -> str:
        return self.url.partition("://")[0].rpartition("::")[2]

    def _puts_whole(self) -> bool:
        return self._protocol() in _WHOLE_PUTS

    @contextmanager
    def _named(self, verb: str, name: str) -> Iterator[tuple[Any, str]]:
        """Give the file system and the path of a name in it; drivers raise all sorts of errors, so take all."""
        with named_errors(self.describe(name), verb, Exception):
            system, root = self._system()
            path = f"{root.rstrip('/')}/{name}".rstrip("/") or root
            # Others write at the same time, so what was listed before says nothing.
            system.invalidate_cache(path)
            yield system, path

    def _system(self) -> tuple[Any, str]:
        """Return fsspec's file system, which it keeps, and the path of the run in it."""
        protocol = self._protocol()
        needed = " ".join(filter(None, ["'lppm-sim[cloud]'", _DRIVERS.get(protocol)]))
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]
            from fsspec.registry import get_filesystem_class  # type: ignore[import-untyped]
        except ImportError as error:
            raise RequestError(f"{self.describe()} needs fsspec, which is not there: pip install {needed}") from error
        try:
            get_filesystem_class(protocol)
        except ImportError as error:
            raise RequestError(
                f"{self.describe()} needs a driver for {protocol}:// that is not there ({error}): pip install {needed}"
            ) from error
        except ValueError as error:
            raise RequestError(
                f"{self.describe()}: nothing is known that reaches {protocol}://. Use a folder, s3://, gs://, abfs://, "
                "sftp:// or what else fsspec has a driver for."
            ) from error
        system, root = url_to_fs(self.url)
        return system, str(root)


@contextmanager
def atomic_file(path: Path) -> Iterator[BinaryIO]:
    """Give a file to write that takes its name only when it is whole and on the disk.

    The temporary name tells host and process, so that `prepare` knows whose writer is dead.
    """
    temporary = path.with_name(_temporary_name(path.name))
    try:
        with named_errors(str(path), "write"):
            path.parent.mkdir(parents=True, exist_ok=True)
            with temporary.open("xb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(path)
            _sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


@contextmanager
def unless_untold() -> Iterator[None]:
    """Pass over a RunError that something cannot be told from a run, but never over damage to it."""
    try:
        yield
    except DamagedRun:
        raise
    except RunError:
        return


@contextmanager
def named_errors(place: str, verb: str, kind: type[Exception] = OSError) -> Iterator[None]:
    """Turn errors of this kind into a RunError that says what could not be done to which file."""
    try:
        yield
    except UserError:
        raise
    except kind as error:
        number = error.errno if isinstance(error, OSError) else None
        cause = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
        hint = " Free some space and run again: finished parts are kept." if number in _FULL else ""
        raise RunError(f"cannot {verb} {place}: {cause.rstrip('.')}.{hint}") from error


def _sync_folder(folder: Path) -> None:
    """Make a rename durable, where the system lets a folder be synced."""
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


def _temporary_name(name: str) -> str:
    return f".{name}.{_host()}~{os.getpid()}~{next(_temporary_number)}.tmp"


def _is_dead_writers(name: str) -> bool:
    """Tell whether a name is that of a temporary file whose writer is surely dead."""
    match = TEMPORARY.fullmatch(name)
    return match is not None and _is_dead(match["host"], int(match["pid"]))


def _is_old(modified_s: float | None) -> bool:
    return modified_s is not None and time.time() - modified_s > _STALE_S


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname()) or "host"


def _is_dead(host: str, pid: int) -> bool:
    """Tell whether a process is surely gone: only a process of this machine can be."""
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
    """Tell whether a process has ended and only waits for its parent to notice; where the system says so."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in ("Z", "X")
