"""Study: a scenario, the points of its sweep, and the plan of the chunks that simulate them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sim.execution.blocks import ChunkSize
from sim.execution.chunk_size import chunk_size, undivided_note
from sim.execution.inputs import fingerprints
from sim.execution.plan import Chunk, Plan, tasks
from sim.execution.population_cache import PopulationCache
from sim.scenario.consistency import findings
from sim.scenario.feasibility import require_feasible
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import Fault, ScenarioError, dotted
from sim.scenario.sweep import Point, models, points


@dataclass(frozen=True, slots=True)
class Study:
    """Scenario, points, plan and inputs of a run, computed before its first simulation."""

    scenario: Scenario
    points: list[Point]
    plan: Plan
    files: dict[str, str]
    """Fingerprint of each input file and custom component."""
    populations: PopulationCache
    """Cache of the settings and populations of this process."""
    _representatives: dict[str, Point]
    """Point of each setting whose queries are counted."""
    calibrations: list[dict[str, Any]] = field(default_factory=list)
    """Manifest entries of the strengths that replace realised budgets."""

    @classmethod
    def of(cls, scenario: Scenario, *, chunk_queries: int | None = None) -> Study:
        """Validate the scenario and plan its chunks, each of at least `chunk_queries` queries."""
        if faults := [
            Fault("scenario", dotted(loc), message, code)
            for loc, message, code in findings(scenario.model_dump(mode="json"))
        ]:
            raise ScenarioError(faults)
        swept = points(scenario)
        require_feasible(point.scenario for point in swept)
        files = fingerprints(point.scenario for point in swept)
        return cls._planned(scenario, swept, files, PopulationCache(), chunk_queries)

    @classmethod
    def _planned(
        cls,
        scenario: Scenario,
        swept: list[Point],
        files: dict[str, str],
        populations: PopulationCache,
        chunk_queries: int | None,
    ) -> Study:
        """Plan the chunks of the points of a valid scenario."""
        representatives = models(swept)

        def size_of(point: Point, lppms: Sequence[str]) -> ChunkSize:
            model = representatives[point.setting]
            users, queries = populations.users(model), populations.queries(model)
            return chunk_size(point.scenario, lppms, users=users, queries=queries, chunk_queries=chunk_queries)

        plan = Plan(tasks(swept), size_of)
        return cls(scenario, swept, plan, files, populations, representatives)

    def calibrated(self, swept: list[Point], calibrations: list[dict[str, Any]], chunk_queries: int | None) -> Study:
        """Return the study with points whose mechanisms have fixed strengths instead of realised budgets."""
        planned = self._planned(self.scenario, swept, self.files, self.populations, chunk_queries)
        return replace(planned, calibrations=calibrations)

    def notes(self) -> list[str]:
        """Return notes on simulations of large populations that are not divided into blocks of users."""
        notes = []
        for model in {point.index: point for point in self._representatives.values()}.values():
            users, queries = self.populations.users(model), self.populations.queries(model)
            notes.append(undivided_note(model.scenario, users=users, queries=queries))
        return [note for note in dict.fromkeys(notes) if note]

    def queries(self, chunk: Chunk) -> int:
        """Return the approximate number of queries in a chunk."""
        model = self._representatives[chunk.point.setting]
        queries = self.populations.queries(model) * len(chunk.lppms) * len(chunk.replications)
        return queries if chunk.users is None else round(queries * len(chunk.users) / self.populations.users(model))
