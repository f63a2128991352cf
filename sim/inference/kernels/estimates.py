"""Numba versions of functions in `sim.lppm.estimates`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS, MATRIX, NEW_CELLS, NEW_VECTOR, VECTOR, kernel, part
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import BoolArray, FloatArray, IntArray


@part
def _accumulate(weights: FloatArray) -> None:
    """Replace the rows by their running sums."""
    for i in range(1, len(weights)):
        before, here = weights[i - 1], weights[i]
        for z in range(here.size):
            here[z] += before[z]


@part
def _decide(
    rows_up_to: FloatArray,
    cols_up_to: FloatArray,
    row_of: IntArray,
    col_of: IntArray,
    cols: int,
    possible: BoolArray,
    estimates: IntArray,
) -> int:
    """Fill in the cell of the median row and column of each output, or -1; return the number of possible outputs at -1.

    The running sums have one entry for each row and each column with mass, [entry, output]; `row_of` and `col_of` are
    the rows and columns of the entries.
    """
    missing, last_row, last_col = 0, len(rows_up_to) - 1, len(cols_up_to) - 1
    row, col = 0, 0  # neighbouring outputs have similar medians: each search starts at the previous median
    for z in range(estimates.size):
        total = rows_up_to[last_row, z] if last_row >= 0 else 0.0
        if not (possible[z] and total > MASS_FLOOR):
            estimates[z] = -1
            missing += possible[z]
            continue
        half = HALF * total
        while row < last_row and rows_up_to[row, z] < half:
            row += 1
        while row > 0 and rows_up_to[row - 1, z] >= half:
            row -= 1
        while col < last_col and cols_up_to[col, z] < half:
            col += 1
        while col > 0 and cols_up_to[col - 1, z] >= half:
            col -= 1
        estimates[z] = row_of[row] * cols + col_of[col]
    return missing


@part
def _through(
    row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray
) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
    """Return the prior times the kernel of columns, [xr, zc], and of rows, [xc, zr], and where there is mass."""
    rows, cols = len(row_kernel), len(col_kernel)
    through_cols, through_rows = np.zeros((rows, cols)), np.zeros((cols, rows))
    in_row, in_col = np.zeros(rows, np.bool_), np.zeros(cols, np.bool_)
    for xr in range(rows):
        for xc in range(cols):
            mass = prior[xr * cols + xc]
            if mass > 0.0:
                in_row[xr] = in_col[xc] = True
                for zc in range(cols):
                    through_cols[xr, zc] += mass * col_kernel[xc, zc]
                for zr in range(rows):
                    through_rows[xc, zr] += mass * row_kernel[xr, zr]
    return through_cols, through_rows, np.flatnonzero(in_row), np.flatnonzero(in_col)


@kernel(MATRIX, MATRIX, CELLS, VECTOR, NEW_CELLS)
def estimates_product(
    row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, prior: FloatArray, estimates: IntArray
) -> int:
    """Numba version of `estimates_product`, without likelihoods: only rows and columns with mass count."""
    rows, cols = len(row_kernel), len(col_kernel)
    through_cols, through_rows, row_of, col_of = _through(row_kernel, col_kernel, prior)
    n_rows, n_cols = row_of.size, col_of.size
    by_row, by_col = np.zeros((n_rows, rows * cols)), np.zeros((n_cols, rows * cols))
    possible = np.zeros(rows * cols, np.bool_)
    for zr in range(rows):
        mapped = table[zr * cols : (zr + 1) * cols]
        for zc in range(cols):
            possible[mapped[zc]] = True
        for i in range(n_rows):
            factor, weights, sums = row_kernel[row_of[i], zr], through_cols[row_of[i]], by_row[i]
            for zc in range(cols):
                sums[mapped[zc]] += factor * weights[zc]
        for j in range(n_cols):
            factor, weights, sums = through_rows[col_of[j], zr], col_kernel[col_of[j]], by_col[j]
            for zc in range(cols):
                sums[mapped[zc]] += factor * weights[zc]
    _accumulate(by_row)
    _accumulate(by_col)
    return _decide(by_row, by_col, row_of, col_of, cols, possible, estimates)


@kernel(types.float64, types.float64, CELLS, VECTOR, types.int64, NEW_CELLS)
def estimates_hiding(
    reveal: float, other: float, table: IntArray, prior: FloatArray, cols: int, estimates: IntArray
) -> int:
    """Numba version of `estimates_hiding`, for reveal >= other.

    The weights of an output z are the prior times `other` and the number of outputs mapped to z, plus a step in the
    cells that are mapped to z.
    """
    n_cells = prior.size
    rows = n_cells // cols
    row_mass, col_mass, counts = np.zeros(rows), np.zeros(cols), np.zeros(n_cells, np.int64)
    for cell in range(n_cells):
        counts[table[cell]] += 1
        row_mass[cell // cols] += prior[cell]
        col_mass[cell % cols] += prior[cell]
    row_of, col_of = np.flatnonzero(row_mass), np.flatnonzero(col_mass)
    row_at, col_at = np.empty(rows, np.int64), np.empty(cols, np.int64)
    by_row, by_col = np.empty((row_of.size, n_cells)), np.empty((col_of.size, n_cells))
    for i in range(row_of.size):
        row_at[row_of[i]] = i
        for z in range(n_cells):
            by_row[i, z] = other * counts[z] * row_mass[row_of[i]]
    for j in range(col_of.size):
        col_at[col_of[j]] = j
        for z in range(n_cells):
            by_col[j, z] = other * counts[z] * col_mass[col_of[j]]
    for cell in range(n_cells):
        if prior[cell] > 0.0:
            step = (reveal - other) * prior[cell]
            by_row[row_at[cell // cols], table[cell]] += step
            by_col[col_at[cell % cols], table[cell]] += step
    _accumulate(by_row)
    _accumulate(by_col)
    return _decide(by_row, by_col, row_of, col_of, cols, counts > 0, estimates)


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
