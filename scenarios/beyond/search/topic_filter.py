"""Gravity filter whose initial profile is a mixture of topics, factors of the visits of other people."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sim.belief.gravity_filter import GravityFilterParameters
from sim.interfaces import FloatArray
from sim.world import Grid, World, manhattan

GRID = Grid.san_francisco()
DISTANCE = manhattan(GRID)
WORLD = World(locations=GRID, roads=None, privacy_distance=DISTANCE, quality_distance=DISTANCE)


@cache
def topics(file: str, count: int, fewer_than: int, iterations: int = 200) -> FloatArray:
    """Return the profiles of topics, shape (count, n_cells): probabilistic latent semantic analysis by EM.

    The people are those with fewer than `fewer_than` check-ins in the region, as in the training set of the scenario;
    `file` is in the folder that the environment variable LPPM_SIM_DATA names. People with fewer than 10 check-ins carry
    no information about topics and are omitted. (Hofmann, Uncertainty in Artificial Intelligence 1999)
    """
    frame = pd.read_parquet(Path(os.environ["LPPM_SIM_DATA"]) / file)
    frame = frame.assign(cell=GRID.cell_of(frame["lat"], frame["lon"]))
    visits = pd.crosstab(frame["user"], frame["cell"]).reindex(columns=range(GRID.n_cells), fill_value=0).to_numpy()
    visits = visits[(visits.sum(axis=1) < fewer_than) & (visits.sum(axis=1) >= 10)].astype(float)
    rng = np.random.default_rng(1)
    profiles = rng.dirichlet(np.ones(GRID.n_cells), count)
    shares = rng.dirichlet(np.ones(count), len(visits))
    for _ in range(iterations):
        ratio = visits / np.maximum(shares @ profiles, 1e-12)
        shares, profiles = shares * (ratio @ profiles.T), profiles * (shares.T @ ratio) + 1e-9
        shares /= shares.sum(axis=1, keepdims=True)
        profiles /= profiles.sum(axis=1, keepdims=True)
    return np.vstack([profiles, visits.sum(axis=0) / visits.sum()])


class TopicFilter:
    """The user's topics are learned from the reports: each adds its probability under each topic to fading counts."""

    def __init__(
        self,
        *,
        statistics: Any,
        restart_s: int | None,
        file: str,
        count: int = 20,
        fewer_than: int = 300,
        half_life_queries: float = 50.0,
        **keys: Any,
    ) -> None:
        self._topics = topics(file, count, fewer_than)
        self._filter = GravityFilterParameters(**keys).build(statistics, restart_s, WORLD)
        self._retention = 2 ** (-1 / half_life_queries)
        self._counts = np.zeros(count + 1)
        self._first = np.append(np.full(count, 0.5 / count), 0.5)  # the last topic is the histogram of all people
        self._set_initial()

    def prior(self, time_s: int) -> FloatArray:
        """Return the prediction of the filter."""
        return self._filter.prior(time_s)

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        """Update the filter and the shares of the topics."""
        posterior = self._filter.observe(time_s, likelihood)
        responsibilities = self._shares() * (self._topics @ likelihood)
        self._counts = self._retention * self._counts + responsibilities / responsibilities.sum()
        self._set_initial()
        return posterior

    def _shares(self) -> FloatArray:
        return np.asarray((self._first + self._counts) / (1 + self._counts.sum()))

    def _set_initial(self) -> None:
        self._filter._initial = 0.99 * self._shares() @ self._topics + 0.01 / GRID.n_cells
