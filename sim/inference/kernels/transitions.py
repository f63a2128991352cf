"""Numba version of `sim.inference.transitions.CountedTransitions.forward`."""

from __future__ import annotations

from typing import Any

from sim.inference.kernels.compilation import CELLS_32, NEW_VECTOR, VECTOR, kernel
from sim.interfaces import FloatArray


@kernel(VECTOR, CELLS_32, CELLS_32, VECTOR, VECTOR, NEW_VECTOR)
def forward_counted(
    weights: FloatArray, first: Any, to: Any, probabilities: FloatArray, fallback: FloatArray, moved: FloatArray
) -> None:
    """Fill in the weights after one step; reads only the rows of cells with mass."""
    moved[:] = 0.0
    without_data = 0.0
    for cell in range(weights.size):
        mass = weights[cell]
        if mass > 0.0:
            if first[cell] == first[cell + 1]:
                without_data += mass
            for entry in range(first[cell], first[cell + 1]):
                moved[to[entry]] += mass * probabilities[entry]
    if without_data > 0.0:
        for cell in range(weights.size):
            moved[cell] += without_data * fallback[cell]
