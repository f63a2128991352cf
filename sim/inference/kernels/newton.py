"""Numba version of the Newton steps in `sim.inference.newton`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import CELLS, MATRIX, NEW_VECTOR, VECTOR, kernel, part
from sim.interfaces import BoolArray, FloatArray, IntArray


@part
def _factorise(gram: FloatArray, ridge: float, free: IntArray, factor: FloatArray) -> bool:
    """Fill in the Cholesky factor of the free rows and columns plus a ridge; return False if it does not exist."""
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
    """Return the entry at 0 that would reduce theta' gram theta, currently `value`, the most; -1 if there is none."""
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

    Without theta >= 0, the minimiser is the solution of gram @ level = 1, up to scale. Move towards it until an entry
    would become negative, fix that entry at 0 and solve for the others. Finally, free entries that were fixed too
    early. Return the number of `free` entries, or 0 if the matrix cannot be factorised. The Cholesky factor and the
    level of the free entries remain in the arguments for corrections.
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
            current, goal = theta[free[i]], level[i] / total
            if goal < 0.0 and current / (current - goal) < length:
                length, first = current / (current - goal), i
        n_left = 0
        for i in range(n_free):
            j, goal = free[i], level[i] / total
            moved = (1.0 - length) * theta[j] + length * goal
            if i == first or (goal < 0.0 and moved <= 0.0):
                theta[j] = 0.0
            else:
                theta[j] = max(moved, 0.0)
                free[n_left] = j
                n_left += 1
        if n_left < n_free:
            n_free = n_left
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
    """Numba version of `_corrected`, in place; entries that are not free keep their values."""
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
    """Fill in the columns that `_candidates` returns, the best first; return their number."""
    entered = 0
    while entered < entering.size:
        best, gain = -1, 0.5 * excess
        for cell in range(gradient.size):
            if gradient[cell] - 1.0 > gain and representative[cell] and not inside[cell]:
                best, gain = cell, gradient[cell] - 1.0
        if best < 0:
            break
        inside[best] = True
        entering[entered] = best
        entered += 1
    return entered


@part
def _keep(mass: FloatArray, support: IntArray, columns: FloatArray, inside: BoolArray) -> int:
    """Move the columns that have mass to the front; return their number."""
    n_kept = 0
    for j in range(mass.size):
        if mass[j] > 0.0:
            if n_kept < j:
                support[n_kept], mass[n_kept] = support[j], mass[j]
                for s in range(columns.shape[1]):
                    columns[n_kept, s] = columns[j, s]
            n_kept += 1
        else:
            inside[support[j]] = False
    return n_kept


@part
def _gather(rows: FloatArray, cells: IntArray, columns: FloatArray) -> None:
    """Fill in the columns of these cells."""
    for s in range(len(rows)):
        for j in range(cells.size):
            columns[j, s] = rows[s, cells[j]]


@part
def _first_pass(
    rows: FloatArray, weights: FloatArray, cells: IntArray, mass: FloatArray, columns: FloatArray, fitted: FloatArray
) -> FloatArray:
    """Fill in the columns of these cells and the fitted likelihoods; return the gradient.

    One pass over the rows, which are seldom in the cache: columns gathered on their own would wait for memory twice.
    """
    gradient = np.zeros(rows.shape[1])
    for s in range(len(rows)):
        row, fit = rows[s], 0.0
        for j in range(cells.size):
            columns[j, s] = row[cells[j]]
            fit += mass[j] * columns[j, s]
        fitted[s] = fit
        ratio = weights[s] / fit
        for cell in range(row.size):
            gradient[cell] += ratio * row[cell]
    return gradient


@part
def _line_search(fitted: FloatArray, target: FloatArray, weights: FloatArray) -> float:
    """Numba version of `_line_search`. Overwrites the target."""
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


@part
def _merged_start(
    rows: FloatArray, weights: FloatArray, start: FloatArray, groups: IntArray, unseen: int
) -> FloatArray:
    """Return the start with the mass of each group at its lowest cell, and with mass for poor rows: see `_cover`."""
    point = np.zeros(start.size)
    for cell in range(start.size):
        point[groups[cell]] += start[cell]
    extra, moved = np.zeros(start.size), 0.0
    for s in range(len(rows) - unseen, len(rows)):
        row = rows[s]
        fitted, best = 0.0, 0
        for cell in range(row.size):
            fitted += row[cell] * point[cell]
            if row[cell] > row[best]:
                best = cell
        if fitted < 0.01 * weights[s] * row[best]:
            extra[best] += weights[s]
            moved += weights[s]
    if moved > 0.0:
        for cell in range(start.size):
            point[cell] = max(0.0, 1.0 - moved) * point[cell] + extra[cell]
    return point


