"""The error of an adversary with the same prior as the mechanism, by brute force and by the optimal attack."""

from __future__ import annotations

import numpy as np

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.events import Report
from sim.interfaces import Channel, FloatArray
from sim.world.distance import Distance


def optimal_error_km(matrix: FloatArray, prior: FloatArray, distance: Distance) -> float:
    """Return the sum over z of the minimum over all cells y of sum_x prior(x) f(z | x) d(x, y)."""
    joint = prior[:, None] * matrix
    return sum(min(float(column @ distance.matrix_km[:, y]) for y in range(prior.size)) for column in joint.T)


def error_km(channel: Channel, prior: FloatArray, distance: Distance, matrix: FloatArray | None = None) -> float:
    """Return the expected error of the optimal attack's estimate for each output."""
    matrix = channel.matrix() if matrix is None else matrix
    attack = OptimalAttack(belief_of=lambda _user: FixedProfile(profile=prior), distance=distance, all_outputs=True)
    error = 0.0
    for index, output in enumerate(np.flatnonzero(prior @ matrix).tolist(), start=1):
        guess = attack.observe(Report("ann", index, 0, output, channel))
        error += float((prior * matrix[:, output]) @ distance.matrix_km[:, guess.estimate])
    return error
