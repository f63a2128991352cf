"""Constrained Newton method for the maximum likelihood profile, with a certified result."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv, dpotrs

from sim.inference import kernels
from sim.inference.bayes import normalise, plain_floats, read_only
from sim.inference.em import em
from sim.inference.estimate import Estimate, likelihood_gradient, uniform, weighted
from sim.inference.groups import equal_columns, split, spread
from sim.interfaces import BoolArray, FloatArray, IntArray

NEWTON_ITERATIONS = 200
COLD_SUPPORT = 60  # columns of a cold start: more slow down the first steps, fewer require more steps
_CANDIDATES = 20  # most columns that enter the support in one Newton step
_CORRECTIONS = 8  # most correction steps with the matrix of one Newton step
_EVENLY = read_only(np.empty(0))  # no proportions


def constrained_newton(
    likelihoods: FloatArray,
    *,
    start: FloatArray | None = None,
    proportions: FloatArray | None = None,
    weights: FloatArray | None = None,
    groups: IntArray | None = None,
    unseen: int | None = None,
    gap: float = 1e-6,
    max_iterations: int = NEWTON_ITERATIONS,
) -> Estimate:
    """Estimate the profile by the constrained Newton method of Wang (2007, J. R. Statist. Soc. B 69, 185-198).

    Each step adds the columns with the largest g_i > 1 to the support, minimises the second-order model of the
    log-likelihood over the simplex and performs a line search towards the minimiser. `start` is a warm start and may
    contain zeros: g is computed for all columns, so any column can enter. `groups` are the equal columns, if known.
    Their mass is split by `proportions` (default: `start`, or uniform without a start), evenly in a group whose
    proportions are all 0. If `start` was estimated from all rows but the last ones, `unseen` is the number of those
    last rows.
    """
    rows, weights = weighted(likelihoods, weights)
    groups = equal_columns(rows) if groups is None else groups
    proportions = start if proportions is None else proportions
    if start is None:
        start, unseen = _cold_start(rows, weights, groups), None
    unseen = len(rows) if unseen is None else unseen
    if (fast := kernels.compiled()) is not None:
        profile = np.empty(groups.size)
        reached, iterations, log_likelihood, stalled = fast.constrained_newton(
            plain_floats(rows),
            plain_floats(weights),
            plain_floats(start),
            groups,
            _EVENLY if proportions is None else plain_floats(proportions),
            unseen,
            _CANDIDATES,
            _CORRECTIONS,
            gap,
            max_iterations,
            profile,
        )
        if not stalled:
            return Estimate(read_only(profile), reached, iterations, log_likelihood)
        # The NumPy version is slower but more robust. It restarts: the point of the stall is a poor start.
    representative = groups == np.arange(groups.size)
    merges = not representative.all()
    point = _cover(rows, weights, spread(start, groups, groups.size) if merges else start, unseen)
    climbed = _climb(rows, weights, point, representative, gap=gap, max_iterations=max_iterations)
    profile = read_only(normalise(split(climbed.point, groups, proportions) if merges else climbed.point))
    estimate = Estimate(profile, climbed.gap, climbed.iterations, float(weights @ np.log(climbed.fitted)))
    return _polish(rows, weights, estimate, gap) if climbed.stalled else estimate


def _cold_start(rows: FloatArray, weights: FloatArray, groups: IntArray) -> FloatArray:
    """Return a merged point of small support near the solution: three EM steps, then only the largest masses."""
    profile = uniform(rows)
    for _ in range(3):
        profile = profile * likelihood_gradient(rows, weights, rows @ profile)
    merged = spread(profile, groups, len(groups))
    if len(merged) > COLD_SUPPORT:
        merged[np.argpartition(merged, -COLD_SUPPORT)[:-COLD_SUPPORT]] = 0.0
    return normalise(merged)


def _cover(rows: FloatArray, weights: FloatArray, point: FloatArray, unseen: int) -> FloatArray:
    """Move mass to the most likely cell of each unseen row whose fitted likelihood is very small.

    A Newton step at most doubles a row's fitted likelihood, so starting from nearly 0 would take many steps. Rows from
    which the point was estimated do not need this: their fitted likelihood is at least their weight times their
    largest entry, otherwise the g of that cell would exceed 1. The most likely cell is the lowest of its group.
    """
    rows, weights = rows[len(rows) - unseen :], weights[len(weights) - unseen :]
    poor = np.flatnonzero(rows @ point < 0.01 * weights * rows.max(axis=1))
    if poor.size == 0:
        return point
    extra = spread(weights[poor], rows[poor].argmax(axis=1), len(point))
    return np.asarray(max(0.0, 1 - float(weights[poor].sum())) * point + extra)


class _Climbed(NamedTuple):
    """The result of Newton steps from a merged point."""

    point: FloatArray
    fitted: FloatArray
    gap: float
    iterations: int
    stalled: bool


def _climb(
    rows: FloatArray,
    weights: FloatArray,
    point: FloatArray,
    representative: BoolArray,
    *,
    gap: float,
    max_iterations: int,
) -> _Climbed:
    """Take Newton steps from a merged point until the gap is reached or no step increases the likelihood."""
    iterations, stalled = 0, False
    support = np.flatnonzero(point)
    mass = point[support]
    columns = rows[:, support]
    while True:
        fitted = columns @ mass
        gradient = likelihood_gradient(rows, weights, fitted)
        excess = float(gradient.max()) - 1
        if excess <= gap or iterations >= max_iterations or stalled:
            return _Climbed(spread(mass, support, len(point)), fitted, excess, iterations, stalled)
        iterations += 1
        entering = candidates(gradient, support, representative)
        if entering.size:
            support = np.concatenate([support, entering])
            mass = np.concatenate([mass, np.zeros(entering.size)])
            columns = rows[:, support]
        moved = newton_step(columns, weights, fitted, mass, gap)
        if moved is None:
            stalled = True
            continue
        keep = moved > 0
        support, mass, columns = support[keep], moved[keep], columns[:, keep]


def candidates(gradient: FloatArray, support: IntArray, representative: BoolArray) -> IntArray:
    """Return the columns outside the support whose g_i - 1 is more than half of the largest."""
    gains = np.where(representative, gradient - 1, 0.0)
    gains[support] = 0.0
    best = np.argpartition(gains, -_CANDIDATES)[-_CANDIDATES:] if len(gains) > _CANDIDATES else np.arange(len(gains))
    return np.asarray(best[gains[best] > max(0.0, 0.5 * float(gradient.max() - 1))])


def newton_step(
    columns: FloatArray, weights: FloatArray, fitted: FloatArray, mass: FloatArray, gap: float
) -> FloatArray | None:
    """Return the mass after one Newton step with line search, or None if no step increases the likelihood.

    On the simplex the second-order model is |sqrt(w) (S theta - 2)|^2 / 2 with S = L / (L . pi), and there
    S theta - 2 = (S - 2) theta (Wang 2007, section 3).
    """
    model = np.sqrt(weights)[:, np.newaxis] * (columns / fitted[:, np.newaxis] - 2)
    # Without the constraint theta >= 0, the minimiser solves (model' model) theta = 1, up to scale. Warm starts mostly
    # have the right support; this solution is then non-negative, thus the minimiser, and five times faster.
    factor, level, info = dposv(model.T @ model, np.ones(mass.size))
    if info == 0 and level.min() >= 0 and np.isfinite(total := level.sum()):
        length = _line_search(fitted, columns @ (level / total), weights)
        if length == 1:
            return _corrected(columns, weights, level / total, factor, level, 0.1 * gap)
        if length > 0:
            return np.asarray((1 - length) * mass + length * (level / total))
    target = _simplex_minimiser(model)
    length = 0.0 if target is None else _line_search(fitted, columns @ target, weights)
    return None if target is None or length == 0 else (1 - length) * mass + length * target


def _corrected(
    columns: FloatArray, weights: FloatArray, mass: FloatArray, factor: FloatArray, level: FloatArray, gap: float
) -> FloatArray:
    """Follow a full Newton step with steps that reuse its matrix, while they bring the slopes closer to 1.

    Near the solution the matrix hardly changes, and a step that reuses it costs a tenth.
    """
    best, last = mass, 0.2
    for _ in range(_CORRECTIONS + 1):
        uphill = (weights / (columns @ mass)) @ columns - 1
        steepest = float(np.abs(uphill).max())
        if not steepest < 0.5 * last:
            break
        best, last = mass, steepest
        if steepest <= gap:
            break
        move, _ = dpotrs(factor, uphill)
        mass = mass + move - (move.sum() / level.sum()) * level
        if mass.min() < 0:
            break
    return best


def _simplex_minimiser(model: FloatArray) -> FloatArray | None:
    """Return the minimiser of |model @ theta|^2 over the simplex, or None if the solver fails.

    Dax (1990): a further row requires a sum of 1; the non-negative least-squares solution, rescaled, is the minimiser.
    """
    from scipy.optimize import nnls  # slow to import, and the numba version does not need it

    n_columns = model.shape[1]
    matrix = np.vstack([model, np.ones(n_columns)])
    right_side = np.zeros(len(matrix))
    right_side[-1] = 1.0
    try:
        theta, _ = nnls(matrix, right_side, maxiter=10 * n_columns)
    except RuntimeError:  # out of iterations
        return None
    return theta / theta.sum() if theta.any() else None


def _line_search(fitted: FloatArray, target: FloatArray, weights: FloatArray) -> float:
    """Return the first of 1, 1/2, 1/4 ... that satisfies Armijo's rule, or 0.0 if the direction does not ascend."""
    direction = target - fitted
    slope = float((weights / fitted) @ direction)
    if not slope > 0:
        return 0.0
    ratio = direction / fitted
    length = 1.0
    while length > 1e-10:
        if ratio.min() * length > -1 and float(weights @ np.log1p(length * ratio)) >= 1e-4 * length * slope:
            return length
        length /= 2
    return 0.0


def _polish(rows: FloatArray, weights: FloatArray, stalled: Estimate, gap: float) -> Estimate:
    """Continue with EM after a stall, with a little mass in every cell; return the better of the two estimates."""
    start = 0.999 * stalled.profile + 0.001 * uniform(rows)
    slow = em(rows, start=start, weights=weights, gap=gap, max_iterations=10_000)
    return slow if slow.gap < stalled.gap else stalled
