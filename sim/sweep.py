"""What a scenario asks to be run: its points, and chunks of simulations with ids that tell what is in them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sim.rundir import SCHEMA_VERSION
from sim.scenario.models import Scenario
from sim.scenario.paths import assign, combinations, expand


@dataclass(frozen=True, slots=True)
class Point:
    """One combination of the swept values."""

    index: int
    values: dict[str, Any]
    scenario: Scenario


@dataclass(frozen=True, slots=True)
class Chunk:
    """Simulations that are run and written together: some LPPMs at one point in one replication."""

    id: str
    point: Point
    replication: int
    lppms: tuple[str, ...]


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
        found.append(Point(index, values, swept))
    return found


def plan(scenario: Scenario) -> list[Chunk]:
    """Return the chunks of the scenario's points."""
    return cut(points(scenario))


def cut(found: Iterable[Point]) -> list[Chunk]:
    """Cut points into chunks: each point and replication, with the LPPMs that no earlier point has run.

    A sweep over one design's parameter leaves other mechanisms as they were: they are simulated once. Replications
    come first in order, so that all points of a replication meet the same people while they are in memory.
    """
    fresh: list[tuple[Point, tuple[str, ...], str]] = []
    seen: set[tuple[str, int]] = set()
    for point in found:
        times = point.scenario.replications
        identities = _identities(point.scenario)
        own = {name: identity for name, identity in identities.items() if (identity, times) not in seen}
        seen.update((identity, times) for identity in identities.values())
        if own:
            fresh.append((point, tuple(own), json.dumps(list(own.values()))))
    most = max(point.scenario.replications for point, *_ in fresh)
    return [
        Chunk(_id(point, replication, content), point, replication, lppms)
        for replication in range(most)
        for point, lppms, content in fresh
        if replication < point.scenario.replications
    ]


SETTING = frozenset({"seed", "markov_restart", "world", "users", "training"})
"""The parts of a scenario that decide where people are and what is known of them."""


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
