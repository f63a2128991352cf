"""Filters of a hidden offset: Kalman filter, exact intersection of intervals, and a filter on a grid of offsets."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import log_ndtr, ndtr

from sim.audit.displacement import Sample
from sim.inference.bayes import normalise
from sim.interfaces import BoolArray, FloatArray

_TINY = 1e-300
_BINS = 121
_SDS = 4.5
"""Extent of the grid of offsets in standard deviations."""
_DT_RATIO = math.log(1.1)
_NO_STEP = -(10**6)
"""Number of the step of a row without a time difference."""
_REPEAT = 0.02
"""Prior probability that the previous report is sent again, as by a cache, whatever the position."""


def kalman_log_density(sample: Sample, sd_m: float, drift_m: float, white_m: float) -> FloatArray:
    """Return the log predictive density of each displacement; both axes have the same variances."""
    x, y, variance = kalman_predictions(sample, sd_m, drift_m, white_m)
    square = (sample.dx_m - x) ** 2 + (sample.dy_m - y) ** 2
    return np.asarray(-np.log(2 * math.pi * variance) - square / (2 * variance))


def kalman_predictions(
    sample: Sample, sd_m: float, drift_m: float, white_m: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the predicted displacement of each row on both axes, and the variance of each axis."""
    hours = np.diff(sample.time_s, prepend=sample.time_s[:1]) / 3600
    keep = np.exp(-np.maximum(hours, 0.0) * drift_m**2 / (2 * sd_m**2)) * sample.follows
    stationary, noise = sd_m**2, white_m**2
    predicted = np.empty((len(sample), 3))
    x = y = 0.0
    variance = stationary
    for row, (share, dx, dy) in enumerate(zip(keep.tolist(), sample.dx_m.tolist(), sample.dy_m.tolist(), strict=True)):
        x, y = share * x, share * y
        variance = share * share * variance + (1 - share * share) * stationary
        total = variance + noise
        predicted[row] = x, y, total
        gain = variance / total
        x, y = x + gain * (dx - x), y + gain * (dy - y)
        variance *= 1 - gain
    return predicted[:, 0], predicted[:, 1], predicted[:, 2]


def constant_box_log_mass(sample: Sample, low: FloatArray, high: FloatArray, sd_m: float) -> FloatArray:
    """Return the log predictive mass of intervals that contain a constant centred Gaussian offset.

    The posterior is the Gaussian on the intersection of the intervals, so that each predictive mass is a ratio. A
    report that repeats the previous one, but excludes the intersection, is a repeat and leaves it unchanged.
    """
    lowest, highest = intersections(sample, low, high)
    again = repeats_previous(sample)
    log_mass = _log_interval(lowest / sd_m, highest / sd_m)
    before = np.where(sample.follows, np.concatenate([[0.0], log_mass[:-1]]), 0.0)
    predicted = np.maximum(log_mass, math.log(_TINY)) - np.maximum(before, math.log(_TINY))
    kept = again & (predicted == 0.0) & ((low > lowest) | (high < highest))
    return np.where(kept, math.log(_REPEAT) / 2, predicted)


