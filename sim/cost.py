"""What a scenario would take: counted from its plan, timed on one of its users."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from sim import kernels
from sim.chunks import Workshop, run_chunk
from sim.scenario.models import Scenario
from sim.scenario.protection import AttackSpec, LPPMSpec
from sim.stage import Stage
from sim.sweep import Chunk, Plan, points, tasks

BYTES_PER_ROW = 23
_SHORT_S = 1.0
"""A probe that took less is timed once more."""
LONGEST_PROBE = 300
"""Queries of one user that are simulated to estimate the time: the cost of a mechanism that learns grows with them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How much work a scenario is; at most, where it repeats until its figures are sharp."""

    points: int
    users: int
    simulations: int
    queries: int
    rows: int
    seconds: float | None
    readings: dict[str, dict[str, int]] = field(default_factory=dict)
    """What was read of each trace file."""
    least: Cost | None = None
    """What it is at least, where the number of replications is open."""
    exact: tuple[str, ...] = ()
    """The LPPMs whose figures need one replication alone, at some point at least."""


def estimate(scenario: Scenario, *, measure: bool = True) -> Cost:
    """Count the work of a scenario and, if asked to, time one user of its first replication to scale it up."""
    began = time.process_time()
    work = tasks(points(scenario))
    plan = Plan(work)
    surely, most = plan.chunks(), plan.chunks({task.key: task.at_most for task in work})
    workshop = Workshop()
    first = [chunk for chunk in surely if 0 in chunk.replications]
    # Replications differ in their randomness alone: the first stands for the others.
    lengths = {chunk.point.index: _prepare(workshop.stage(chunk.point, 0)) for chunk in first}
    queries = {point: sum(own) for point, own in lengths.items()}
    rows = {
        (chunk.point.index, lppm.name): _rows(chunk.point.scenario, lppm, lengths[chunk.point.index])
        for chunk in first
        for lppm in chunk.point.scenario.lppms
    }
    prepared_s = time.process_time() - began
    names = dict.fromkeys(task.lppm for task in work)
    if measure:
        kernels.compiled()  # what loading them takes is no part of a query
    rates = {lppm: _seconds_per_query(lppm, first, workshop) for lppm in names} if measure else None

    def count(chunks: list[Chunk]) -> Cost:
        counts = [(chunk, lppm, queries[chunk.point.index]) for chunk in chunks for lppm in chunk.lppms]
        return Cost(
            points=len({chunk.point.index for chunk in chunks}),
            users=max(len(workshop.setting(chunk.point).users) for chunk in first),
            simulations=len(counts),
            queries=sum(count for *_, count in counts),
            rows=sum(rows[chunk.point.index, lppm] for chunk, lppm, _ in counts),
            seconds=None if rates is None else prepared_s + sum(count * rates[lppm] for _, lppm, count in counts),
        )

    return replace(
        count(most),
        readings=workshop.setting(first[0].point).readings(),
        least=count(surely) if len(surely) < len(most) else None,
        exact=tuple(dict.fromkeys(task.lppm for task in work if task.is_exact)),
    )


def _prepare(stage: Stage) -> list[int]:
    """Gather the training data, let the people live, and return how many queries each is to make."""
    for training in stage.scenario.training:
        stage.knowledge(training)
    return [len(trace) for trace in stage.traces]


def _rows(scenario: Scenario, lppm: LPPMSpec, lengths: list[int]) -> int:
    """Return how many rows one simulation leaves of users with so many queries."""
    attacks = scenario.attacks_on(lppm)
    past = [attack.hindsight for attack in attacks if isinstance(attack, AttackSpec) and attack.hindsight is not None]
    about_the_past = sum(hindsight.guesses(queries) for hindsight in past for queries in lengths)
    return sum(map(scenario.record.rows, lengths)) * max(len(attacks), 1) + about_the_past


def _seconds_per_query(lppm: str, chunks: list[Chunk], workshop: Workshop) -> float:
    """Simulate one LPPM for the first user, at most `LONGEST_PROBE` queries, at the middle one of its points."""
    own = [chunk for chunk in chunks if lppm in chunk.lppms]
    chunk = replace(own[len(own) // 2], lppms=(lppm,))
    full = workshop.stage(chunk.point, 0)
    probe = Stage(full.setting, 0)
    # The others live on without queries: their past may be what the first user's mechanism was trained on.
    user, *others = full.lives
    probe.lives = {user: full.lives[user].first(LONGEST_PROBE)} | {
        other: full.lives[other].first(0) for other in others
    }
    taken_s = _timed(chunk, probe)
    if taken_s < _SHORT_S:  # what happens once, such as a collection of garbage, would count for every query
        taken_s = min(taken_s, _timed(chunk, probe))
    return taken_s / len(probe.lives[user].test)


def _timed(chunk: Chunk, probe: Stage) -> float:
    began = time.process_time()
    run_chunk(chunk, Workshop.of(probe, chunk.point))
    return time.process_time() - began
