"""Constant displacement of snapped reports from the centres of their cells, as of rounding down or an added offset."""

from __future__ import annotations

import numpy as np

from sim.audit.displacement import Sample
from sim.audit.hypothesis import Estimate
from sim.audit.lattice import Lattice
from sim.interfaces import BoolArray, FloatArray

NORTH, EAST = "displacement_north_m", "displacement_east_m"
_SLACK = 1e-3
"""Rounding at the border of a cell, in steps."""
_SLACK_M = 0.2


def cell_displacement(sample: Sample, lattice: Lattice, own_cell: BoolArray) -> tuple[Estimate, ...]:
    """Return the displacements of the reports to the north and east from the centres of their cells.

    Both are empty unless the pairs exclude 0 beyond rounding. The intervals are what the pairs allow: true positions of
    a report are within half a step of the centre of its cell. Pairs of another cell are used only if all others agree
    with them.
    """
    width, height = lattice.size_m(sample.sent_lat)
    north = _bounded(NORTH, sample.dy_m, height, -lattice.shift_lat * height, own_cell)
    east = _bounded(EAST, sample.dx_m, width, -lattice.shift_lon * width, own_cell)
    moved = any(one.low > 0 or one.high < 0 for one in (north, east))
    return (north, east) if moved else ()


def _bounded(name: str, moved_m: FloatArray, size_m: FloatArray, assumed_m: FloatArray, own: BoolArray) -> Estimate:
    """Return the displacement along an axis, which is as assumed if the pairs allow it."""
    slack = _SLACK * float(np.median(size_m)) + _SLACK_M
    for rows in (np.ones_like(own), own):
        low = float((moved_m - size_m / 2)[rows].max()) - slack
        high = float((moved_m + size_m / 2)[rows].min()) + slack
        if low <= high:
            break
    low, high = min(low, high), max(low, high)
    return Estimate(name, float(np.clip(np.median(assumed_m), low, high)), low, high, "m")
