"""Expectation-maximisation, the solver of the paper."""

from __future__ import annotations

import numpy as np

from sim.inference.bayes import normalise
from sim.inference.estimate import (
    Estimate,
    certified_estimate,
    likelihood_gradient,
    uniform,
    weighted,
    with_pseudo_counts,
)
from sim.interfaces import FloatArray

EM_ITERATIONS = 100_000
_FLOOR = 1e-30  # EM cannot leave a zero, and subnormal numbers would make it ten times slower


def em(
    likelihoods: FloatArray,
    *,
    start: FloatArray | None = None,
    weights: FloatArray | None = None,
    pseudo_counts: FloatArray | None = None,
    gap: float = 1e-6,
    max_iterations: int = EM_ITERATIONS,
) -> Estimate:
    """Estimate the profile by expectation-maximisation with the paper's update, from `start` (default: uniform).

    Each step multiplies pi_i by g_i, so cells with equal columns keep their initial proportions. Zeros in `start` are
    raised to a small positive value, from which EM can still leave, slowly. With `pseudo_counts`, the result is the
    mode of the posterior.
    """
    begin = uniform(likelihoods) if start is None else start
    pseudo: FloatArray | None = None
    if pseudo_counts is None:
        rows, weights = weighted(likelihoods, weights)
        profile = np.maximum(begin, _FLOOR)
    else:
        rows, weights, pseudo = with_pseudo_counts(likelihoods, weights, pseudo_counts)
        profile = normalise(np.maximum(begin, np.maximum(pseudo, _FLOOR)))
    for iteration in range(max_iterations):
        gradient = likelihood_gradient(rows, weights, rows @ profile, pseudo, profile)
        if gradient.max() - 1 <= gap:
            return certified_estimate(rows, weights, profile, iteration, pseudo)
        profile = np.maximum(profile * gradient, _FLOOR)
    return certified_estimate(rows, weights, profile, max_iterations, pseudo)
