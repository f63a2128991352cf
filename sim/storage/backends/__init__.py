"""Storage back ends of a run: a folder, or a URL supported by fsspec, such as an object store.

All back ends write files atomically; if two processes write the same file, one of the two complete files remains.
fsspec is imported for URLs only.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from sim.storage.backends.folder import Folder
from sim.storage.backends.protocol import Storage
from sim.storage.backends.remote import Remote
from sim.storage.errors import RequestError

_LOCAL = re.compile(r"(?:file|local)://(?P<path>.*)", re.DOTALL)
# A URL that was converted to a path lost a slash. A single letter is a drive.
_ONE_SLASH = re.compile(r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]+):/(?P<rest>.*)", re.DOTALL)


def is_url(place: str | os.PathLike[str]) -> bool:
    """Return whether a place is a URL rather than a path."""
    return isinstance(place, str) and "://" in place


def storage_at(place: str | os.PathLike[str]) -> Storage:
    """Return the storage at a path or URL, without accessing it."""
    if not is_url(place):
        if match := _ONE_SLASH.fullmatch(os.fspath(place)):
            url = f"{match['protocol']}://{match['rest']}"
            message = f"{match[0]} is an incomplete URL: write {url} as a string, or give the full path of a folder."
            raise RequestError(message, code="incomplete-url")
        return Folder(Path(place))
    url = str(place)
    # A file:// URL is handled as a folder, with its guarantees: fsspec does not sync files.
    local = _LOCAL.fullmatch(url)
    return Folder(Path(local["path"])) if local else Remote(url.rstrip("/") if not url.endswith("://") else url)
