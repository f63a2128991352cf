"""Linkage of two pseudonymous weeks: whether the reports of the second week give away whose first week they continue.

The adversary knows the reports of the first week of each of n users, and attributes the reports of a second week, under
a new pseudonym, to the user with the highest likelihood. The profile of a user is the distribution of the reports of
the first week, smoothed by a kernel exp(-distance / bandwidth) and mixed with the profile of everybody:

    log L(v | u) = sum_z n_v(z) log((1 - EVERYBODY) p_u(z) + EVERYBODY p(z)).

Positions are snapped to a lattice of half the bandwidth, which bounds the size of the kernel. The bandwidth is the one
that links the second half of the first week best to its first half, so it does not use the second week.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from sim.interfaces import FloatArray

EVERYBODY = 0.1
"""Share of the profile of everybody in that of a user."""
BANDWIDTHS_KM = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
WEEK_S = 7 * 86_400
_TIE = 1e-9
_FLOOR = 1e-12
_REACH = 6.0
"""Distance in bandwidths at which the kernel ends: 1.7 % of its mass is farther away."""


@dataclass(frozen=True, slots=True)
class Linkage:
    """Success of the linkage of each user."""

    top: FloatArray
    """Probability that the right user is ranked first, ties broken at random, shape (n_users,)."""
    rank: FloatArray
    """Expected rank of the right user, from 1."""
    bandwidth_km: float

    @property
    def random_top(self) -> float:
        """Probability of a random match."""
        return 1 / len(self.top)


def link(
    first: Sequence[FloatArray], second: Sequence[FloatArray], *, bandwidths_km: Sequence[float] = BANDWIDTHS_KM
) -> Linkage:
    """Match second weeks to first weeks; element u of both has the reported positions of user u in km, (n_reports, 2).

    Every user needs reports in both weeks.

    >>> weeks = [np.array([[0.0, 0.0], [0.0, 0.0]]), np.array([[9.0, 0.0], [9.0, 0.0]])]
    >>> link(weeks, weeks).top.tolist(), link(weeks, weeks[::-1]).rank.tolist()
    ([1.0, 1.0], [2.0, 2.0])
    """
    width = _tuned(first, bandwidths_km)
    top, rank = ranks_of_truth(_log_likelihoods(first, second, width))
    return Linkage(top, rank, width)


def _tuned(first: Sequence[FloatArray], bandwidths_km: Sequence[float]) -> float:
    """Return the bandwidth with the lowest mean rank when halves of the first week are linked; the first if tied."""
    halves = [(own[: len(own) // 2], own[len(own) // 2 :]) for own in first if len(own) > 1]
    if not halves or len(bandwidths_km) < 2:
        return bandwidths_km[0]
    early, late = [half[0] for half in halves], [half[1] for half in halves]
    ranks = [float(ranks_of_truth(_log_likelihoods(early, late, km))[1].mean()) for km in bandwidths_km]
    return bandwidths_km[int(np.argmin(ranks))]


def ranks_of_truth(scores: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the probability that the right candidate is first, and its expected rank, with ties broken at random.

    `scores` [item, candidate] has shape (n, n); the right candidate of item i is i.

    >>> top, rank = ranks_of_truth(np.array([[0.0, -1.0], [0.0, 0.0]]))
    >>> top.tolist(), rank.tolist()
    ([1.0, 0.5], [1.0, 1.5])
    """
    own = np.diag(scores)[:, None]
    near = _TIE * np.maximum(1.0, np.abs(own))
    better = (scores > own + near).sum(axis=1)
    tied = (np.abs(scores - own) <= near).sum(axis=1)
    return np.where(better == 0, 1 / tied, 0.0), better + (tied + 1) / 2


def _log_likelihoods(first: Sequence[FloatArray], second: Sequence[FloatArray], width_km: float) -> FloatArray:
    """Return log L of each second week under the profile of each first week, shape (n_second, n_first)."""
    places, counts = _counts([*first, *second], width_km / 2)
    known, new = counts[: len(first)], counts[len(first) :]
    profiles: Any = known / known.sum(axis=1)[:, None]
    if width_km > 0:
        profiles = profiles @ _kernel(places, width_km)
    everybody = counts.sum(axis=0) / counts.sum()
    mixed = (1 - EVERYBODY) * profiles.toarray() + EVERYBODY * everybody
    return np.asarray(new @ np.log(np.maximum(mixed, _FLOOR)).T)


def _counts(weeks: Sequence[FloatArray], lattice_km: float) -> tuple[FloatArray, Any]:
    """Return the distinct positions, and the sparse number of reports of each week there, (n_weeks, n_places)."""
    positions = np.concatenate(weeks)
    if lattice_km > 0:
        positions = np.floor(positions / lattice_km + 0.5) * lattice_km
    places, which = np.unique(positions, axis=0, return_inverse=True)
    week = np.repeat(np.arange(len(weeks)), [len(own) for own in weeks])
    return places, csr_array((np.ones(len(week)), (week, which.ravel())), shape=(len(weeks), len(places)))


def _kernel(places: FloatArray, width_km: float) -> Any:
    """Return exp(-distance / width) [from, to] within reach, sparse, with rows that sum to 1."""
    tree = cKDTree(places)
    near = tree.sparse_distance_matrix(tree, _REACH * width_km, output_type="ndarray")
    values = (np.exp(-near["v"] / width_km), (near["i"], near["j"]))
    kernel = csr_array(values, shape=(len(places), len(places)))
    return kernel / kernel.sum(axis=1)[:, None]
