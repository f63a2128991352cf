"""Helpers for reading road files: decompression, checked numbers, projection."""

from __future__ import annotations

import gzip
import io
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from sim.errors import InvalidValue
from sim.world.locations import Locations

KM_PER_MILE = 1.609344
DEFAULT_SPEED_MPH = 25.0
UNREADABLE = (gzip.BadGzipFile, zlib.error, EOFError)


def open_binary(path: Path) -> gzip.GzipFile | io.BufferedReader:
    """Open a file for reading, decompressed if its name ends in .gz."""
    return gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")


def number_in(row: dict[str, Any], name: str, where: str, low: float, high: float) -> float:
    """Return a field of a row as a number in [low, high]; raise `InvalidValue` with its position otherwise."""
    try:
        value = float(row.get(name, ""))
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise InvalidValue(
            f"{where}: {name} must be a number in [{low:g}, {high:g}], got {row.get(name)!r}", code="invalid-row"
        )
    return value


def project(locations: Locations, lat_lon: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """Return x_km, y_km of each node on the grid."""
    degrees = np.array(list(lat_lon.values()), dtype=np.float64).reshape(-1, 2)
    x_km, y_km = locations.to_km(degrees[:, 0], degrees[:, 1])
    return dict(zip(lat_lon, zip(x_km.tolist(), y_km.tolist(), strict=True), strict=True))
