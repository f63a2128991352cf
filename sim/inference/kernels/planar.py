"""Numba versions of functions in `sim.inference.planar_kernel`, `sim.inference.planar_remap` and `sim.lppm.hiding`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS, CELLS_32, MATRIX, VECTOR, kernel, part
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
    weights: FloatArray,
    row: IntArray,
    col: IntArray,
    offset_km: FloatArray,
    at_row: int,
    at_col: int,
    rows: int,
    cols: int,
    excess: FloatArray,
) -> None:
    """Fill in the costs of the cells around a cell, less the cost of the cell; infinite outside the grid.

    `offset_km` has the distances by signed offset, with margins of two cells.
    """
    excess[:] = 0.0
    for i in range(weights.size):
        weight = weights[i]
        south, west = at_row - row[i] + rows - 1, at_col - col[i] + cols - 1
        for j in range(_SIZE):
            from_km, sums = offset_km[south + j], excess[j]
            for k in range(_SIZE):
                sums[k] += weight * from_km[west + k]
    excess -= excess[_CENTRE, _CENTRE]
    for j in range(_SIZE):
        for k in range(_SIZE):
            to_row, to_col = at_row + j - _CENTRE, at_col + k - _CENTRE
            if to_row < 0 or to_row >= rows or to_col < 0 or to_col >= cols:
                excess[j, k] = np.inf


@kernel(
    CELLS_32,
    types.int64,
    CELLS_32,
    CELLS_32,
    VECTOR,
    VECTOR,
    VECTOR,
    MATRIX,
    MATRIX,
    MATRIX,
    types.float64,
    types.float64,
)
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
    offset_km: FloatArray,
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
        _square(near_weights[:count], near_row, near_col, offset_km, at_row, at_col, rows, cols, excess)
        answers[place] = _lowest(excess, margin)
    return answers


@kernel(CELLS, VECTOR, VECTOR, VECTOR, MATRIX, types.float64, types.float64)
def hiding_in_windows(
    outputs: IntArray,
    costs: FloatArray,
    step: FloatArray,
    tie: FloatArray,
    away_km: FloatArray,
    row_km: float,
    col_km: float,
) -> IntArray:
    """Numba version of `sim.lppm.hiding._in_windows`."""
    rows, cols = away_km.shape
    best = np.argmin(costs)
    table = np.empty(outputs.size, dtype=np.int64)
    for place in range(outputs.size):
        output, own_step = outputs[place], step[place]
        row, col = output // cols, output % cols
        south, north, west, east = 0, rows, 0, cols
        if own_step > 0:
            bound = min(
                costs[output], costs[best] + own_step * away_km[abs(best // cols - row), abs(best % cols - col)]
            )
            reach_km = (bound + 2 * tie[place] - costs[best]) / own_step
            if reach_km < rows * row_km:
                down = int(reach_km / row_km) + 1
                south, north = max(0, row - down), min(rows, row + down + 1)
            if reach_km < cols * col_km:
                across = int(reach_km / col_km) + 1
                west, east = max(0, col - across), min(cols, col + across + 1)
        least = np.inf
        for to_row in range(south, north):
            from_km, here = away_km[abs(to_row - row)], costs[to_row * cols : (to_row + 1) * cols]
            for to_col in range(west, east):
                least = min(least, here[to_col] + own_step * from_km[abs(to_col - col)])
        lowest_cell = -1
        for to_row in range(south, north):
            from_km, here = away_km[abs(to_row - row)], costs[to_row * cols : (to_row + 1) * cols]
            for to_col in range(west, east):
                if here[to_col] + own_step * from_km[abs(to_col - col)] <= least + tie[place]:
                    lowest_cell = to_row * cols + to_col
                    break
            if lowest_cell >= 0:
                break
        table[place] = lowest_cell
    return table
