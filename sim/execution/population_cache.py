"""Worlds and people in memory: a process builds them once for the chunks that share them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from sim.execution.plan import Chunk
from sim.scenario.sweep import Point
from sim.simulation.population import Setting, Stage

MOST_SETTINGS = 4
"""Number of settings in memory."""
STAGES_BYTES = 100e6
"""Approximate memory of the stages beside the current one: a transition matrix for each user."""


@dataclass
class PopulationCache:
    """A few settings, and the stages of the last chunk's replications, which neighbouring chunks share."""

    _queries: dict[str, int] = field(default_factory=dict)
    _settings: dict[str, Setting] = field(default_factory=dict)
    _stages: dict[tuple[str, int], Stage] = field(default_factory=dict)

    @classmethod
    def of(cls, stage: Stage, point: Point) -> PopulationCache:
        """Return a cache that holds this stage of a point."""
        return cls(_settings={point.setting: stage.setting}, _stages={(point.setting, stage.replication): stage})

    def setting(self, point: Point) -> Setting:
        """Return the world and the people of a point."""
        if point.setting not in self._settings:
            if len(self._settings) >= MOST_SETTINGS:
                self._settings.pop(next(iter(self._settings)))
            self._settings[point.setting] = Setting(point.scenario)
        return self._settings[point.setting]

    def stage(self, point: Point, replication: int) -> Stage:
        """Return the people of a point in one replication."""
        key = (point.setting, replication)
        if key not in self._stages:
            setting = self.setting(point)
            regimes = 1 + 3 * len(setting.scenario.shifts)  # a shift begins, reaches its weight, ends
            stage_bytes = len(setting.users) * regimes * setting.world.grid.n_cells**2 * 8
            if len(self._stages) * stage_bytes > STAGES_BYTES:
                self._stages.clear()
            self._stages[key] = Stage(setting, replication)
        return self._stages[key]

    def stages(self, chunk: Chunk) -> Iterator[Stage]:
        """Yield the people of each of a chunk's replications, and drop all others."""
        for key in self._stages.keys() - {(chunk.point.setting, replication) for replication in chunk.replications}:
            del self._stages[key]
        for replication in chunk.replications:
            yield self.stage(chunk.point, replication)

    def queries(self, point: Point) -> int:
        """Return about how many queries one simulation of a point has: as many as in the first replication."""
        if point.setting not in self._queries:
            self._queries[point.setting] = sum(map(len, self.stage(point, 0).traces))
        return self._queries[point.setting]
