"""Numba versions of functions in `sim.lppm.remap`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS, MATRIX, VECTOR, kernel, part
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray


@part
def _medians(factors: FloatArray, weights: FloatArray, up_to: FloatArray, below: FloatArray, medians: IntArray) -> None:
    """Fill in, for each z, the lowest x at which sums of factors[x] weights[x, z] reach half the total, or -1.

    The median is the number of sums below half. Counting uses vector instructions; a search has branches that the
    processor cannot predict.
    """
    last, outputs = len(weights) - 1, weights.shape[1]
    total = up_to[last]
    for z in range(outputs):
        up_to[0, z] = factors[0] * weights[0, z]
        below[z] = 0.0
    for x in range(1, last + 1):
        before, here, row, factor = up_to[x - 1], up_to[x], weights[x], factors[x]
        for z in range(outputs):
            here[z] = before[z] + factor * row[z]
    for x in range(last):
        here = up_to[x]
        for z in range(outputs):
            below[z] += 1.0 if here[z] < HALF * total[z] else 0.0
    for z in range(outputs):
        medians[z] = int(below[z]) if total[z] > MASS_FLOOR else -1


@kernel(MATRIX, MATRIX, VECTOR)
def remap_product(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> IntArray:
    """Numba version of `remap_product`: the median row and column of each output, from running sums."""
    rows, cols = len(row_kernel), len(col_kernel)
    on_grid = prior.reshape(rows, cols)
    through_cols = np.dot(col_kernel.T, on_grid.T)  # [zc, xr]: the prior times the kernel of columns
    through_rows = np.dot(on_grid.T, row_kernel)  # [xc, zr]: the prior times the kernel of rows
    up_to, below = np.empty((max(rows, cols), rows)), np.empty(rows)
    row, col = np.empty(rows, np.int64), np.empty(rows, np.int64)
    table = np.empty(rows * cols, np.int64)
    for zc in range(cols):
        _medians(through_cols[zc], row_kernel, up_to, below, row)
        _medians(col_kernel[:, zc], through_rows, up_to, below, col)
        for zr in range(rows):
            table[zr * cols + zc] = zr * cols + zc if row[zr] < 0 else row[zr] * cols + col[zr]
    return table


@part
def _first_reaching(up_to: FloatArray, low: int, high: int, threshold: float) -> int:
    """Return the lowest k in [low, high] with up_to[k] >= threshold, or `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if up_to[middle] >= threshold:
            high = middle
        else:
            low = middle + 1
    return low


@part
def _stepped_median(up_to: FloatArray, step: float, own: int, threshold: float) -> int:
    """Return the lowest k with up_to[k] + step * (k >= own) >= threshold."""
    if own > 0 and up_to[own - 1] >= threshold:
        return _first_reaching(up_to, 0, own - 1, threshold)
    return _first_reaching(up_to, own, up_to.size - 1, threshold - step)


@kernel(types.float64, types.float64, VECTOR, types.int64, types.int64)
def remap_hiding(reveal: float, other: float, prior: FloatArray, rows: int, cols: int) -> IntArray:
    """Numba version of `remap_hiding`, for the Manhattan distance on a grid and reveal >= other."""
    rows_up_to, cols_up_to = np.zeros(rows), np.zeros(cols)
    for row in range(rows):
        for col in range(cols):
            rows_up_to[row] += other * prior[row * cols + col]
            cols_up_to[col] += other * prior[row * cols + col]
    for row in range(1, rows):
        rows_up_to[row] += rows_up_to[row - 1]
    for col in range(1, cols):
        cols_up_to[col] += cols_up_to[col - 1]
    table = np.empty(rows * cols, np.int64)
    for output in range(rows * cols):
        step = (reveal - other) * prior[output]
        total = rows_up_to[rows - 1] + step
        if total > MASS_FLOOR:
            row = _stepped_median(rows_up_to, step, output // cols, HALF * total)
            col = _stepped_median(cols_up_to, step, output % cols, HALF * total)
            table[output] = row * cols + col
        else:
            table[output] = output
    return table


@kernel(MATRIX, MATRIX, CELLS, CELLS)
def columns_product(row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, outputs: IntArray) -> FloatArray:
    """Numba version of `columns_product`."""
    rows, cols = len(row_kernel), len(col_kernel)
    slot = np.full(rows * cols, -1, np.int64)
    for k in range(outputs.size):
        if 0 <= outputs[k] < slot.size:
            slot[outputs[k]] = k
    sums = np.zeros((outputs.size, rows * cols))
    in_row = np.zeros((outputs.size, cols))  # [output, xc]: sums of the column kernel over the outputs z~ of one row
    met = np.empty(cols, np.int64)
    for zr in range(rows):
        n_met = 0
        for zc in range(cols):
            k = slot[table[zr * cols + zc]]
            if k >= 0:
                new = True
                for i in range(n_met):
                    new = new and met[i] != k
                if new:
                    met[n_met] = k
                    n_met += 1
                    in_row[k] = 0.0
                for xc in range(cols):
                    in_row[k, xc] += col_kernel[xc, zc]
        for i in range(n_met):
            k = met[i]
            for xr in range(rows):
                factor = row_kernel[xr, zr]
                for xc in range(cols):
                    sums[k, xr * cols + xc] += factor * in_row[k, xc]
    return sums


@kernel(types.float64, types.float64, CELLS, CELLS)
def columns_hiding(reveal: float, other: float, table: IntArray, outputs: IntArray) -> FloatArray:
    """Numba version of `columns_hiding`."""
    n_cells = table.size
    counts = np.zeros(n_cells, np.int64)
    for cell in range(n_cells):
        counts[table[cell]] += 1
    sums = np.empty((outputs.size, n_cells))
    for k in range(outputs.size):
        count = counts[outputs[k]] if 0 <= outputs[k] < n_cells else 0
        inside, outside = reveal + (count - 1) * other, count * other
        for cell in range(n_cells):
            sums[k, cell] = inside if table[cell] == outputs[k] else outside
    return sums
