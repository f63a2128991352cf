"""A region and a grid that cover the busy part of recorded positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.datasets.importing import Box
from sim.datasets.survey.user_shares import UserShares, user_shares
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import KM_PER_DEGREE

SHARES = (0.95, 0.8, 0.5)
"""Shares of the rows that a suggested region may cover; the first that gives a region of the size of a city."""
USER_SHARE = 0.95
"""Share of the rows of a user that a suggested region exceeds: no place with 5 % of their rows is entirely outside."""
USERS = 0.95
"""Share of the users, with rows within reach, to which `USER_SHARE` applies."""
CITY_KM = 100.0
"""Longest side in km of a region of the size of a city."""
MOST_CELLS = 2_500
"""Largest number of cells of a suggested grid: all mechanisms and attacks are fast on it."""

_BINS, _ROUNDS = 48, 8
_MARGIN = 1e-4
_SIZES = (1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0)
_LEAST_CELL_M, _FEWEST_CELLS = 100.0, 10


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A region and the size of its cells."""

    box: Box
    """South, north, west and east bound in degrees."""
    share: float
    """Share of the rows in the region."""
    users: UserShares
    """Shares of the rows of each user in the region."""
    cell_m: float

    @property
    def size_km(self) -> tuple[float, float]:
        """Extent from west to east and from south to north in km."""
        return _size_km(self.box)


def smallest_rectangle(counts: IntArray, least: int) -> tuple[int, int, int, int]:
    """Return the smallest rectangle of bins whose counts sum to at least `least`: first and last row and column.

    `least` must be in [1, sum of counts]; the last row and column are exclusive. Of equally small rectangles, the one
    with the largest sum is returned.

    >>> smallest_rectangle(np.array([[0, 1, 0], [1, 5, 4], [0, 1, 0]]), 9)
    (1, 2, 1, 3)
    """
    rows, cols = counts.shape
    above = np.concatenate([np.zeros((1, cols), dtype=np.int64), np.cumsum(counts, axis=0)])
    best, key = (0, rows, 0, cols), (rows * cols + 1, 0)
    for first in range(rows):
        for last in range(first + 1, rows + 1):
            left = np.concatenate([[0], np.cumsum(above[last] - above[first])])
            if left[-1] < least:
                continue
            ends = np.searchsorted(left, left[:-1] + least)
            starts = np.flatnonzero(ends <= cols)
            areas = (ends[starts] - starts) * (last - first)
            sums = left[ends[starts]] - left[starts]
            at = int(np.lexsort((-sums, areas))[0])
            if (candidate := (int(areas[at]), -int(sums[at]))) < key:
                best, key = (first, last, int(starts[at]), int(ends[starts[at]])), candidate
    return best


def busy_box(lat: FloatArray, lon: FloatArray, share: float) -> Box:
    """Return a small rectangle that contains at least this share of the positions; there must be at least one.

    The smallest rectangle of bins is refined until the bins are small. The result is not always the smallest rectangle
    of all: of 200 random points, it is up to a quarter larger.
    """
    least = max(math.ceil(share * lat.size), 1)
    south, north, west, east = (float(bound) for bound in (lat.min(), lat.max(), lon.min(), lon.max()))
    for _ in range(_ROUNDS):
        rows, cols = np.linspace(south, north, _BINS + 1), np.linspace(west, east, _BINS + 1)
        if north - south < _MARGIN or east - west < _MARGIN:
            break
        counts = np.histogram2d(lat, lon, bins=(rows, cols))[0].astype(np.int64)
        first, last, start, end = smallest_rectangle(counts, least)
        chosen = (rows[first], rows[last], cols[start], cols[end])
        before = (south, north, west, east)
        # The next bins cover the rectangle and the neighbouring bins, in which its true border may lie.
        south, north = rows[max(first - 1, 0)], rows[min(last + 1, _BINS)]
        west, east = cols[max(start - 1, 0)], cols[min(end + 1, _BINS)]
        if (south, north, west, east) == before:
            south, north, west, east = chosen
            break
    else:
        south, north, west, east = chosen
    inside = (lat >= south) & (lat <= north) & (lon >= west) & (lon <= east)
    lat, lon = lat[inside], lon[inside]
    return float(lat.min()), float(lat.max()), float(lon.min()), float(lon.max())


