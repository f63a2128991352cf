"""Numba versions of functions in `sim.lppm.estimates`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS, MATRIX, NEW_CELLS, NEW_VECTOR, VECTOR, kernel, part
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray


@part
def _reached(weights: FloatArray, half: float) -> int:
    """Return the lowest position at which the running sum of the weights reaches half of their total.

    Counts without branches, which the processor could not predict.
    """
    up_to, below = 0.0, 0
    for i in range(weights.size):
        up_to += weights[i]
        below += up_to < half
    return min(below, weights.size - 1)


@part
def _decide(
    sums: FloatArray, slot: IntArray, row_of: IntArray, col_of: IntArray, cols: int, estimates: IntArray
) -> int:
    """Fill in the cell of the median row and column of each output, or -1; return the number of possible outputs at -1.

    `sums[slot]` has the weights of an output in the rows `row_of`, then those in the columns `col_of`; the slot of an
    impossible output is -1.
    """
    missing, n_rows = 0, row_of.size
    for z in range(slot.size):
        estimates[z] = -1
        if slot[z] >= 0:
            weights = sums[slot[z]]
            total = 0.0
            for i in range(n_rows):
                total += weights[i]
            if total > MASS_FLOOR:
                row, col = _reached(weights[:n_rows], HALF * total), _reached(weights[n_rows:], HALF * total)
                estimates[z] = row_of[row] * cols + col_of[col]
            else:
                missing += 1
    return missing


@part
def _slots(table: IntArray) -> tuple[IntArray, int]:
    """Return consecutive numbers for the outputs that the table contains, -1 for others, and their count."""
    slot, count = np.full(table.size, -1, np.int64), 0
    for cell in range(table.size):
        if slot[table[cell]] < 0:
            slot[table[cell]] = count
            count += 1
    return slot, count


@part
def _with_mass(prior: FloatArray, cols: int) -> tuple[IntArray, IntArray]:
    """Return the rows and the columns of the grid with mass."""
    in_row, in_col = np.zeros(prior.size // cols, np.bool_), np.zeros(cols, np.bool_)
    for row in range(in_row.size):
        for col in range(cols):
            if prior[row * cols + col] > 0.0:
                in_row[row] = in_col[col] = True
    return np.flatnonzero(in_row), np.flatnonzero(in_col)


@part
def _factors(
    row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray, row_of: IntArray, col_of: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return F, shape (rows, m), and G, shape (cols, m), for the m rows and columns with mass.

    F[zr, i] G[zc, i] is the weight of the base output (zr, zc) in the i-th row or column with mass.
    """
    rows, cols, n_rows = len(row_kernel), len(col_kernel), row_of.size
    through_cols, through_rows = np.zeros((n_rows, cols)), np.zeros((col_of.size, rows))
    for i in range(n_rows):
        across, weights = row_kernel[row_of[i]], through_cols[i]
        for j in range(col_of.size):
            mass = prior[row_of[i] * cols + col_of[j]]
            if mass > 0.0:
                along, sums = col_kernel[col_of[j]], through_rows[j]
                for zc in range(cols):
                    weights[zc] += mass * along[zc]
                for zr in range(rows):
                    sums[zr] += mass * across[zr]
    by_row, by_col = np.empty((rows, n_rows + col_of.size)), np.empty((cols, n_rows + col_of.size))
    for zr in range(rows):
        for i in range(n_rows):
            by_row[zr, i] = row_kernel[row_of[i], zr]
        for j in range(col_of.size):
            by_row[zr, n_rows + j] = through_rows[j, zr]
    for zc in range(cols):
        for i in range(n_rows):
            by_col[zc, i] = through_cols[i, zc]
        for j in range(col_of.size):
            by_col[zc, n_rows + j] = col_kernel[col_of[j], zc]
    return by_row, by_col


