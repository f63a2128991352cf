"""Transitions M(x'|x) of a Markov chain as operators: prediction, backward step and one step of Viterbi.

Counted transitions are sparse: a row has an entry for each cell that followed, and all rows without data are the same
distribution. Memory and time grow with the number of different transitions, not with n_cells^2. `DenseTransitions` is
the reference and serves arbitrary matrices.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sim.inference import kernels
from sim.inference.bayes import distribution, plain_floats, predict, read_only
from sim.inference.dense import require_dense
from sim.inference.ties import LOG_TIE
from sim.interfaces import FloatArray, IntArray


class Transitions(Protocol):
    """The probabilities M(to | from) of a Markov chain."""

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        ...

    def forward(self, weights: FloatArray) -> FloatArray:
        """Return sum_from weights(from) M(to | from) for every cell, shape (n_cells,)."""
        ...

    def backward(self, values: FloatArray) -> FloatArray:
        """Return sum_to M(to | from) values(to) for every cell, shape (n_cells,)."""
        ...

    def extend(self, scores: FloatArray) -> tuple[FloatArray, IntArray]:
        """Extend the most likely paths by one query: one step of Viterbi (1967), without the likelihood of the report.

        `scores` are the log probabilities of the best path to each cell, up to a constant. Return the scores at the
        next query and the best predecessor of each cell, the lowest of those within `LOG_TIE`.
        """
        ...

    def block(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return M(to | from) from each of some cells to each of others, shape (start.size, end.size)."""
        ...

    def matrix(self) -> FloatArray:
        """Return the matrix [from, to], shape (n_cells, n_cells); an error if it is too large for memory."""
        ...


