"""A run under a URL supported by fsspec, such as an object store."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO, cast

from sim.storage.atomic import TEMPORARY, is_stale, temporary_name, writer_is_dead
from sim.storage.backends.protocol import Kind
from sim.storage.errors import RequestError, named_errors

_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/@]*@")
# Puts into these stores are atomic. In others, an incomplete file could be visible under its name.
_ATOMIC_PUTS = frozenset({"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "oci", "oss", "obs"})
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


@dataclass(frozen=True, slots=True)
class Remote:
    """Storage under a URL, accessed with fsspec.

    Puts into object stores are atomic. In other stores, files are written under a temporary name and moved.
    """

    url: str

    @property
    def empty_folders(self) -> bool:
        """False: most object stores have folders only as prefixes of file names."""
        return False

    @property
    def shared(self) -> bool:
        """Whether other processes can access the files; False for `memory://`, which is private to a process."""
        return self._protocol() != "memory"

    def describe(self, name: str = "") -> str:
        """Return the URL, with a password replaced by asterisks."""
        url = _PASSWORD.sub(r"\1:***@", self.url)
        return f"{url.rstrip('/')}/{name}" if name and not url.endswith("://") else url + name

    def kind(self, name: str = "") -> Kind | None:
        """Return whether the name is a file or a folder; None if it does not exist."""
        with self._named("access", name) as (system, path):
            try:
                return "folder" if system.info(path)["type"] == "directory" else "file"
            except FileNotFoundError:
                return None

    def names(self, folder: str = "") -> list[str]:
        """Return the names in a folder, sorted."""
        with self._named("list", folder) as (system, path):
            try:
                entries = system.ls(path, detail=False)
            except FileNotFoundError:
                return []
        names = {entry.rstrip("/").rpartition("/")[2] for entry in entries if entry.strip("/") != path.strip("/")}
        return sorted(names - {""})

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self._named("read", name) as (system, path):
            return cast(bytes, system.cat_file(path))

    def open(self, name: str) -> AbstractContextManager[BinaryIO]:
        """Return the whole content in memory: the file could be replaced between two partial reads."""
        return io.BytesIO(self.read(name))

    def write(self, name: str, content: bytes) -> None:
        """Put the file, or write it under a temporary name and move it."""
        with self._named("write", name) as (system, path):
            if self._has_atomic_puts():
                system.pipe_file(path, content)
                return
            folder, _, last = path.rpartition("/")
            temporary = f"{folder}/{temporary_name(last)}"
            try:
                system.makedirs(folder, exist_ok=True)
                system.pipe_file(temporary, content)
                system.mv(temporary, path)
            except BaseException:
                with suppress(Exception):  # the first error is the one to report
                    system.rm_file(temporary)
                raise

    def remove(self, name: str) -> None:
        """Remove a file, if it exists."""
        with self._named("remove", name) as (system, path), suppress(FileNotFoundError):
            system.rm_file(path)

    def written_s(self, name: str) -> float | None:
        """Return the time of the last write, in seconds since 1970; None if the driver does not provide it."""
        with self._named("access", name) as (system, path):
            try:
                moment: datetime = system.modified(path)
            except (FileNotFoundError, NotImplementedError):
                return None
        return moment.timestamp()

    def prepare(self, folder: str, *others: str) -> None:
        """Remove temporary files of terminated writers; folders are created with their first file."""
        if self._has_atomic_puts():
            return
        for place in (folder, *others):
            for name in filter(TEMPORARY.fullmatch, self.names(place)):
                if writer_is_dead(name) or is_stale(self.written_s(f"{place}/{name}".strip("/"))):
                    self.remove(f"{place}/{name}".strip("/"))

    def _protocol(self) -> str:
        return self.url.partition("://")[0].rpartition("::")[2]

    def _has_atomic_puts(self) -> bool:
        return self._protocol() in _ATOMIC_PUTS

    @contextmanager
    def _named(self, verb: str, name: str) -> Iterator[tuple[Any, str]]:
        """Yield the file system and the path of a name; convert all errors, since drivers raise many types."""
        with named_errors(self.describe(name), verb, Exception):
            system, root = self._system()
            path = f"{root.rstrip('/')}/{name}".rstrip("/") or root
            # Other processes write at the same time, so cached listings are outdated.
            system.invalidate_cache(path)
            yield system, path

    def _system(self) -> tuple[Any, str]:
        """Return fsspec's file system, which fsspec caches, and the path of the run in it."""
        protocol = self._protocol()
        needed = " ".join(filter(None, ["'lppm-sim[cloud]'", _DRIVERS.get(protocol)]))
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]
            from fsspec.registry import get_filesystem_class  # type: ignore[import-untyped]
        except ImportError as error:
            message = f"{self.describe()} needs fsspec, which is not installed: pip install {needed}"
            raise RequestError(message, code="missing-extra") from error
        try:
            get_filesystem_class(protocol)
        except ImportError as error:
            message = (
                f"{self.describe()} needs a driver for {protocol}://, which is not installed ({error}): "
                f"pip install {needed}"
            )
            raise RequestError(message, code="missing-extra") from error
        except ValueError as error:
            message = (
                f"{self.describe()}: unsupported URL scheme {protocol}://. Use a folder, or a scheme that fsspec "
                "supports, such as s3://, gs://, abfs:// or sftp://."
            )
            raise RequestError(message, code="unsupported-url") from error
        system, root = url_to_fs(self.url)
        return system, str(root)
