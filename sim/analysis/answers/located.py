"""Located places: whether an estimate is within a radius of the true place, and guesses without any report."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from sim.interfaces import FloatArray

BORDER_KM = 1e-9
"""A distance that exceeds the radius by less than this is within it: distances of grid cells are rounded."""
_PAIRS = 4_000_000
"""Largest number of pairs of neighbours in memory; 24 bytes each."""


def within(distances_km: FloatArray, radius_km: float) -> NDArray[np.bool_]:
    """Return which distances are at most the radius.

    >>> within(np.array([0.1, 0.3, np.nan]), 0.3).tolist()
    [True, True, False]
    """
    return np.asarray(distances_km) <= radius_km + BORDER_KM


def distances_km(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the straight distances between positions in km, shape (..., 2), broadcast; NaN if either is unknown."""
    apart = np.asarray(one) - np.asarray(other)
    return np.hypot(apart[..., 0], apart[..., 1])


def posterior_mass_within(posterior: FloatArray, distances_km: FloatArray, radius_km: float) -> FloatArray:
    """Return the posterior mass within the radius of a place, such as the true one or the estimate.

    `posterior` and `distances_km`, of each location from the place, have shape (..., n_locations).

    >>> posterior_mass_within(np.array([0.5, 0.3, 0.2]), np.array([0.0, 1.0, 2.0]), 1.0).round(3).tolist()
    0.8
    """
    return np.asarray((posterior * within(distances_km, radius_km)).sum(axis=-1))


def coverage(places: FloatArray, weights: FloatArray, guesses: FloatArray, radius_km: float) -> FloatArray:
    """Return the weight of the places within the radius of each guess, shape (n_guesses,); positions in km, (n, 2).

    >>> coverage(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([2.0, 1.0]), np.array([[0.5, 0.0]]), 0.5).tolist()
    [3.0]
    """
    covered = np.zeros(len(guesses))
    if not len(places) or not len(guesses):
        return covered
    tree = cKDTree(places)
    reach = radius_km + BORDER_KM
    step = max(_PAIRS // len(places), 1)
    for start in range(0, len(guesses), step):
        some = slice(start, start + step)
        near = cKDTree(guesses[some]).sparse_distance_matrix(tree, reach, output_type="ndarray")
        covered[some] = np.bincount(near["i"], weights[near["j"]], len(covered[some]))
    return covered


def best_guess(places: FloatArray, weights: FloatArray, guesses: FloatArray, radius_km: float) -> int:
    """Return the guess with the most weight within the radius: the best one without any report; the first if tied."""
    return int(coverage(places, weights, guesses, radius_km).argmax())


def prior_mass(places: FloatArray, weights: FloatArray, radius_km: float) -> float:
    """Return the mean probability, over visits, of the places within the radius under the frequencies of the visits.

    >>> prior_mass(np.array([[0.0, 0.0], [5.0, 0.0]]), np.array([3.0, 1.0]), 1.0)
    0.625
    """
    return float(weights @ coverage(places, weights, places, radius_km)) / float(weights.sum()) ** 2


def random_success(places: FloatArray, guesses: FloatArray, radius_km: float) -> FloatArray:
    """Return the probability that a guess drawn uniformly from `guesses` is within the radius of each place."""
    return coverage(guesses, np.ones(len(guesses)), places, radius_km) / len(guesses)
