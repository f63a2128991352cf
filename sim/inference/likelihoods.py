"""Store of the likelihood rows of past reports."""

from __future__ import annotations

import mmap

import numpy as np
from numpy.typing import ArrayLike

from sim.inference import kernels
from sim.inference.groups import refine
from sim.interfaces import FloatArray, IntArray

_LEAST_PAGES = 2**14  # bytes; smaller buffers come from the heap
_NO_GROUPS = np.empty(0, dtype=np.int64)


class Likelihoods:
    """A store of likelihood rows and of the groups of cells that they cannot distinguish.

    The oldest rows can be removed.

    >>> seen = Likelihoods(3)
    >>> seen.append([0.2, 0.1, 0.1])
    >>> seen.groups
    array([0, 1, 1])
    >>> seen.append([0.2, 0.2, 0.1])
    >>> len(seen), seen.groups
    (2, array([0, 1, 2]))
    >>> seen.forget(1)
    >>> len(seen), seen.groups
    (1, array([0, 0, 2]))
    """

    def __init__(self, n_cells: int) -> None:
        self._buffer = np.empty((0, n_cells))
        self._first = 0
        self._count = 0
        self.groups: IntArray = np.zeros(n_cells, dtype=np.int64)
        """For each cell, the lowest cell whose column is exactly equal, as returned by `equal_columns`."""
        self._all_differ = n_cells == 1
        self._older: list[IntArray] = []
        self._newer: IntArray | None = None

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> FloatArray:
        """Return the rows in order of arrival, shape (len, n_cells), as a read-only view."""
        rows = self._buffer[self._first : self._first + self._count]
        rows.flags.writeable = False
        return rows

    def append(self, row: ArrayLike) -> None:
        """Add one row f(z | .); raise `ValueError` if it is not a likelihood or is 0 in every cell."""
        values = np.ascontiguousarray(row, dtype=np.float64)
        if values.shape != self.groups.shape:
            raise ValueError(f"likelihood must have shape {self.groups.shape}, got {values.shape}")
        if self._first + self._count == len(self._buffer):
            self._make_room()
        self._store(values, self._buffer[self._first + self._count])
        self._count += 1
        if self._newer is not None and not _all_differ(self._newer):
            self._newer = refine(self._newer, values)

    def _store(self, values: FloatArray, place: FloatArray) -> None:
        """Copy a row to its place in the buffer and refine the groups by it."""
        if (fast := kernels.compiled()) is not None:
            groups = _NO_GROUPS if self._all_differ else self.groups
            finer = np.empty(groups.size, dtype=np.int64)
            n_groups = fast.append(values, place, groups, finer)
            if n_groups < 0:
                raise _invalid(values)
        else:
            if not (values.min() >= 0 and 1e-200 <= values.max() < np.inf):
                raise _invalid(values)
            place[:] = values
            finer = self.groups if self._all_differ else refine(self.groups, values)
            n_groups = int(np.count_nonzero(finer == np.arange(finer.size)))
        if not self._all_differ:
            self.groups, self._all_differ = finer, n_groups == values.size

    def forget(self, count: int) -> None:
        """Remove the `count` oldest rows and merge the cells that only they distinguished.

        The effect of a row on the groups cannot be undone. The rows are therefore in two parts. For the older part, the
        groups are stored for every number of remaining rows; for the newer part, only those of all its rows. When no
        older rows remain, the newer part becomes the older one, so each row is read at most twice.
        """
        if not 0 <= count <= self._count:
            raise ValueError(f"count must be in [0, {self._count}], got {count}")
        if count == 0:
            return
        self._first += count
        self._count -= count
        if count < len(self._older):
            del self._older[len(self._older) - count :]
        else:
            self._older = _groups_from_the_end(self.rows)
            self._newer = np.zeros_like(self.groups)
        self.groups = self._merged_groups()
        self._all_differ = _all_differ(self.groups)

    def _merged_groups(self) -> IntArray:
        """Return the groups of the older and the newer rows together."""
        newer = np.zeros_like(self.groups) if self._newer is None else self._newer
        if not self._older:
            return newer
        older = self._older[-1]
        return older if _all_differ(older) else refine(older, newer.astype(np.float64))

    def _make_room(self) -> None:
        """Move the rows to the front if that frees half of the buffer; otherwise double the buffer."""
        rows = self.rows
        if not 0 < 2 * self._count <= len(self._buffer):
            self._buffer = _pages(max(2 * self._count, 16), self.groups.size)
        self._buffer[: self._count] = rows
        self._first = 0


def _invalid(values: FloatArray) -> ValueError:
    least, most = float(values.min()), float(values.max())
    return ValueError(f"likelihood must be in [0, inf) and above 1e-200 somewhere, got {least} to {most}")


def _all_differ(groups: IntArray) -> bool:
    return bool((groups == np.arange(groups.size)).all())


def _groups_from_the_end(rows: FloatArray) -> list[IntArray]:
    """Return the groups of the last row, of the last two rows, and so on up to all rows."""
    groups = np.zeros(rows.shape[1], dtype=np.int64)
    by_count: list[IntArray] = []
    for row in rows[::-1]:
        finer = groups if _all_differ(groups) else refine(groups, row)
        groups = groups if np.array_equal(groups, finer) else finer  # share one object among equal groups
        by_count.append(groups)
    return by_count


def _pages(count: int, n_cells: int) -> FloatArray:
    """Return a buffer for rows in separate memory pages, which take no memory before they are written to.

    On the heap, the growing buffers of many users would fragment memory.
    """
    size = count * n_cells * 8
    if size < _LEAST_PAGES:
        return np.empty((count, n_cells))
    # Private where the platform supports it, so that a forked process gets its own copy.
    options = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    return np.frombuffer(mmap.mmap(-1, size, **options), dtype=np.float64).reshape(count, n_cells)
