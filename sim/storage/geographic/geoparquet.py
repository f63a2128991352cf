"""GeoParquet 1.1: the features as a Parquet table with a column of WKB geometries."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sim.interfaces import FloatArray
from sim.storage.geographic.features import PROPERTIES, Features

GEOMETRY = "geometry"
_POINT, _MULTI_POINT = 1, 4
_LITTLE_ENDIAN = 1
_SCHEMA: pa.Schema = pa.schema([*PROPERTIES, pa.field(GEOMETRY, pa.binary())])


def write_geoparquet(
    file: BinaryIO, batches: Iterable[Features], *, in_degrees: bool, metadata: Mapping[str, str]
) -> int:
    """Write the features with `metadata` and return their number.

    Without degrees, coordinates are km in the plane of the world and the coordinate reference system is unknown (null).
    """
    count, extent, kinds = 0, _Extent(), set[str]()
    # With a stored Arrow schema, pyarrow and GeoPandas would not see the metadata of the file.
    with pq.ParquetWriter(file, _SCHEMA, compression="zstd", store_schema=False) as writer:
        for batch in batches:
            geometry = pa.array([wkb(places) for places in batch.places], pa.binary())
            writer.write_table(batch.properties.append_column(_SCHEMA.field(GEOMETRY), geometry))
            extent.add(batch.places)
            kinds |= {"Point" if len(places) == 1 else "MultiPoint" for places in batch.places if len(places)}
            count += len(batch.places)
        geo = json.dumps(_described(sorted(kinds), extent, in_degrees=in_degrees))
        writer.add_key_value_metadata({**metadata, "geo": geo})
    return count


def wkb(places: FloatArray) -> bytes | None:
    """Return places as well-known binary (OGC 06-103r4): a point, several points, or None for no place.

    >>> wkb(np.array([[1.0, 2.0]])).hex()
    '0101000000000000000000f03f0000000000000040'
    """
    points = [struct.pack("<BIdd", _LITTLE_ENDIAN, _POINT, x, y) for x, y in places.tolist()]
    if len(points) < 2:
        return points[0] if points else None
    return struct.pack("<BII", _LITTLE_ENDIAN, _MULTI_POINT, len(points)) + b"".join(points)


class _Extent:
    """Bounding box of all places added."""

    def __init__(self) -> None:
        self.box: list[float] | None = None

    def add(self, places: Iterable[FloatArray]) -> None:
        every = np.concatenate([np.empty((0, 2)), *places])
        if not len(every):
            return
        (west, south), (east, north) = every.min(axis=0).tolist(), every.max(axis=0).tolist()
        own = self.box or [west, south, east, north]
        self.box = [min(own[0], west), min(own[1], south), max(own[2], east), max(own[3], north)]


def _described(kinds: list[str], extent: _Extent, *, in_degrees: bool) -> dict[str, Any]:
    """Return the metadata of the GeoParquet specification; without `crs` it is longitude and latitude in WGS 84."""
    column: dict[str, Any] = {"encoding": "WKB", "geometry_types": kinds}
    if extent.box is not None:
        column["bbox"] = extent.box
    if not in_degrees:
        column["crs"] = None
    return {"version": "1.1.0", "primary_column": GEOMETRY, "columns": {GEOMETRY: column}}
