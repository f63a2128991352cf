"""Bounds that rounded values allow for a lattice: step, origin, and a line near the values.

Each value v of line k must be within a tolerance of origin + k step. These inequalities are a convex set of pairs of
origin and step, whose extremes are linear programmes in two variables.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import linprog

from sim.interfaces import FloatArray, IntArray


class Bounds(NamedTuple):
    """A value with the least and the greatest one that the data allow."""

    value: float
    low: float
    high: float


class AxisBounds(NamedTuple):
    """Bounds of a lattice of numbers."""

    step: Bounds
    origin: Bounds
    """Line 0, which is extrapolated: its bounds are wide if the values are many steps away."""
    line: Bounds
    """Line in the middle of the values."""


def axis_bounds(values: FloatArray, index: IntArray, step: float, origin: float, tolerance: float) -> AxisBounds:
    """Return the bounds of the lattice origin + index step that has some values within a tolerance.

    The tolerance is increased to the least one for which there is a lattice. The given step and origin are included.

    >>> lines = np.array([100, 103, 110])
    >>> bounds = axis_bounds(0.3 + 0.5 * lines, lines, 0.5, 0.3, 0.01)
    >>> [tuple(round(number, 3) for number in one) for one in bounds]
    [(0.5, 0.498, 0.502), (0.3, 0.09, 0.51), (52.8, 52.79, 52.81)]
    """
    middle = round((int(index.min()) + int(index.max())) / 2)
    reach = max(float(np.abs(index - middle).max()), 1.0)
    rest = (values - origin - index * step) / tolerance
    slope = (index - middle) / reach
    limit = max(1.0, 1.01 * _least_limit(slope, rest))

    def extremes(at_line: float, at_slope: float) -> tuple[float, float]:
        """Return the extremes of a linear function of the line in the middle and of the step."""
        matrix = np.column_stack([np.ones_like(slope), slope])
        table, bound = np.vstack([matrix, -matrix]), np.concatenate([rest + limit, limit - rest])
        low, high = (_least((sign * at_line, sign * at_slope), table, bound) for sign in (1, -1))
        return tolerance * low, -tolerance * high

    def around(value: float, at_line: float, at_slope: float) -> Bounds:
        low, high = extremes(at_line, at_slope)
        return Bounds(value, value + min(low, 0.0), value + max(high, 0.0))

    return AxisBounds(
        around(step, 0.0, 1 / reach), around(origin, 1.0, -middle / reach), around(origin + middle * step, 1.0, 0.0)
    )


def _least_limit(slope: FloatArray, rest: FloatArray) -> float:
    """Return the least maximum deviation from a straight line."""
    matrix = np.column_stack([np.ones_like(slope), slope])
    limit = -np.ones((len(slope), 1))
    table = np.vstack([np.hstack([matrix, limit]), np.hstack([-matrix, limit])])
    return _least((0.0, 0.0, 1.0), table, np.concatenate([rest, -rest]))


def _least(weights: tuple[float, ...], table: FloatArray, bound: FloatArray) -> float:
    """Return the minimum of a linear function where table @ x <= bound; NaN if it is not found."""
    minimum = linprog(weights, A_ub=table, b_ub=bound, bounds=(None, None)).fun
    return math.nan if minimum is None else float(minimum)
