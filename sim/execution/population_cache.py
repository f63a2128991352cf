"""Cache of settings and populations, which a process builds once for the chunks that share them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from sim.execution.plan import Chunk
from sim.execution.training_counts import read_counts
from sim.mobility.statistics import Counts
from sim.scenario.sweep import Point
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.storage.run_directory import RunDirectory

MOST_SETTINGS = 4
"""Maximum number of settings in memory."""
POPULATIONS_BYTES = 100e6
"""Approximate memory limit of the populations besides the current one: a transition matrix for each user."""

_People = tuple[str, int, range | None]
"""Setting, replication and block of users."""


@dataclass
class PopulationCache:
    """Cache of a few settings and of the populations in the last chunk's replications, which adjacent chunks share."""

    _counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    _settings: dict[str, Setting] = field(default_factory=dict)
    _populations: dict[_People, Population] = field(default_factory=dict)
    _directory: RunDirectory | None = None

    @classmethod
    def of(cls, population: Population, point: Point) -> PopulationCache:
        """Return a cache with this population of a point."""
        return cls(
            _settings={point.setting: population.setting},
            _populations={(point.setting, population.replication, population.block): population},
        )

    def setting(self, point: Point) -> Setting:
        """Return the setting of a point."""
        if point.setting not in self._settings:
            if len(self._settings) >= MOST_SETTINGS:
                self._settings.pop(next(iter(self._settings)))
            self._settings[point.setting] = Setting(point.scenario, partial(self._counts_of, point.setting))
        return self._settings[point.setting]

    def use_counts_in(self, directory: RunDirectory) -> None:
        """Read counts of training sets from a run directory, as far as it has them."""
        self._directory = directory

    def _counts_of(self, setting: str, training: str) -> Counts | None:
        return None if self._directory is None else read_counts(self._directory, setting, training)

    def population(self, point: Point, replication: int, users: range | None = None) -> Population:
        """Return the population of a point in one replication, or a block of its users."""
        key = (point.setting, replication, users)
        if key not in self._populations:
            population = Population(self.setting(point), replication, users)
            if len(self._populations) * _bytes_of(population) > POPULATIONS_BYTES:
                self._populations.clear()
            self._populations[key] = population
        return self._populations[key]

    def of_chunk(self, chunk: Chunk) -> Iterator[Population]:
        """Yield the population of each of a chunk's replications; remove all others from the cache."""
        for key in self._populations.keys() - {
            (chunk.point.setting, replication, chunk.users) for replication in chunk.replications
        }:
            del self._populations[key]
        for replication in chunk.replications:
            yield self.population(chunk.point, replication, chunk.users)

    def users(self, point: Point) -> int:
        """Return the number of users of a point."""
        return self._count(point)[0]

    def queries(self, point: Point) -> int:
        """Return the approximate number of queries in one simulation of a point: see `Population.count_queries`."""
        return self._count(point)[1]

    def _count(self, point: Point) -> tuple[int, int]:
        """Return the numbers of users and queries of a point; they stay when its setting leaves the cache."""
        if point.setting not in self._counted:
            population = self.population(point, 0)
            self._counted[point.setting] = len(population.setting.users), population.count_queries()
        return self._counted[point.setting]


def _bytes_of(population: Population) -> int:
    """Return the approximate memory of a population: the transition matrices of its users."""
    setting = population.setting
    regimes = 1 + 3 * len(setting.scenario.shifts)  # a shift begins, reaches its weight, ends
    return len(population.members) * regimes * setting.world.n_cells**2 * 8
