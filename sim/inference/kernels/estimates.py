"""Numba versions of functions in `sim.lppm.estimates`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS, MATRIX, NEW_CELLS, NEW_VECTOR, VECTOR, kernel, part
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray


@part
def _with_mass(prior: FloatArray) -> IntArray:
    """Return the cells with mass."""
    cells, count = np.empty(prior.size, np.int64), 0
    for cell in range(prior.size):
        cells[count] = cell
        count += prior[cell] > 0.0
    return cells[:count]


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
def _whole(size: int) -> int:
    """Return the next multiple of eight: inner loops of that length need no steps of single numbers."""
    return (size + 7) // 8 * 8


@part
def _factors_of_cells(
    row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray, cells: IntArray, share: float
) -> tuple[FloatArray, FloatArray]:
    """Return factors F[zr, i] and G[zc, i] of the weight of the base output (zr, zc) in the i-th cell, zero-padded.

    Weights are multiplied by `share`.
    """
    rows, cols, size = len(row_kernel), len(col_kernel), _whole(cells.size)
    by_row, by_col = np.zeros((rows, size)), np.zeros((cols, size))
    for i in range(cells.size):
        mass, across, along = share * prior[cells[i]], row_kernel[cells[i] // cols], col_kernel[cells[i] % cols]
        for zr in range(rows):
            by_row[zr, i] = mass * across[zr]
        for zc in range(cols):
            by_col[zc, i] = along[zc]
    return by_row, by_col


@part
def _factors_of_axes(
    row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray, cells: IntArray, share: float
) -> tuple[FloatArray, FloatArray]:
    """Return factors F[zr, i] and G[zc, i] of the weight in the i-th row, then in the i-th column, zero-padded.

    Weights are multiplied by `share`.
    """
    rows, cols = len(row_kernel), len(col_kernel)
    by_row, by_col = np.zeros((rows, _whole(rows + cols))), np.zeros((cols, _whole(rows + cols)))
    for row in range(rows):
        for zr in range(rows):
            by_row[zr, row] = row_kernel[row, zr]
    for col in range(cols):
        for zc in range(cols):
            by_col[zc, rows + col] = col_kernel[col, zc]
    through_cols, through_rows = np.zeros((rows, cols)), np.zeros((cols, rows))
    for cell in cells:
        row, col, mass = cell // cols, cell % cols, share * prior[cell]
        across, along, sums, weights = row_kernel[row], col_kernel[col], through_rows[col], through_cols[row]
        for zc in range(cols):
            weights[zc] += mass * along[zc]
        for zr in range(rows):
            sums[zr] += mass * across[zr]
    by_row[:, rows : rows + cols] = through_rows.T
    by_col[:, :rows] = through_cols.T
    return by_row, by_col


@part
def _sums(by_row: FloatArray, by_col: FloatArray, table: IntArray, slot: IntArray, count: int) -> FloatArray:
    """Return the products of the factors, summed over the base outputs that become the same output."""
    sums = np.zeros((count, by_row.shape[1]))
    for zr in range(len(by_row)):
        across = by_row[zr]
        for zc in range(len(by_col)):
            along, weights = by_col[zc], sums[slot[table[zr * len(by_col) + zc]]]
            for i in range(weights.size):
                weights[i] += across[i] * along[i]
    return sums


@part
def _reveal(
    sums: FloatArray,
    slot: IntArray,
    prior: FloatArray,
    reveal: float,
    cells: IntArray,
    parts: tuple[IntArray, IntArray],
) -> None:
    """Add the weights of outputs that reveal the true cell: `reveal` times the prior, in the cell of the output.

    `parts` has the places of the weights of each of the `cells`: one place, twice, or that of its row and its column.
    """
    for i in range(cells.size):
        k = slot[cells[i]]
        if k >= 0:
            sums[k, parts[0][i]] += reveal * prior[cells[i]]
            if parts[1][i] != parts[0][i]:
                sums[k, parts[1][i]] += reveal * prior[cells[i]]


@part
def _decide_revealed(slot: IntArray, prior: FloatArray, reveal: float, estimates: IntArray) -> int:
    """Fill in the estimates of outputs that only reveal the true cell; return the number of those without mass."""
    missing = 0
    for z in range(slot.size):
        if reveal > 0.0 and slot[z] < 0:
            if reveal * prior[z] > MASS_FLOOR:
                estimates[z] = z
            else:
                missing += 1
    return missing


@part
def _count_below_half(weights: FloatArray, order: IntArray, total: FloatArray, below: FloatArray) -> None:
    """Count the running sums of each output, in this order, that are below half of the total.

    `weights` has a row for each summand and a column for each output. Counting uses vector instructions; a search has
    branches that the processor cannot predict.
    """
    up_to = np.zeros(total.size)
    for i in range(order.size - 1):
        here = weights[order[i]]
        for k in range(total.size):
            up_to[k] += here[k]
            below[k] += 1.0 if up_to[k] < HALF * total[k] else 0.0


@part
def _decide(
    sums: FloatArray,
    slot: IntArray,
    order: tuple[IntArray, IntArray],
    place: tuple[IntArray, IntArray],
    cols: int,
    estimates: IntArray,
) -> int:
    """Fill in the cell of the median row and column of each output, or -1; return the number of possible outputs at -1.

    `sums[slot]` has the weights of an output; the slot of an impossible output is -1. The first item of `order` has the
    numbers of the weights whose median is the row, ascending by row, and the first item of `place` the row of each
    weight; the second items have the same for columns.
    """
    weights, missing = np.ascontiguousarray(sums.T), 0
    total, below = np.zeros(len(sums)), np.zeros((2, len(sums)))
    for i in order[0]:
        here = weights[i]
        for k in range(total.size):
            total[k] += here[k]
    _count_below_half(weights, order[0], total, below[0])
    _count_below_half(weights, order[1], total, below[1])
    for z in range(slot.size):
        k = slot[z]
        estimates[z] = -1
        if k >= 0:
            if total[k] > MASS_FLOOR:
                row, col = place[0][order[0][int(below[0, k])]], place[1][order[1][int(below[1, k])]]
                estimates[z] = row * cols + col
            else:
                missing += 1
    return missing


@part
def _axes(rows: int, cols: int) -> tuple[tuple[IntArray, IntArray], tuple[IntArray, IntArray]]:
    """Return `order` and `place` of `_decide` for the weights of all rows, then of all columns."""
    number = np.arange(rows + cols)
    return (number[:rows], number[rows:]), (number, number - rows)


@part
def _by_column(col_of: IntArray, cols: int) -> IntArray:
    """Return the positions of the cells, ascending by column."""
    order, count = np.empty(col_of.size, np.int64), 0
    for col in range(cols):
        for i in range(col_of.size):
            if col_of[i] == col:
                order[count] = i
                count += 1
    return order


@kernel(MATRIX, MATRIX, CELLS, VECTOR, types.float64, NEW_CELLS)
def estimates_product(
    row_kernel: FloatArray,
    col_kernel: FloatArray,
    table: IntArray,
    prior: FloatArray,
    reveal: float,
    estimates: IntArray,
) -> int:
    """Numba version of `estimates_product`, without likelihoods.

    The weights of an output are those of the cells with mass if they are few, otherwise those of rows and columns.
    """
    rows, cols = len(row_kernel), len(col_kernel)
    cells = _with_mass(prior)
    slot, count = _slots(table)
    if cells.size <= rows + cols:
        by_row, by_col = _factors_of_cells(row_kernel, col_kernel, prior, cells, 1.0 - reveal)
        row_of, col_of = cells // cols, cells % cols
        order, place = (np.arange(cells.size), _by_column(col_of, cols)), (row_of, col_of)
        parts = (order[0], order[0])
    else:
        by_row, by_col = _factors_of_axes(row_kernel, col_kernel, prior, cells, 1.0 - reveal)
        order, place = _axes(rows, cols)
        parts = (cells // cols, rows + cells % cols)
    sums = _sums(by_row, by_col, table, slot, count)
    _reveal(sums, slot, prior, reveal, cells, parts)
    missing = _decide(sums, slot, order, place, cols, estimates)
    return missing + _decide_revealed(slot, prior, reveal, estimates)


@kernel(types.float64, types.float64, CELLS, VECTOR, types.int64, NEW_CELLS)
def estimates_hiding(
    reveal: float, other: float, table: IntArray, prior: FloatArray, cols: int, estimates: IntArray
) -> int:
    """Numba version of `estimates_hiding`, for reveal >= other.

    The weights of an output z are the prior times `other` and the number of outputs mapped to z, plus a step in the
    cells that are mapped to z.
    """
    rows = table.size // cols
    slot, count = _slots(table)
    sums, once, mapped = np.zeros((count, rows + cols)), np.zeros(rows + cols), np.zeros(count)
    for cell in range(table.size):
        mapped[slot[table[cell]]] += 1.0
    for cell in _with_mass(prior):
        own = sums[slot[table[cell]]]
        for i in (cell // cols, rows + cell % cols):
            once[i] += other * prior[cell]
            own[i] += (reveal - other) * prior[cell]
    for k in range(count):
        for i in range(once.size):
            sums[k, i] += mapped[k] * once[i]
    order, place = _axes(rows, cols)
    return _decide(sums, slot, order, place, cols, estimates)


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