@part
def _split(merged: FloatArray, groups: IntArray, proportions: FloatArray, profile: FloatArray) -> float:
    """Numba version of `split`; fills in the profile and returns its sum."""
    sizes, totals = np.zeros(groups.size), np.zeros(groups.size)
    for cell in range(groups.size):
        sizes[groups[cell]] += 1.0
        totals[groups[cell]] += proportions[cell]
    total = 0.0
    for cell in range(groups.size):
        group = groups[cell]
        share = proportions[cell] / totals[group] if totals[group] > 0.0 else 1.0 / sizes[group]
        profile[cell] = merged[group] * share
        total += profile[cell]
    return total


@part
def _room_for(array: FloatArray, shape: tuple[int, int]) -> FloatArray:
    """Return a larger array with the same entries at the front."""
    larger = np.empty(shape)
    larger[: array.shape[0], : array.shape[1]] = array
    return larger


@part
def _climb(
    rows: FloatArray,
    weights: FloatArray,
    point: FloatArray,
    representative: BoolArray,
    candidates: int,
    corrections: int,
    gap: float,
    max_iterations: int,
) -> tuple[FloatArray, FloatArray, float, int, bool]:
    """Numba version of `_climb`: the same steps, with the columns of the support stored contiguously.

    Room for columns grows with the support. Room for the largest support, as many columns as rows, would be new memory
    pages in each call, which cost more than the steps.
    """
    count, n_cells = rows.shape
    inside = point > 0.0
    size = int(np.count_nonzero(inside))
    room = min(n_cells, size + candidates)
    support, mass, target, level = np.empty(n_cells, np.int64), np.empty(n_cells), np.empty(n_cells), np.empty(n_cells)
    columns, scaled = np.empty((room, count)), np.empty((room, count))
    free, factor = np.empty(n_cells, np.int64), np.empty((room, room))
    support[:size] = np.flatnonzero(inside)
    mass[:size] = point[inside]
    roots, ratio, fitted = np.sqrt(weights), np.empty(count), np.empty(count)
    gradient = _first_pass(rows, weights, support[:size], mass[:size], columns, fitted)
    iterations, stalled = 0, False
    while True:
        if iterations > 0:
            fitted = np.dot(mass[:size], columns[:size])
            for s in range(count):
                ratio[s] = weights[s] / fitted[s]
            gradient = np.dot(ratio, rows)
        excess = gradient.max() - 1.0
        if excess <= gap or iterations >= max_iterations or stalled:
            break
        iterations += 1
        if room < min(n_cells, size + candidates):
            room = min(n_cells, 2 * size + candidates)
            columns, scaled, factor = _room_for(columns, (room, count)), np.empty((room, count)), np.empty((room, room))
        entered = _enter(gradient, representative, inside, excess, support[size : min(size + candidates, room)])
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
            mass[j] = (1.0 - length) * mass[j] + length * target[j]  # a full step preserves the smallest masses
        if length == 1.0:
            _correct(
                columns[:size], weights, mass[:size], free[:n_free], factor, level[:n_free], 0.1 * gap, corrections
            )
        size = _keep(mass[:size], support, columns, inside)
    merged = np.zeros(n_cells)
    for j in range(size):
        merged[support[j]] = mass[j]
    return merged, fitted, excess, iterations, stalled


@kernel(
    MATRIX,
    VECTOR,
    VECTOR,
    CELLS,
    VECTOR,
    types.int64,
    types.int64,
    types.int64,
    types.float64,
    types.int64,
    NEW_VECTOR,
)
def constrained_newton(
    rows: FloatArray,
    weights: FloatArray,
    start: FloatArray,
    groups: IntArray,
    proportions: FloatArray,
    unseen: int,
    candidates: int,
    corrections: int,
    gap: float,
    max_iterations: int,
    profile: FloatArray,
) -> tuple[float, int, float, bool]:
    """Numba version of `constrained_newton` from a start; fills in the profile.

    Without proportions (an empty array), groups are split evenly. Return the gap, the number of iterations, the mean
    log-likelihood and whether the steps stalled.
    """
    count = len(rows)
    if proportions.size == 0:
        proportions = np.ones(start.size)
    representative = groups == np.arange(groups.size)
    point = _merged_start(rows, weights, start, groups, unseen)
    merged, fitted, excess, iterations, stalled = _climb(
        rows, weights, point, representative, candidates, corrections, gap, max_iterations
    )
    if representative.all():
        profile[:] = merged
        total = merged.sum()
    else:
        total = _split(merged, groups, proportions, profile)
    for cell in range(profile.size):
        profile[cell] /= total
    log_likelihood = 0.0
    for s in range(count):
        log_likelihood += weights[s] * np.log(fitted[s])
    return excess, iterations, log_likelihood, stalled or not 0.0 < total < np.inf
