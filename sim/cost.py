"""What a scenario would take: counted from its plan, timed on one of its users."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sim.chunks import Workshop, run_chunk
from sim.scenario.models import Scenario
from sim.stage import Stage
from sim.sweep import Chunk, plan

BYTES_PER_ROW = 23
LONGEST_PROBE = 300
"""Queries of one user that are simulated to estimate the time: the cost of a mechanism that learns grows with them."""


@dataclass(frozen=True, slots=True)
class Cost:
    """How much work a scenario is."""

    points: int
    users: int
    simulations: int
    queries: int
    rows: int
    seconds: float | None


def estimate(scenario: Scenario, *, measure: bool = True) -> Cost:
    """Count the work of a scenario and, if asked to, time one user of its first replication to scale it up."""
    chunks = plan(scenario)
    workshop = Workshop()
    first = [chunk for chunk in chunks if chunk.replication == 0]
    # Replications differ in their randomness alone: the first stands for the others.
    queries = {chunk.point.index: _queries(workshop.stage(chunk)) for chunk in first}
    per_chunk = [(chunk, queries[chunk.point.index] * len(chunk.lppms)) for chunk in chunks]
    seconds = None
    if measure:
        rate = _seconds_per_query(first[len(first) // 2], workshop)
        seconds = sum(count for _, count in per_chunk) * rate
    return Cost(
        points=len({chunk.point.index for chunk in chunks}),
        users=len(workshop.setting(chunks[0]).users),
        simulations=sum(len(chunk.lppms) for chunk in chunks),
        queries=sum(count for _, count in per_chunk),
        rows=sum(count * max(len(chunk.point.scenario.attacks), 1) for chunk, count in per_chunk),
        seconds=seconds,
    )


def _queries(stage: Stage) -> int:
    return sum(len(trace) for trace in stage.traces)


def _seconds_per_query(chunk: Chunk, workshop: Workshop) -> float:
    """Simulate the first user of a chunk's people, at most `LONGEST_PROBE` queries, with each LPPM."""
    full = workshop.stage(chunk)
    probe = Stage(full.setting, chunk.replication)
    user, life = next(iter(full.lives.items()))
    probe.lives = {user: life.first(LONGEST_PROBE)}
    began = time.process_time()
    run_chunk(chunk, Workshop.of(probe, chunk))
    return (time.process_time() - began) / (len(probe.lives[user].test) * len(chunk.lppms))
