"""What a mechanism or an adversary can learn from traces: a profile and transitions, by counting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from sim.inference.bayes import read_only
from sim.interfaces import FloatArray, IntArray
from sim.mobility.intervals import require
from sim.mobility.traces import Trace


class Statistics:
    """The training statistics of Oya et al. 2019: pi, pi_0 and M(x'|x). All arrays are read-only."""

    def __init__(self, *, profile: FloatArray, n_visits: int, pairs: IntArray, counts: IntArray) -> None:
        self.profile = read_only(np.array(profile, dtype=np.float64))
        """The normalised histogram of all cells, uniform without data, shape (n_cells,)."""
        self.n_visits = n_visits
        self._pairs = pairs
        self._counts = counts

    def __repr__(self) -> str:
        return f"<Statistics: {self.n_cells} cells, {self.n_visits} visits, {self.n_transitions} transitions>"

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        return int(self.profile.size)

    def initial_profile(self, source: Literal["training", "uniform"]) -> FloatArray:
        """Return the profile that a learner starts from: that of the training, or a uniform one."""
        return self.profile if source == "training" else np.full(self.n_cells, 1 / self.n_cells)

    @property
    def start_profile(self) -> FloatArray:
        """Return pi_0: as in the paper the same histogram, not one of the first cells of the days."""
        return self.profile

    @property
    def n_transitions(self) -> int:
        """Return how many pairs of queries in a row were counted."""
        return int(self._counts.sum())

    @property
    def counted(self) -> IntArray:
        """Return how many transitions from each cell were counted, shape (n_cells,)."""
        return np.bincount(self._pairs // self.n_cells, weights=self._counts, minlength=self.n_cells).astype(np.int64)

    @property
    def fallback_rows(self) -> int:
        """Return how many rows of `transition` have no data and are the histogram instead."""
        return self.n_cells - int(np.unique(self._pairs // self.n_cells).size)

    @cached_property
    def transition(self) -> FloatArray:
        """Return M as transition[from, to], shape (n_cells, n_cells); made when first asked for."""
        n = self.n_cells
        matrix = np.zeros((n, n))
        matrix.flat[self._pairs] = self._counts
        leaving = matrix.sum(axis=1)
        seen = leaving > 0
        matrix[seen] /= leaving[seen, None]
        matrix[~seen] = self.profile
        return read_only(matrix)


def statistics(traces: Iterable[Trace], *, n_cells: int, restart_s: int | None = None) -> Statistics:
    """Count cells, and pairs of cells queried one after the other.

    A pair never spans two traces, nor, with `restart_s` (86400 for days), two multiples of it. A row of the
    transitions without data is the histogram. Without any query everything is uniform.

    >>> trace = Trace("ann", np.array([0, 1, 2, 3]), np.array([0, 1, 0, 0]))
    >>> statistics([trace], n_cells=3).transition.tolist()
    [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.75, 0.25, 0.0]]
    """
    require("n_cells", n_cells, 1, float("inf"), ends="[)")
    if restart_s is not None:
        require("restart_s", restart_s, 1, float("inf"), ends="[)")
    histogram = np.zeros(n_cells, dtype=np.int64)
    found = [np.zeros(0, dtype=np.int64)]
    for trace in traces:
        check_cells(trace, n_cells)
        histogram += np.bincount(trace.cells, minlength=n_cells)
        found.append(_pairs(trace, n_cells, restart_s))
    return _counted(histogram, np.concatenate(found))


def regimes(
    trace: Trace, borders: Sequence[int], *, n_cells: int, restart_s: int | None = None
) -> list[tuple[int, Statistics]]:
    """Count each stretch of a trace on its own: return its first query, from 1, and its statistics.

    A stretch begins with the first query and with each of the borders. A pair of queries belongs to the stretch of
    its second query.

    >>> trace = Trace("ann", np.array([0, 1, 2, 3]), np.array([0, 1, 2, 2]))
    >>> [(first, found.profile.tolist(), found.n_transitions) for first, found in regimes(trace, [3], n_cells=3)]
    [(1, [0.5, 0.5, 0.0], 1), (3, [0.0, 0.0, 1.0], 2)]
    """
    check_cells(trace, n_cells)
    found = []
    for first, stop in pairwise([0, *(border - 1 for border in borders), len(trace)]):
        histogram = np.bincount(trace.cells[first:stop], minlength=n_cells)
        pairs = _pairs(trace.part(max(first - 1, 0), stop), n_cells, restart_s)
        found.append((first + 1, _counted(histogram, pairs)))
    return found


def _counted(histogram: IntArray, found: IntArray) -> Statistics:
    """Return statistics from how often each cell was visited, and all pairs."""
    n_visits, n_cells = int(histogram.sum()), histogram.size
    pairs, counts = np.unique(found, return_counts=True)
    profile = histogram / n_visits if n_visits else np.full(n_cells, 1.0 / n_cells)
    return Statistics(profile=profile, n_visits=n_visits, pairs=pairs, counts=counts)


def _pairs(trace: Trace, n_cells: int, restart_s: int | None) -> IntArray:
    """Return from x n_cells + to of each pair of queries in a row that counts."""
    pairs: IntArray = trace.cells[:-1] * n_cells + trace.cells[1:]
    if restart_s is None:
        return pairs
    days = trace.times_s // restart_s
    return np.asarray(pairs[days[1:] == days[:-1]], dtype=np.int64)


def check_cells(trace: Trace, n_cells: int) -> None:
    """Raise ValueError if the trace leaves the grid."""
    if len(trace) and not (trace.cells.min() >= 0 and trace.cells.max() < n_cells):
        low, high = trace.cells.min(), trace.cells.max()
        raise ValueError(f"cells of {trace.user} must be in [0, {n_cells}), got {low} to {high}")
