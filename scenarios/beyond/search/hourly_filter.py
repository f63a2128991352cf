"""Gravity filter whose attraction depends on the time of day."""

from __future__ import annotations

from typing import Any

import numpy as np

from sim.belief.gravity_filter import GravityFilterParameters
from sim.interfaces import FloatArray
from sim.world import Grid, World, manhattan

DISTANCE = manhattan(Grid.san_francisco())
WORLD = World(locations=Grid.san_francisco(), roads=None, privacy_distance=DISTANCE, quality_distance=DISTANCE)
DAY_S = 86_400


class HourlyFilter:
    """The attraction is that of the last reports plus that of all reports near the same time of day.

    The weight of a report decreases with the difference in the time of day as a Gaussian of `width_h`, and with its age
    with a half-life of `half_life_days`; all of them together count as at most `weight` reports.
    """

    def __init__(
        self,
        *,
        statistics: Any,
        restart_s: int | None,
        weight: float = 5.0,
        width_h: float = 1.0,
        half_life_days: float = 7.0,
        half_life_queries: float = 10.0,
        **keys: Any,
    ) -> None:
        parameters = GravityFilterParameters(half_life_queries=half_life_queries, **keys)
        self._filter = parameters.build(statistics, restart_s, WORLD)
        self._retention = 2 ** (-1 / half_life_queries)
        self._recent = np.zeros(DISTANCE.n_cells)
        self._weight, self._width_h, self._half_life_days = weight, width_h, half_life_days
        self._hourly = np.zeros((48, DISTANCE.n_cells))
        self._last_s, self._set_for = 0, -1

    def prior(self, time_s: int) -> FloatArray:
        """Return the prediction of the filter with the attraction of this time of day."""
        if self._set_for != time_s:
            self._set_for = time_s
            self._filter._visits = self._recent + self._at(time_s)
            self._filter._prediction = None
        return self._filter.prior(time_s)

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Update the filter and the visits at this time of day."""
        self.prior(time_s)
        posterior = self._filter.observe(time_s, likelihood)
        self._recent = self._retention * self._recent + posterior
        self._hourly *= 2 ** (-max(time_s - self._last_s, 0) / DAY_S / self._half_life_days)
        self._hourly[self._bin(time_s)] += posterior
        self._last_s, self._set_for = time_s, -1
        return posterior

    def _at(self, time_s: int) -> FloatArray:
        """Return the visits near a time of day."""
        apart = np.abs(np.arange(48) - self._bin(time_s))
        apart_h = np.minimum(apart, 48 - apart) / 2
        visits = np.exp(-0.5 * (apart_h / self._width_h) ** 2) @ self._hourly
        total = visits.sum()
        return np.asarray(visits * min(1.0, self._weight / total) if total > 0 else visits)

    @staticmethod
    def _bin(time_s: int) -> int:
        return int(time_s % DAY_S // 1800)
