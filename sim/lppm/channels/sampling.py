"""Draw outputs from cumulative weights."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence

from sim.interfaces import FloatArray, Generator


def draw(cumulative: Sequence[float], rng: Generator) -> int:
    """Draw an index from cumulative weights; an index of weight 0 is never drawn."""
    total = cumulative[-1]
    index = bisect_right(cumulative, rng.random() * total)
    if index < len(cumulative):
        return index
    return bisect_left(cumulative, total)  # the product was rounded up to the total


class Cumulative(dict[int, "array[float]"]):
    """Cumulative sums of the rows of a matrix, computed when a row is first sampled.

    For single draws, arrays of the standard library are faster than NumPy arrays.
    """

    def __init__(self, matrix: FloatArray) -> None:
        super().__init__()
        self._matrix = matrix

    def __missing__(self, row: int) -> array[float]:
        sums = self[row] = array("d", self._matrix[row].cumsum().tobytes())
        return sums
