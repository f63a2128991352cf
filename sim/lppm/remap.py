"""Optimal remapping and expected loss as pure functions, for any channel and for two with structure.

A remap sends every output z~ of a base channel f~ to the cell that is best under its posterior,

    z = argmin_z sum_x p(x | z~) d_Q(x, z),    p(x | z~) ∝ prior(x) f~(z~ | x)    (Oya et al. 2019, eq. (remap)).

With the Manhattan distance on a full grid this is a weighted median of rows and one of columns. In every path
ties go to the lowest index, by the rule of `inference.bayes`, and an output whose weights have no mass, by its floor,
keeps itself. A `table` holds the cell for each output.
"""

from __future__ import annotations

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import cheapest, decide, decide_by_medians, decide_many, plain_floats
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import Distance


def remap_matrix(matrix: FloatArray, prior: FloatArray, distance: Distance) -> IntArray:
    """Return the best cell for each output of any channel [cell, output], shape (n_outputs,).

    An output without posterior mass keeps itself, or where outputs are no cells goes to the prior's best cell.
    """
    n_cells, n_outputs = matrix.shape
    weights = np.multiply(matrix.T, prior, order="C")
    table = decide_many(weights, distance.matrix_km, distance.shape)
    if n_outputs == n_cells:
        fallback = np.arange(n_outputs)
    else:
        fallback = decide_many(prior[None, :], distance.matrix_km, distance.shape)
    return np.where(table < 0, fallback, table)


def remap_product(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> IntArray:
    """Return the Manhattan remap of f = A[xr, zr] B[xc, zc], with A (rows, rows) and B (cols, cols).

    Equal to `remap_matrix` of their Kronecker product, from arrays of n rows and n cols numbers and not of n^2.
    """
    if prior.size == len(row_kernel) * len(col_kernel) and (fast := kernels.compiled()) is not None:
        return np.asarray(fast.remap_product(row_kernel, col_kernel, plain_floats(prior)))
    shape = (len(row_kernel), len(col_kernel))
    by_row, by_col = _marginals(row_kernel, col_kernel, prior.reshape(shape))
    table = decide_by_medians(by_row.reshape(shape[0], -1), by_col.reshape(shape[1], -1))
    return np.where(table < 0, np.arange(prior.size), table)


def remap_hiding(reveal: float, other: float, prior: FloatArray, distance: Distance) -> IntArray:
    """Return the remap of f = `reveal` on the diagonal and `other` off it, with n^2 work for any distance.

    The weights behind an output are those of the prior, times `other`, plus a step at the output itself.
    """
    fits = distance.shape is not None and prior.size == distance.n_cells
    if distance.shape is not None and fits and reveal >= other and (fast := kernels.compiled()) is not None:
        return np.asarray(fast.remap_hiding(reveal, other, plain_floats(prior), *distance.shape))
    step = (reveal - other) * prior
    total = other * prior.sum() + step
    if distance.shape is None:
        table = _hiding_by_cost(other * prior, step, total, distance.matrix_km)
    else:
        table = _hiding_by_medians(other * prior, step, total, distance.shape)
    table = np.where(total > MASS_FLOOR, table, np.arange(prior.size))
    likely = int(prior.argmax())
    if reveal < other and step[likely] < -0.5 * other * prior.sum():
        # Here the total is a small difference of large numbers. At most one output can be such.
        weights = other * prior
        weights[likely] = reveal * prior[likely]
        best = decide(weights, distance.matrix_km, distance.shape)
        table[likely] = likely if best < 0 else best
    return table


def columns_product(row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, outputs: IntArray) -> FloatArray:
    """Return f(z | .) of each of these outputs z after the remap, shape (k, n): sums over the z~ that go there."""
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.columns_product(row_kernel, col_kernel, table, outputs))
    shape = (len(row_kernel), len(col_kernel))
    sources = (table == outputs[:, None]).reshape(-1, *shape).astype(np.float64)
    return np.asarray(row_kernel @ sources @ col_kernel.T).reshape(outputs.size, -1)


def columns_hiding(reveal: float, other: float, table: IntArray, outputs: IntArray) -> FloatArray:
    """Return what `columns_product` does, for location hiding: one of two numbers for each cell."""
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.columns_hiding(reveal, other, table, outputs))
    sources = table == outputs[:, None]
    count = np.count_nonzero(sources, axis=1, keepdims=True)
    return np.asarray(np.where(sources, reveal + (count - 1) * other, count * other), dtype=np.float64)


def columns_matrix(matrix: FloatArray, table: IntArray, outputs: IntArray) -> FloatArray:
    """Return what `columns_product` does, for any channel."""
    return np.asarray((table == outputs[:, None]).astype(np.float64) @ matrix.T)


def loss_matrix(matrix: FloatArray, prior: FloatArray, distance: Distance, table: IntArray) -> float:
    """Return sum_x prior(x) sum_z f(z | x) d(x, table[z]) in km for any channel, with n^2 work."""
    return float(prior @ np.einsum("xz,xz->x", matrix, distance.matrix_km[:, table]))


def loss_product(
    row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray, distance: Distance, table: IntArray
) -> float:
    """Return what `loss_matrix` does, for a product of kernels under a Manhattan distance."""
    shape = (len(row_kernel), len(col_kernel))
    row_km, col_km = distance.axes_km
    by_row, by_col = _marginals(row_kernel, col_kernel, prior.reshape(shape))
    row, col = np.divmod(table.reshape(shape), shape[1])
    return float(np.vdot(by_row, row_km[:, row]) + np.vdot(by_col, col_km[:, col]))


def loss_hiding(reveal: float, other: float, prior: FloatArray, distance: Distance, table: IntArray) -> float:
    """Return what `loss_matrix` does, for location hiding under any distance."""
    from_prior_km = prior @ distance.matrix_km
    own_km = distance.matrix_km[np.arange(prior.size), table]
    return float(other * from_prior_km[table].sum() + (reveal - other) * (prior @ own_km))


def _marginals(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return prior(x) f(z | x) summed over columns, [xr, zr, zc], and over rows, [xc, zr, zc]."""
    by_row = row_kernel[:, :, None] * (prior @ col_kernel)[:, None, :]
    by_col = col_kernel[:, None, :] * (prior.T @ row_kernel)[:, :, None]
    return by_row, by_col


def _hiding_by_cost(weights: FloatArray, step: FloatArray, total: FloatArray, distance_km: FloatArray) -> IntArray:
    """Return, per output, the cell of least cost: the costs that all outputs share, and those of the step."""
    cost = step[:, None] * distance_km
    cost += weights @ distance_km
    return cheapest(cost, total, longest_km=float(distance_km.max()))


def _hiding_by_medians(weights: FloatArray, step: FloatArray, total: FloatArray, shape: tuple[int, int]) -> IntArray:
    """Return, per output, the median cell: a binary search among the cumulative sums that all outputs share."""
    grid = weights.reshape(shape)
    own_row, own_col = np.divmod(np.arange(weights.size), shape[1])
    row = _stepped_median(grid.sum(axis=1).cumsum(), step, own_row, HALF * total)
    col = _stepped_median(grid.sum(axis=0).cumsum(), step, own_col, HALF * total)
    return row * shape[1] + col


def _stepped_median(up_to: FloatArray, step: FloatArray, own: IntArray, threshold: FloatArray) -> IntArray:
    """Return, per output, the lowest k with up_to[k] + step * (k >= own) at least the threshold."""
    before = up_to.searchsorted(threshold)
    after = np.maximum(own, up_to.searchsorted(threshold - step))
    return np.where(before < own, before, np.minimum(after, up_to.size - 1))
