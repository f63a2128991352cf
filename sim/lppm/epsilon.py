"""The promise of a channel: its exact epsilon of geo-indistinguishability."""

from __future__ import annotations

import math

import numpy as np

from sim.interfaces import Channel
from sim.world.distance import Distance


def exact_epsilon_per_km(channel: Channel, distance: Distance) -> float:
    """Return the least epsilon with f(z | x) <= exp(epsilon d(x, x')) f(z | x') for all x, x' and z; infinite if none.

    This is geo-indistinguishability of Andrés et al. 2013. A channel with too many outputs to list says its own
    `epsilon_per_km`, without which its promise is infinite.
    """
    if getattr(channel, "countless", False):
        return float(getattr(channel, "epsilon_per_km", math.inf))
    _, rows = channel.likelihoods()
    if ((rows > 0).any(axis=1) & (rows == 0).any(axis=1)).any():
        return math.inf
    logs = np.log(rows)
    between = distance.matrix_km
    worst = 0.0
    for cell in range(between.shape[0]):
        ratio = np.abs(logs - logs[:, [cell]]).max(axis=0)
        apart = np.minimum(between[cell], between[:, cell])
        with np.errstate(divide="ignore", invalid="ignore"):
            epsilon = np.where(ratio > 0, ratio / apart, 0.0)
        worst = max(worst, float(epsilon.max()))
    return worst
