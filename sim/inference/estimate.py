"""The estimation problem common to all solvers, and the certificate of a solution.

Solvers maximise the mean of log(L[s] . pi) over the simplex, where L[s, i] = f(z^s | z^{s-1}, x_i) is the likelihood
of the s-th report (Oya et al. 2019, eq. (updatepi)). With g_i = mean_s L[s, i] / (L[s] . pi), the gap max_i g_i - 1
bounds the distance of pi from the maximal mean log-likelihood. It is the stopping criterion of every solver, and
`Estimate` contains it.

The maximiser need not be unique: cells with equal columns cannot be distinguished, and location hiding produces many
equal columns. Solvers merge them into one column and split its mass again in given proportions. Compare solvers by
their gap and their fitted L . pi, not by pi.

With the pseudo-counts a_i of a Dirichlet prior, solvers estimate the mode of the posterior instead, the maximiser of
sum_s w_s log(L[s] . pi) + sum_i a_i log(pi_i), as if cell i had been observed a_i times. The gap is defined in the same
way, with the mean taken over the reports and the pseudo-counts together. This maximiser is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from sim.inference.bayes import normalise, read_only
from sim.interfaces import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Estimate:
    """A profile with its certificate."""

    profile: FloatArray
    """Estimated profile, shape (n_cells,), read-only."""
    gap: float
    """Certified upper bound on the distance to the maximal mean log-likelihood, in [0, inf) up to rounding."""
    iterations: int
    """Number of steps of the solver."""
    log_likelihood: float
    """Weighted mean of log(L[s] . profile)."""

    def as_vector(self) -> FloatArray:
        """Return all fields as one vector, exactly."""
        return np.concatenate([(self.gap, self.iterations, self.log_likelihood), self.profile])

    @classmethod
    def of_vector(cls, vector: FloatArray, n_cells: int) -> Self:
        """Return the estimate of `as_vector`; raise `ValueError` if the vector is none.

        >>> estimate = Estimate(np.array([0.25, 0.75]), 1e-7, 3, -0.5)
        >>> Estimate.of_vector(estimate.as_vector(), 2)
        Estimate(profile=array([0.25, 0.75]), gap=1e-07, iterations=3, log_likelihood=-0.5)
        """
        if vector.shape != (3 + n_cells,):
            raise ValueError(f"vector must have shape {(3 + n_cells,)}, got {vector.shape}")
        if not (np.isfinite(vector).all() and vector[3:].min() >= 0 and abs(vector[3:].sum() - 1) < 1e-6):
            raise ValueError("vector must be finite and contain a distribution")
        gap, iterations, log_likelihood = vector[:3].tolist()
        return cls(read_only(vector[3:].copy()), gap, int(iterations), log_likelihood)


def certified_gap(
    likelihoods: FloatArray,
    profile: FloatArray,
    weights: FloatArray | None = None,
    pseudo_counts: FloatArray | None = None,
) -> float:
    """Return max_i mean_s L[s, i] / (L[s] . profile) - 1, which bounds the possible gain in mean log-likelihood.

    With pseudo-counts, the mean includes them, and the gap bounds the possible gain in mean log-posterior.

    >>> certified_gap(np.eye(2), np.array([0.5, 0.5]))
    0.0
    >>> certified_gap(np.eye(2)[:1], np.array([0.75, 0.25]), pseudo_counts=np.array([0.5, 0.5]))
    0.0
    """
    if pseudo_counts is None:
        rows, weights = weighted(likelihoods, weights)
        return float(likelihood_gradient(rows, weights, rows @ profile).max()) - 1
    rows, weights, pseudo = with_pseudo_counts(likelihoods, weights, pseudo_counts)
    return float(likelihood_gradient(rows, weights, rows @ profile, pseudo, profile).max()) - 1


def weighted(likelihoods: FloatArray, weights: FloatArray | None) -> tuple[FloatArray, FloatArray]:
    """Return the rows with positive weight and their weights, scaled to sum to 1 (default: equal weights)."""
    count = len(likelihoods)
    if count == 0:
        raise ValueError("likelihoods must have at least one row, got none")
    if weights is None:
        weights = np.full(count, 1 / count)
    else:
        weights = normalise(weights)
        if not weights.min() >= 0:
            raise ValueError(f"weights must be in [0, inf), got {weights.min()}")
        if not weights.all():
            likelihoods, weights = likelihoods[weights > 0], weights[weights > 0]
    return likelihoods, weights


def with_pseudo_counts(
    likelihoods: FloatArray, weights: FloatArray | None, pseudo_counts: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the rows with positive weight, their weights and the pseudo-counts, scaled to sum to 1 together."""
    weights = np.ones(len(likelihoods)) if weights is None else weights
    if not (weights.min(initial=0.0) >= 0 and pseudo_counts.min() >= 0):
        least = min(weights.min(initial=0.0), pseudo_counts.min())
        raise ValueError(f"weights and pseudo_counts must be in [0, inf), got {least}")
    if not weights.all():
        likelihoods, weights = likelihoods[weights > 0], weights[weights > 0]
    total = float(weights.sum() + pseudo_counts.sum())
    if not 0 < total < np.inf:
        raise ValueError(f"total weight must be in (0, inf), got {total}")
    return likelihoods, weights / total, pseudo_counts / total


def uniform(rows: FloatArray) -> FloatArray:
    """Return the uniform profile over the columns of the rows."""
    return np.full(rows.shape[1], 1 / rows.shape[1])


def likelihood_gradient(
    rows: FloatArray,
    weights: FloatArray,
    fitted: FloatArray,
    pseudo: FloatArray | None = None,
    profile: FloatArray | None = None,
) -> FloatArray:
    """Return g, the derivative of the mean log-likelihood; raise `ValueError` if the profile makes a row impossible."""
    if not fitted.min(initial=np.inf) > 0:
        raise ValueError(f"profile must give every row a likelihood in (0, inf), got {fitted.min()}")
    slopes = (weights / fitted) @ rows
    if pseudo is None or profile is None:
        return np.asarray(slopes)
    if not (profile[pseudo > 0] > 0).all():
        raise ValueError("profile must be in (0, 1] in every cell with a pseudo-count, got 0.0")
    return np.asarray(slopes + np.divide(pseudo, profile, out=np.zeros_like(slopes), where=pseudo > 0))


def certified_estimate(
    rows: FloatArray,
    weights: FloatArray,
    profile: FloatArray,
    iterations: int,
    pseudo: FloatArray | None = None,
) -> Estimate:
    """Return the normalised profile with its gap, recomputed so that the certificate does not depend on the solver."""
    profile = normalise(profile)
    profile.flags.writeable = False
    fitted = rows @ profile
    gap = float(likelihood_gradient(rows, weights, fitted, pseudo, profile).max()) - 1
    share = 1.0 if pseudo is None else float(weights.sum()) or 1.0
    return Estimate(profile, gap, iterations, float(weights @ np.log(fitted)) / share)
