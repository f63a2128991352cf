"""The most visited places of a user, and how many of them an adversary finds.

The adversary ranks places by their number of estimates. A place is the disk that has the most of the remaining
estimates, so that guesses are not spent on the neighbours of one place; true places are disks too where coordinates are
continuous.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from sim.analysis.answers.located import BORDER_KM, distances_km, within
from sim.interfaces import FloatArray

COUNTS = (1, 2, 3, 5)
"""Default numbers N of places."""
_DENSE_PLACES = 1_000
"""Largest number of places whose neighbours are in a matrix of 1 MB, which is faster than a sparse one."""


def top_places(places: FloatArray, weights: FloatArray, count: int, merge_km: float = 0.0) -> FloatArray:
    """Return the most visited places, at most `count`, shape (<= count, 2), from positions in km with weights.

    Greedy: the position with the most weight within `merge_km` is the next place, and takes this weight; the first
    position if tied.

    >>> at = np.array([[0.0, 0.0], [0.1, 0.0], [0.2, 0.0], [5.0, 0.0]])
    >>> top_places(at, np.array([1.0, 1.0, 1.0, 2.0]), 2, merge_km=0.1).tolist()
    [[0.1, 0.0], [5.0, 0.0]]
    >>> top_places(at, np.array([1.0, 1.0, 1.0, 2.0]), 1).tolist()
    [[5.0, 0.0]]
    """
    places, weights = _distinct(places, weights)
    if merge_km <= 0 or len(places) < 2:
        return places[np.argsort(-weights, kind="stable")[:count]]
    near = neighbours(places, merge_km)
    left = weights.astype(float)
    covered = near @ left
    chosen: list[int] = []
    while len(chosen) < count and (left > 0).any():
        best = int(np.where(left > 0, covered, -np.inf).argmax())
        chosen.append(best)
        taken = np.flatnonzero(near[best] if isinstance(near, np.ndarray) else near[[best]].toarray())
        covered = covered - left[taken] @ near[taken]
        left[taken] = 0.0
    return places[chosen]


def neighbours(places: FloatArray, reach_km: float) -> Any:
    """Return a symmetric matrix that is true for places at most this far apart, sparse if there are many."""
    if len(places) <= _DENSE_PLACES:
        return within(distances_km(places[:, None], places[None]), reach_km)
    pairs = cKDTree(places).query_pairs(reach_km + BORDER_KM, output_type="ndarray")
    own = np.arange(len(places))
    row, column = (np.concatenate([own, pairs[:, a], pairs[:, b]]) for a, b in ((0, 1), (1, 0)))
    return csr_array((np.ones(len(row)), (row, column)), shape=(len(places), len(places)))


def _distinct(places: FloatArray, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return distinct positions in order of appearance, with the sums of their weights."""
    distinct, first, which = np.unique(places, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first, kind="stable")
    return distinct[order], np.bincount(which.ravel(), weights, len(distinct)).astype(float)[order]


def merged(places: FloatArray, merge_km: float) -> FloatArray:
    """Return positions, shape (n, 2), each replaced by the place that it belongs to: the most visited one nearby.

    >>> merged(np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.0], [5.0, 0.0]]), 0.2).tolist()
    [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0], [5.0, 0.0]]
    """
    if merge_km <= 0 or not len(places):
        return places
    centres: FloatArray = top_places(places, np.ones(len(places)), len(places), merge_km)
    # The order of the centres is that of their ranks; a position belongs to the first within reach.
    owner = np.full(len(places), -1)
    for number, centre in enumerate(centres):
        owner[(owner < 0) & within(distances_km(places, centre), merge_km)] = number
    return np.asarray(centres[owner])


def found_share(true: FloatArray, guessed: FloatArray, radius_km: float) -> float:
    """Return the share of the true places that are within the radius of a guessed one; NaN without true places.

    >>> found_share(np.array([[0.0, 0.0], [5.0, 0.0]]), np.array([[0.3, 0.0]]), 0.5)
    0.5
    """
    if not len(true):
        return np.nan
    if not len(guessed):
        return 0.0
    return float(within(distances_km(true[:, None], guessed[None]), radius_km).any(axis=1).mean())


def random_found_share(success: FloatArray, count: int) -> float:
    """Return the expected share of places that `count` independent uniform guesses find.

    `success` has the probability that one guess finds each true place.

    >>> random_found_share(np.array([0.5, 0.0]), 2)
    0.375
    """
    return float((1 - (1 - success) ** count).mean()) if len(success) else np.nan
