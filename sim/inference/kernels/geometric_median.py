"""Numba version of `sim.inference.geometric_median.tangent`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import VECTOR, kernel
from sim.interfaces import FloatArray


@kernel(VECTOR, VECTOR, VECTOR, types.float64, types.float64)
def tangent(
    x_km: FloatArray, y_km: FloatArray, weights: FloatArray, at_x_km: float, at_y_km: float
) -> tuple[float, float, float, float, float, float, float]:
    """Numba version of `tangent`."""
    cost = slope_x = slope_y = own = xx = xy = yy = 0.0
    for i in range(weights.size):
        east, north, weight = at_x_km - x_km[i], at_y_km - y_km[i], weights[i]
        away = np.sqrt(east * east + north * north)
        if away > 0.0:
            cost += weight * away
            per_km = weight / away
            slope_x += per_km * east
            slope_y += per_km * north
            curve = per_km / (away * away)
            xx += curve * north * north
            xy -= curve * east * north
            yy += curve * east * east
        else:
            own += weight
    return cost, slope_x, slope_y, own, xx, xy, yy
