"""What a scenario asks to be run: its points, and chunks of simulations with ids that tell what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from sim.rundir import SCHEMA_VERSION
from sim.scenario.models import RepeatUntil, Scenario
from sim.scenario.paths import assign, combinations, expand
from sim.scenario.protection import LPPMSpec

SETTING = frozenset({"seed", "markov_restart", "world", "users", "training"})
"""The parts of a scenario that decide where people are and what is known of them."""


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the swept values."""

    index: int
    values: dict[str, Any]
    scenario: Scenario
    setting: str
    """What decides where people are and what is known of them, as text: points with the same share it."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Simulations that are run and written together: some LPPMs at one point in one replication."""

    id: str
    point: Point
    replication: int
    lppms: tuple[str, ...]

    @property
    def people(self) -> tuple[str, int]:
        """Whom it is about: chunks with the same can share what is in memory."""
        return self.point.setting, self.replication


def points(scenario: Scenario) -> list[Point]:
    """Return every combination of the swept values as a scenario of its own; a scenario without a sweep is one.

    They are numbered by the names of the paths, not by the order of the file, which a manifest does not keep.
    """
    plain = scenario.model_dump(mode="json", exclude_unset=True, exclude={"sweep"})
    found = []
    for index, values in enumerate(combinations(dict(sorted(scenario.sweep.items())))):
        data = plain
        for path, value in values.items():
            for loc in expand(scenario, plain, path):
                data = assign(data, loc, value, model=scenario)
        swept = Scenario.model_validate(data).at(*scenario.place)
        found.append(Point(index, values, swept, swept.canonical(only=SETTING)))
    return found


@dataclass(frozen=True, slots=True)
class Task:
    """An LPPM at a point, which no earlier point has run, to be repeated: so often, or until its figures are sharp."""

    point: Point
    lppm: str
    identity: str
    at_least: int
    at_most: int
    half_width_km: float | None
    """Between the two numbers, stop when no interval is wider than ± this."""
    is_exact: bool
    """Every replication would have the same expected figures."""

    @property
    def key(self) -> tuple[int, str]:
        """The point and the LPPM, as rows of the log name them."""
        return self.point.index, self.lppm


Times = Mapping[tuple[int, str], int]
"""How many replications each task is to have, by its key."""


def tasks(found: Iterable[Point]) -> list[Task]:
    """Return, of each point, the LPPMs that no earlier point has run.

    A sweep over one design's parameter leaves other mechanisms as they were: they are simulated once.
    """
    fresh: list[Task] = []
    seen: set[tuple[str, int | RepeatUntil]] = set()
    for point in found:
        scenario = point.scenario
        identities = _identities(scenario)
        fresh += [
            _task(point, lppm, identities[lppm.name])
            for lppm in scenario.lppms
            if (identities[lppm.name], scenario.replications) not in seen
        ]
        seen.update((identity, scenario.replications) for identity in identities.values())
    return fresh


def _task(point: Point, lppm: LPPMSpec, identity: str) -> Task:
    said = point.scenario.replications
    is_exact = point.scenario.is_exact(lppm)
    half_width_km = said.until_half_width_km if isinstance(said, RepeatUntil) and not is_exact else None
    at_least, at_most = (said.at_least, said.at_most) if isinstance(said, RepeatUntil) else (said, said)
    if is_exact:
        at_least = at_most = 1
    return Task(point, lppm.name, identity, at_least, at_most, half_width_km, is_exact)


def next_look(replications: int, at_most: int) -> int:
    """Return after how many replications the intervals are looked at next: after a quarter more.

    So a round holds some work for many workers, and chance has few occasions to make an interval look narrow. It is
    counted from what there is, never from the number of workers: that must not change results.

    >>> next_look(5, 200), next_look(100, 200), next_look(190, 200)
    (6, 125, 200)
    """
    return min(at_most, replications + max(1, replications // 4))


def plan(scenario: Scenario) -> list[Chunk]:
    """Return the chunks that are surely run for the scenario's points."""
    return cut(tasks(points(scenario)))


def cut(found: Iterable[Task], times: Times | None = None) -> list[Chunk]:
    """Cut tasks into chunks, each task with so many replications, the fewest that it may have unless said.

    A chunk holds what a point runs in a replication. Where LPPMs stop on their own each has chunks of its own: which
    of the others went on must not be told by its name, or asking for narrower intervals would begin anew.
    Replications come first in order, so that all points of a replication meet the same people while in memory.
    """
    together: dict[tuple[int, str], list[Task]] = {}
    for task in found:
        alone = isinstance(task.point.scenario.replications, RepeatUntil)
        together.setdefault((task.point.index, task.lppm if alone else ""), []).append(task)
    counts = {task.key: task.at_least if times is None else times[task.key] for g in together.values() for task in g}
    contents: dict[tuple[tuple[int, str], ...], str] = {}
    chunks = []
    for replication in range(max(counts.values())):
        for group in together.values():
            own = [task for task in group if replication < counts[task.key]]
            if not own:
                continue
            keys = tuple(task.key for task in own)
            if keys not in contents:
                contents[keys] = json.dumps([task.identity for task in own])
            point = own[0].point
            lppms = tuple(task.lppm for task in own)
            chunks.append(Chunk(_id(point, replication, contents[keys]), point, replication, lppms))
    return chunks


def _identities(scenario: Scenario) -> dict[str, str]:
    """Return, by the name of each LPPM, everything that decides what one replication of it comes to."""
    setting = scenario.canonical(only=SETTING | {"attacks", "record"})
    lppms = json.loads(scenario.canonical(only=frozenset({"lppms"})))["lppms"]
    return {lppm["name"]: json.dumps([setting, lppm]) for lppm in lppms}


def _id(point: Point, replication: int, content: str) -> str:
    """Return the id of a chunk with this content, a list as JSON, which follows the version and the replication."""
    text = f"[{json.dumps(SCHEMA_VERSION)}, {replication}, {content[1:]}"
    digest = hashlib.sha256(text.encode()).hexdigest()[:10]
    return f"{point.index:04d}-{replication:04d}-{digest}"
