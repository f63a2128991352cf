"""Numba versions of `sim.inference.groups.refine` and of `sim.inference.likelihoods.Likelihoods.append`."""

from __future__ import annotations

import numpy as np

from sim.inference.kernels.compilation import CELLS, NEW_CELLS, NEW_VECTOR, VECTOR, kernel, part
from sim.interfaces import FloatArray, IntArray


@part
def _refine(groups: IntArray, row: FloatArray, finer: IntArray) -> int:
    """Fill in the finer groups, by a search in a linked list of the first cells of the parts; return their number."""
    n_cells, count = groups.size, 0
    following = np.full(n_cells, -1, np.int64)
    for cell in range(n_cells):
        first = groups[cell]
        while row[first] != row[cell] and following[first] >= 0:
            first = following[first]
        if row[first] != row[cell]:
            following[first] = cell
            first = cell
        finer[cell] = first
        count += first == cell
    return count


@kernel(CELLS, VECTOR)
def refine(groups: IntArray, row: FloatArray) -> IntArray:
    """Numba version of `refine`."""
    finer = np.empty(groups.size, np.int64)
    _refine(groups, row, finer)
    return finer


@kernel(VECTOR, NEW_VECTOR, CELLS, NEW_CELLS)
def append(row: FloatArray, place: FloatArray, groups: IntArray, finer: IntArray) -> int:
    """Copy a likelihood to its place and fill in the finer groups; return their number, or -1 for an invalid row.

    Without groups (an empty array), nothing is refined, and the number is that of the cells.
    """
    most = 0.0
    for cell in range(row.size):
        if not 0.0 <= row[cell] < np.inf:
            return -1
        most = max(most, row[cell])
    if most < 1e-200:
        return -1
    place[:] = row
    return _refine(groups, row, finer) if groups.size > 0 else row.size
