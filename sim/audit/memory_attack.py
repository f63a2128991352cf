"""Attacks that learn the hidden memory of a mechanism from the user's own past pairs.

An adversary who knows where a user was knows the offset of each report there. A constant offset reveals all later
positions; a drifting one reveals them for about its time constant. A report that is sent again reveals the place of its
first use.
"""

from __future__ import annotations

import math

import numpy as np

from sim.audit.displacement import Plane, Sample
from sim.audit.hypothesis import Fit
from sim.audit.offset import OffsetFit
from sim.interfaces import FloatArray

MEMORY_ATTACK = "own past and its reports"
_RECENT = 0.25
"""Share of the time constant during which a drifting offset is averaged over snapped reports."""
_DIGITS = 7


def has_memory(fit: Fit) -> bool:
    """Return whether reports depend on earlier ones beyond the true position."""
    return fit.memoryless() is not fit


def estimates_from_memory(fit: Fit, past: Sample, target: Sample, plane: Plane, otherwise: FloatArray) -> FloatArray:
    """Return the estimates in metres of the rows of a user, shape (n, 2), from the user's past pairs with a report.

    `otherwise` has the estimates of rows about which the memory says nothing.
    """
    if not len(past):
        return otherwise
    if isinstance(fit, OffsetFit):
        return _without_offset(fit, past, target, plane)
    return _looked_up(past, target, plane, otherwise)


def _without_offset(fit: OffsetFit, past: Sample, target: Sample, plane: Plane) -> FloatArray:
    """Return the reports less the expected offset, which drifts back to zero."""
    shifts = [cell_shift(fit, one) for one in (past, target)]
    displaced = np.column_stack([past.dx_m, past.dy_m]) + shifts[0]
    constant_s = fit.time_constant_h * 3600
    age = past.time_s[-1] - past.time_s
    recent = np.ones(len(past), dtype=bool) if math.isinf(constant_s) else age <= _RECENT * constant_s
    if fit.lattice is None and not math.isinf(constant_s):
        recent = np.arange(len(past)) == len(past) - 1
    kept = np.exp(-np.maximum(target.time_s - past.time_s[-1], 0.0) / constant_s)
    reported = np.column_stack(plane.to_m(target.sent_lat, target.sent_lon)) + shifts[1]
    return np.asarray(reported - kept[:, None] * displaced[recent].mean(axis=0))


def cell_shift(fit: OffsetFit, sample: Sample) -> FloatArray:
    """Return the centres of the reported cells relative to the reports, in metres."""
    if fit.lattice is None:
        return np.zeros((len(sample), 2))
    width, height = fit.lattice.size_m(sample.sent_lat)
    return np.column_stack([fit.lattice.shift_lon * width, fit.lattice.shift_lat * height])


def _looked_up(past: Sample, target: Sample, plane: Plane, otherwise: FloatArray) -> FloatArray:
    """Return the median true position of the past rows with the same report."""
    known = np.column_stack(plane.to_m(past.lat, past.lon))
    reports = np.round(np.column_stack([past.sent_lat, past.sent_lon]), _DIGITS)
    new_reports = np.round(np.column_stack([target.sent_lat, target.sent_lon]), _DIGITS)
    estimates = otherwise.copy()
    for report in np.unique(new_reports, axis=0):
        same = (reports == report).all(axis=1)
        if same.any():
            estimates[(new_reports == report).all(axis=1)] = np.median(known[same], axis=0)
    return estimates
