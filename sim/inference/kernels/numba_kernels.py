"""Kernels compiled by numba: the loops in which a simulation spends its time.

Import them through `sim.inference.kernels`, which decides whether compiled code is used. The NumPy function of the same
name in `sim.inference.bayes`, `sim.inference.estimate` or `sim.lppm.remap` is the reference of each kernel; tests
compare the two. Loops run over the last axis of an array, so that the compiler can use vector instructions without
being allowed to reorder a sum.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types

from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import BoolArray, FloatArray, IntArray

Function = TypeVar("Function", bound=Callable[..., Any])


VECTOR, MATRIX = (types.Array(types.float64, axes, "C", readonly=True) for axes in (1, 2))
CELLS = types.Array(types.int64, 1, "C", readonly=True)
FLAGS = types.Array(types.boolean, 1, "C", readonly=True)


def kernel(*arguments: types.Type) -> Callable[[Function], Function]:
    """Compile a function for these types of arguments, or load what an earlier process has compiled."""
    return cast(Callable[[Function], Function], numba.njit([arguments], cache=True, error_model="numpy"))


def part(function: Function) -> Function:
    """Compile a function together with the kernels that call it."""
    return cast(Function, numba.njit(error_model="numpy")(function))


# --- believing and deciding ------------------------------------------------------------------------------------------


@kernel(VECTOR, VECTOR)
def condition(prior: FloatArray, likelihood: FloatArray) -> tuple[FloatArray, float]:
    """Return what `inference.condition` does."""
    joint = np.empty(prior.size)
    mass = 0.0
    for cell in range(prior.size):
        joint[cell] = prior[cell] * likelihood[cell]
        mass += joint[cell]
    if not mass > MASS_FLOOR:
        return np.zeros(prior.size), 0.0
    for cell in range(prior.size):
        joint[cell] /= mass
    return joint, mass


@kernel(VECTOR, MATRIX)
def predict(posterior: FloatArray, transition: FloatArray) -> FloatArray:
    """Return what `inference.predict` does; of a posterior with few cells, only their rows are read."""
    prediction = np.zeros(transition.shape[1])
    for cell in range(posterior.size):
        mass, row = posterior[cell], transition[cell]
        if mass > 0.0:
            for to in range(prediction.size):
                prediction[to] += mass * row[to]
    return prediction


@kernel(VECTOR, MATRIX, types.int64, types.int64)
def decide_each(prior: FloatArray, likelihoods: FloatArray, rows: int, cols: int) -> IntArray:
    """Return what `inference.decide_each` does, for the Manhattan distance on a grid.

    Only cells with mass count, and the profile of one person has few: they come first, then all outputs side by side.
    """
    count = len(likelihoods)
    rows_up_to, cols_up_to = np.zeros((rows, count)), np.zeros((cols, count))
    for cell in range(prior.size):
        mass, by_row, by_col = prior[cell], rows_up_to[cell // cols], cols_up_to[cell % cols]
        if mass > 0.0:
            for k in range(count):
                weight = mass * likelihoods[k, cell]
                by_row[k] += weight
                by_col[k] += weight
    for row in range(1, rows):
        rows_up_to[row] += rows_up_to[row - 1]
    for col in range(1, cols):
        cols_up_to[col] += cols_up_to[col - 1]
    estimates = np.empty(count, np.int64)
    for k in range(count):
        total = rows_up_to[rows - 1, k]
        row, col = 0, 0
        while row < rows - 1 and rows_up_to[row, k] < HALF * total:
            row += 1
        while col < cols - 1 and cols_up_to[col, k] < HALF * total:
            col += 1
        estimates[k] = row * cols + col if total > MASS_FLOOR else -1
    return estimates


@kernel(VECTOR, types.int64, types.int64)
def decide(posterior: FloatArray, rows: int, cols: int) -> int:
    """Return what `inference.decide` does, for the Manhattan distance on a grid."""
    by_row, by_col = np.zeros(rows), np.zeros(cols)
    for row in range(rows):
        for col in range(cols):
            by_row[row] += posterior[row * cols + col]
            by_col[col] += posterior[row * cols + col]
    total = by_row.sum()
    if not total > MASS_FLOOR:
        return -1
    row, running = 0, by_row[0]
    while row < rows - 1 and running < HALF * total:
        row += 1
        running += by_row[row]
    col, running = 0, by_col[0]
    while col < cols - 1 and running < HALF * total:
        col += 1
        running += by_col[col]
    return row * cols + col


# --- remapping ------------------------------------------------------------------------------------------------------


@part
def _medians(factors: FloatArray, weights: FloatArray, up_to: FloatArray, medians: IntArray) -> None:
    """Fill in, for each z, the lowest x at which sums of factors[x] weights[x, z] reach the half, -1 without mass."""
    last, outputs = len(weights) - 1, weights.shape[1]
    before, row, factor = up_to[0], weights[0], factors[0]
    for z in range(outputs):
        before[z] = factor * row[z]
    for x in range(1, last + 1):
        here, row, factor = up_to[x], weights[x], factors[x]
        for z in range(outputs):
            here[z] = before[z] + factor * row[z]
        before = here
    x = 0  # neighbours have medians near to each other: each is looked for from the last
    for z in range(outputs):
        half = HALF * before[z]
        while x < last and up_to[x, z] < half:
            x += 1
        while x > 0 and up_to[x - 1, z] >= half:
            x -= 1
        medians[z] = x if before[z] > MASS_FLOOR else -1


@kernel(MATRIX, MATRIX, VECTOR)
def remap_product(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> IntArray:
    """Return what `remap.remap_product` does: a row and a column for each output, from running sums."""
    rows, cols = len(row_kernel), len(col_kernel)
    on_grid = prior.reshape(rows, cols)
    through_cols = np.dot(col_kernel.T, on_grid.T)  # [zc, xr]: the prior seen through the kernel of columns
    through_rows = np.dot(on_grid.T, row_kernel)  # [xc, zr]: and through that of rows
    up_to = np.empty((max(rows, cols), rows))
    row, col = np.empty(rows, np.int64), np.empty(rows, np.int64)
    table = np.empty(rows * cols, np.int64)
    for zc in range(cols):
        _medians(through_cols[zc], row_kernel, up_to, row)
        _medians(col_kernel[:, zc], through_rows, up_to, col)
        for zr in range(rows):
            table[zr * cols + zc] = zr * cols + zc if row[zr] < 0 else row[zr] * cols + col[zr]
    return table


@part
def _first_reaching(up_to: FloatArray, low: int, high: int, threshold: float) -> int:
    """Return the lowest k in [low, high] with up_to[k] at least the threshold, `high` if there is none."""
    while low < high:
        middle = (low + high) // 2
        if up_to[middle] >= threshold:
            high = middle
        else:
            low = middle + 1
    return low


@part
def _stepped_median(up_to: FloatArray, step: float, own: int, threshold: float) -> int:
    """Return the lowest k with up_to[k] + step * (k >= own) at least the threshold."""
    if own > 0 and up_to[own - 1] >= threshold:
        return _first_reaching(up_to, 0, own - 1, threshold)
    return _first_reaching(up_to, own, up_to.size - 1, threshold - step)


@kernel(types.float64, types.float64, VECTOR, types.int64, types.int64)
def remap_hiding(reveal: float, other: float, prior: FloatArray, rows: int, cols: int) -> IntArray:
    """Return what `remap.remap_hiding` does, for the Manhattan distance on a grid and reveal >= other."""
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
    """Return f(z | .) of each output z: the sum over all z~ that the table sends to it, of a product of kernels."""
    rows, cols = len(row_kernel), len(col_kernel)
    slot = np.full(rows * cols, -1, np.int64)
    for k in range(outputs.size):
        if 0 <= outputs[k] < slot.size:
            slot[outputs[k]] = k
    sums = np.zeros((outputs.size, rows * cols))
    in_row = np.zeros((outputs.size, cols))  # [output, xc]: the column kernel over the z~ of one row
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
    """Return what `remap.columns_hiding` does."""
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


# --- estimating -----------------------------------------------------------------------------------------------------


@kernel(CELLS, VECTOR)
def refine(groups: IntArray, row: FloatArray) -> IntArray:
    """Return what `estimate.refine` does: the first cells of the parts of a group form a chain that is searched."""
    n_cells = groups.size
    finer = np.empty(n_cells, np.int64)
    following = np.full(n_cells, -1, np.int64)
    for cell in range(n_cells):
        first = groups[cell]
        while row[first] != row[cell] and following[first] >= 0:
            first = following[first]
        if row[first] != row[cell]:
            following[first] = cell
            first = cell
        finer[cell] = first
    return finer


@part
def _factorise(gram: FloatArray, ridge: float, free: IntArray, factor: FloatArray) -> bool:
    """Fill in the Cholesky factor of the free rows and columns, a ridge added; False if there is none."""
    for i in range(free.size):
        for j in range(i + 1):
            entry = gram[free[i], free[j]]
            for k in range(j):
                entry -= factor[i, k] * factor[j, k]
            if j < i:
                factor[i, j] = entry / factor[j, j]
            elif entry + ridge > 0.0:
                factor[i, i] = np.sqrt(entry + ridge)
            else:
                return False
    return True


@part
def _solve(factor: FloatArray, vector: FloatArray) -> None:
    """Solve factor @ factor' @ x = vector in place."""
    for i in range(vector.size):
        for j in range(i):
            vector[i] -= factor[i, j] * vector[j]
        vector[i] /= factor[i, i]
    for i in range(vector.size - 1, -1, -1):
        vector[i] /= factor[i, i]
        for j in range(i):
            vector[j] -= factor[i, j] * vector[i]


