"""Storage back ends of a run: a folder, or a URL that fsspec reaches, such as an object store.

All give the same guarantee: a file appears complete or not at all, and of two writers of one file either leaves a
complete one. fsspec is imported for URLs alone.
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
# What remains of a URL that was converted to a path. A single letter is a drive.
_ONE_SLASH = re.compile(r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]+):/(?P<rest>.*)", re.DOTALL)


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
