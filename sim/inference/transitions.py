"""Transitions M(x'|x) of a Markov chain as operators: prediction, backward step and one step of Viterbi.

Counted transitions are sparse: a row has an entry for each cell that followed, and all rows without data are the same
distribution. Memory and time grow with the number of different transitions, not with n_cells^2. `DenseTransitions` is
the reference and serves arbitrary matrices. `SmoothedTransitions` combines the counts of a user and of other people.
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
        self.fallback = fallback
        """Distribution of the rows without data, shape (n_cells,)."""
        self._first = read_only(np.searchsorted(start, np.arange(n_cells + 1)).astype(np.int32))
        """Entry at which the row of each cell begins, and the number of all entries, shape (n_cells + 1,)."""
        self._to: NDArray[np.int32] = read_only(end.astype(np.int32))
        self._probabilities: FloatArray = read_only(counts / leaving[start])

    def forward(self, weights: FloatArray) -> FloatArray:
        """Return the weights after one step."""
        if weights.shape == self.fallback.shape and (fast := kernels.compiled()) is not None:
            after: FloatArray = np.empty(weights.size)
            plain = plain_floats(weights)
            fast.forward_counted(plain, self._first, self._to, self._probabilities, self.fallback, after)
            return after
        moved = np.bincount(self._to, weights=weights[self._from] * self._probabilities, minlength=self.n_cells)
        return np.asarray(moved + float(weights[self.without_data].sum()) * self.fallback)

    def backward(self, values: FloatArray) -> FloatArray:
        """Return the expected values after one step."""
        counted = np.bincount(self._from, weights=self._probabilities * values[self._to], minlength=self.n_cells)
        return np.where(self.without_data, float(self.fallback @ values), counted)

    def extend(self, scores: FloatArray) -> tuple[FloatArray, IntArray]:
        """Extend the most likely paths by one query."""
        start = self._from
        counted = scores[start] + _logarithm(self._probabilities)
        return _extend(counted, start, self._to, np.where(self.without_data, scores, -np.inf), self.fallback)

    def block(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return M(to | from) from each of some cells to each of others."""
        block = np.zeros((start.size, end.size))
        for place, cell in enumerate(start.tolist()):
            first, stop = self._first[cell], self._first[cell + 1]
            if first == stop:
                block[place] = self.fallback[end]
            else:
                entry = np.minimum(first + np.searchsorted(self._to[first:stop], end), stop - 1)
                block[place] = np.where(self._to[entry] == end, self._probabilities[entry], 0.0)
        return block

    def matrix(self) -> FloatArray:
        """Return the matrix [from, to]."""
        require_dense(self.n_cells, "the transitions between all pairs of cells")
        matrix = np.zeros((self.n_cells, self.n_cells))
        matrix[self._from, self._to] = self._probabilities
        matrix[self.without_data] = self.fallback
        return matrix

    @property
    def pairs(self) -> IntArray:
        """The codes from * n_cells + to of the counted transitions, ascending; computed when needed to save memory."""
        return np.asarray(self._from * self.n_cells + self._to, dtype=np.int64)

    def of_pairs(self, pairs: IntArray) -> FloatArray:
        """Return M(to | from) for each code from * n_cells + to."""
        start, end = np.divmod(pairs, self.n_cells)
        own = np.append(self.pairs, -1)
        entry = np.searchsorted(own[:-1], pairs)
        counted = np.where(own[entry] == pairs, np.append(self._probabilities, 0.0)[entry], 0.0)
        return np.where(self.without_data[start], self.fallback[end], counted)

    @property
    def _from(self) -> IntArray:
        """The cell from which each entry leads; computed when needed to save memory."""
        return np.repeat(np.arange(self.n_cells), np.diff(self._first))

    @property
    def without_data(self) -> NDArray[np.bool_]:
        """Mask of the cells whose row has no data, shape (n_cells,)."""
        return np.asarray(np.diff(self._first) == 0)