@part
def _wrongly_fixed(gram: FloatArray, theta: FloatArray, free: IntArray, value: float) -> int:
    """Return the entry at nought that would lower theta' gram theta, now `value`, the most; -1 if there is none."""
    worst, steepest = -1, value - 1e-9 * abs(value)
    for j in range(theta.size):
        if theta[j] == 0.0 and not (free == j).any():
            slope = 0.0
            for i in free:
                slope += gram[j, i] * theta[i]
            if slope < steepest:
                worst, steepest = j, slope
    return worst


@part
def _minimise(gram: FloatArray, theta: FloatArray, free: IntArray, factor: FloatArray, level: FloatArray) -> int:
    """Move theta to the minimiser of theta' gram theta over the simplex, by an active set.

    Without theta >= 0 the minimiser is the solution of gram @ level = 1, up to scale. It is gone towards as far as
    nothing falls below nought; what would is given up, and the rest solved again. In the end, what was given up too
    soon comes back. Returns how many entries are `free`, whose Cholesky factor and level stay behind for corrections;
    0 if the matrix is beyond repair.
    """
    size = len(gram)
    trace = 0.0
    for i in range(size):
        free[i] = i
        trace += gram[i, i]
    ridge = 1e-15 * trace
    n_free = size
    for _ in range(10 * size + 20):  # an active set seldom needs more than two rounds
        if not _factorise(gram, ridge, free[:n_free], factor):
            ridge *= 10.0
            if not 0.0 < ridge < 1e-3 * trace:
                return 0
            continue
        level[:n_free] = 1.0
        _solve(factor, level[:n_free])
        total = level[:n_free].sum()
        length, first = 1.0, -1
        for i in range(n_free):
            here, there = theta[free[i]], level[i] / total
            if there < 0.0 and here / (here - there) < length:
                length, first = here / (here - there), i
        kept = 0
        for i in range(n_free):
            j, there = free[i], level[i] / total
            moved = (1.0 - length) * theta[j] + length * there
            if i == first or (there < 0.0 and moved <= 0.0):
                theta[j] = 0.0
            else:
                theta[j] = max(moved, 0.0)
                free[kept] = j
                kept += 1
        if kept < n_free:
            n_free = kept
        else:
            back = _wrongly_fixed(gram, theta, free[:n_free], 1.0 / total)
            if back < 0:
                return n_free
            free[n_free] = back
            n_free += 1
    return 0


