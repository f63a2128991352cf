"""Squares that are small where people are: the leaves of a quadtree (Finkel and Bentley 1974)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.components.spec import Count, Positive
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Bounds, Locations, LocationSet
from sim.world.parameters import LocationParameters, OptionalRegion
from sim.world.sets.points import positions_in_degrees

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_DEEPEST = 24
"""Largest depth: sides of metres in a region of the size of a continent."""


@component("locations")
class QuadtreeParameters(OptionalRegion, LocationParameters):
    """Rectangles that are divided into quarters until each has few of the positions in a file."""

    kind: Literal["quadtree"] = "quadtree"
    file: FileName
    """CSV or Parquet file with the positions that determine the density, in degrees; a trace file is one."""
    most_positions: Count = 1000
    """Number of positions above which a rectangle is divided."""
    least_m: Positive = 100.0
    """Smallest longer side of a rectangle in m; smaller ones are not made."""
    most_depth: Annotated[int, Field(ge=0, le=_DEEPEST)] = 12
    """Largest number of divisions of the region on the way to a rectangle."""

    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Locations:  # noqa: ARG002
        """Divide the region, by default the extent of the positions."""
        lat, lon = positions_in_degrees(Path(place.locate(self.file)))
        bounds = self.region or Bounds(float(lat.min()), float(lat.max()), float(lon.min()), float(lon.max()))
        x_km, y_km = bounds.to_km(lat, lon)
        sides_km = bounds.size_km
        depth = min(self.most_depth, max(int(np.log2(max(*sides_km, 1e-9) * 1000 / self.least_m)), 0))
        return quadtree(x_km, y_km, bounds, most_positions=self.most_positions, depth=depth)


def quadtree(x_km: FloatArray, y_km: FloatArray, bounds: Bounds, *, most_positions: int, depth: int) -> LocationSet:
    """Divide a region into quarters, at most `depth` times, while they have more than `most_positions` positions.

    Rectangles are numbered along the Z-order curve (Morton 1966): south-west, south-east, north-west, north-east.
    """
    find = _Codes(bounds.size_km, depth)
    codes = np.sort(find.codes(x_km, y_km))
    codes = codes[codes >= 0]
    first, level = _divided(codes, most_positions, depth)
    find.first = first
    col, row = _deinterleaved(first)
    width_km, height_km = bounds.size_km
    side_x, side_y = width_km / 2**level, height_km / 2**level
    west, south = col * width_km / 2**depth, row * height_km / 2**depth
    corners = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 0)]
    outlines = np.stack([np.column_stack([west + i * side_x, south + j * side_y]) for i, j in corners], axis=1)
    return LocationSet(
        kind="quadtree",
        x_km=west + side_x / 2,
        y_km=south + side_y / 2,
        width_km=width_km,
        height_km=height_km,
        bounds=bounds,
        weights=np.diff(np.searchsorted(codes, np.append(first, 4**depth))).astype(np.float64),
        outlines=tuple(outlines),
        find=find,
    )


class _Codes:
    """Assignment of positions to rectangles by their code on the Z-order curve at the largest depth."""

    def __init__(self, size_km: tuple[float, float], depth: int) -> None:
        self._size_km, self._slots = size_km, 2**depth
        self.first: IntArray = np.zeros(1, dtype=np.int64)
        """Lowest code of each rectangle, increasing."""

    def __call__(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the rectangle of each position, -1 outside the region."""
        codes = self.codes(x_km, y_km)
        return np.where(codes >= 0, np.searchsorted(self.first, codes, side="right") - 1, -1)

    def codes(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the code of each position, -1 outside the region."""
        inside = np.ones(len(x_km), dtype=bool)
        slots = []
        for km, size_km in zip((x_km, y_km), self._size_km, strict=True):
            inside &= (km >= -1e-9) & (km <= size_km + 1e-9)
            share = np.clip(km / size_km if size_km > 0 else np.zeros_like(km), 0.0, 1.0)
            slots.append(np.minimum((share * self._slots).astype(np.int64), self._slots - 1))
        return np.where(inside, _spread(slots[0]) | (_spread(slots[1]) << 1), -1)


def _divided(codes: IntArray, most_positions: int, depth: int) -> tuple[IntArray, IntArray]:
    """Return the lowest codes of the rectangles, increasing, and the number of divisions that lead to each."""
    first, level = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for deeper in range(1, depth + 1):
        span = 4 ** (depth - deeper + 1)
        counts = np.searchsorted(codes, first + span) - np.searchsorted(codes, first)
        divides = (level == deeper - 1) & (counts > most_positions)
        quarters = (first[divides, None] + np.arange(4) * (span // 4)).ravel()
        first = np.concatenate([first[~divides], quarters])
        level = np.concatenate([level[~divides], np.full(quarters.size, deeper)])
        order = np.argsort(first)
        first, level = first[order], level[order]
    return first, level


def _spread(slots: IntArray) -> IntArray:
    """Return numbers below 2^24 with a zero bit between any two bits.

    >>> _spread(np.array([3])).tolist()
    [5]
    """
    spread = np.zeros_like(slots)
    for bit in range(_DEEPEST):
        spread |= ((slots >> bit) & 1) << (2 * bit)
    return spread


def _deinterleaved(codes: IntArray) -> tuple[IntArray, IntArray]:
    """Return column and row of codes on the Z-order curve."""
    col, row = np.zeros_like(codes), np.zeros_like(codes)
    for bit in range(_DEEPEST):
        col |= ((codes >> (2 * bit)) & 1) << bit
        row |= ((codes >> (2 * bit + 1)) & 1) << bit
    return col, row
