"""Numba versions of functions in `sim.inference.planar_kernel` and `sim.inference.planar_remap`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS_32, MATRIX, VECTOR, kernel, part
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray, IntArray

_NO, _YES, _UNKNOWN = 0, 1, -1  # as in `sim.inference.local_optimum`
_SIZE, _CENTRE = 5, 2
_NEGLIGIBLE = 1e-18  # share of the total; all such weights together are far below the tolerance of ties
_DIAGONAL = 0.38  # sine of 22.5 degrees: directions closer to an axis go along the axis


@kernel(CELLS_32, CELLS_32, CELLS_32, CELLS_32, CELLS_32, MATRIX)
def planar_entries(
    cells: IntArray, offsets: IntArray, row: IntArray, first: IntArray, stop: IntArray, tails: FloatArray
) -> FloatArray:
    """Numba version of `sim.inference.planar_kernel._entries`."""
    cols = tails.shape[1] - 1
    entries = np.zeros((cells.size, offsets.size - 1))
    for place in range(cells.size):
        own_row, own_col = cells[place] // cols, cells[place] % cols
        for s in range(offsets.size - 1):
            total = 0.0
            for run in range(offsets[s], offsets[s + 1]):
                own = tails[abs(row[run] - own_row)]
                begin, end = first[run] - own_col, stop[run] - own_col
                if begin > 0:
                    total += own[begin] - own[end]
                elif end <= 0:
                    total += own[1 - end] - own[1 - begin]
                else:
                    total += (own[0] - own[end]) + (own[1] - own[1 - begin])
            entries[place, s] = total
    return entries


@part
def _least_between(edge: FloatArray, i: int, first: int, last: int) -> float:
    """Return the least of the larger of the two lines that bound a convex function between cells i and i + 1."""
    low, high = float(edge[i]), float(edge[i + 1])
    has_low, has_high = i > first, i + 2 <= last
    if not has_low and not has_high:
        return -np.inf
    from_low = 2 * low - float(edge[i - 1]) if has_low else -np.inf
    from_high = 2 * high - float(edge[i + 2]) if has_high else -np.inf
    if not has_low:
        return min(from_high, high)
    if not has_high:
        return min(low, from_low)
    fall, rise = low - from_high, high - from_low
    least = min(low, high)
    if fall + rise > 0:
        least = min(least, low + fall / (fall + rise) * (from_low - low))
    return least


@part
def _is_above(edge: FloatArray, margin: float) -> bool:
    """Return whether a convex function is above the margin along an edge; infinite values are outside the grid."""
    first, last = -1, -1
    for i in range(_SIZE):
        if edge[i] < np.inf:
            first = i if first < 0 else first
            last = i
            if edge[i] <= margin:
                return False
    if first < 0:
        return True
    least = np.inf
    for i in range(first, last):
        least = min(least, _least_between(edge, i, first, last))
    return least > margin


@part
def _lowest(excess: FloatArray, margin: float) -> int:
    """Numba version of `sim.inference.local_optimum.lowest`; `excess` is the cost less that of the centre."""
    nearest = np.inf
    for i in range(_SIZE):
        for j in range(_SIZE):
            if i != _CENTRE or j != _CENTRE:
                nearest = min(nearest, excess[i, j])
    if nearest < -margin:
        return _NO
    if not nearest > margin:
        return _UNKNOWN
    enclosed = (
        _is_above(excess[0], margin)
        and _is_above(excess[_SIZE - 1], margin)
        and _is_above(excess[:, 0].copy(), margin)
        and _is_above(excess[:, _SIZE - 1].copy(), margin)
    )
    return _YES if enclosed else _UNKNOWN


@part
def _towards(slope: float, length: float, at: int, count: int) -> int:
    """Return the step along one axis, -1, 0 or 1, against a slope, within the grid."""
    if slope > _DIAGONAL * length and at > 0:
        return -1
    if slope < -_DIAGONAL * length and at < count - 1:
        return 1
    return 0


@part
def _square(
    weights: FloatArray, row: IntArray, col: IntArray, away_km: FloatArray, at_row: int, at_col: int, excess: FloatArray
) -> None:
    """Fill in the costs of the cells around a cell, less the cost of the cell; infinite outside the grid."""
    rows, cols = away_km.shape
    south, north = max(0, at_row - _CENTRE), min(rows, at_row + _CENTRE + 1)
    west, east = max(0, at_col - _CENTRE), min(cols, at_col + _CENTRE + 1)
    excess[:] = np.inf
    excess[south - at_row + _CENTRE : north - at_row + _CENTRE, west - at_col + _CENTRE : east - at_col + _CENTRE] = 0.0
    for i in range(weights.size):
        weight = weights[i]
        for to_row in range(south, north):
            from_row = away_km[abs(row[i] - to_row)]
            sums = excess[to_row - at_row + _CENTRE]
            for to_col in range(west, east):
                sums[to_col - at_col + _CENTRE] += weight * from_row[abs(col[i] - to_col)]
    excess -= excess[_CENTRE, _CENTRE]


@kernel(CELLS_32, types.int64, CELLS_32, CELLS_32, VECTOR, VECTOR, VECTOR, MATRIX, MATRIX, types.float64, types.float64)
def planar_membership(
    outputs: IntArray,
    cell: int,
    row: IntArray,
    col: IntArray,
    weights: FloatArray,
    toward_x: FloatArray,
    toward_y: FloatArray,
    decay: FloatArray,
    away_km: FloatArray,
    margin_km: float,
    least_step_km: float,
) -> IntArray:
    """Numba version of `sim.inference.planar_remap._membership`."""
    rows, cols = decay.shape
    at_row, at_col = cell // cols, cell % cols
    answers = np.empty(outputs.size, dtype=np.int64)
    own_weights = np.empty(weights.size)
    near_weights, near_row, near_col = np.empty(weights.size), np.empty_like(row), np.empty_like(col)
    excess = np.empty((_SIZE, _SIZE))
    for place in range(outputs.size):
        out_row, out_col = outputs[place] // cols, outputs[place] % cols
        total = slope_x = slope_y = own = 0.0
        for i in range(weights.size):
            weight = weights[i] * decay[abs(row[i] - out_row), abs(col[i] - out_col)]
            own_weights[i] = weight
            total += weight
            slope_x += weight * toward_x[i]
            slope_y += weight * toward_y[i]
            if row[i] == at_row and col[i] == at_col:
                own = weight
        if not total > MASS_FLOOR:
            answers[place] = _YES if outputs[place] == cell else _NO
            continue
        margin = margin_km * total
        slope = np.hypot(slope_x, slope_y)  # squares of small slopes would underflow
        if (own - slope) * least_step_km > margin:
            answers[place] = _YES
            continue
        to_row = at_row + _towards(slope_y, slope, at_row, rows)
        to_col = at_col + _towards(slope_x, slope, at_col, cols)
        gain = 0.0
        if to_row != at_row or to_col != at_col:
            for i in range(weights.size):
                here = away_km[abs(row[i] - at_row), abs(col[i] - at_col)]
                gain += own_weights[i] * (here - away_km[abs(row[i] - to_row), abs(col[i] - to_col)])
        if gain > margin:
            answers[place] = _NO
            continue
        count = 0
        for i in range(weights.size):
            if own_weights[i] > _NEGLIGIBLE * total:
                near_row[count], near_col[count], near_weights[count] = row[i], col[i], own_weights[i]
                count += 1
        _square(near_weights[:count], near_row, near_col, away_km, at_row, at_col, excess)
        answers[place] = _lowest(excess, margin)
    return answers
