"""Groups of cells whose likelihood columns are exactly equal, which reports cannot distinguish.

A group is identified by its lowest cell. Solvers merge each group into one column, solve, and split its mass again.
"""

from __future__ import annotations

import numpy as np

from sim.inference import kernels
from sim.inference.bayes import plain_floats
from sim.interfaces import FloatArray, IntArray


def refine(groups: IntArray, row: FloatArray) -> IntArray:
    """Split groups of cells by a further row: each cell is assigned to the lowest cell of its group with equal value.

    >>> refine(np.array([0, 0, 0]), np.array([0.2, 0.1, 0.1]))
    array([0, 1, 1])
    """
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.refine(groups, plain_floats(row)))
    pairs = np.empty(len(row), dtype=np.complex128)  # ordered by real part, then by imaginary part, exactly
    pairs.real, pairs.imag = groups, row
    _, first, inverse = np.unique(pairs, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def equal_columns(likelihoods: FloatArray) -> IntArray:
    """Return, for each column, the index of the lowest column that is exactly equal to it.

    >>> equal_columns(np.array([[1.0, 2.0, 1.0], [3.0, 3.0, 3.0]]))
    array([0, 1, 0])
    """
    columns = np.ascontiguousarray(likelihoods.T) + 0.0  # + 0.0 makes negative zeros positive: their bytes differ
    first: dict[bytes, int] = {}
    return np.array([first.setdefault(column.tobytes(), i) for i, column in enumerate(columns)], dtype=np.int64)


def spread(mass: FloatArray, cells: IntArray, n_cells: int) -> FloatArray:
    """Return a vector over all cells with the mass at these cells, summed where a cell repeats."""
    return np.bincount(cells, weights=mass, minlength=n_cells).astype(np.float64, copy=False)


def split(merged: FloatArray, groups: IntArray, proportions: FloatArray | None) -> FloatArray:
    """Split the mass of each group among its cells by proportions, evenly if all proportions in the group are 0."""
    sizes = np.bincount(groups, minlength=len(groups))
    if proportions is None:
        return np.asarray(merged[groups] / sizes[groups])
    totals = spread(proportions, groups, len(groups))[groups]
    shares = np.where(totals > 0, proportions, 1.0) / np.where(totals > 0, totals, sizes[groups])
    return np.asarray(merged[groups] * shares)
