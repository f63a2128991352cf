"""Study: a scenario, the points of its sweep, and the plan of the chunks that simulate them."""

from __future__ import annotations

from dataclasses import dataclass

from sim.execution.inputs import fingerprints
from sim.execution.plan import CHUNK_QUERIES, Chunk, Plan, tasks
from sim.execution.population_cache import PopulationCache
from sim.scenario.consistency import findings
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

    @classmethod
    def of(cls, scenario: Scenario, *, chunk_queries: int | None = None) -> Study:
        """Validate the scenario and plan its chunks, each of at least `chunk_queries` queries."""
        if faults := [
            Fault("scenario", dotted(loc), message, code)
            for loc, message, code in findings(scenario.model_dump(mode="json"))
        ]:
            raise ScenarioError(faults)
        swept = points(scenario)
        populations, representatives = PopulationCache(), models(swept)
        size = chunk_queries or CHUNK_QUERIES

        def replications(point: Point, lppms: int) -> int:
            return -(-size // (populations.queries(representatives[point.setting]) * lppms))

        plan = Plan(tasks(swept), replications)
        files = fingerprints(point.scenario for point in swept)
        return cls(scenario, swept, plan, files, populations, representatives)

    def queries(self, chunk: Chunk) -> int:
        """Return the approximate number of queries in a chunk."""
        representative = self._representatives[chunk.point.setting]
        return self.populations.queries(representative) * len(chunk.lppms) * len(chunk.replications)
