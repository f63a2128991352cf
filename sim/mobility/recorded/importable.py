"""Logs of other formats, which `lppm-sim data import` converts to trace files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

from sim.errors import InvalidValue

_SUFFIXES = (".gpx", ".geojson", ".json", ".xml", ".rec", ".plt")


def is_importable(path: Path) -> bool:
    """Return whether a file must be converted to a trace file first, by its suffix.

    >>> is_importable(Path("ride.GPX.gz")), is_importable(Path("ride.csv"))
    (True, False)
    """
    return path.name.lower().removesuffix(".gz").endswith(_SUFFIXES)


def converted(path: Path) -> Path:
    """Return the name of the trace file that a file is converted to.

    >>> str(converted(Path("logs/ride.gpx.gz")))
    'logs/ride.parquet'
    """
    name = path.name[:-3] if path.name.lower().endswith(".gz") else path.name
    return path.with_name(name).with_suffix(".parquet")


def import_command(path: Path, columns: Mapping[str, str] | None = None) -> str:
    """Return the command that converts a file.

    >>> import_command(Path("my ride.csv"), {"user": "who"})
    "lppm-sim data import 'my ride.csv' -o 'my ride.parquet' --columns user=who"
    """
    options = column_options(columns or {})
    words = shlex.join(["lppm-sim", "data", "import", str(path), "-o", str(converted(path))])
    return f"{words} {options}" if options else words


def column_options(columns: Mapping[str, str]) -> str:
    """Return the options that name columns, for a shell."""
    return " ".join(f"--columns {shlex.quote(f'{name}={column}')}" for name, column in columns.items())


def require_trace_file(path: Path) -> None:
    """Raise `InvalidValue` with the command to use if a file must be converted first."""
    if is_importable(path):
        raise InvalidValue(
            f"{path.suffix} is not a format of trace files, which are CSV or Parquet: convert the file with "
            f"`{import_command(path)}` and use {converted(path).name}",
            code="unsupported-file-type",
        )
