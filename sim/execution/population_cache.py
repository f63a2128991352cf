"""Cache of settings and populations, which a process builds once for the chunks that share them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.execution.plan import Chunk
from sim.scenario.sweep import Point
from sim.simulation.population import Population
from sim.simulation.setting import Setting

MOST_SETTINGS = 4
"""Maximum number of settings in memory."""
POPULATIONS_BYTES = 100e6
"""Approximate memory limit of the populations besides the current one: a transition matrix for each user."""


@dataclass
class PopulationCache:
    """Cache of a few settings and of the populations in the last chunk's replications, which adjacent chunks share."""

    _queries: dict[str, int] = field(default_factory=dict)
    _settings: dict[str, Setting] = field(default_factory=dict)
    _populations: dict[tuple[str, int], Population] = field(default_factory=dict)

    @classmethod
    def of(cls, population: Population, point: Point) -> PopulationCache:
        """Return a cache with this population of a point."""
        return cls(
            _settings={point.setting: population.setting},
            _populations={(point.setting, population.replication): population},
        )

    def setting(self, point: Point) -> Setting:
        """Return the setting of a point."""
        if point.setting not in self._settings:
            if len(self._settings) >= MOST_SETTINGS:
                self._settings.pop(next(iter(self._settings)))
            self._settings[point.setting] = Setting(point.scenario)
        return self._settings[point.setting]

    def population(self, point: Point, replication: int) -> Population:
        """Return the population of a point in one replication."""
        key = (point.setting, replication)
        if key not in self._populations:
            setting = self.setting(point)
            regimes = 1 + 3 * len(setting.scenario.shifts)  # a shift begins, reaches its weight, ends
            population_bytes = len(setting.users) * regimes * setting.world.grid.n_cells**2 * 8
            if len(self._populations) * population_bytes > POPULATIONS_BYTES:
                self._populations.clear()
            self._populations[key] = Population(setting, replication)
        return self._populations[key]

    def of_chunk(self, chunk: Chunk) -> Iterator[Population]:
        """Yield the population of each of a chunk's replications; remove all others from the cache."""
        for key in self._populations.keys() - {
            (chunk.point.setting, replication) for replication in chunk.replications
        }:
            del self._populations[key]
        for replication in chunk.replications:
            yield self.population(chunk.point, replication)

    def queries(self, point: Point) -> int:
        """Return the approximate number of queries in one simulation of a point: that of the first replication."""
        if point.setting not in self._queries:
            self._queries[point.setting] = sum(map(len, self.population(point, 0).traces))
        return self._queries[point.setting]
