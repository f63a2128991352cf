"""Baum-Welch: estimate transitions from reports only, by expectation-maximisation on likelihood rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sim.interfaces import BoolArray, FloatArray


class Counts(NamedTuple):
    """Expected transition counts of the hidden path, given all reports."""

    pairs: FloatArray
    """Expected number of steps [from, to], shape (n_cells, n_cells)."""
    log_likelihood: float
    """Log-likelihood of the reports under the model from which the counts were computed."""


def forward(
    start: FloatArray, transition: FloatArray, likelihoods: FloatArray, begins: BoolArray
) -> tuple[FloatArray, FloatArray]:
    """Return the posteriors p(x^r | z^1..z^r), shape (k, n), and the masses p(z^r | z^1..z^{r-1}), shape (k,).

    `begins`, shape (k,), is true where the path restarts at `start`, as at the first report. Every report must have
    positive probability.

    >>> forward(np.array([0.5, 0.5]), np.eye(2), np.array([[1.0, 0.0], [0.5, 0.5]]), np.array([True, False]))
    (array([[1., 0.],
           [1., 0.]]), array([0.5, 0.5]))
    """
    posteriors, masses = np.empty_like(likelihoods), np.empty(len(likelihoods))
    for r, likelihood in enumerate(likelihoods):
        prior = start if begins[r] else posteriors[r - 1] @ transition
        np.multiply(prior, likelihood, out=posteriors[r])
        masses[r] = posteriors[r].sum()
        posteriors[r] /= masses[r]
    return posteriors, masses


def expected_counts(start: FloatArray, transition: FloatArray, likelihoods: FloatArray, begins: BoolArray) -> Counts:
    """Compute the E-step with the forward-backward algorithm (Rabiner 1989, Proc. IEEE 77, eqs. 19-25, 37).

    >>> expected_counts(np.array([0.5, 0.5]), np.full((2, 2), 0.5), np.eye(2), np.array([True, False])).pairs
    array([[0., 1.],
           [0., 0.]])
    """
    posteriors, masses = forward(start, transition, likelihoods, begins)
    evidence = likelihoods / masses[:, np.newaxis]
    later = np.ones(len(start))
    for r in range(len(evidence) - 1, -1, -1):
        evidence[r] *= later
        later = np.ones(len(start)) if begins[r] else transition @ evidence[r]
    continues = ~begins[1:]
    pairs = transition * (posteriors[:-1][continues].T @ evidence[1:][continues])
    return Counts(pairs, float(np.log(masses).sum()))


def baum_welch(
    start: FloatArray,
    transition: FloatArray,
    likelihoods: FloatArray,
    begins: BoolArray,
    *,
    pseudo_counts: FloatArray,
    iterations: int,
) -> FloatArray:
    """Return the transitions after a number of EM steps, with a known start profile.

    `pseudo_counts` [from, to], in (0, inf), count as steps observed before the first report: a Dirichlet prior for
    each row. No step lowers the log-likelihood plus the sum of `pseudo_counts` times the logarithms of the transitions.
    """
    for _ in range(iterations):
        pairs = expected_counts(start, transition, likelihoods, begins).pairs + pseudo_counts
        transition = pairs / pairs.sum(axis=1, keepdims=True)
    return transition
