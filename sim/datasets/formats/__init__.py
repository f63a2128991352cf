"""Formats of raw data, one module each, and the recognition of a file's format by its content."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sim.datasets.files import RawFile
from sim.datasets.formats.base import Format, Head
from sim.datasets.formats.cabspotting import CABSPOTTING
from sim.datasets.formats.checkins import BRIGHTKITE, GOWALLA
from sim.datasets.formats.columns import COLUMNS
from sim.datasets.formats.foursquare import FOURSQUARE
from sim.datasets.formats.geolife import GEOLIFE
from sim.datasets.formats.google import GOOGLE
from sim.datasets.formats.matsim import MATSIM
from sim.datasets.formats.owntracks import OWNTRACKS
from sim.datasets.formats.porto import PORTO
from sim.datasets.formats.sumo import SUMO
from sim.datasets.formats.tdrive import TDRIVE
from sim.datasets.formats.tracks import GEOJSON, GPX
from sim.datasets.formats.yjmob import YJMOB
from sim.errors import InputError

FORMATS: dict[str, Format] = {
    one.name: one
    for one in (
        *(BRIGHTKITE, GOWALLA, CABSPOTTING, GEOLIFE, TDRIVE, PORTO, FOURSQUARE, YJMOB, GPX, GEOJSON, GOOGLE),
        *(OWNTRACKS, SUMO, MATSIM, COLUMNS),
    )
}
"""All formats by name."""

_HEAD = 1 << 16


def head_of(path: Path) -> Head:
    """Return the beginning of a file."""
    content = next(RawFile(path).chunks(), b"")[:_HEAD]
    return Head(path, content.decode("utf-8", "replace").removeprefix("\ufeff"))


def candidates(path: Path) -> list[str]:
    """Return the names of the formats that a file may have."""
    head = head_of(path)
    return [name for name, one in FORMATS.items() if one.recognises(head)]


def detect(paths: Sequence[Path]) -> str:
    """Return the format of files and folders; raise InputError if none, or more than one, fits the content."""
    if not paths:
        raise InputError("no file to import: name files or a folder", code="file-not-found")
    first = paths[0]
    names = _of_folder(first) if first.is_dir() else candidates(_existing(first))
    if len(names) == 1:
        return names[0]
    known = ", ".join(FORMATS)
    if not names:
        raise InputError(
            f"{first}: the format is not recognised. Name it as the first argument, one of {known}; for a CSV or "
            "Parquet file with other names of columns use `columns` with --columns user=NAME and so on.",
            code="unknown-format",
        )
    raise InputError(
        f"{first} may be {' or '.join(names)}: name the format as the first argument", code="ambiguous-format"
    )


def _of_folder(folder: Path) -> list[str]:
    """Return the formats whose files are in a folder and fit their content."""
    fitting = []
    for name, one in FORMATS.items():
        path = next(iter(sorted(folder.glob(one.pattern))), None) if one.pattern else None
        if path is not None and path.is_file() and one.recognises(head_of(path)):
            fitting.append(name)
    return fitting


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path} does not exist", code="file-not-found")
    return path


def files_of(one: Format, given: Sequence[Path]) -> list[Path]:
    """Return the raw files in the order given, with folders expanded in the order of the file names."""
    files: list[Path] = []
    for path in given:
        if path.is_dir():
            if not one.pattern:
                raise InputError(f"{path} is a folder: {one.folder_hint}", code="is-a-folder")
            inside = {file for suffix in ("", ".gz") for file in path.glob(one.pattern + suffix) if file.is_file()}
            if not inside:
                raise InputError(f"{path} has no file {one.pattern}: {one.folder_hint}", code="file-not-found")
            files += sorted(inside, key=lambda file: (file.relative_to(path).parent.parts, file.name))
        else:
            files.append(_existing(path))
    seen = set()
    for path in files:
        if path.resolve() in seen:
            raise InputError(f"{path} is given twice: its rows would count twice", code="duplicate-file")
        seen.add(path.resolve())
    return files