def intersections(sample: Sample, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the intersection of the intervals of each row and the earlier rows of the user, without such repeats."""
    lowest, highest = low.copy(), high.copy()
    again = repeats_previous(sample)
    for row in np.flatnonzero(sample.follows).tolist():
        bounds = max(lowest[row], lowest[row - 1]), min(highest[row], highest[row - 1])
        lowest[row], highest[row] = (
            (lowest[row - 1], highest[row - 1]) if again[row] and bounds[0] >= bounds[1] else bounds
        )
    return lowest, highest


def repeats_previous(sample: Sample) -> BoolArray:
    """Return whether each report equals the previous one of the user."""
    same = np.zeros(len(sample), dtype=bool)
    same[1:] = (np.abs(np.diff(sample.sent_lat)) < 1e-8) & (np.abs(np.diff(sample.sent_lon)) < 1e-8)
    return same & sample.follows


def _log_interval(low: FloatArray, high: FloatArray) -> FloatArray:
    """Return the log mass of the standard normal distribution on intervals; log of 1e-300 for empty ones."""
    flip = low > 0
    low, high = np.where(flip, -high, low), np.where(flip, -low, high)
    valid = high > low
    a, b = log_ndtr(np.where(valid, high, 0.0)), log_ndtr(np.where(valid, low, -1.0))
    with np.errstate(divide="ignore"):
        log_mass = a + np.log1p(-np.exp(np.minimum(b - a, -1e-16)))
    return np.where(valid, log_mass, math.log(_TINY))


def box_log_mass(sample: Sample, low: FloatArray, high: FloatArray, sd_m: float, drift_m: float) -> FloatArray:
    """Return the log predictive mass of boxes that contain a drifting offset, by a filter on a grid of offsets.

    `low` and `high` have the sides on both axes, which are independent, shape (2, n). A step between rows is rounded to
    10 % of its length, which changes the standard deviation of the drift by 5 %.
    """
    edges = np.linspace(-_SDS * sd_m, _SDS * sd_m, _BINS + 1)
    width = edges[1] - edges[0]
    stationary = np.tile(normalise(np.diff(ndtr(edges / sd_m))), (2, 1))
    overlap = np.minimum(high.T[:, :, None], edges[1:]) - np.maximum(low.T[:, :, None], edges[:-1])
    overlap = np.clip(overlap / width, 0.0, 1.0)
    hours = np.diff(sample.time_s, prepend=sample.time_s[:1]) / 3600
    step = np.where(hours > 0, np.rint(np.log(np.maximum(hours, 1e-9)) / _DT_RATIO), _NO_STEP).astype(np.int64)
    used = np.unique(step[sample.follows])
    moves = {int(s): _transition(edges, math.exp(s * _DT_RATIO), sd_m, drift_m) for s in used if s != _NO_STEP}
    masses = np.empty((len(sample), 2))
    again = repeats_previous(sample)[:, None, None]
    # One of the two axes may exclude a repeat while the other does not: each has half of its log probability.
    overlap = (1 - _REPEAT) * overlap + np.where(again, math.sqrt(_REPEAT), 0.0)
    state, ones = stationary, np.ones(_BINS)
    for row, (follows, s) in enumerate(zip(sample.follows.tolist(), step.tolist(), strict=True)):
        state = stationary if not follows else state @ moves[s] if s in moves else state
        joint = state * overlap[row]
        mass = masses[row] = joint @ ones
        state = joint / mass[:, None] if min(mass.tolist()) > _TINY else _restarted(joint, mass, stationary)
    return np.asarray(np.log(np.maximum(masses, _TINY)).sum(axis=1))


def _restarted(joint: FloatArray, mass: FloatArray, stationary: FloatArray) -> FloatArray:
    """Return the state on both axes; without mass on an axis its offset is unknown again."""
    known = mass[:, None] > _TINY
    return np.where(known, joint / np.maximum(mass, _TINY)[:, None], stationary)


def _transition(edges: FloatArray, hours: float, sd_m: float, drift_m: float) -> FloatArray:
    """Return the transition matrix of the offset between the bins over a time."""
    keep = math.exp(-hours * drift_m**2 / (2 * sd_m**2))
    middle, width = (edges[:-1] + edges[1:]) / 2, edges[1] - edges[0]
    spread = math.sqrt(max(sd_m**2 * (1 - keep**2), 1e-12))
    if spread < width / 4:  # a change within a bin: mass moves to the neighbours so that the variance is right
        side = min(0.5, (spread / width) ** 2 / 2)
        table = (1 - 2 * side) * np.eye(middle.size) + side * (np.eye(middle.size, k=1) + np.eye(middle.size, k=-1))
    else:
        lower = np.diff(ndtr((edges - keep * middle[: (middle.size + 1) // 2, None]) / spread), axis=1)
        table = np.concatenate([lower, lower[: middle.size // 2][::-1, ::-1]])
    return np.asarray(table / np.maximum(table.sum(axis=1, keepdims=True), _TINY))
