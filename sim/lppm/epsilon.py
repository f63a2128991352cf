"""Privacy guarantee of a channel: its exact epsilon of geo-indistinguishability, and composition over reports."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sim.interfaces import Channel, ChannelCapabilities, FloatArray
from sim.world.distance import Distance

_ROUNDING = 1e-12
"""Log-ratios up to this value are rounding errors."""


def exact_epsilon_per_km(channel: Channel, distance: Distance) -> float:
    """Return the smallest epsilon with f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all x, x' and z.

    This is the geo-indistinguishability of Andrés et al. 2013, computed in O(n^3). It is infinite if some output has
    probability 0 (or one that underflows to 0) from some cells only, or if cells at distance 0 have different rows. A
    channel with too many outputs to enumerate states its epsilon as `epsilon_in_per_km(distance)` or
    `epsilon_per_km`; without either it has no guarantee. Nor has a channel with a hidden state: its reports are not
    independent given the cells, so that guarantees of single reports do not add up.
    """
    if ChannelCapabilities.hidden_state.of(channel) is not None:
        return math.inf
    if ChannelCapabilities.countless.of(channel):
        epsilon_in_per_km = ChannelCapabilities.epsilon_in_per_km.of(channel)
        if epsilon_in_per_km is None:
            return float(ChannelCapabilities.epsilon_per_km.of(channel))
        return float(epsilon_in_per_km(distance))
    _, rows = channel.likelihoods()
    possible = rows > 0
    if (possible.any(axis=1) & ~possible.all(axis=1)).any():
        return math.inf
    logs = np.log(rows[possible.all(axis=1)])
    if not logs.size:
        return 0.0
    worst = 0.0
    for cell, to_km in enumerate(distance.matrix_km):
        worst = max(worst, steepest_per_km((logs[:, [cell]] - logs).max(axis=0), to_km))
    return worst


def spent_per_km(epsilon_per_km: ArrayLike) -> FloatArray:
    """Return the cumulative epsilon of the first 1, 2, ... reports of a trace, given the epsilon of each channel.

    Sequential composition (Andrés et al. 2013): if two traces are at most d apart at every query, the probabilities
    of the same reports differ by a factor of at most exp(d times the sum). This also holds for channels that depend
    on earlier reports.

    >>> spent_per_km([1.0, 0.5, 2.0]).tolist()
    [1.0, 1.5, 3.5]
    """
    return np.cumsum(np.asarray(epsilon_per_km, dtype=np.float64))


def steepest_per_km(log_ratio: FloatArray, distance_km: FloatArray) -> float:
    """Return the largest quotient of a log-ratio and a distance; 0 if no log-ratio is positive."""
    differ = log_ratio > _ROUNDING
    with np.errstate(divide="ignore"):
        return float(np.max(log_ratio[differ] / distance_km[differ], initial=0.0))
