"""Constrained Newton method on compact likelihood rows, for grids on which the rows in full would not fit into memory.

The steps are those of `sim.inference.newton`: the same second-order model, line search and certificate. Only the
products with the rows differ: the gradient over all cells is one application of the kernel, and full columns exist only
for the cells of the support.
"""

from __future__ import annotations

import numpy as np

from sim.inference.bayes import normalise
from sim.inference.compact_rows import CompactRows
from sim.inference.estimate import Estimate
from sim.inference.groups import split, spread
from sim.inference.newton import COLD_SUPPORT, NEWTON_ITERATIONS, candidates, newton_step
from sim.interfaces import FloatArray, IntArray

_EM_STEPS = 200  # after a stall


def compact_newton(
    rows: CompactRows,
    *,
    start: FloatArray | None = None,
    proportions: FloatArray,
    weights: FloatArray | None = None,
    unseen: int | None = None,
    gap: float = 1e-6,
    max_iterations: int = NEWTON_ITERATIONS,
) -> Estimate:
    """Estimate the profile as `constrained_newton` does; the arguments have the same meaning."""
    shares = np.full(len(rows), 1 / len(rows)) if weights is None else normalise(weights)
    groups = rows.groups
    representative = groups == np.arange(groups.size)
    point = _cold_start(rows, shares, groups) if start is None else spread(start, groups, groups.size)
    point = _cover(rows, shares, point, len(rows) if start is None or unseen is None else unseen)
    support = np.flatnonzero(point)
    mass, columns = point[support], rows.columns(support)
    iterations, stalled = 0, False
    while True:
        fitted = columns @ mass
        gradient = rows.gradient(shares / fitted)
        excess = float(gradient.max()) - 1
        if excess <= gap or iterations >= max_iterations or stalled:
            break
        iterations += 1
        entering = candidates(gradient, support, representative)
        if entering.size:
            support = np.concatenate([support, entering])
            mass = np.concatenate([mass, np.zeros(entering.size)])
            columns = rows.columns(support)
        moved = newton_step(columns, shares, fitted, mass, gap)
        if moved is None:
            stalled = True
            continue
        keep = moved > 0
        support, mass, columns = support[keep], moved[keep], columns[:, keep]
    profile = spread(mass, support, groups.size)
    if stalled:
        profile, excess, fitted = _polish(rows, shares, profile, excess, fitted, gap)
    if not representative.all():
        profile = split(spread(profile, groups, groups.size), groups, proportions)
    profile = normalise(profile)
    profile.flags.writeable = False
    return Estimate(profile, excess, iterations, float(shares @ np.log(fitted)))


def _cold_start(rows: CompactRows, shares: FloatArray, groups: IntArray) -> FloatArray:
    """Return a merged point of small support near the solution: three EM steps, then only the largest masses."""
    profile = np.full(rows.n_cells, 1 / rows.n_cells)
    for _ in range(3):
        profile = profile * rows.gradient(shares / rows.fitted(profile))
    merged = spread(profile, groups, groups.size)
    if merged.size > COLD_SUPPORT:
        merged[np.argpartition(merged, -COLD_SUPPORT)[:-COLD_SUPPORT]] = 0.0
    return normalise(merged)


def _cover(rows: CompactRows, shares: FloatArray, point: FloatArray, unseen: int) -> FloatArray:
    """Move mass to the most likely cell of each unseen row whose fitted likelihood is very small."""
    if unseen == 0:
        return point
    support = np.flatnonzero(point)
    fitted = rows.columns(support)[len(rows) - unseen :] @ point[support]
    cells, most = rows.peaks(unseen)
    own = shares[len(rows) - unseen :]
    poor = fitted < 0.01 * own * most
    if not poor.any():
        return point
    extra = spread(own[poor], rows.groups[cells[poor]], point.size)
    return np.asarray(max(0.0, 1 - float(own[poor].sum())) * point + extra)


def _polish(
    rows: CompactRows, shares: FloatArray, point: FloatArray, excess: float, fitted: FloatArray, gap: float
) -> tuple[FloatArray, float, FloatArray]:
    """Continue with EM after a stall; return the better of the two points, with its gap and fitted likelihoods."""
    profile = 0.999 * point + 0.001 / point.size
    for _ in range(_EM_STEPS):
        reached = rows.fitted(profile)
        gradient = rows.gradient(shares / reached)
        here = float(gradient.max()) - 1
        if here < excess:
            point, excess, fitted = profile, here, reached
        if here <= gap:
            break
        profile = profile * gradient
    return point, excess, fitted
