"""Optimal estimates for every output of a channel, and expected distances, without a matrix for structured channels.

The estimate of an output z under a prior is argmin_y sum_x prior(x) f(z | x) d(x, y). Expected errors need it for all
outputs. An output that is impossible, or has no mass under the prior, has the estimate -1. The functions also return
the number of outputs without mass to which the remap leads, for which the caller tries another prior.

With `reveal` = a, the channel sends the true cell with probability a and otherwise an output of the given channel f:
a 1{z = x} + (1 - a) f(z | x).
"""

from __future__ import annotations

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import plain_floats, read_only
from sim.inference.ties import MASS_FLOOR
from sim.interfaces import FloatArray, IntArray
from sim.lppm.remap import columns_hiding, columns_product
from sim.world.distance import Distance


def estimates_from(
    likelihoods: tuple[IntArray, FloatArray], n_outputs: int, prior: FloatArray, distance: Distance
) -> tuple[IntArray, int]:
    """Return the estimates from the possible outputs, shape (k,), and their likelihoods, shape (k, n_cells)."""
    outputs, rows = likelihoods
    decisions = distance.best_cell_each(prior, rows)
    estimates = np.full(n_outputs, -1, dtype=np.int64)
    estimates[outputs] = decisions
    return read_only(estimates), int(np.count_nonzero(decisions < 0))


def estimates_revealing(
    reveal: float, likelihoods: tuple[IntArray, FloatArray], prior: FloatArray, distance: Distance
) -> tuple[IntArray, int]:
    """Return the estimates for a channel that reveals the true cell with a positive probability.

    The likelihoods are those of the other channel. Any output that it lacks is the true cell.
    """
    outputs, rows = likelihoods
    rows = (1 - reveal) * rows
    rows[np.arange(outputs.size), outputs] += reveal
    estimates = np.where(reveal * prior > MASS_FLOOR, distance.certain_cells, -1)
    estimates[outputs] = distance.best_cell_each(prior, rows)
    return read_only(estimates), int(np.count_nonzero(estimates < 0))


def estimates_product(
    row_kernel: FloatArray,
    col_kernel: FloatArray,
    table: IntArray,
    prior: FloatArray,
    distance: Distance,
    reveal: float = 0.0,
) -> tuple[IntArray, int]:
    """Return the estimates for a product of kernels after a remap, under the Manhattan distance of the same grid."""
    if prior.size == table.size and (fast := kernels.compiled()) is not None:
        estimates = np.empty(table.size, np.int64)
        try:
            missing = fast.estimates_product(row_kernel, col_kernel, table, prior, reveal, estimates)
        except TypeError:  # an array of another type or layout, from a custom belief
            missing = fast.estimates_product(row_kernel, col_kernel, table, plain_floats(prior), reveal, estimates)
        return read_only(estimates), missing
    outputs = np.unique(table)
    likelihoods = outputs, columns_product(row_kernel, col_kernel, table, outputs)
    if reveal > 0:
        return estimates_revealing(reveal, likelihoods, prior, distance)
    return estimates_from(likelihoods, table.size, prior, distance)


def estimates_hiding(
    reveal: float, other: float, table: IntArray, prior: FloatArray, distance: Distance
) -> tuple[IntArray, int]:
    """Return the estimates for location hiding after a remap, under any distance."""
    fits = distance.shape is not None and prior.size == table.size and reveal >= other
    if distance.shape is not None and fits and (fast := kernels.compiled()) is not None:
        estimates = np.empty(table.size, np.int64)
        missing = fast.estimates_hiding(reveal, other, table, plain_floats(prior), distance.shape[1], estimates)
        estimates.setflags(write=False)
        return estimates, missing
    outputs = np.unique(table)
    return estimates_from((outputs, columns_hiding(reveal, other, table, outputs)), table.size, prior, distance)


def row_product(row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, cell: int) -> FloatArray:
    """Return f(. | x) of a product of kernels after a remap, shape (n_outputs,)."""
    if (fast := kernels.compiled()) is not None:
        sums = np.empty(table.size)
        fast.row_product(row_kernel, col_kernel, table, cell, sums)
        return sums
    row, col = divmod(cell, len(col_kernel))
    weights = np.multiply.outer(row_kernel[row], col_kernel[col]).ravel()
    return np.bincount(table, weights=weights, minlength=table.size).astype(np.float64, copy=False)


def column_product(row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, output: int) -> FloatArray:
    """Return f(z | .) of a product of kernels after a remap, shape (n_cells,)."""
    column: FloatArray = np.empty(table.size)
    if (fast := kernels.compiled()) is not None:
        fast.column_product(row_kernel, col_kernel, table, output, column)
    else:
        column[:] = columns_product(row_kernel, col_kernel, table, np.array([output], dtype=np.int64))[0]
    return column


def expected_distance_km(row: FloatArray, estimates: IntArray, distance_km: FloatArray) -> float:
    """Return the sum over z of f(z | x) d(x, estimate of z), from f(. | x) and the distances from x.

    >>> expected_distance_km(np.array([0.75, 0.25, 0.0]), np.array([1, 0, -1]), np.array([0.0, 2.0, 9.0]))
    1.5
    """
    if row.shape == estimates.shape and (fast := kernels.compiled()) is not None:
        try:
            return fast.expected_distance(row, estimates, distance_km)
        except TypeError:  # arrays of another type or layout, from custom components
            cells = np.ascontiguousarray(estimates, dtype=np.int64)
            return fast.expected_distance(plain_floats(row), cells, plain_floats(distance_km))
    return float(row @ distance_km[estimates])
