"""Numba version of `sim.inference.groups.refine`."""

from __future__ import annotations

import numpy as np

from sim.inference.kernels.compilation import CELLS, VECTOR, kernel
from sim.interfaces import FloatArray, IntArray


@kernel(CELLS, VECTOR)
def refine(groups: IntArray, row: FloatArray) -> IntArray:
    """Numba version of `refine`: searches a linked list of the first cells of the parts of each group."""
    n_cells = groups.size
    finer = np.empty(n_cells, np.int64)
    following = np.full(n_cells, -1, np.int64)
    for cell in range(n_cells):
        first = groups[cell]
        while row[first] != row[cell] and following[first] >= 0:
            first = following[first]
        if row[first] != row[cell]:
            following[first] = cell
            first = cell
        finer[cell] = first
    return finer
