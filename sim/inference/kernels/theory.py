"""Numba versions of functions in `sim.lppm.theory`."""

from __future__ import annotations

import numpy as np

from sim.inference.kernels.compilation import CELLS, MATRIX, VECTOR, kernel
from sim.interfaces import FloatArray, IntArray


@kernel(MATRIX, VECTOR, CELLS, MATRIX)
def joint_metrics(
    likelihoods: FloatArray, prior: FloatArray, outputs: IntArray, distance_km: FloatArray
) -> tuple[float, float, float]:
    """Numba version of `joint_metrics`, in one pass over the cells with mass and without a joint distribution."""
    cells = np.flatnonzero(prior)
    loss_km, worst_km, entropy_bits = 0.0, 0.0, 0.0
    for k in range(outputs.size):
        likelihood, output, total = likelihoods[k], outputs[k], 0.0
        for i in range(cells.size):
            mass = prior[cells[i]] * likelihood[cells[i]]
            if mass > 0.0:
                between_km = distance_km[cells[i], output]
                total += mass
                loss_km += mass * between_km
                worst_km = max(worst_km, between_km)
                entropy_bits -= mass * np.log2(mass)
        if total > 0.0:
            entropy_bits += total * np.log2(total)
    return loss_km, worst_km, max(entropy_bits, 0.0)
