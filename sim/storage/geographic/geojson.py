"""GeoJSON (RFC 7946): longitude before latitude, WGS 84."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any, BinaryIO

from sim.interfaces import FloatArray
from sim.storage.geographic.features import Features

DIGITS = 7
"""Decimals of a degree, about 1 cm; RFC 7946 recommends 6 or slightly more."""


def write_geojson(file: BinaryIO, batches: Iterable[Features], *, name: str) -> int:
    """Write a feature collection, one feature per line, and return the number of features."""
    file.write(b'{"type": "FeatureCollection", "name": ' + json.dumps(name).encode() + b', "features": [')
    count = 0
    for batch in batches:
        for properties, places in zip(batch.properties.to_pylist(), batch.places, strict=True):
            file.write(b",\n" if count else b"\n")
            file.write(json.dumps(_feature(properties, places), ensure_ascii=False, allow_nan=False).encode())
            count += 1
    file.write(b"\n]}\n")
    return count


def _feature(properties: dict[str, Any], places: FloatArray) -> dict[str, Any]:
    known = {key: value for key, value in properties.items() if value is not None and not _is_infinite(value)}
    return {"type": "Feature", "geometry": _geometry(places), "properties": known}


def _is_infinite(value: Any) -> bool:
    return isinstance(value, float) and not math.isfinite(value)


def _geometry(places: FloatArray) -> dict[str, Any] | None:
    """Return a point, several points, or null for an unlocated feature.

    >>> import numpy as np
    >>> _geometry(np.array([[11.5, 48.0]]))
    {'type': 'Point', 'coordinates': [11.5, 48.0]}
    """
    coordinates = [[round(x, DIGITS), round(y, DIGITS)] for x, y in places.tolist()]
    if len(coordinates) == 1:
        return {"type": "Point", "coordinates": coordinates[0]}
    return {"type": "MultiPoint", "coordinates": coordinates} if coordinates else None
