"""Numba versions of functions in `sim.inference.exponential_kernel`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS_32, MATRIX, NEW_CELLS, PLACES, VECTOR, kernel, part
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray


@part
def _along_columns(image: FloatArray, decay: FloatArray) -> None:
    """Replace each row v by sum_j decay(i, j) v_j, with decay(i, j) the product of the factors between i and j."""
    last = image.shape[1] - 1
    for row in range(len(image)):
        values = image[row]
        before = 0.0
        ahead = 0.0
        forward = np.empty(last + 1)
        for col in range(last + 1):
            before = values[col] + (decay[col - 1] * before if col > 0 else 0.0)
            forward[col] = before
        for col in range(last, -1, -1):
            value = values[col]
            values[col] = forward[col] + ahead
            if col > 0:
                ahead = decay[col - 1] * (value + ahead)


@part
def _sums_from_below(image: FloatArray, decay: FloatArray, sums: FloatArray) -> None:
    """Fill in sums[i] = sum over j <= i of decay(i, j) image[j], row by row."""
    sums[0] = image[0]
    for row in range(1, len(image)):
        here, before, values, factor = sums[row], sums[row - 1], image[row], decay[row - 1]
        for col in range(image.shape[1]):
            here[col] = values[col] + factor * before[col]


@part
def _sums_from_above(image: FloatArray, decay: FloatArray, sums: FloatArray) -> None:
    """Fill in sums[i] = sum over j >= i of decay(i, j) image[j], row by row."""
    last = len(image) - 1
    sums[last] = image[last]
    for row in range(last - 1, -1, -1):
        here, after, values, factor = sums[row], sums[row + 1], image[row], decay[row]
        for col in range(image.shape[1]):
            here[col] = values[col] + factor * after[col]


@part
def _along_rows(image: FloatArray, decay: FloatArray) -> FloatArray:
    """Return the sums of `_along_columns` over the rows of each column."""
    below, above = np.empty_like(image), np.empty_like(image)
    _sums_from_below(image, decay, below)
    _sums_from_above(image, decay, above)
    for row in range(len(image) - 1):
        here, after, factor = below[row], above[row + 1], decay[row]
        for col in range(image.shape[1]):
            here[col] += factor * after[col]
    return below


@kernel(MATRIX, VECTOR, VECTOR)
def smooth(image: FloatArray, row_decay: FloatArray, col_decay: FloatArray) -> FloatArray:
    """Numba version of `smooth`."""
    smoothed = image.copy()
    _along_columns(smoothed, col_decay)
    return _along_rows(smoothed, row_decay)


@part
def _is_median(
    place: int, output: int, total: float, below: FloatArray, above: FloatArray, between: FloatArray
) -> bool:
    """Return whether the weights up to `place` reach half of the total, for one output and one column of sums."""
    if place < output:
        return bool(between[output, place] * below[place] >= HALF * total)
    if place == below.size - 1:
        return True
    return bool(between[output, place + 1] * above[place + 1] <= (1.0 - HALF) * total)


@part
def _medians(below: FloatArray, above: FloatArray, between: FloatArray, decay: FloatArray, medians: IntArray) -> None:
    """Fill in the lower median of the weights decay(output, x) v(x) for each output; -1 without mass.

    The median does not decrease with the output, so each search starts at the previous median.
    """
    last = below.size - 1
    place = 0
    for output in range(last + 1):
        total = below[output]
        if output < last:
            total += decay[output] * above[output + 1]
        while not _is_median(place, output, total, below, above, between):
            place += 1
        while place > 0 and _is_median(place - 1, output, total, below, above, between):
            place -= 1
        medians[output] = place if total > MASS_FLOOR else -1


@kernel(MATRIX, VECTOR, VECTOR, MATRIX, MATRIX, NEW_CELLS)
def remap_exponential(
    weights: FloatArray,
    row_decay: FloatArray,
    col_decay: FloatArray,
    row_between: FloatArray,
    col_between: FloatArray,
    table: IntArray,
) -> None:
    """Numba version of `remap_exponential`; fills in the table."""
    rows, cols = weights.shape
    through_cols = weights.copy()
    _along_columns(through_cols, col_decay)
    below, above = np.empty((rows, cols)), np.empty((rows, cols))
    _sums_from_below(through_cols, row_decay, below)
    _sums_from_above(through_cols, row_decay, above)
    below_of, above_of, median = below.T.copy(), above.T.copy(), np.empty(rows, np.int64)
    for col in range(cols):
        _medians(below_of[col], above_of[col], row_between, row_decay, median)
        for row in range(rows):
            table[row * cols + col] = median[row]
    through_rows = _along_rows(weights, row_decay)
    left, right, median = np.empty(cols), np.empty(cols), np.empty(cols, np.int64)
    for row in range(rows):
        values = through_rows[row]
        left[0], right[cols - 1] = values[0], values[cols - 1]
        for col in range(1, cols):
            left[col] = values[col] + col_decay[col - 1] * left[col - 1]
        for col in range(cols - 2, -1, -1):
            right[col] = values[col] + col_decay[col] * right[col + 1]
        _medians(left, right, col_between, col_decay, median)
        for col in range(cols):
            output = row * cols + col
            if table[output] >= 0 and median[col] >= 0:
                table[output] = table[output] * cols + median[col]
            else:
                table[output] = output


@kernel(MATRIX, VECTOR, PLACES, VECTOR, MATRIX, VECTOR)
def distance_sums(
    image: FloatArray, across: FloatArray, place: IntArray, decay: FloatArray, between: FloatArray, at_km: FloatArray
) -> FloatArray:
    """Numba version of `_distance_sums`."""
    rows, cols = image.shape
    smoothed = image.copy()
    _along_columns(smoothed, across)
    below, above = np.empty((rows, cols)), np.empty((rows, cols))
    _sums_from_below(smoothed, decay, below)
    _sums_from_above(smoothed, decay, above)
    below_km, above_km = np.zeros((rows, cols)), np.zeros((rows, cols))
    for row in range(1, rows):
        factor, step_km = decay[row - 1], at_km[row] - at_km[row - 1]
        for col in range(cols):
            below_km[row, col] = factor * (below_km[row - 1, col] + step_km * below[row - 1, col])
    for row in range(rows - 2, -1, -1):
        factor, step_km = decay[row], at_km[row + 1] - at_km[row]
        for col in range(cols):
            above_km[row, col] = factor * (above_km[row + 1, col] + step_km * above[row + 1, col])
    sums = np.empty((rows, cols))
    for row in range(rows):
        for col in range(cols):
            to = place[row, col]
            total = below[row, col] + above[row, col] - smoothed[row, col]
            ahead_km = (at_km[row] - at_km[to]) * total + above_km[row, col] - below_km[row, col]
            nearer_km = below_km[to, col] if to <= row else above_km[to, col]
            sums[row, col] = (ahead_km if to <= row else -ahead_km) + 2 * between[row, to] * nearer_km
    return sums


@part
def _run_sum(at: int, first: int, last: int, between: FloatArray, before: FloatArray, after: FloatArray) -> float:
    """Return the sum of between[at, j] over first <= j <= last; `before` and `after` are the sums of one-sided rows."""
    size = len(between)
    if first > at:
        inner = after[first] - (between[first, last + 1] * after[last + 1] if last + 1 < size else 0.0)
        return float(between[at, first] * inner)
    if last < at:
        inner = before[last] - (between[last, first - 1] * before[first - 1] if first > 0 else 0.0)
        return float(between[at, last] * inner)
    left = before[at] - (between[at, first - 1] * before[first - 1] if first > 0 else 0.0)
    right = after[at] - (between[at, last + 1] * after[last + 1] if last + 1 < size else 0.0)
    return float(left + right - 1.0)


@kernel(CELLS_32, CELLS_32, CELLS_32, CELLS_32, MATRIX, MATRIX, VECTOR, VECTOR)
def run_entries(
    cells: IntArray,
    offsets: IntArray,
    first: IntArray,
    stop: IntArray,
    row_between: FloatArray,
    col_between: FloatArray,
    before: FloatArray,
    after: FloatArray,
) -> FloatArray:
    """Numba version of `ExponentialKernel.entries`, without the normalising constants."""
    cols = len(col_between)
    count = offsets.size - 1
    entries = np.empty((cells.size, count))
    of_row, begin, end = np.empty(first.size, np.int64), np.empty(first.size, np.int64), np.empty(first.size, np.int64)
    for run in range(first.size):  # divisions are slow
        of_row[run] = first[run] // cols
        begin[run] = first[run] - of_row[run] * cols
        end[run] = stop[run] - 1 - of_row[run] * cols
    for k in range(cells.size):
        by_row, col = row_between[cells[k] // cols], cells[k] % cols
        for s in range(count):
            total = 0.0
            for run in range(offsets[s], offsets[s + 1]):
                total += by_row[of_row[run]] * _run_sum(col, begin[run], end[run], col_between, before, after)
            entries[k, s] = total
    return entries


@kernel(VECTOR, CELLS_32, CELLS_32, CELLS_32, types.int64)
def scatter(values: FloatArray, offsets: IntArray, first: IntArray, stop: IntArray, n_cells: int) -> FloatArray:
    """Numba version of `sim.inference.source_sets.scatter`."""
    image = np.zeros(n_cells)
    for s in range(values.size):
        for run in range(offsets[s], offsets[s + 1]):
            for cell in range(first[run], stop[run]):
                image[cell] += values[s]
    return image


@kernel(VECTOR, CELLS_32, CELLS_32, CELLS_32)
def gather(image: FloatArray, offsets: IntArray, first: IntArray, stop: IntArray) -> FloatArray:
    """Numba version of `sim.inference.source_sets.gather`."""
    sums = np.zeros(offsets.size - 1)
    for s in range(sums.size):
        for run in range(offsets[s], offsets[s + 1]):
            for cell in range(first[run], stop[run]):
                sums[s] += image[cell]
    return sums