@part
def _correct(
    columns: FloatArray,
    weights: FloatArray,
    mass: FloatArray,
    free: IntArray,
    factor: FloatArray,
    level: FloatArray,
    gap: float,
    corrections: int,
) -> None:
    """Move the mass as `estimate._corrected` does; what is not free keeps its place."""
    last = 0.2
    best, uphill = mass.copy(), np.empty(free.size)
    for _ in range(corrections + 1):
        slopes = np.dot(columns, weights / np.dot(mass, columns))
        steepest = 0.0
        for i in range(free.size):
            uphill[i] = slopes[free[i]] - 1.0
            steepest = max(steepest, abs(uphill[i]))
        if not steepest < 0.5 * last:
            break
        last = steepest
        best[:] = mass
        if steepest <= gap:
            break
        _solve(factor, uphill)
        drift = uphill.sum() / level.sum()
        for i in range(free.size):
            uphill[i] -= drift * level[i]
            mass[free[i]] += uphill[i]
        if mass.min() < 0.0:
            break
    mass[:] = best


@part
def _enter(
    gradient: FloatArray, representative: BoolArray, inside: BoolArray, excess: float, entering: IntArray
) -> int:
    """Fill in the columns that `estimate._candidates` would return, the best first; return how many there are."""
    found = 0
    while found < entering.size:
        best, gain = -1, 0.5 * excess
        for cell in range(gradient.size):
            if gradient[cell] - 1.0 > gain and representative[cell] and not inside[cell]:
                best, gain = cell, gradient[cell] - 1.0
        if best < 0:
            break
        inside[best] = True
        entering[found] = best
        found += 1
    return found


