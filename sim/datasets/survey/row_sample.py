"""A uniform random sample of the rows of a stream, in constant memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sim.interfaces import FloatArray, IntArray


class RowSample:
    """The rows with the smallest hashes of their positions in the stream: a random sample that needs no seed.

    >>> sample = RowSample(columns=1, size=3)
    >>> for start in range(0, 100, 10):
    ...     sample.add(np.arange(start, start + 10.0)[:, None])
    >>> sample.rows().shape
    (3, 1)
    """

    def __init__(self, *, columns: int, size: int) -> None:
        self._size, self._seen = size, 0
        self._limit = np.uint64(2**64 - 1)
        self._hashes: list[NDArray[np.uint64]] = [np.zeros(0, dtype=np.uint64)]
        self._rows: list[FloatArray] = [np.zeros((0, columns))]
        self._held = 0

    @property
    def is_complete(self) -> bool:
        """Whether the sample contains all rows."""
        return self._seen <= self._size

    def add(self, rows: FloatArray) -> None:
        """Offer rows, shape (n_rows, n_columns)."""
        hashes = _splitmix(np.arange(self._seen, self._seen + len(rows), dtype=np.uint64))
        self._seen += len(rows)
        chosen = hashes <= self._limit
        self._hashes.append(hashes[chosen])
        self._rows.append(rows[chosen])
        self._held += int(chosen.sum())
        if self._held > 2 * self._size:
            self._reduce()

    def rows(self) -> FloatArray:
        """Return the rows of the sample in the order of the stream, shape (n_sampled, n_columns)."""
        self._reduce()
        return self._rows[0]

    def _reduce(self) -> None:
        hashes, rows = np.concatenate(self._hashes), np.concatenate(self._rows)
        if hashes.size > self._size:
            self._limit = np.partition(hashes, self._size - 1)[self._size - 1]
            chosen = hashes <= self._limit  # distinct numbers have distinct hashes
            hashes, rows = hashes[chosen], rows[chosen]
        self._hashes, self._rows, self._held = [hashes], [rows], hashes.size


def _splitmix(numbers: NDArray[np.uint64] | IntArray) -> NDArray[np.uint64]:
    """Return the mixed bits of numbers (SplitMix64 by Steele, Lea and Flood 2014)."""
    z = np.asarray(numbers, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(z ^ (z >> np.uint64(31)), dtype=np.uint64)