class SmoothedTransitions:
    """Transitions of a user smoothed by those of other people, as pseudo-counts.

        M = (own counts + kappa M') / (own row sum + kappa),   M' = (1 - u) M_others + u pi_others

    `own` are the user's counted transitions and `own_counted[from]` their number in each row. `others` are M_others,
    whose rows without data are pi_others. `pseudo_counts` is kappa (in [0, inf)) and `independent_share` is u (in
    [0, 1]). A row without own counts is M', also at kappa = 0. All steps add those of the two operators, weighted by
    row, so users share `others`, and each needs only memory for their own counts.

    >>> own = CountedTransitions(pairs=np.array([0, 1]), counts=np.array([1, 1]), fallback=np.array([0.5, 0.5]))
    >>> others = CountedTransitions(pairs=np.array([1]), counts=np.array([9]), fallback=np.array([0.25, 0.75]))
    >>> chain = SmoothedTransitions(own, np.array([2, 0]), others, pseudo_counts=2.0, independent_share=0.0)
    >>> chain.matrix().tolist()
    [[0.25, 0.75], [0.25, 0.75]]
    """

    def __init__(
        self,
        own: CountedTransitions,
        own_counted: ArrayLike,
        others: CountedTransitions,
        *,
        pseudo_counts: float,
        independent_share: float,
    ) -> None:
        counted = np.asarray(own_counted, dtype=np.float64)
        if not own.n_cells == others.n_cells == counted.size:
            raise ValueError(
                "own, own_counted and others must have the same number of cells, got "
                f"{own.n_cells}, {counted.size} and {others.n_cells}"
            )
        if not 0 <= pseudo_counts < np.inf:
            raise ValueError(f"pseudo_counts must be in [0, inf), got {pseudo_counts}")
        if not 0 <= independent_share <= 1:
            raise ValueError(f"independent_share must be in [0, 1], got {independent_share}")
        self.n_cells = own.n_cells
        self._own, self._others, self._independent_share = own, others, independent_share
        self._of_own: FloatArray = np.zeros(self.n_cells)
        """Share of the own counts in each row; the remainder is that of M'. Shape (n_cells,)."""
        np.divide(counted, counted + pseudo_counts, out=self._of_own, where=counted > 0)
        read_only(self._of_own)

    def forward(self, weights: FloatArray) -> FloatArray:
        """Return the weights after one step."""
        others = weights * (1 - self._of_own)
        independent = self._independent_share * float(others.sum())
        moved = (1 - self._independent_share) * self._others.forward(others) + independent * self._others.fallback
        return np.asarray(self._own.forward(weights * self._of_own) + moved)

    def backward(self, values: FloatArray) -> FloatArray:
        """Return the expected values after one step."""
        independent = self._independent_share * float(self._others.fallback @ values)
        others = (1 - self._independent_share) * self._others.backward(values) + independent
        return np.asarray(self._of_own * self._own.backward(values) + (1 - self._of_own) * others)

    def extend(self, scores: FloatArray) -> tuple[FloatArray, IntArray]:
        """Extend the most likely paths by one query.

        Of a pair without counts only the part of pi_others remains, a(from) pi_others(to). For pairs with counts this
        is a lower bound, which does not change a maximum.
        """
        pairs = np.union1d(self._own.pairs, self._others.pairs)
        start, end = np.divmod(pairs, self.n_cells)
        own, others = self._own.of_pairs(pairs), self._others.of_pairs(pairs)
        onward = scores[start] + _logarithm(self._mixed(start, own, others, self._others.fallback[end]))
        without = np.where(self._others.without_data, 1.0, self._independent_share)
        return _extend(onward, start, end, scores + _logarithm((1 - self._of_own) * without), self._others.fallback)

    def block(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return M(to | from) from each of some cells to each of others."""
        own, others = self._own.block(start, end), self._others.block(start, end)
        return self._mixed(start[:, np.newaxis], own, others, self._others.fallback[end])

    def matrix(self) -> FloatArray:
        """Return the matrix [from, to]."""
        every = np.arange(self.n_cells)[:, np.newaxis]
        return self._mixed(every, self._own.matrix(), self._others.matrix(), self._others.fallback)

    def _mixed(self, start: IntArray, own: FloatArray, others: FloatArray, independent: FloatArray) -> FloatArray:
        """Return M(to | from) from the three parts, each broadcast with `start`."""
        of_own, u = self._of_own[start], self._independent_share
        return np.asarray(of_own * own + (1 - of_own) * ((1 - u) * others + u * independent))


def _extend(
    counted: FloatArray, start: IntArray, end: Any, common: FloatArray, fallback: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Return the scores at the next query and the best predecessors.

    `counted` are the scores by the transitions from `start` to `end`, shape (n_pairs,). All cells also reach cell x'
    with the score common(from) + log fallback(x'), where `common` may be -inf.
    """
    n_cells = fallback.size
    best = np.full(n_cells, -np.inf)
    np.maximum.at(best, end, counted)
    log_fallback = _logarithm(fallback)
    reached = np.maximum.accumulate(common)
    best = np.maximum(best, reached[-1] + log_fallback)
    before = np.full(n_cells, n_cells, dtype=np.int64)
    tied = counted >= best[end] - LOG_TIE
    np.minimum.at(before, end[tied], start[tied])
    # The lowest cell whose common score is a tie: the first whose score reaches the limit of each cell.
    with np.errstate(invalid="ignore"):
        limit = best - LOG_TIE - log_fallback
    before = np.minimum(before, np.searchsorted(reached, np.where(np.isnan(limit), np.inf, limit)))
    before[before == n_cells] = 0  # impossible cells
    return best, before


def transitions_of(given: ArrayLike | Transitions) -> Transitions:
    """Return transitions given as such or as a matrix [from, to]."""
    return (
        given
        if isinstance(given, CountedTransitions | DenseTransitions | SmoothedTransitions)
        else DenseTransitions(cast(Any, given))
    )


def _logarithm(weights: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore"):
        return np.log(weights)
