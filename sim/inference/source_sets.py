"""Sets of cells as runs of consecutive cells: the outputs of a base channel that a remap sends to the same report.

A remap with little prior knowledge maps large connected areas to the same report, so a set has few runs. Runs do not
cross the end of a grid row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sim.inference import kernels
from sim.interfaces import BoolArray, FloatArray

Cells32 = NDArray[np.int32]


class SourceSets(NamedTuple):
    """Several sets of cells: set s has the runs offsets[s] .. offsets[s + 1], each the cells first .. stop - 1."""

    offsets: Cells32
    first: Cells32
    stop: Cells32

    @property
    def count(self) -> int:  # type: ignore[override]
        """Return the number of sets."""
        return self.offsets.size - 1

    @property
    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self.offsets.nbytes + self.first.nbytes + self.stop.nbytes


def source_set(members: BoolArray, cols: int) -> SourceSets:
    """Return one set from a mask of its cells on a grid with `cols` columns.

    >>> sets = source_set(np.array([True, True, True, False]), 2)
    >>> sets.first.tolist(), sets.stop.tolist()
    ([0, 2], [2, 3])
    """
    padded = np.zeros((members.size // cols, cols + 1), dtype=np.int8)
    padded[:, :cols] = members.reshape(-1, cols)
    steps = np.diff(padded.ravel(), prepend=np.int8(0))
    first, stop = np.flatnonzero(steps > 0), np.flatnonzero(steps < 0)
    # Positions count one separator per row.
    first, stop = first - first // (cols + 1), stop - stop // (cols + 1)
    return SourceSets(np.array([0, first.size], dtype=np.int32), first.astype(np.int32), stop.astype(np.int32))


def single(cell: int) -> SourceSets:
    """Return one set with one cell.

    >>> single(3).first.tolist(), single(3).stop.tolist()
    ([3], [4])
    """
    first = np.array([cell], dtype=np.int32)
    return SourceSets(np.array([0, 1], dtype=np.int32), first, first + 1)


def joined(sets: list[SourceSets]) -> SourceSets:
    """Return several collections of sets as one.

    >>> one = source_set(np.array([True, False]), 2)
    >>> joined([one, one]).offsets.tolist()
    [0, 1, 2]
    """
    counts = np.array([own.offsets[1] for own in sets]) if all(own.count == 1 for own in sets) else _run_counts(sets)
    return SourceSets(
        np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        np.concatenate([own.first for own in sets]),
        np.concatenate([own.stop for own in sets]),
    )


def _run_counts(sets: list[SourceSets]) -> NDArray[np.int32]:
    return np.concatenate([np.diff(own.offsets) for own in sets])


def scatter(values: FloatArray, sets: SourceSets, n_cells: int) -> FloatArray:
    """Return the sum over all sets of their value, in each cell of the set, shape (n_cells,).

    >>> scatter(np.array([0.5]), source_set(np.array([False, True, True]), 3), 3)
    array([0. , 0.5, 0.5])
    """
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.scatter(np.ascontiguousarray(values), *sets, n_cells))
    image = np.zeros(n_cells)
    for value, own in zip(values, _cells(sets), strict=True):
        image[own] += value
    return image


def gather(image: FloatArray, sets: SourceSets) -> FloatArray:
    """Return the sum of an image over the cells of each set, shape (sets.count,)."""
    if (fast := kernels.compiled()) is not None:
        return np.asarray(fast.gather(np.ascontiguousarray(image), *sets))
    return np.array([image[own].sum() for own in _cells(sets)])


def contains(sets: SourceSets, cells: NDArray[np.int64]) -> BoolArray:
    """Return whether each cell is in each set, shape (cells.size, sets.count)."""
    inside = np.zeros((cells.size, sets.count), dtype=np.bool_)
    for s in range(sets.count):
        first, stop = (runs[sets.offsets[s] : sets.offsets[s + 1]] for runs in (sets.first, sets.stop))
        run = np.searchsorted(first, cells, side="right") - 1
        if first.size:
            inside[:, s] = (run >= 0) & (cells < stop[run])
    return inside


def _cells(sets: SourceSets) -> list[NDArray[np.int64]]:
    """Return the cells of each set."""
    members = []
    for s in range(sets.count):
        runs = slice(sets.offsets[s], sets.offsets[s + 1])
        parts = [np.arange(a, b) for a, b in zip(sets.first[runs], sets.stop[runs], strict=True)]
        members.append(np.concatenate([np.zeros(0, dtype=np.int64), *parts]))
    return members
