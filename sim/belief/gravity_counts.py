"""Counts of transitions in the gravity filter: those of the training data, and those estimated from the reports."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from sim.inference.transitions import Transitions, transitions_of
from sim.interfaces import FloatArray, IntArray
from sim.world.distance import Distance

_UNTIL_TRUSTED = 1.0  # counted transitions from a cell at which counts and gravity have equal weight
_LIKELIEST = 16  # number of cells, before and after a report, between which a transition is counted


class Moves(NamedTuple):
    """The transitions behind a prediction: gravity, with the `share` of staying and of each reach, counts, others."""

    before: FloatArray
    attraction: FloatArray
    norm: FloatArray
    share: FloatArray
    distance: Distance
    reaches_km: FloatArray
    weights: FloatArray
    """Weights of the laws: of gravity together, of the counts, of the population chain and of independence, if any."""
    population: Transitions | None
    independent: bool
    """Whether there is a law of independent queries."""

    def pairs(self, counts: LearnedCounts, likelihood: FloatArray, after: FloatArray) -> Pairs:
        """Return p(x^{r-1}, x^r | z^r) between the likeliest cells before and after a report."""
        start = _likeliest(self.before)
        end = _likeliest(after)
        between_km = self.distance.between_km(start[:, None], end)
        gravity = self.share[0] * (start[:, None] == end)
        for share, reach_km, norm in zip(self.share[1:], self.reaches_km, self.norm, strict=True):
            pull = np.exp(-between_km / reach_km)
            gravity = gravity + share * self.attraction[end] * pull / norm[start, None]
        counted = (counts.block(start, end) + _UNTIL_TRUSTED * gravity) / (counts.rows[start, None] + _UNTIL_TRUSTED)
        transition = self.weights[0] * gravity + self.weights[1] * counted
        if self.population is not None:
            transition = transition + self.weights[2] * self.population.block(start, end)
        if self.independent:
            transition = transition + self.weights[-1] * self.attraction[end]
        mass = self.before[start, None] * transition * likelihood[end]
        return Pairs(start, end, mass / mass.sum())


class Pairs(NamedTuple):
    """Probabilities `mass[start, end]` of transitions between some cells."""

    start: IntArray
    end: IntArray
    mass: FloatArray


def _likeliest(weights: FloatArray) -> IntArray:
    """Return the `_LIKELIEST` cells with the largest weights, or all cells if there are no more."""
    if weights.size <= _LIKELIEST:
        return np.arange(weights.size)
    return np.argpartition(weights, -_LIKELIEST)[-_LIKELIEST:]


class TrainedCounts:
    """Transitions counted in the training data and the trust in each row, counted / (counted + 1)."""

    def __init__(self, transition: ArrayLike | Transitions, counted: ArrayLike, n_cells: int) -> None:
        self.transition = transitions_of(transition)
        self.rows = np.asarray(counted, dtype=np.float64)
        if self.transition.n_cells != n_cells or self.rows.shape != (n_cells,):
            raise ValueError(
                f"transition and counted must have {n_cells} cells, got {self.transition.n_cells} and {self.rows.shape}"
            )
        if not (np.isfinite(self.rows).all() and self.rows.min() >= 0):
            raise ValueError(f"counted must be in [0, inf), got {self.rows.min()}")
        self._trust = self.rows / (self.rows + _UNTIL_TRUSTED)

    def lead(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the cells predicted by the counts, and the part of the posterior that moves by gravity."""
        return self.transition.forward(posterior * self._trust), posterior * (1 - self._trust)


class LearnedCounts:
    """Transitions counted in the training data and estimated from the reports."""

    def __init__(self, n_cells: int, trained: TrainedCounts | None) -> None:
        self.rows = np.zeros(n_cells) if trained is None else trained.rows.copy()
        """Number of transitions from each cell."""
        self._trained = trained
        self._learned = csr_array((n_cells, n_cells))

    def lead(self, posterior: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the cells predicted by the counts, and the part of the posterior that moves by gravity."""
        each = posterior / (self.rows + _UNTIL_TRUSTED)
        known = np.asarray(each @ self._learned)
        if self._trained is not None:
            known = known + self._trained.transition.forward(self._trained.rows * each)
        return known, _UNTIL_TRUSTED * each

    def block(self, start: IntArray, end: IntArray) -> FloatArray:
        """Return the numbers of transitions from each of some cells to each of others."""
        pairs = np.asarray(self._learned[start][:, end].todense())
        if self._trained is not None:
            pairs = pairs + self._trained.rows[start, None] * self._trained.transition.block(start, end)
        return pairs

    def add(self, pairs: Pairs) -> None:
        """Add one transition, distributed over the pairs by their probability."""
        start, end = np.repeat(pairs.start, pairs.end.size), np.tile(pairs.end, pairs.start.size)
        self._learned = self._learned + csr_array((pairs.mass.ravel(), (start, end)), shape=self._learned.shape)
        self.rows[pairs.start] += pairs.mass.sum(axis=1)
