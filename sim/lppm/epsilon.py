"""The promise of a channel: its exact epsilon of geo-indistinguishability, and what a trace of reports spends of it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sim.interfaces import Channel, ChannelCapabilities, FloatArray
from sim.world.distance import Distance

_DUST = 1e-12
"""Logarithms of ratios that are no larger come from rounding."""


def exact_epsilon_per_km(channel: Channel, distance: Distance) -> float:
    """Return the least epsilon with f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all x, x' and z; infinite if none.

    This is geo-indistinguishability of Andrés et al. 2013, with n^3 work. It is infinite where an output tells cells
    apart for sure, with a probability that is 0 (or has underflowed to it) in some cells only, and where cells at no
    distance differ. A channel with too many outputs to list says it itself, as `epsilon_in_per_km(distance)` or
    as `epsilon_per_km`, and promises nothing if it does not.
    """
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
    """Return what the first 1, 2, ... reports of a trace have spent together, by the epsilons of their channels.

    Sequential composition: two traces of cells that are nowhere further apart than d make the same reports with
    probabilities within a factor of exp(d times the sum) (Andrés et al. 2013). It holds for channels that
    are chosen by earlier reports too.

    >>> spent_per_km([1.0, 0.5, 2.0]).tolist()
    [1.0, 1.5, 3.5]
    """
    return np.cumsum(np.asarray(epsilon_per_km, dtype=np.float64))


def steepest_per_km(log_ratio: FloatArray, distance_km: FloatArray) -> float:
    """Return the largest quotient of a log-ratio and a distance, 0 if no log-ratio is positive."""
    differ = log_ratio > _DUST
    with np.errstate(divide="ignore"):
        return float(np.max(log_ratio[differ] / distance_km[differ], initial=0.0))
