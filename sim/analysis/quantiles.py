"""Quantiles of counted values, which can be merged between blocks of users by adding the counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sim.interfaces import FloatArray


def counted_quantile(values: FloatArray, counts: Any, q: float) -> float:
    """Return a quantile of the values, each repeated by its count, with linear interpolation as in `np.quantile`.

    >>> counted_quantile(np.array([1.0, 5.0]), np.array([3, 1]), 0.5)
    1.0
    >>> counted_quantile(np.array([1.0, 5.0]), np.array([2, 2]), 0.5)
    3.0
    """
    order = np.argsort(values, kind="stable")
    values, until = values[order], np.cumsum(np.asarray(counts)[order])
    if not len(values) or not until[-1]:
        return np.nan
    place = q * (int(until[-1]) - 1)
    below = math.floor(place)
    low, high = (float(values[np.searchsorted(until, at, side="right")]) for at in (below, math.ceil(place)))
    share = place - below
    # The same two formulas as NumPy, so that the rounding agrees.
    return high - (high - low) * (1 - share) if share >= 0.5 else low + (high - low) * share
