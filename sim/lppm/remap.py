"""Optimal remapping and expected loss as pure functions, for any channel and for two with structure.

A remap sends every output z~ of a base channel f~ to the cell that is best under its posterior,

    z = argmin_z sum_x p(x | z~) d_Q(x, z),    p(x | z~) ∝ prior(x) f~(z~ | x)    (Oya et al. 2019, eq. (remap)).

With the Manhattan distance on a full grid this is a weighted median of rows and one of columns. In every path
ties go to the lowest index, by the rule of `sim.inference.decide_many`. A `table` holds the cell for each output.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from sim.inference import decide_many
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import Distance

HALF = 0.5 - 1e-12
"""The share of the total that makes a median; a hair under one half, so that rounding cannot break a tie."""

MASS_FLOOR = 1e-290
"""Below this an output counts as one without posterior mass: the products behind it have lost their digits."""


def remap_matrix(matrix: FloatArray, prior: FloatArray, distance: Distance) -> IntArray:
    """Return the best cell for each output of any channel [cell, output], shape (n_outputs,).

    An output without posterior mass keeps itself, or where outputs are no cells goes to the prior's best cell.
    """
    n_cells, n_outputs = matrix.shape
    weights = np.ascontiguousarray((matrix * prior[:, None]).T)
    table = decide_many(weights, distance.matrix_km, distance.shape)
    if n_outputs == n_cells:
        fallback = np.arange(n_outputs)
    else:
        fallback = decide_many(prior[None, :], distance.matrix_km, distance.shape)
    return np.where(weights.sum(axis=1) > MASS_FLOOR, table, fallback)


def remap_product(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> IntArray:
    """Return the Manhattan remap of f = A[xr, zr] B[xc, zc], with A (rows, rows) and B (cols, cols).

    Equal to `remap_matrix` of their Kronecker product, from arrays of n rows and n cols numbers and not of n^2.
    """
    shape = (len(row_kernel), len(col_kernel))
    by_row, by_col = _marginals(row_kernel, col_kernel, prior.reshape(shape))
    row, mass = _lower_median(by_row)
    col, _ = _lower_median(by_col)
    return np.where(mass > MASS_FLOOR, row * shape[1] + col, np.arange(prior.size))


def remap_hiding(reveal: float, other: float, prior: FloatArray, shape: tuple[int, int]) -> IntArray:
    """Return the Manhattan remap of f = `reveal` on the diagonal and `other` off it.

    The posterior's marginals are those of the prior plus a step at the output, so that a binary search among
    the prior's own cumulative sums finds each median.
    """
    own = np.arange(prior.size)
    own_row, own_col = np.divmod(own, shape[1])
    grid = prior.reshape(shape)
    step = (reveal - other) * prior
    total = other * prior.sum() + step
    row = _stepped_median(other * grid.sum(axis=1).cumsum(), step, own_row, HALF * total)
    col = _stepped_median(other * grid.sum(axis=0).cumsum(), step, own_col, HALF * total)
    table = np.where(total > MASS_FLOOR, row * shape[1] + col, own)
    likely = int(prior.argmax())
    if reveal < other and step[likely] < -0.5 * other * prior.sum():
        # Here the total is a small difference of large numbers. At most one output can be such.
        table[likely] = _hiding_median(reveal, other, prior, shape, likely)
    return table


def loss_matrix(matrix: FloatArray, prior: FloatArray, distance: Distance, table: IntArray) -> float:
    """Return sum_x prior(x) sum_z f(z | x) d(x, table[z]) in km for any channel, with n^2 work."""
    return float(prior @ np.einsum("xz,xz->x", matrix, distance.matrix_km[:, table]))


def loss_product(
    row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray, distance: Distance, table: IntArray
) -> float:
    """Return what `loss_matrix` does, for a product of kernels under a Manhattan distance."""
    shape = (len(row_kernel), len(col_kernel))
    row_km, col_km = axis_distances(distance)
    by_row, by_col = _marginals(row_kernel, col_kernel, prior.reshape(shape))
    row, col = np.divmod(table.reshape(shape), shape[1])
    return float(np.vdot(by_row, row_km[:, row]) + np.vdot(by_col, col_km[:, col]))


def loss_hiding(reveal: float, other: float, prior: FloatArray, distance: Distance, table: IntArray) -> float:
    """Return what `loss_matrix` does, for location hiding under any distance."""
    from_prior_km = prior @ distance.matrix_km
    own_km = distance.matrix_km[np.arange(prior.size), table]
    return float(other * from_prior_km[table].sum() + (reveal - other) * (prior @ own_km))


def axis_distances(distance: Distance) -> tuple[FloatArray, FloatArray]:
    """Return the distances between the rows and between the columns of a Manhattan grid."""
    if distance.shape is None:
        raise ValueError(f"distance must be Manhattan on a full grid, got kind {distance.kind!r} without shape")
    cols = distance.shape[1]
    return distance.matrix_km[::cols, ::cols], distance.matrix_km[:cols, :cols]


def _marginals(row_kernel: FloatArray, col_kernel: FloatArray, prior: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return prior(x) f(z | x) summed over columns, [xr, zr, zc], and over rows, [xc, zr, zc]."""
    by_row = row_kernel[:, :, None] * (prior @ col_kernel)[:, None, :]
    by_col = col_kernel[:, None, :] * (prior.T @ row_kernel)[:, :, None]
    return by_row, by_col


def _lower_median(weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the lower weighted median along the first axis for each output, and its total weight."""
    by_output = weights.reshape(len(weights), -1)
    # Along a short axis one small matrix product is quicker than a cumulative sum.
    up_to = _summation(len(weights)) @ by_output if len(weights) <= 40 else by_output.cumsum(axis=0)
    return (up_to < HALF * up_to[-1]).sum(axis=0), up_to[-1]


@cache
def _summation(size: int) -> FloatArray:
    """Return the matrix that makes cumulative sums."""
    return np.tri(size)


def _stepped_median(up_to: FloatArray, step: FloatArray, own: IntArray, threshold: FloatArray) -> IntArray:
    """Return, per output, the lowest k with up_to[k] + step * (k >= own) at least the threshold."""
    before = up_to.searchsorted(threshold)
    after = np.maximum(own, up_to.searchsorted(threshold - step))
    return np.where(before < own, before, np.minimum(after, up_to.size - 1))


def _hiding_median(reveal: float, other: float, prior: FloatArray, shape: tuple[int, int], output: int) -> int:
    """Return the Manhattan remap of one output of location hiding, without cancellation."""
    weights = other * prior
    weights[output] = reveal * prior[output]
    if weights.sum() <= MASS_FLOOR:
        return output
    grid = weights.reshape(shape)
    row, col = (
        int(up_to.searchsorted(HALF * up_to[-1])) for up_to in (grid.sum(axis=1).cumsum(), grid.sum(axis=0).cumsum())
    )
    return row * shape[1] + col
