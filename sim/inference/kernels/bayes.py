"""Numba versions of functions in `sim.inference.bayes`."""

from __future__ import annotations

import numpy as np
from numba import types

from sim.inference.kernels.compilation import MATRIX, NEW_VECTOR, VECTOR, kernel
from sim.inference.ties import HALF, MASS_FLOOR
from sim.interfaces import FloatArray, IntArray


@kernel(VECTOR, VECTOR, NEW_VECTOR)
def condition(prior: FloatArray, likelihood: FloatArray, posterior: FloatArray) -> float:
    """Numba version of `condition`; fills in the posterior and returns the mass."""
    mass = 0.0
    for cell in range(prior.size):
        posterior[cell] = prior[cell] * likelihood[cell]
        mass += posterior[cell]
    if not mass > MASS_FLOOR:
        posterior[:] = 0.0
        return 0.0
    for cell in range(prior.size):
        posterior[cell] /= mass
    return mass


@kernel(VECTOR, MATRIX)
def predict(posterior: FloatArray, transition: FloatArray) -> FloatArray:
    """Numba version of `predict`; reads only the rows of cells with mass."""
    prediction = np.zeros(transition.shape[1])
    for cell in range(posterior.size):
        mass, row = posterior[cell], transition[cell]
        if mass > 0.0:
            for to in range(prediction.size):
                prediction[to] += mass * row[to]
    return prediction


@kernel(VECTOR, MATRIX, types.int64, types.int64)
def decide_each(prior: FloatArray, likelihoods: FloatArray, rows: int, cols: int) -> IntArray:
    """Numba version of `decide_each`, for the Manhattan distance on a grid.

    Only cells with mass count, and a profile has few of them: the outer loop is over cells, the inner over outputs.
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
    """Numba version of `decide`, for the Manhattan distance on a grid."""
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
