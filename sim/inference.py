"""Bayes on cells as pure functions: condition on a report, predict the next cell, decide on one, entropy.

Cells are row-major from the south-west (cell = row * cols + col). Ties are broken in one way everywhere: the
lowest row and the lowest column whose cumulative weight reaches (1/2 - 1e-12) of the total, which on a matrix of
distances is the lowest cell whose cost is the least, but for the same tolerance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sim.interfaces import FloatArray, IntArray

_TIE = 1e-12
_SUM_TOLERANCE = 1e-9


def distribution(values: ArrayLike, name: str) -> FloatArray:
    """Return the values, checked to be distributions along the last axis, as a read-only array.

    A read-only array of floats is shared and not copied, so that many users can hold one transition matrix.

    >>> distribution([0.25, 0.75], "profile")
    array([0.25, 0.75])
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    if not (np.isfinite(array).all() and array.min() >= 0):
        raise ValueError(f"{name} must be in [0, 1] everywhere, got {array.min()} to {array.max()}")
    sums = array.sum(axis=-1)
    worst = float(sums.flat[np.abs(sums - 1).argmax()])
    if abs(worst - 1) > _SUM_TOLERANCE:
        raise ValueError(f"{name} must sum to 1 (within {_SUM_TOLERANCE}), got {worst}")
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


def normalise(weights: FloatArray) -> FloatArray:
    """Scale weights to sum to 1; refuse weights without mass rather than make a NaN of them.

    >>> normalise(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    total = float(weights.sum())
    if not 0 < total < np.inf:
        raise ValueError(f"total weight must be in (0, inf), got {total}")
    return np.asarray(weights / total)


def condition(prior: FloatArray, likelihood: FloatArray) -> tuple[FloatArray, float]:
    """Return the posterior p(x | z) and the mass p(z), the probability of the report (Bayes' rule).

    Where prior and likelihood share no cell the mass is 0.0 and the posterior all zero: the caller decides
    what to believe then.

    >>> condition(np.array([0.5, 0.5]), np.array([0.1, 0.3]))
    (array([0.25, 0.75]), 0.2)
    """
    joint = prior * likelihood
    mass = float(joint.sum())
    if mass > 0:
        joint /= mass
    return joint, mass


def predict(posterior: FloatArray, transition: FloatArray) -> FloatArray:
    """Move a posterior one query on: Oya et al. 2019, eq. (Markov_update), `transition[from, to]`.

    >>> predict(np.array([1.0, 0.0]), np.array([[0.2, 0.8], [0.5, 0.5]]))
    array([0.2, 0.8])
    """
    return np.asarray(posterior @ transition)


def decide(posterior: FloatArray, distance_km: FloatArray, shape: tuple[int, int] | None) -> int:
    """Return the optimal estimate argmin_y sum_x posterior[x] d[x, y], or -1 where there is no mass.

    `shape` is (rows, cols) where d is the Manhattan distance on that full grid, and None for any other
    distance. On a grid both coordinates are weighted medians of their own, whatever the spacing of the lines,
    and the distances are not looked at.

    >>> decide(np.array([0.2, 0.2, 0.6, 0.0]), np.empty((0, 0)), (2, 2))
    2
    """
    if shape is None:
        return int(_decide_by_cost(posterior[np.newaxis], distance_km)[0])
    # The median row is the row in which the running sum over all cells passes the half: no row sums needed.
    running = posterior.cumsum()
    half = (0.5 - _TIE) * float(running[-1])
    if not half > 0:
        return -1
    cols = shape[1]
    row = int(running.searchsorted(half)) // cols
    columns = np.add.reduce(posterior.reshape(shape), axis=0).cumsum()
    return row * cols + int(columns.searchsorted((0.5 - _TIE) * float(columns[-1])))


def decide_many(weights: FloatArray, distance_km: FloatArray, shape: tuple[int, int] | None) -> IntArray:
    """Decide for each row of weights (k, n), which need not be normalised; -1 for a row without mass.

    >>> decide_many(np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]), np.empty((0, 0)), (1, 3))
    array([ 1, -1])
    """
    if shape is None:
        return _decide_by_cost(weights, distance_km)
    rows, cols = shape
    grids = weights.reshape(-1, rows, cols)
    row = _median(grids @ np.ones(cols))  # five times as fast as a sum over so short an axis
    col = _median(np.ones(rows) @ grids)
    return np.where(row < 0, -1, row * cols + col)


def _median(weights: FloatArray) -> IntArray:
    """Return the lower weighted median of each row, -1 where a row has no mass."""
    running = weights.cumsum(axis=1)
    total = running[:, -1:]
    index = (running >= (0.5 - _TIE) * total).argmax(axis=1)
    return np.where(total[:, 0] > 0, index, -1)


def _decide_by_cost(weights: FloatArray, distance_km: FloatArray) -> IntArray:
    cost = weights @ distance_km
    total = weights.sum(axis=1)
    limit = cost.min(axis=1) + _TIE * total * distance_km.max()
    index = (cost <= limit[:, np.newaxis]).argmax(axis=1)
    return np.where(total > 0, index, -1)


def entropy(distribution: FloatArray) -> float:
    """Return the Shannon entropy in bits.

    >>> entropy(np.array([0.5, 0.25, 0.25, 0.0]))
    1.5
    """
    positive = distribution[distribution > 0]
    return float(-(positive @ np.log2(positive))) + 0.0