@kernel(MATRIX, MATRIX, CELLS, VECTOR, NEW_CELLS)
def estimates_product(
    row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, prior: FloatArray, estimates: IntArray
) -> int:
    """Numba version of `estimates_product`, without likelihoods: only rows and columns with mass count."""
    rows, cols = len(row_kernel), len(col_kernel)
    row_of, col_of = _with_mass(prior, cols)
    by_row, by_col = _factors(row_kernel, col_kernel, prior, row_of, col_of)
    slot, count = _slots(table)
    sums = np.zeros((count, row_of.size + col_of.size))
    for zr in range(rows):
        across = by_row[zr]
        for zc in range(cols):
            along, weights = by_col[zc], sums[slot[table[zr * cols + zc]]]
            for i in range(weights.size):
                weights[i] += across[i] * along[i]
    return _decide(sums, slot, row_of, col_of, cols, estimates)


@kernel(types.float64, types.float64, CELLS, VECTOR, types.int64, NEW_CELLS)
def estimates_hiding(
    reveal: float, other: float, table: IntArray, prior: FloatArray, cols: int, estimates: IntArray
) -> int:
    """Numba version of `estimates_hiding`, for reveal >= other.

    The weights of an output z are the prior times `other` and the number of outputs mapped to z, plus a step in the
    cells that are mapped to z.
    """
    row_of, col_of = _with_mass(prior, cols)
    n_rows, size = row_of.size, row_of.size + col_of.size
    slot, count = _slots(table)
    sums, once, mapped = np.zeros((count, size)), np.zeros(size), np.zeros(count)
    for cell in range(table.size):
        mapped[slot[table[cell]]] += 1.0
    for i in range(n_rows):
        for j in range(col_of.size):
            cell = row_of[i] * cols + col_of[j]
            once[i] += other * prior[cell]
            once[n_rows + j] += other * prior[cell]
            sums[slot[table[cell]], i] += (reveal - other) * prior[cell]
            sums[slot[table[cell]], n_rows + j] += (reveal - other) * prior[cell]
    for k in range(count):
        for i in range(size):
            sums[k, i] += mapped[k] * once[i]
    return _decide(sums, slot, row_of, col_of, cols, estimates)


@kernel(MATRIX, MATRIX, CELLS, types.int64, NEW_VECTOR)
def row_product(row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, cell: int, row: FloatArray) -> None:
    """Numba version of `row_product`; fills in the row."""
    rows, cols = len(row_kernel), len(col_kernel)
    across, along = row_kernel[cell // cols], col_kernel[cell % cols]
    row[:] = 0.0
    for zr in range(rows):
        for zc in range(cols):
            row[table[zr * cols + zc]] += across[zr] * along[zc]


@kernel(VECTOR, CELLS, VECTOR)
def expected_distance(row: FloatArray, estimates: IntArray, distance_km: FloatArray) -> float:
    """Numba version of `expected_distance_km`; raises IndexError for an estimate outside the grid, as NumPy does."""
    total = 0.0
    for z in range(row.size):
        if not -distance_km.size <= estimates[z] < distance_km.size:
            raise IndexError("an estimate by output is outside the grid")
        total += row[z] * distance_km[estimates[z]]
    return total


@kernel(MATRIX, MATRIX, CELLS, types.int64, NEW_VECTOR)
def column_product(
    row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, output: int, column: FloatArray
) -> None:
    """Numba version of `columns_product` for one output, with the same sums; fills in the column."""
    rows, cols = len(row_kernel), len(col_kernel)
    in_row = np.empty(cols)
    column[:] = 0.0
    for zr in range(rows):
        met = False
        for zc in range(cols):
            if table[zr * cols + zc] == output:
                if not met:
                    met = True
                    in_row[:] = 0.0
                for xc in range(cols):
                    in_row[xc] += col_kernel[xc, zc]
        if met:
            for xr in range(rows):
                factor = row_kernel[xr, zr]
                for xc in range(cols):
                    column[xr * cols + xc] += factor * in_row[xc]
