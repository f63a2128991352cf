"""Measure the metric of a mechanism at one strength: simulations with the random numbers of the run itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pandas as pd

from sim.execution.blocks import Area
from sim.execution.calibration.goals import EVENT_COLUMNS, Goal, t_half_width
from sim.execution.chunks import run_chunk
from sim.execution.plan import Chunk
from sim.execution.population_cache import PopulationCache
from sim.interfaces import FloatArray
from sim.scenario.lppms import LPPMSpec
from sim.scenario.models import Scenario
from sim.scenario.record import RecordSpec
from sim.scenario.sweep import Point
from sim.simulation.progress import Tick

QUERIES = 10_000
"""Approximate maximum number of queries simulated for one strength, unless `LEAST_REPLICATIONS` need more."""
MOST_QUERIES = 40_000
"""Number of queries above which a sample of the users is simulated."""
LEAST_REPLICATIONS, MOST_REPLICATIONS = 4, 20
"""Limits of the number of replications, which are needed for the confidence interval."""
_LEAST_USERS = 30


@dataclass(frozen=True, slots=True)
class Measured:
    """The metric at one strength, with its 95 % confidence interval over the mechanism's noise."""

    strength: float
    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Sample:
    """Simulations for one strength: replications, and users as blocks (empty: all users in one simulation)."""

    replications: int
    users: int
    of_users: int
    queries: int

    def with_replications(self, count: int) -> Sample:
        """Return the simulations of the first replications."""
        return replace(self, replications=count, queries=self.queries * count // self.replications)

    def areas(self) -> Iterator[Area]:
        """Yield the replications and blocks of users; sampled users are spread evenly over the population."""
        replications = range(self.replications)
        if self.users == self.of_users:
            yield Area(replications, None)
            return
        for number in range(self.users):
            place = self.of_users * number // self.users
            yield from (Area(range(one, one + 1), range(place, place + 1)) for one in replications)


def sample(point: Point, lppm: LPPMSpec, goal: Goal, populations: PopulationCache) -> Sample:
    """Return what to simulate for a strength of an LPPM; it depends on the scenario alone."""
    scenario = _simulated(point.scenario, lppm, goal)
    is_exact = scenario.is_exact(scenario.lppms[0])
    return sample_size(users=populations.users(point), queries=populations.queries(point), is_exact=is_exact)


def sample_size(*, users: int, queries: int, is_exact: bool) -> Sample:
    """Return what to simulate for a strength, given the users and their queries in one replication."""
    # Not the replications of the run: a run that is resumed with more of them keeps its strengths.
    needed = min(max(QUERIES // max(queries, 1), LEAST_REPLICATIONS), MOST_REPLICATIONS)
    count = 1 if is_exact else needed
    simulated = users
    if count * queries > MOST_QUERIES:
        simulated = min(users, max(round(users * MOST_QUERIES / (count * queries)), _LEAST_USERS))
    return Sample(count, simulated, users, round(count * queries * simulated / users))


def measure(
    point: Point,
    lppm: LPPMSpec,
    goal: Goal,
    strength: float,
    taken: Sample,
    populations: PopulationCache,
    tick: Tick | None = None,
) -> Measured:
    """Simulate an LPPM with a strength and return the metric of the goal.

    Movements and noise come from the random streams of the run, which do not depend on the strength.
    """
    fixed = lppm.model_copy(update={"design": lppm.design.with_strength(strength)})
    scenario = _simulated(point.scenario, fixed, goal)
    own = Point(point.index, {}, scenario, point.setting)
    tables = []
    for area in taken.areas():
        chunk = Chunk("", own, area.replications, (lppm.name,), area.users)
        table = run_chunk(chunk, populations, tick).table
        queries = table.filter([event == "query" for event in table["event"].to_pylist()])
        tables.append(queries.select(list(EVENT_COLUMNS)).to_pandas())
    values = goal.by_user(pd.concat(tables, ignore_index=True), populations.setting(point).world)
    return Measured(float(strength), *interval(values, goal, sampled=taken.users < taken.of_users))


def interval(values: FloatArray, goal: Goal, *, sampled: bool) -> tuple[float, float, float]:
    """Return the metric and its 95 % confidence limits from values of shape (n_replications, n_users).

    If all users are simulated, the interval is over replications: the users are those of the run, and only the noise
    (and their movements, if they are generated) varies. With a sample of the users it is over users. A single
    replication without a sample is exact.
    """
    each = goal.over_users(values)
    mean = float(each.mean())
    if sampled:
        return mean, *goal.limits_over_users(values)
    half = t_half_width(each) if each.size > 1 else 0.0
    return mean, mean - half, mean + half


def _simulated(scenario: Scenario, lppm: LPPMSpec, goal: Goal) -> Scenario:
    """Return the scenario of the simulations: one mechanism, what the goal needs, and nothing recorded in addition."""
    record = RecordSpec(expected=scenario.record.expected, snapshots=[])
    changes = {"lppms": [lppm], "sweep": {}, "names": "known", "record": record, **goal.needs(scenario)}
    return scenario.model_copy(update=changes)
