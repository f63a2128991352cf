"""Mean length of constant offsets: from mean displacements or, after snapping, from the offsets that are possible.

After snapping the mean displacement is biased by the parts of the cells that a user visits. The offset is in the
intersection of the boxes of displacements that lead to the reports, whatever these parts are.
"""

from __future__ import annotations

import math

import numpy as np

from sim.audit.displacement import Sample
from sim.audit.hypothesis import Estimate
from sim.audit.lattice import Lattice
from sim.audit.offset_filter import intersections
from sim.interfaces import FloatArray

_NAME = "mean_length_m"
_ROUNDING_M = 0.2
"""Error of a displacement by the rounding of both files and by the change of the cosine within a cell."""


def mean_length(sample: Sample, lattice: Lattice | None, white_m: float) -> Estimate:
    """Return the mean over users of the length of a constant offset.

    With a lattice, the interval contains every possible value; it is NaN if no constant offset explains the reports of
    a user.
    """
    return _averaged(sample, white_m) if lattice is None else _possible(sample, lattice)


def _averaged(sample: Sample, white_m: float) -> Estimate:
    """Return the mean length of the mean displacements, with independent noise on each axis."""
    count = np.bincount(sample.user)
    used = count > 0
    x, y = (np.bincount(sample.user, d)[used] / count[used] for d in (sample.dx_m, sample.dy_m))
    length = float(np.hypot(x, y).mean())
    error = 1.96 * white_m * math.sqrt(float((1 / count[used]).sum())) / int(used.sum())
    error = max(error, _ROUNDING_M)
    return Estimate(_NAME, length, max(length - error, 0.0), length + error, "m")


def _possible(sample: Sample, lattice: Lattice) -> Estimate:
    """Return the mean length at the middles of the intersections, with the least and greatest possible one."""
    west, east, south, north = lattice.box(sample)
    last = np.concatenate([~sample.follows[1:], [True]])
    (left, right), (down, up) = (
        (low[last] - _ROUNDING_M, high[last] + _ROUNDING_M)
        for low, high in (intersections(sample, west, east), intersections(sample, south, north))
    )
    value = float(np.hypot((left + right) / 2, (down + up) / 2).mean())
    if (left > right).any() or (down > up).any():
        return Estimate(_NAME, value, math.nan, math.nan, "m")
    near = np.hypot(_nearest_to_zero(left, right), _nearest_to_zero(down, up))
    far = np.hypot(np.maximum(np.abs(left), np.abs(right)), np.maximum(np.abs(down), np.abs(up)))
    return Estimate(_NAME, value, float(near.mean()), float(far.mean()), "m")


def _nearest_to_zero(low: FloatArray, high: FloatArray) -> FloatArray:
    return np.asarray(np.clip(0.0, low, high))
