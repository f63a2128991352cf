"""Whether a cell of a grid has the lowest cost of all cells, from the costs of the cells around it.

For a convex cost in the plane, such as the expected Euclidean distance, a cell is the best of all if its cost is below
the cost everywhere on the boundary of a square around it: on the way to a cell outside, the cost would first rise and
then fall. The square here has the cell in its centre and reaches two cells in each direction; beyond the border of the
grid it needs no boundary, because all cells are inside. Costs on the boundary are known at the cells. Between two
neighbouring cells, convexity bounds them from below by the lines through each of the two and the next cell outwards.
"""

from __future__ import annotations

import numpy as np

from sim.interfaces import BoolArray, FloatArray, IntArray

NO, YES, UNKNOWN = 0, 1, -1
"""Answers: a cell nearby is better; no other cell is as good; ties, or costs nearby that leave the answer open."""

SIZE = 5
"""Number of cells along a side of the square."""
CENTRE = SIZE // 2


def lowest(costs: FloatArray, margin: FloatArray) -> IntArray:
    """Return for each of k squares of costs, shape (k, 5, 5), whether the cell in its centre is the best of all.

    Cells outside the grid have infinite costs. Costs that differ by at most the `margin`, shape (k,), may be equal.

    >>> square = np.hypot(*np.ogrid[-2:3, -2:3])[None]
    >>> lowest(square, np.array([1e-9])), lowest(square[:, :, ::-1] + square[:, :1], np.array([1e-9]))
    (array([1]), array([1]))
    """
    excess = costs - costs[:, CENTRE, CENTRE, None, None]
    others = excess.copy()
    others[:, CENTRE, CENTRE] = np.inf
    nearest = others.min(axis=(1, 2))
    answers = np.full(len(costs), UNKNOWN)
    answers[nearest < -margin] = NO
    clear = nearest > margin
    answers[clear] = np.where(_enclosed(excess[clear], margin[clear]), YES, UNKNOWN)
    return answers


def _enclosed(excess: FloatArray, margin: FloatArray) -> BoolArray:
    """Return whether the excess over the cost in the centre is above the margin on the whole boundary."""
    enclosed = np.ones(len(excess), dtype=np.bool_)
    for edge in (excess[:, 0], excess[:, -1], excess[:, :, 0], excess[:, :, -1]):
        inside = np.isfinite(edge).any(axis=1)
        enclosed &= ~inside | (_least_along(edge) > margin)
    return enclosed


def _least_along(edge: FloatArray) -> FloatArray:
    """Return a lower bound of a convex function along an edge, given its values at five cells, shape (k, 5)."""
    inside = np.isfinite(edge)
    least: FloatArray = edge.min(axis=1)
    with np.errstate(invalid="ignore"):  # cells outside the grid
        for i in range(SIZE - 1):
            low, high = edge[:, i], edge[:, i + 1]
            from_low = 2 * low - edge[:, i - 1] if i > 0 else np.full(len(edge), -np.inf)
            from_high = 2 * high - edge[:, i + 2] if i < SIZE - 2 else np.full(len(edge), -np.inf)
            from_low, from_high = (np.where(np.isfinite(bound), bound, -np.inf) for bound in (from_low, from_high))
            bound = _crossing(low, from_low, from_high, high)
            least = np.where(inside[:, i] & inside[:, i + 1], np.minimum(least, bound), least)
    return least


def _crossing(low: FloatArray, from_low: FloatArray, from_high: FloatArray, high: FloatArray) -> FloatArray:
    """Return the least of the larger of two lines on [0, 1]: from low to from_low, and from from_high to high.

    A line that is -inf at one end does not bound the function.
    """
    fall, rise = low - from_high, high - from_low  # both at least 0 for a convex function
    with np.errstate(invalid="ignore", divide="ignore"):
        where = fall / (fall + rise)
        crossing = low + where * (from_low - low)
    one = np.where(np.isneginf(from_low), np.minimum(from_high, high), np.minimum(low, from_low))
    both = np.isfinite(from_low) & np.isfinite(from_high)
    crossing = np.where(fall + rise > 0, crossing, np.minimum(low, high))
    return np.where(both, np.minimum(np.minimum(low, high), crossing), one)
