"""Bayesian inference over cells as pure functions: conditioning, prediction, optimal estimate, entropy.

Cells are numbered row by row from the south-west (cell = row * cols + col). Mechanisms and adversaries break ties by
the same rule. On a grid, it is the lowest row and the lowest column whose cumulative weight reaches (1/2 - 1e-12) of
the total. With a distance matrix, it is the lowest cell whose cost is minimal within the same tolerance.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.inference import kernels
from sim.inference.ties import HALF, MASS_FLOOR, TIE
from sim.interfaces import FloatArray, IntArray

_SUM_TOLERANCE = 1e-9

AnyArray = TypeVar("AnyArray", bound=NDArray[Any])


def read_only(array: AnyArray) -> AnyArray:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def distribution(values: ArrayLike, name: str) -> FloatArray:
    """Check that the values are probability distributions along the last axis and return a read-only array.

    A read-only array of floats is not copied, so that many users can share one transition matrix.

    >>> distribution([0.25, 0.75], "profile")
    array([0.25, 0.75])
    """
    array = np.asarray(values, dtype=np.float64, order="C")
    if array.ndim == 0 or array.size == 0:
        raise ValueError(f"{name} must not be empty, got shape {array.shape}")
    if not (np.isfinite(array).all() and array.min() >= 0):
        place = np.argwhere(~(np.isfinite(array) & (array >= 0)))[0].tolist()
        raise ValueError(f"{name} must be in [0, 1] everywhere, got {array[tuple(place)]} at {place}")
    sums = array.sum(axis=-1)
    worst = int(np.abs(sums - 1).argmax())
    if abs(sums.flat[worst] - 1) > _SUM_TOLERANCE:
        where = f" in row {worst}" if array.ndim > 1 else ""
        raise ValueError(f"{name} must sum to 1 (within {_SUM_TOLERANCE}), got {sums.flat[worst]}{where}")
    return read_only(array.copy()) if array.flags.writeable else array


def plain_floats(values: FloatArray) -> FloatArray:
    """Return the values as contiguous doubles, the form that numba kernels require, usually without a copy.

    Kernels do not check shapes. Callers pass arrays of other shapes to the NumPy functions, which raise an error.
    """
    return np.ascontiguousarray(values, dtype=np.float64)


def normalise(weights: FloatArray) -> FloatArray:
    """Scale weights to sum to 1; raise `ValueError` if their sum is not in (0, inf).

    >>> normalise(np.array([1.0, 3.0]))
    array([0.25, 0.75])
    """
    total = float(weights.sum())
    if not 0 < total < np.inf:
        raise ValueError(f"total weight must be in (0, inf), got {total}")
    return np.asarray(weights / total)


def condition(prior: FloatArray, likelihood: FloatArray) -> tuple[FloatArray, float]:
    """Return the posterior p(x | z) and the mass p(z), the probability of the report (Bayes' rule).

    If the mass is at most `MASS_FLOOR`, as where prior and likelihood have no cell in common, the function returns
    zeros and the mass 0.0; the caller chooses the fallback.

    >>> condition(np.array([0.5, 0.5]), np.array([0.1, 0.3]))
    (array([0.25, 0.75]), 0.2)
    """
    if prior.shape == likelihood.shape and (fast := kernels.compiled()) is not None:
        posterior: FloatArray = np.empty(prior.size)
        try:
            return posterior, fast.condition(prior, likelihood, posterior)
        except TypeError:  # arrays of another type or layout, from custom components
            return posterior, fast.condition(plain_floats(prior), plain_floats(likelihood), posterior)
    joint = prior * likelihood
    mass = float(joint.sum())
    if not mass > MASS_FLOOR:
        return np.zeros_like(joint), 0.0
    joint /= mass
    return joint, mass


def predict(posterior: FloatArray, transition: FloatArray) -> FloatArray:
    """Return the prior of the next query, posterior @ transition[from, to] (Oya et al. 2019, eq. (Markov_update)).

    >>> predict(np.array([1.0, 0.0]), np.array([[0.2, 0.8], [0.5, 0.5]]))
    array([0.2, 0.8])
    """
    if transition.shape[:1] == posterior.shape and (fast := kernels.compiled()) is not None:
        return np.asarray(fast.predict(plain_floats(posterior), plain_floats(transition)))
    return np.asarray(posterior @ transition)


def decide(posterior: FloatArray, distance_km: FloatArray, shape: tuple[int, int] | None) -> int:
    """Return the optimal estimate argmin_y sum_x posterior[x] d[x, y], or -1 if the posterior has no mass.

    `shape` is (rows, cols) if d is the Manhattan distance on that full grid, and None for any other distance. On a
    grid, row and column of the estimate are separate weighted medians for any spacing of rows and columns, and
    `distance_km` is not used.

    >>> decide(np.array([0.2, 0.2, 0.6, 0.0]), np.empty((0, 0)), (2, 2))
    2
    """
    if shape is None:
        return int(_decide_by_cost(posterior[np.newaxis], distance_km)[0])
    if posterior.shape == (shape[0] * shape[1],) and (fast := kernels.compiled()) is not None:
        return int(fast.decide(plain_floats(posterior), *shape))
    # The running sum over all cells reaches one half in the median row, so row sums are not needed.
    running = posterior.cumsum()
    total = float(running[-1])
    if not total > MASS_FLOOR:
        return -1
    cols = shape[1]
    row = int(running.searchsorted(HALF * total)) // cols
    columns = np.add.reduce(posterior.reshape(shape), axis=0).cumsum()
    return row * cols + int(columns.searchsorted(HALF * float(columns[-1])))


def decide_many(weights: FloatArray, distance_km: FloatArray, shape: tuple[int, int] | None) -> IntArray:
    """Return the optimal estimate for each row of weights, shape (k, n); -1 for a row without mass.

    The weights need not be normalised.

    >>> decide_many(np.array([[0.0, 2.0, 1.0], [0.0, 0.0, 0.0]]), np.empty((0, 0)), (1, 3))
    array([ 1, -1])
    """
    if shape is None:
        return _decide_by_cost(weights, distance_km)
    rows, cols = shape
    grids = weights.reshape(-1, rows, cols)
    # Products with ones are five times as fast as sums over short axes.
    return decide_by_medians((grids @ np.ones(cols)).T, (np.ones(rows) @ grids).T)


def decide_each(
    prior: FloatArray, likelihoods: FloatArray, distance_km: FloatArray, shape: tuple[int, int] | None
) -> IntArray:
    """Return the optimal estimate for each likelihood row, shape (k, n), under one prior; -1 without mass.

    >>> decide_each(np.array([0.5, 0.5, 0.0]), np.array([[0.1, 0.2, 0.7], [0.0, 0.0, 1.0]]), np.empty((0, 0)), (1, 3))
    array([ 1, -1])
    """
    fits = shape is not None and prior.shape == likelihoods.shape[1:] == (shape[0] * shape[1],)
    if shape is not None and fits and (fast := kernels.compiled()) is not None:
        return np.asarray(fast.decide_each(plain_floats(prior), plain_floats(likelihoods), *shape))
    return decide_many(likelihoods * prior, distance_km, shape)


def decide_by_medians(by_row: FloatArray, by_col: FloatArray) -> IntArray:
    """Return the cell of the median row and the median column for each of k grids of weights; -1 without mass.

    `by_row` holds the weights summed over columns, shape (rows, k); `by_col` those summed over rows, shape (cols, k).

    >>> decide_by_medians(np.array([[0.4], [0.6]]), np.array([[0.7], [0.2], [0.1]]))
    array([3])
    """
    row, mass = _lower_median(by_row)
    col, _ = _lower_median(by_col)
    return np.where(mass > MASS_FLOOR, row * len(by_col) + col, -1)


def _lower_median(weights: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the lower weighted median of each column, and its total weight."""
    # Along a short axis, one small matrix product is faster than a cumulative sum.
    up_to = _summation(len(weights)) @ weights if len(weights) <= 40 else weights.cumsum(axis=0)
    return (up_to < HALF * up_to[-1]).sum(axis=0), up_to[-1]


@cache  # at most 40 small constant matrices
def _summation(size: int) -> FloatArray:
    """Return the matrix whose product with a vector is its cumulative sum."""
    return read_only(np.tri(size))


def _decide_by_cost(weights: FloatArray, distance_km: FloatArray) -> IntArray:
    return cheapest(weights @ distance_km, weights.sum(axis=1), longest_km=float(distance_km.max()))


def cheapest(cost: FloatArray, total: FloatArray, *, longest_km: float) -> IntArray:
    """Return the lowest cell of minimal cost for each row of costs, shape (k, n); -1 for a row without mass.

    `total` is the sum of the weights behind each row, shape (k,). Costs within `TIE * total * longest_km` of the
    minimum are ties.

    >>> cheapest(np.array([[2.0, 1.0, 1.0], [0.0, 0.0, 0.0]]), np.array([1.0, 0.0]), longest_km=2.0)
    array([ 1, -1])
    """
    limit = cost.min(axis=1) + TIE * total * longest_km
    index = (cost <= limit[:, np.newaxis]).argmax(axis=1)
    return np.where(total > MASS_FLOOR, index, -1)


def entropy(distribution: FloatArray) -> float:
    """Return the Shannon entropy of a distribution in bits.

    >>> entropy(np.array([0.5, 0.25, 0.25, 0.0]))
    1.5
    """
    positive = distribution[distribution > 0]
    return float(-(positive @ np.log2(positive))) + 0.0
