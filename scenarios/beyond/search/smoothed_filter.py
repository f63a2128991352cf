"""Gravity filter that learns its attraction from smoothed instead of filtered posteriors (fixed-lag smoothing)."""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np

from sim.belief.gravity_filter import GravityFilterParameters
from sim.interfaces import FloatArray
from sim.world import Grid, World, manhattan

DISTANCE = manhattan(Grid.san_francisco())
WORLD = World(locations=Grid.san_francisco(), roads=None, privacy_distance=DISTANCE, quality_distance=DISTANCE)
REACHES_KM, STAYS = [2.5, 12.0], [0.1, 0.5]


class _Step(NamedTuple):
    likelihood: FloatArray
    filtered: FloatArray


class SmoothedFilter:
    """After each report the posteriors of the last `lag` reports in the attraction are revised by forward-backward.

    The backward pass uses the models of gravity and of independent queries; the weight of counted transitions, if any,
    is shared by them.
    """

    def __init__(
        self, *, statistics: Any, restart_s: int | None, lag: int = 5, half_life_queries: float = 10.0, **keys: Any
    ) -> None:
        parameters = GravityFilterParameters(half_life_queries=half_life_queries, **keys)
        self._filter = parameters.build(statistics, restart_s, WORLD)
        self._kernels = parameters.kernels(DISTANCE).at(1.0)
        self._retention = 2 ** (-1 / half_life_queries)
        self._steps: deque[_Step] = deque(maxlen=lag)
        self._last: list[FloatArray] = []
        self._finished = np.zeros(DISTANCE.n_cells)

    def prior(self, time_s: int) -> FloatArray:
        """Return the prediction of the filter."""
        return self._filter.prior(time_s)

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Update the filter; replace the visits of the last reports by smoothed ones."""
        attraction = self._filter.attraction
        posterior = self._filter.observe(time_s, likelihood)
        if len(self._steps) == self._steps.maxlen:
            self._finished += self._last[0]
        self._finished *= self._retention
        self._steps.append(_Step(likelihood, posterior))
        self._last = self._smoothed(attraction)
        ages = np.arange(len(self._last))[::-1]
        self._filter._visits = self._finished + self._retention**ages @ np.array(self._last)
        return posterior

    def _smoothed(self, attraction: FloatArray) -> list[FloatArray]:
        """Return the posterior of each of the last reports given all of them."""
        weights = self._filter.weights
        gravity = weights[:4].reshape(2, 2)
        rest = 1 - gravity.sum() - weights[-1]
        gravity = gravity + rest * gravity / gravity.sum()
        stay = gravity @ STAYS
        norm = self._kernels.from_each(attraction)
        message = np.ones(attraction.size)
        results = []
        for step in reversed(self._steps):
            smoothed = step.filtered * message
            results.append(smoothed / smoothed.sum())
            ahead = step.likelihood * message
            pulled = self._kernels.from_each(attraction * ahead) / norm
            message = stay.sum() * ahead + (gravity.sum(axis=1) - stay) @ pulled
            message += weights[-1] * float(attraction @ ahead)
            message /= message.max()
        return results[::-1]