def extended(box: Box, user: IntArray, lat: FloatArray, lon: FloatArray) -> Box:
    """Return a box extended so that at least `USERS` of the users have more than `USER_SHARE` of their rows in it.

    Users with the shortest extensions come first; each extension contains the rows of the user that are nearest to the
    box. The longest side stays within `CITY_KM`: rows that are too far away, and a box that is longer, are left out.
    """
    reach_km = CITY_KM - max(_size_km(box))
    away_km = _away_km(box, lat, lon)
    within = away_km <= reach_km
    user, lat, lon, away_km = user[within], lat[within], lon[within], away_km[within]
    if not user.size:
        return box
    order = np.lexsort((away_km, user))
    user, lat, lon, away_km = user[order], lat[order], lon[order], away_km[order]
    starts = np.flatnonzero(np.diff(user, prepend=-1))
    rows = np.diff(np.append(starts, user.size))
    needed = np.minimum(np.floor(USER_SHARE * rows + 1e-9).astype(np.int64) + 1, rows)
    number = np.repeat(np.arange(rows.size), rows)
    kept = np.arange(user.size) - starts[number] < needed[number]
    bounds = [np.minimum.reduceat(np.where(kept, values, np.inf), starts) for values in (lat, -lat, lon, -lon)]
    nearest = np.argsort(away_km[starts + needed - 1], kind="stable")[: math.ceil(USERS * rows.size)]
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    low = np.stack([values[nearest] for values in bounds], axis=1)
    boxes = signs * np.minimum.accumulate(np.minimum(low, signs * np.array(box)), axis=0)
    south, north, west, east = next((one for one in boxes[::-1] if max(_size_km(tuple(one))) <= CITY_KM), box)
    return float(south), float(north), float(west), float(east)


def suggest(
    user: IntArray, lat: FloatArray, lon: FloatArray, step_m: FloatArray, names: Sequence[str] | None = None
) -> Suggestion:
    """Return a region with most of the positions of most users, and cells no finer than the movement between rows.

    `user` has the number of the user of each row. `step_m` are the distances between consecutive rows of a user. Cells
    have about the median of the positive ones, at least 100 m, and there are at most `MOST_CELLS`.
    """
    box = busy_box(lat, lon, SHARES[0])
    for share in SHARES[1:]:
        if max(_size_km(box)) <= CITY_KM:
            break
        smaller = busy_box(lat, lon, share)
        if max(_size_km(smaller)) <= CITY_KM:
            box = smaller
    south, north, west, east = _rounded(extended(box, user, lat, lon))
    inside = (lat >= south) & (lat <= north) & (lon >= west) & (lon <= east)
    users = user_shares(np.bincount(user, inside), np.bincount(user), names)
    cell_m = _cell_m(_size_km((south, north, west, east)), step_m)
    return Suggestion((south, north, west, east), float(inside.mean()), users, cell_m)


def _cell_m(size_km: tuple[float, float], step_m: FloatArray) -> float:
    """Return the size of the cells of a region in m."""
    width_km, height_km = size_km
    moving = step_m[step_m > 0]
    wanted_m = float(np.median(moving)) if moving.size else 0.0
    coarsest_m = 1000 * min(width_km, height_km) / _FEWEST_CELLS
    finest_m = 1000 * math.sqrt(width_km * height_km / MOST_CELLS)
    return _nice(max(min(max(wanted_m, _LEAST_CELL_M), coarsest_m), finest_m))


def _away_km(box: Box, lat: FloatArray, lon: FloatArray) -> FloatArray:
    """Return the distance of each position from a box: the longer of those along the two axes."""
    south, north, west, east = box
    km_per_lon = KM_PER_DEGREE * math.cos(math.radians((south + north) / 2))
    away: FloatArray = np.maximum(
        np.maximum(south - lat, lat - north) * KM_PER_DEGREE, np.maximum(west - lon, lon - east) * km_per_lon
    )
    return np.maximum(away, 0.0)


def _rounded(box: Box) -> Box:
    """Return a box rounded outwards to 0.001 degrees, with a positive area, within the limits of regions."""
    south, north, west, east = box
    low = [math.floor(bound * 1000 - 1e-9) / 1000 for bound in (south, west)]
    high = [math.ceil(bound * 1000 + 1e-9) / 1000 for bound in (north, east)]
    return max(low[0], -85.0), min(high[0], 85.0), max(low[1], -180.0), min(high[1], 180.0)


def _size_km(box: Box) -> tuple[float, float]:
    south, north, west, east = box
    return (
        (east - west) * KM_PER_DEGREE * math.cos(math.radians((south + north) / 2)),
        (north - south) * KM_PER_DEGREE,
    )


def _nice(metres: float) -> float:
    """Return the next larger round number.

    >>> _nice(100.0), _nice(340.0), _nice(800.0)
    (100.0, 500.0, 1000.0)
    """
    scale = 10.0 ** math.floor(math.log10(metres) + 1e-12)
    return next(size * scale for size in _SIZES if size * scale >= metres * (1 - 1e-9))
