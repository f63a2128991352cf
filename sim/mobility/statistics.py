"""Training statistics of traces: profile and transitions, by counting."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

import numpy as np

from sim.errors import InvalidValue
from sim.inference.bayes import read_only
from sim.inference.transitions import CountedTransitions, Transitions
from sim.interfaces import FloatArray, IntArray
from sim.mobility.intervals import require
from sim.mobility.traces import Trace


class Statistics:
    """The training statistics of Oya et al. 2019: pi, pi_0 and M(x'|x). All arrays are read-only."""

    def __init__(
        self, *, profile: FloatArray, n_visits: int, pairs: IntArray, counts: IntArray, pooled: bool = False
    ) -> None:
        self.profile = read_only(np.array(profile, dtype=np.float64))
        """Normalised histogram of all cells, shape (n_cells,); uniform without data."""
        self.n_visits = n_visits
        """Number of queries counted."""
        self.pooled = pooled
        """Whether these are the pooled counts of other people, as opposed to a model of one user."""
        self._pairs = pairs
        self._counts = counts

    def __repr__(self) -> str:
        return f"<Statistics: {self.n_cells} cells, {self.n_visits} visits, {self.n_transitions} transitions>"

    @property
    def n_cells(self) -> int:
        """Return the number of cells."""
        return int(self.profile.size)

    def initial_profile(self, source: Literal["training", "uniform"]) -> FloatArray:
        """Return the initial profile of an estimator: the training profile or the uniform distribution."""
        return self.profile if source == "training" else np.full(self.n_cells, 1 / self.n_cells)

    @property
    def start_profile(self) -> FloatArray:
        """Return pi_0: as in the paper, the histogram of all cells, not of the first cells of the days."""
        return self.profile

    @property
    def n_transitions(self) -> int:
        """Return the number of pairs of consecutive queries counted."""
        return int(self._counts.sum())

    @property
    def pairs(self) -> IntArray:
        """Return the distinct transitions in ascending order, each as from * n_cells + to."""
        return self._pairs

    @property
    def pair_counts(self) -> IntArray:
        """Return the number of each transition of `pairs`."""
        return self._counts

    @property
    def counted(self) -> IntArray:
        """Return the number of transitions counted from each cell, shape (n_cells,)."""
        return np.bincount(self._pairs // self.n_cells, weights=self._counts, minlength=self.n_cells).astype(np.int64)

    @property
    def fallback_rows(self) -> int:
        """Return the number of rows of `transition` without data, which are the histogram."""
        return self.n_cells - int(np.unique(self._pairs // self.n_cells).size)

    @property
    def transitions(self) -> Transitions:
        """Return M as an operator; memory grows with the number of transitions."""
        return self.counted_transitions

    @cached_property
    def counted_transitions(self) -> CountedTransitions:
        """Return the transitions counted, computed at the first access."""
        return CountedTransitions(pairs=self._pairs, counts=self._counts, fallback=self.profile)

    @property
    def transition(self) -> FloatArray:
        """Return M as a matrix transition[from, to], shape (n_cells, n_cells); an error if too large for memory."""
        return read_only(self.transitions.matrix())


def statistics(traces: Iterable[Trace], *, n_cells: int, restart_s: int | None = None) -> Statistics:
    """Count the cells and the pairs of consecutive cells of traces.

    A pair never spans two traces. With `restart_s` (86400 for days), it never crosses a multiple of `restart_s` either.
    A row of the transitions without data is the histogram. Without any query, all distributions are uniform.

    >>> trace = Trace("ann", np.array([0, 1, 2, 3]), np.array([0, 1, 0, 0]))
    >>> statistics([trace], n_cells=3).transition.tolist()
    [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0], [0.75, 0.25, 0.0]]
    """
    require("n_cells", n_cells, 1, float("inf"), ends="[)")
    if restart_s is not None:
        require("restart_s", restart_s, 1, float("inf"), ends="[)")
    return count(traces, n_cells=n_cells, restart_s=restart_s).statistics()


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """Numbers of visits and transitions; sums over groups of people are those of all people."""

    visits: IntArray
    """Number of visits of each cell, shape (n_cells,)."""
    pairs: IntArray
    """Distinct transitions in ascending order, each as from * n_cells + to."""
    counts: IntArray
    """Number of each of these transitions."""

    def __add__(self, other: Counts) -> Counts:
        pairs, place = np.unique(np.concatenate([self.pairs, other.pairs]), return_inverse=True)
        counts = np.zeros(pairs.size, dtype=np.int64)
        np.add.at(counts, place, np.concatenate([self.counts, other.counts]))
        return Counts(self.visits + other.visits, pairs, counts)

    def without(self, part: Counts) -> Counts:
        """Return the counts without those of a part of the people."""
        counts = self.counts.copy()
        np.subtract.at(counts, np.searchsorted(self.pairs, part.pairs), part.counts)
        remaining = counts > 0
        return Counts(self.visits - part.visits, self.pairs[remaining], counts[remaining])

    def statistics(self, *, pooled: bool = False) -> Statistics:
        """Return the statistics, of pooled people or of one; without any visit, all distributions are uniform."""
        n_visits, n_cells = int(self.visits.sum()), self.visits.size
        profile = self.visits / n_visits if n_visits else np.full(n_cells, 1.0 / n_cells)
        return Statistics(profile=profile, n_visits=n_visits, pairs=self.pairs, counts=self.counts, pooled=pooled)


def count(traces: Iterable[Trace], *, n_cells: int, restart_s: int | None = None) -> Counts:
    """Count the cells and the pairs of consecutive cells of traces, as `statistics` does."""
    visits = np.zeros(n_cells, dtype=np.int64)
    pairs = [np.zeros(0, dtype=np.int64)]
    for trace in traces:
        check_cells(trace, n_cells)
        visits += np.bincount(trace.cells, minlength=n_cells)
        pairs.append(_pairs(trace, n_cells, restart_s))
    return Counts(visits, *np.unique(np.concatenate(pairs), return_counts=True))


def regimes(
    trace: Trace, borders: Sequence[int], *, n_cells: int, restart_s: int | None = None
) -> list[tuple[int, Statistics]]:
    """Count each section of a trace separately; return the first query of each, from 1, and its statistics.

    Sections begin with the first query and with each of the borders, which are numbers of queries counted from 1. A
    pair of queries belongs to the section of its second query.

    >>> trace = Trace("ann", np.array([0, 1, 2, 3]), np.array([0, 1, 2, 2]))
    >>> [(first, part.profile.tolist(), part.n_transitions) for first, part in regimes(trace, [3], n_cells=3)]
    [(1, [0.5, 0.5, 0.0], 1), (3, [0.0, 0.0, 1.0], 2)]
    """
    check_cells(trace, n_cells)
    sections = []
    for first, stop in pairwise([0, *(border - 1 for border in borders), len(trace)]):
        histogram = np.bincount(trace.cells[first:stop], minlength=n_cells)
        pairs = _pairs(trace.part(max(first - 1, 0), stop), n_cells, restart_s)
        counts = Counts(histogram, *np.unique(pairs, return_counts=True))
        sections.append((first + 1, counts.statistics()))
    return sections


def _pairs(trace: Trace, n_cells: int, restart_s: int | None) -> IntArray:
    """Return the code from * n_cells + to of each pair of consecutive queries that counts."""
    pairs: IntArray = trace.cells[:-1] * n_cells + trace.cells[1:]
    if restart_s is None:
        return pairs
    days = trace.times_s // restart_s
    return np.asarray(pairs[days[1:] == days[:-1]], dtype=np.int64)


def check_cells(trace: Trace, n_cells: int) -> None:
    """Raise `InvalidValue` if a cell of the trace is outside the grid."""
    if len(trace) and not (trace.cells.min() >= 0 and trace.cells.max() < n_cells):
        low, high = trace.cells.min(), trace.cells.max()
        raise InvalidValue(
            f"cells of {trace.user} must be in [0, {n_cells}), got {low} to {high}", code="cell-outside-grid"
        )
