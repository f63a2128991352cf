"""Numba versions of functions in `sim.lppm.theory`."""

from __future__ import annotations

import numpy as np

from sim.inference.kernels.compilation import CELLS, MATRIX, VECTOR, kernel
from sim.interfaces import FloatArray, IntArray


@kernel(MATRIX, VECTOR, CELLS, MATRIX)
def joint_metrics(
    likelihoods: FloatArray, prior: FloatArray, outputs: IntArray, distance_km: FloatArray
) -> tuple[float, float, float]:
    """Numba version of `joint_metrics`, without a joint distribution.

    The outer loop is over the cells with mass: their distances are contiguous, and neighbouring cells have their
    likelihoods in the same cache lines.
    """
    loss_km, worst_km, entropy_bits = 0.0, 0.0, 0.0
    total, own_bits = np.zeros(outputs.size), np.zeros(outputs.size)
    for cell in np.flatnonzero(prior):
        own_mass, from_km = prior[cell], distance_km[cell]
        for k in range(outputs.size):
            mass = own_mass * likelihoods[k, cell]
            if mass > 0.0:
                between_km = from_km[outputs[k]]
                total[k] += mass
                loss_km += mass * between_km
                worst_km = max(worst_km, between_km)
                own_bits[k] -= mass * np.log2(mass)
    for k in range(outputs.size):
        if total[k] > 0.0:
            entropy_bits += own_bits[k] + total[k] * np.log2(total[k])
    return loss_km, worst_km, max(entropy_bits, 0.0)
