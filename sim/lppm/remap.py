"""Optimal remapping and expected loss, for general channels and for two structured kinds.

A remap replaces each output z~ of a base channel f~ by the cell with the smallest expected loss under its posterior,

    z = argmin_z sum_x p(x | z~) d_Q(x, z),    p(x | z~) ∝ prior(x) f~(z~ | x)    (Oya et al. 2019, eq. (remap)).

With the Manhattan distance on a full grid this is a weighted median of rows and a weighted median of columns. Ties go
to the lowest index (see `inference.bayes`), and an output without posterior mass stays unchanged. A `table` holds the
cell for each output.
"""

from __future__ import annotations

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import cheapest, decide_by_medians, plain_floats
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray
from sim.lppm.hiding import hiding_by_bounds
from sim.world.distance import MATRIX_CELLS, Distance


def remap_matrix(matrix: FloatArray, prior: FloatArray, distance: Distance) -> IntArray:
    """Return the optimal cell for each output of a channel [cell, output], shape (n_outputs,).

    An output without posterior mass stays unchanged, or, if outputs are not cells, becomes the optimal cell under the
    prior.
    """
    n_cells, n_outputs = matrix.shape
    weights = np.multiply(matrix.T, prior, order="C")
    table = distance.best_cells(weights)
    fallback = np.arange(n_outputs) if n_outputs == n_cells else distance.best_cells(prior[None, :])
    return np.where(table < 0, fallback, table)


def remap_product(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> IntArray:
    """Return the Manhattan remap of f = A[xr, zr] B[xc, zc], with A (rows, rows) and B (cols, cols).

    The result equals `remap_matrix` of their Kronecker product, but the arrays have n * rows and n * cols entries
    instead of n^2.
    """
    if prior.size == len(row_kernel) * len(col_kernel) and (fast := kernels.compiled()) is not None:
        return np.asarray(fast.remap_product(row_kernel, col_kernel, plain_floats(prior)))
    shape = (len(row_kernel), len(col_kernel))
    by_row, by_col = _marginals(row_kernel, col_kernel, prior.reshape(shape))
    table = decide_by_medians(by_row.reshape(shape[0], -1), by_col.reshape(shape[1], -1))
    return np.where(table < 0, np.arange(prior.size), table)


def remap_hiding(reveal: float, other: float, prior: FloatArray, distance: Distance) -> IntArray:
    """Return the remap of f with `reveal` on the diagonal and `other` elsewhere, for any distance.

    The posterior weights of an output are the prior times `other`, plus a step at the output itself.
    """
    fits = distance.shape is not None and prior.size == distance.n_cells
    if distance.shape is not None and fits and reveal >= other and (fast := kernels.compiled()) is not None:
        return np.asarray(fast.remap_hiding(reveal, other, plain_floats(prior), *distance.shape))
    step = (reveal - other) * prior
    total = other * prior.sum() + step
    if distance.shape is None and distance.n_cells > MATRIX_CELLS and distance.obeys_triangle:
        table = hiding_by_bounds(other * prior, step, total, distance)
    elif distance.shape is None:
        table = _hiding_by_cost(other * prior, step, total, distance.matrix_km)
    else:
        table = _hiding_by_medians(other * prior, step, total, distance.shape)
    table = np.where(total > MASS_FLOOR, table, np.arange(prior.size))
    likely = int(prior.argmax())
    if reveal < other and step[likely] < -0.5 * other * prior.sum():
        # The total is a small difference of large numbers here. This happens for at most one output.
        weights = other * prior
        weights[likely] = reveal * prior[likely]
        best = distance.best_cell(weights)
        table[likely] = likely if best < 0 else best
    return table


def columns_product(row_kernel: FloatArray, col_kernel: FloatArray, table: IntArray, outputs: IntArray) -> FloatArray:
    """Return f(z | .) of the given outputs z after the remap, shape (k, n): sums over all z~ mapped to z."""
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.columns_product(row_kernel, col_kernel, table, outputs))
    shape = (len(row_kernel), len(col_kernel))
    sources = (table == outputs[:, None]).reshape(-1, *shape).astype(np.float64)
    return np.asarray(row_kernel @ sources @ col_kernel.T).reshape(outputs.size, -1)


def columns_hiding(reveal: float, other: float, table: IntArray, outputs: IntArray) -> FloatArray:
    """Return the result of `columns_product` for location hiding, with two distinct values per output."""
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.columns_hiding(reveal, other, table, outputs))
    sources = table == outputs[:, None]
    count = np.count_nonzero(sources, axis=1, keepdims=True)
    return np.asarray(np.where(sources, reveal + (count - 1) * other, count * other), dtype=np.float64)


def columns_matrix(matrix: FloatArray, table: IntArray, outputs: IntArray) -> FloatArray:
    """Return the result of `columns_product` for a general channel."""
    return np.asarray((table == outputs[:, None]).astype(np.float64) @ matrix.T)


def loss_matrix(matrix: FloatArray, prior: FloatArray, distance: Distance, table: IntArray) -> float:
    """Return sum_x prior(x) sum_z f(z | x) d(x, table[z]) in km for a general channel, in O(n^2)."""
    return float(prior @ np.einsum("xz,xz->x", matrix, distance.matrix_km[:, table]))


def loss_product(
    row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray, distance: Distance, table: IntArray
) -> float:
    """Return the result of `loss_matrix` for a product of kernels under a Manhattan distance."""
    shape = (len(row_kernel), len(col_kernel))
    row_km, col_km = distance.axes_km
    by_row, by_col = _marginals(row_kernel, col_kernel, prior.reshape(shape))
    row, col = np.divmod(table.reshape(shape), shape[1])
    return float(np.vdot(by_row, row_km[:, row]) + np.vdot(by_col, col_km[:, col]))


def loss_hiding(reveal: float, other: float, prior: FloatArray, distance: Distance, table: IntArray) -> float:
    """Return the result of `loss_matrix` for location hiding under any distance."""
    from_prior_km = distance.costs_km(prior)
    own_km = distance.between_km(np.arange(prior.size), table)
    return float(other * from_prior_km[table].sum() + (reveal - other) * (prior @ own_km))


def _marginals(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return prior(x) f(z | x) summed over columns, [xr, zr, zc], and over rows, [xc, zr, zc]."""
    by_row = row_kernel[:, :, None] * (prior @ col_kernel)[:, None, :]
    by_col = col_kernel[:, None, :] * (prior.T @ row_kernel)[:, :, None]
    return by_row, by_col


def _hiding_by_cost(weights: FloatArray, step: FloatArray, total: FloatArray, distance_km: FloatArray) -> IntArray:
    """Return the cell of smallest cost per output: the sum of a cost common to all outputs and that of the step."""
    cost = step[:, None] * distance_km
    cost += weights @ distance_km
    return cheapest(cost, total, longest_km=float(distance_km.max()))


def _hiding_by_medians(weights: FloatArray, step: FloatArray, total: FloatArray, shape: tuple[int, int]) -> IntArray:
    """Return the median cell per output, by binary search in cumulative sums common to all outputs."""
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
