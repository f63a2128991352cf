"""Rounding of latitudes and longitudes, as pure functions of arrays in degrees."""

from __future__ import annotations

import numpy as np

from sim.interfaces import FloatArray

MOST_LATITUDE = 89.0
"""Largest latitude at which steps of longitude grow with 1 / cos(latitude), so that they remain finite."""

_ROUNDING = 1e-9
"""Tolerance in steps when digits are cut off: 0.29 has two decimals, also as a floating-point number."""


def nearest(values: FloatArray, step: FloatArray | float) -> FloatArray:
    """Return the nearest multiples of a step; halves are rounded up, as by Java's `Math.round`.

    >>> nearest(np.array([0.25, -0.25, 0.2]), 0.5).tolist()
    [0.5, 0.0, 0.0]
    """
    return np.floor(values / step + 0.5) * step


def truncated(values: FloatArray, step: float) -> FloatArray:
    """Return the multiples of a step next to the values in the direction of zero.

    >>> truncated(np.array([1.9, -1.9]), 1.0).tolist()
    [1.0, -1.0]
    """
    return np.trunc(values / step + np.copysign(_ROUNDING, values)) * step


def longitude_step(latitude_step: float, latitude: FloatArray) -> FloatArray:
    """Return the step of longitude that is as long on the ground as a step of latitude.

    >>> longitude_step(0.5, np.array([0.0, 60.0])).round(9).tolist()
    [0.5, 1.0]
    """
    return np.asarray(latitude_step / np.cos(np.radians(np.clip(latitude, -MOST_LATITUDE, MOST_LATITUDE))))


def square_grid(lat: FloatArray, lon: FloatArray, latitude_step: float) -> tuple[FloatArray, FloatArray]:
    """Return the nearest points of a grid with cells of equal width and height on the ground.

    The step of longitude follows from the rounded latitude. Otherwise the reported longitude would reveal the latitude.
    """
    snapped = nearest(lat, latitude_step)
    return snapped, nearest(lon, longitude_step(latitude_step, snapped))
