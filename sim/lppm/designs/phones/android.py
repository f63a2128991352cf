"""Android's `LocationFudger` as pure functions: an offset, then a point of a grid or the centre of an S2 cell.

Source: the Android Open Source Project, frameworks/base, services/core/java/com/android/server/location/fudger/
LocationFudger.java (Android 12 to 16).
"""

from __future__ import annotations

from functools import partial

from sim.interfaces import FloatArray
from sim.lppm.designs.phones.coarsening import Rule
from sim.lppm.designs.phones.degrees import longitude_step, square_grid
from sim.lppm.designs.phones.s2 import s2_centres

METRES_PER_DEGREE = 111_000
"""`APPROXIMATE_METERS_PER_DEGREE_AT_EQUATOR`."""
LEAST_ACCURACY_M = 200.0
"""`MIN_ACCURACY_M`."""


def moved(lat: FloatArray, lon: FloatArray, north_m: float, east_m: float) -> tuple[FloatArray, FloatArray]:
    """Return coordinates after an offset. The longitude uses the latitude before it.

    >>> import numpy as np
    >>> lat, lon = moved(np.array([60.0]), np.array([10.0]), 111.0, 111.0)
    >>> lat.round(6).tolist(), lon.round(6).tolist()
    ([60.001], [10.002])
    """
    return lat + north_m / METRES_PER_DEGREE, lon + longitude_step(east_m / METRES_PER_DEGREE, lat)


def grid_rule(accuracy_m: float) -> Rule:
    """Return the function that snaps to a grid with steps of `accuracy_m`: `snapToGrid`.

    The step of longitude follows from the rounded latitude, as up to Android 15. In the fallback of Android 16 (commit
    0928cdf of the mirror aosp-mirror/platform_frameworks_base) it follows from the latitude before rounding, which the
    reported longitude then reveals; this is not modelled.
    """
    return partial(square_grid, latitude_step=accuracy_m / METRES_PER_DEGREE)


def s2_rule(level: int) -> Rule:
    """Return the function that snaps to the centre of the S2 cell of a level: `snapToCenterOfS2Cell`."""
    return partial(s2_centres, level=level)
