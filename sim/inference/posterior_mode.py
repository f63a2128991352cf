"""Newton's method for the mode of the posterior under a Dirichlet prior."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from sim.inference.bayes import normalise
from sim.inference.estimate import Estimate, certified_estimate, likelihood_gradient, with_pseudo_counts
from sim.inference.groups import spread
from sim.inference.newton import NEWTON_ITERATIONS
from sim.interfaces import FloatArray, IntArray

_EM_FIRST = 3  # EM steps before the first Newton step
_FALLS_FAST = 0.2  # a matrix is reused while it reduces the slopes by this factor per step


def posterior_mode(
    likelihoods: FloatArray,
    *,
    pseudo_counts: FloatArray,
    start: FloatArray | None = None,
    weights: FloatArray | None = None,
    groups: IntArray | None = None,
    gap: float = 1e-6,
    max_iterations: int = NEWTON_ITERATIONS,
) -> Estimate:
    """Estimate the profile with a Dirichlet prior by Newton's method.

    `pseudo_counts` must be above 0 in every cell. The mode is then positive too, and no constraint is ever active.
    `likelihoods` may have no rows. `weights` (default: 1 each) are in the unit of the pseudo-counts. `start` is a warm
    start. The first steps are EM steps, which quickly move mass to new cells. Newton steps follow, which reuse a matrix
    while the slopes decrease fast. `groups` are the equal columns, if known: each group is merged into one column and
    its mass is split exactly in proportion to the pseudo-counts.

    >>> posterior_mode(np.eye(2)[:1], pseudo_counts=np.array([1.0, 1.0])).profile.round(6)
    array([0.666667, 0.333333])
    """
    rows, weights, pseudo = with_pseudo_counts(likelihoods, weights, pseudo_counts)
    if not pseudo.min() > 0:
        raise ValueError(f"pseudo_counts must be above 0 in every cell, got {pseudo_counts.min()}")
    firsts = None if groups is None else np.flatnonzero(groups == np.arange(groups.size))
    if groups is None or firsts is None or firsts.size == groups.size:
        return _climb_to_mode(rows, weights, pseudo, start, gap, max_iterations)
    merged = spread(pseudo, groups, groups.size)
    begin = None if start is None else spread(start, groups, groups.size)[firsts]
    estimate = _climb_to_mode(rows[:, firsts], weights, merged[firsts], begin, gap, max_iterations)
    level = np.empty(groups.size)
    level[firsts] = estimate.profile / merged[firsts]
    profile = normalise(pseudo * level[groups])
    profile.flags.writeable = False
    return replace(estimate, profile=profile)


def _climb_to_mode(
    rows: FloatArray,
    weights: FloatArray,
    pseudo: FloatArray,
    start: FloatArray | None,
    gap: float,
    max_iterations: int,
) -> Estimate:
    """Return the mode, given weights and pseudo-counts that sum to 1 together."""
    profile = normalise(pseudo if start is None else np.maximum(start, pseudo))
    factor: tuple[FloatArray, FloatArray] | None = None
    before = np.inf
    for iteration in range(max_iterations + 1):
        fitted = rows @ profile
        gradient = likelihood_gradient(rows, weights, fitted, pseudo, profile)
        excess = float(gradient.max()) - 1
        if excess <= gap or iteration == max_iterations:
            break
        steepest = float(np.abs(profile * (gradient - 1)).max())
        if iteration < _EM_FIRST:
            profile = normalise(profile * gradient)
            continue
        if factor is None or not steepest < _FALLS_FAST * before:
            factor = _factor_of_mode(rows, weights, fitted, pseudo, profile)
        before = steepest
        moved = _step_of_mode(rows, weights, fitted, pseudo, profile, gradient, factor)
        if moved is None:  # the slope is rounding error: an EM step always ascends
            factor, moved = None, profile * gradient
        profile = normalise(moved)
    return certified_estimate(rows, weights, profile, iteration, pseudo)


def _factor_of_mode(
    rows: FloatArray, weights: FloatArray, fitted: FloatArray, pseudo: FloatArray, profile: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the Cholesky factor of the negative second derivative, without its first-order part, and the profile.

    The derivative is with respect to log(pi), in which small and large masses have the same scale: the matrix is that
    of the reports plus the pseudo-counts on the diagonal.
    """
    model = (np.sqrt(weights) / fitted)[:, np.newaxis] * (rows * profile)
    matrix = model.T @ model
    matrix.flat[:: len(profile) + 1] += pseudo
    factor, info = dpotrf(matrix, overwrite_a=True)
    if info != 0:  # not positive definite in double precision: a diagonal matrix of row sums is a safe bound
        factor = np.diag(np.sqrt(matrix.sum(axis=1)))
    return factor, profile


def _step_of_mode(
    rows: FloatArray,
    weights: FloatArray,
    fitted: FloatArray,
    pseudo: FloatArray,
    profile: FloatArray,
    gradient: FloatArray,
    factor: tuple[FloatArray, FloatArray],
) -> FloatArray | None:
    """Return the unnormalised masses after a Newton step with line search, or None if no step ascends.

    The objective is sum_s w_s log(L[s] . pi) + sum_i a_i log(pi_i) - sum_i pi_i, whose maximiser sums to 1.
    """
    matrix, scale = factor
    uphill = gradient - 1
    move, _ = dpotrs(matrix, scale * uphill)
    direction = scale * move
    slope = float(uphill @ direction)
    if not slope > 0:
        return None
    by_row, by_cell = (rows @ direction) / fitted, direction / profile
    lowest = float(min(by_row.min(initial=0.0), by_cell.min()))
    length = 1.0 if lowest > -0.95 else -0.95 / lowest
    drift = float(direction.sum())
    while length > 1e-10:
        gain = weights @ np.log1p(length * by_row) + pseudo @ np.log1p(length * by_cell) - length * drift
        if gain >= 1e-4 * length * slope:
            return np.asarray(profile + length * direction)
        length /= 2
    return None