@part
def _keep(mass: FloatArray, support: IntArray, columns: FloatArray, inside: BoolArray) -> int:
    """Move the columns that have mass to the front; return how many they are."""
    kept = 0
    for j in range(mass.size):
        if mass[j] > 0.0:
            if kept < j:
                support[kept], mass[kept] = support[j], mass[j]
                for s in range(columns.shape[1]):
                    columns[kept, s] = columns[j, s]
            kept += 1
        else:
            inside[support[j]] = False
    return kept


@part
def _gather(rows: FloatArray, cells: IntArray, columns: FloatArray) -> None:
    """Fill in the columns of these cells."""
    for s in range(len(rows)):
        for j in range(cells.size):
            columns[j, s] = rows[s, cells[j]]


@part
def _line_search(fitted: FloatArray, target: FloatArray, weights: FloatArray) -> float:
    """Return what `estimate._line_search` does. The target is written over."""
    slope, lowest = 0.0, 0.0
    for s in range(fitted.size):
        target[s] = target[s] / fitted[s] - 1.0
        slope += weights[s] * target[s]
        lowest = min(lowest, target[s])
    length = 1.0 if slope > 0.0 else 0.0
    while length > 1e-10:
        if lowest * length > -1.0:
            gain = 0.0
            for s in range(fitted.size):
                gain += weights[s] * np.log1p(length * target[s])
            if gain >= 1e-4 * length * slope:
                return length
        length /= 2
    return 0.0


@kernel(MATRIX, VECTOR, VECTOR, FLAGS, types.int64, types.int64, types.float64, types.int64)
def climb(
    rows: FloatArray,
    weights: FloatArray,
    point: FloatArray,
    representative: BoolArray,
    candidates: int,
    corrections: int,
    gap: float,
    max_iterations: int,
) -> tuple[FloatArray, FloatArray, float, int, bool]:
    """Return what `estimate._climb` does: the same steps, with the columns of the support kept side by side."""
    count, n_cells = rows.shape
    inside = point > 0.0
    size = int(np.count_nonzero(inside))
    room = min(n_cells, size + count + candidates)  # an optimum has no more columns than rows
    support, mass, target, level = np.empty(room, np.int64), np.empty(room), np.empty(room), np.empty(room)
    columns, scaled = np.empty((room, count)), np.empty((room, count))
    free, factor = np.empty(room, np.int64), np.empty((room, room))
    support[:size] = np.flatnonzero(inside)
    mass[:size] = point[inside]
    _gather(rows, support[:size], columns)
    roots, ratio = np.sqrt(weights), np.empty(count)
    iterations, stalled = 0, False
    while True:
        fitted = np.dot(mass[:size], columns[:size])
        for s in range(count):
            ratio[s] = weights[s] / fitted[s]
        gradient = np.dot(ratio, rows)
        excess = gradient.max() - 1.0
        if excess <= gap or iterations >= max_iterations or stalled:
            break
        iterations += 1
        entered = _enter(gradient, representative, inside, excess, support[size : size + candidates])
        _gather(rows, support[size : size + entered], columns[size:])
        mass[size : size + entered] = 0.0
        size += entered
        for s in range(count):
            ratio[s] = roots[s] / fitted[s]
        for j in range(size):
            target[j] = mass[j]
            for s in range(count):
                scaled[j, s] = columns[j, s] * ratio[s] - 2.0 * roots[s]
        n_free = _minimise(np.dot(scaled[:size], scaled[:size].T), target[:size], free, factor, level)
        length = 0.0
        if n_free > 0:
            length = _line_search(fitted, np.dot(target[:size], columns[:size]), weights)
        stalled = length == 0.0
        for j in range(size):
            mass[j] = (1.0 - length) * mass[j] + length * target[j]  # a full step keeps the smallest masses
        if length == 1.0:
            _correct(
                columns[:size], weights, mass[:size], free[:n_free], factor, level[:n_free], 0.1 * gap, corrections
            )
        size = _keep(mass[:size], support, columns, inside)
    profile = np.zeros(n_cells)
    for j in range(size):
        profile[support[j]] = mass[j]
    return profile, fitted, excess, iterations, stalled
