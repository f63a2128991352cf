"""Stay points: places where a user stayed within a distance for a duration (Li et al. 2008).

Q. Li, Y. Zheng, X. Xie, Y. Chen, W. Liu and W.-Y. Ma, *Mining User Similarity Based on Location History*, ACM GIS 2008,
Definition 3: consecutive points p_m ... p_n with Distance(p_m, p_i) <= distance for m < i <= n and p_n.T - p_m.T >=
duration. The position is the mean of the points, the arrival is p_m.T and the departure p_n.T.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Annotated

import numpy as np
from pydantic import Field

from sim.components.spec import Spec
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import EARTH_RADIUS_KM

_STEP = 64


class StayPoints(Spec):
    """Stay points instead of recorded points, as defined by Li et al. 2008."""

    distance_m: Annotated[float, Field(ge=1, le=100_000)] = 200.0
    """Largest distance in m between the first point of a stay and each other."""
    duration_s: Annotated[int, Field(ge=1, le=100_000_000)] = 1200
    """Shortest time in seconds between the first and the last point of a stay."""


def distances_m(lat: float | FloatArray, lon: float | FloatArray, lats: FloatArray, lons: FloatArray) -> FloatArray:
    """Return the great-circle distances in m from a position, or one for each, to others in degrees (haversine).

    >>> distances_m(0.0, 0.0, np.array([0.0, 1.0]), np.array([0.0, 0.0])).round().tolist()
    [0.0, 111195.0]
    """
    first, second = np.radians(lat), np.radians(lats)
    across = np.cos(first) * np.cos(second) * np.sin(np.radians(lons - lon) / 2) ** 2
    chord = np.sin((second - first) / 2) ** 2 + across
    return np.asarray(2000 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.minimum(chord, 1.0))))


def stays(
    times_s: IntArray, lat: FloatArray, lon: FloatArray, session: IntArray, *, distance_m: float, duration_s: int
) -> IntArray:
    """Return the number of the stay of each point, from 0, or -1 outside stays; shape (n_points,).

    The points are sorted by session and time; a stay never extends over two sessions. A stay begins at the first point
    that satisfies the definition and ends at the last one; the search for the next begins after it.

    >>> times_s, zeros = np.array([0, 600, 1200, 1800]), np.zeros(4)
    >>> stays(times_s, np.array([0, 0, 0, 1.0]), zeros, zeros, distance_m=200, duration_s=1200).tolist()
    [0, 0, 0, -1]
    """
    number = np.full(times_s.size, -1, dtype=np.int64)
    count, free = 0, 0
    for anchor, first, stop in _candidates(times_s, lat, lon, session, distance_m, duration_s):
        if anchor < free:
            continue
        end = _end_of_stay(lat, lon, anchor, stop, distance_m)
        if end > first:
            number[anchor:end] = count
            count, free = count + 1, end
    return number


def means(number: IntArray, values: FloatArray) -> FloatArray:
    """Return the mean of the values of each stay; `number` is the result of `stays`, shape (n_stays,)."""
    inside = number >= 0
    return np.asarray(np.bincount(number[inside], values[inside]) / np.bincount(number[inside]))


def _candidates(
    times_s: IntArray, lat: FloatArray, lon: FloatArray, session: IntArray, distance_m: float, duration_s: int
) -> Iterator[tuple[int, int, int]]:
    """Yield points that may begin a stay, with the first point `duration_s` later, and the end of the session.

    The latter must exist in the same session, and within the distance.
    """
    starts = np.flatnonzero(np.diff(session, prepend=session[:1] - 1))
    for start, stop in pairwise([*starts.tolist(), times_s.size]):
        times = times_s[start:stop]
        later = np.searchsorted(times, times + duration_s)
        anchors = np.flatnonzero(later < times.size)
        firsts = later[anchors] + start
        anchors = anchors + start
        near = distances_m(lat[anchors], lon[anchors], lat[firsts], lon[firsts]) <= distance_m
        for anchor, first in zip(anchors[near].tolist(), firsts[near].tolist(), strict=True):
            yield anchor, first, stop


def _end_of_stay(lat: FloatArray, lon: FloatArray, anchor: int, stop: int, distance_m: float) -> int:
    """Return the first point after the anchor that is farther than the distance from it, or `stop`."""
    begin, step = anchor + 1, _STEP
    while begin < stop:
        end = min(begin + step, stop)
        far = distances_m(lat[anchor], lon[anchor], lat[begin:end], lon[begin:end]) > distance_m
        if far.any():
            return begin + int(np.argmax(far))
        begin, step = end, 2 * step
    return stop