class DenseTransitions:
    """Transitions given as a matrix [from, to] whose rows sum to 1.

    >>> DenseTransitions([[0.2, 0.8], [0.5, 0.5]]).forward(np.array([1.0, 0.0]))
    array([0.2, 0.8])
    """

    def __init__(self, matrix: ArrayLike) -> None:
        self._matrix = distribution(matrix, "transition")
        n_cells = len(self._matrix)
        if self._matrix.shape != (n_cells, n_cells):
            raise ValueError(f"transition must have shape {(n_cells, n_cells)}, got {self._matrix.shape}")
        self.n_cells = n_cells

    def forward(self, weights: FloatArray) -> FloatArray:
        """Return the weights after one step."""
        return predict(weights, self._matrix)

    def backward(self, values: FloatArray) -> FloatArray:
        """Return the expected values after one step."""
        return np.asarray(self._matrix @ values)

    def extend(self, scores: FloatArray) -> tuple[FloatArray, IntArray]:
        """Extend the most likely paths by one query."""
        onward = scores[:, np.newaxis] + self._logs
        before = np.asarray((onward >= onward.max(axis=0) - LOG_TIE).argmax(axis=0))
        return onward[before, np.arange(len(before))], before

    def block(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return M(to | from) from each of some cells to each of others."""
        return np.asarray(self._matrix[np.ix_(start, end)])

    def matrix(self) -> FloatArray:
        """Return the matrix [from, to]."""
        return self._matrix

    @cached_property
    def _logs(self) -> FloatArray:
        return _logarithm(self._matrix)


class CountedTransitions:
    """Transitions estimated from counts: rows with data are sparse, all other rows are one common distribution.

    `pairs` are the codes from * n_cells + to of the different transitions, ascending, and `counts` their numbers.
    `fallback` is the distribution of the rows without data, shape (n_cells,).

    >>> chain = CountedTransitions(pairs=np.array([0, 1]), counts=np.array([3, 1]), fallback=np.array([0.5, 0.5]))
    >>> chain.matrix().tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """

    def __init__(self, *, pairs: IntArray, counts: IntArray, fallback: FloatArray) -> None:
        self.n_cells = n_cells = fallback.size
        start, end = np.divmod(pairs, n_cells)
        leaving = np.bincount(start, weights=counts, minlength=n_cells)
        self._fallback = fallback
        self._first = read_only(np.searchsorted(start, np.arange(n_cells + 1)).astype(np.int32))
        """Entry at which the row of each cell begins, and the number of all entries, shape (n_cells + 1,)."""
        self._to: NDArray[np.int32] = read_only(end.astype(np.int32))
        self._probabilities: FloatArray = read_only(counts / leaving[start])

    def forward(self, weights: FloatArray) -> FloatArray:
        """Return the weights after one step."""
        if weights.shape == self._fallback.shape and (fast := kernels.compiled()) is not None:
            after: FloatArray = np.empty(weights.size)
            plain = plain_floats(weights)
            fast.forward_counted(plain, self._first, self._to, self._probabilities, self._fallback, after)
            return after
        moved = np.bincount(self._to, weights=weights[self._from] * self._probabilities, minlength=self.n_cells)
        return np.asarray(moved + float(weights[self._without_data].sum()) * self._fallback)

    def backward(self, values: FloatArray) -> FloatArray:
        """Return the expected values after one step."""
        counted = np.bincount(self._from, weights=self._probabilities * values[self._to], minlength=self.n_cells)
        return np.where(self._without_data, float(self._fallback @ values), counted)

    def extend(self, scores: FloatArray) -> tuple[FloatArray, IntArray]:
        """Extend the most likely paths by one query."""
        counted = scores[self._from] + _logarithm(self._probabilities)
        best = np.full(self.n_cells, -np.inf)
        np.maximum.at(best, self._to, counted)
        rows, log_fallback = np.flatnonzero(self._without_data), _logarithm(self._fallback)
        reached = np.maximum.accumulate(scores[rows])
        if rows.size:
            best = np.maximum(best, reached[-1] + log_fallback)
        before = np.full(self.n_cells, self.n_cells, dtype=np.int64)
        tied = counted >= best[self._to] - LOG_TIE
        np.minimum.at(before, self._to[tied], self._from[tied])
        if rows.size:
            # The lowest row without data that is a tie: the first whose score reaches the limit of each cell.
            with np.errstate(invalid="ignore"):
                limit = best - LOG_TIE - log_fallback
            place = np.searchsorted(reached, np.where(np.isnan(limit), np.inf, limit))
            before = np.minimum(before, np.append(rows, self.n_cells)[place])
        before[before == self.n_cells] = 0  # impossible cells
        return best, before

    def block(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return M(to | from) from each of some cells to each of others."""
        block = np.zeros((start.size, end.size))
        for place, cell in enumerate(start.tolist()):
            first, stop = self._first[cell], self._first[cell + 1]
            if first == stop:
                block[place] = self._fallback[end]
            else:
                entry = np.minimum(first + np.searchsorted(self._to[first:stop], end), stop - 1)
                block[place] = np.where(self._to[entry] == end, self._probabilities[entry], 0.0)
        return block

    def matrix(self) -> FloatArray:
        """Return the matrix [from, to]."""
        require_dense(self.n_cells, "the transitions between all pairs of cells")
        matrix = np.zeros((self.n_cells, self.n_cells))
        matrix[self._from, self._to] = self._probabilities
        matrix[self._without_data] = self._fallback
        return matrix

    @property
    def _from(self) -> IntArray:
        """The cell from which each entry leads; computed when needed to save memory."""
        return np.repeat(np.arange(self.n_cells), np.diff(self._first))

    @property
    def _without_data(self) -> NDArray[np.bool_]:
        return np.asarray(np.diff(self._first) == 0)


def transitions_of(given: ArrayLike | Transitions) -> Transitions:
    """Return transitions given as such or as a matrix [from, to]."""
    return given if isinstance(given, CountedTransitions | DenseTransitions) else DenseTransitions(cast(Any, given))


def _logarithm(weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(weights)
