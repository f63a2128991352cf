"""Synthetic people that stand in for the paper's data sets: the simulator's own, of the same shape."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np

from sim.datasets import trace_file
from sim.datasets.importing import SAN_FRANCISCO
from sim.datasets.trace_file import SIDES, Traces
from sim.errors import InputError
from sim.interfaces import IntArray
from sim.mobility.traces import Trace, live
from sim.paper.studies import DATASETS
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.storage.atomic import atomic_file
from sim.world.grid import Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class _Recipe:
    """What a population is made from. All of it stands in the file's notes."""

    begins_s: int
    """Unix time of its first midnight, which in the simulator is that before a Monday."""
    scenario: Mapping[str, Any]
    """Who moves how, and when they are seen."""
    checkins: Mapping[str, Any] | None = None
    """How unequal the users are: check-ins are log-normal with this `median` and `sigma`, at most `most`."""
    changes: Mapping[str, int] | None = None
    """Each `every`-th user lives on as another person, with other favourites, after so many check-ins."""


# Visits to favourite places, seen at random moments: two check-ins in a row are of one visit with the probability
# per_hour / (per_hour + visits_per_day / 24). Brightkite's users have few places and stay, Gowalla's go about more.
_RECIPES = {
    "brightkite": _Recipe(
        begins_s=1_207_551_600,  # Monday 2008-04-07, midnight in San Francisco
        scenario={
            "seed": 1,
            "users": {
                "count": 3000,
                "mobility": {
                    "kind": "favourites",
                    "places": 8,
                    "taste": 1.5,
                    "explore": 0.1,
                    "spread_km": 2.5,
                    "visits_per_day": 2.4,
                },
                "demand": {"kind": "poisson", "per_hour": 0.1},
            },
        },
        checkins={"median": 3, "sigma": 2.0, "most": 2000},
    ),
    "gowalla": _Recipe(
        begins_s=1_233_561_600,  # Monday 2009-02-02
        scenario={
            "seed": 2,
            "users": {
                "count": 3000,
                "mobility": {
                    "kind": "favourites",
                    "places": 10,
                    "taste": 1.3,
                    "explore": 0.12,
                    "spread_km": 2.5,
                    "visits_per_day": 3.6,
                },
                "demand": {"kind": "poisson", "per_hour": 0.1},
            },
        },
        checkins={"median": 4, "sigma": 1.9, "most": 1500},
        changes={"every": 3, "after": 150},
    ),
    # Cabs keep to the city, which is the ten northernmost rows of the paper's grid.
    "taxicab": _Recipe(
        begins_s=1_211_180_400,  # Monday 2008-05-19
        scenario={
            "seed": 3,
            "world": {
                "grid": {
                    "kind": "region",
                    "rows": 10,
                    "cols": 10,
                    "south": 37.7006,
                    "north": 37.801,
                    "west": -122.5153,
                    "east": -122.3789,
                },
                "roads": {"kind": "lattice", "speed_kmh": 25, "avenue_speed_kmh": 40},
            },
            "users": {
                "count": 12,
                "days": 11,
                "mobility": {"kind": "taxis", "hotspots": 3, "wait_s": 1000},
                "demand": {"kind": "periodic", "period_s": 150},
            },
        },
    ),
}


def write_traces(dataset: str, folder: Path) -> Path:
    """Write the trace file of a synthetic population into a folder, for scenarios to read instead of the real one.

    `dataset` is one of `studies.DATASETS`. The same bytes each time. A whole file that the same version wrote from the
    same recipe is left as it is, so that runs that read it can be resumed; any other is replaced.
    """
    if dataset not in _RECIPES:
        raise ValueError(f"dataset must be one of {', '.join(_RECIPES)}, got {dataset!r}")
    recipe = _RECIPES[dataset]
    path = folder / DATASETS[dataset][0]
    notes = {
        "source": f"synthetic, in place of {dataset}",
        "synthetic": True,
        "recipe": asdict(recipe),
        "region": dict(zip(SIDES, SAN_FRANCISCO, strict=True)),
        "lppm_sim": version("lppm-sim"),
    }
    if not _is_there(path, notes):
        traces = _table(*_people(recipe), begins_s=recipe.begins_s, notes=notes)
        with atomic_file(path) as file:
            trace_file.write(file, traces)
    return path


def _is_there(path: Path, notes: Mapping[str, Any]) -> bool:
    """Tell whether the file is one with these notes, and as it was written."""
    if not path.is_file():
        return False
    try:
        found = trace_file.read(path)
    except InputError:
        return False
    wanted = {**notes, "rows_sha256": _fingerprint(found)}
    return {name: found.notes.get(name) for name in wanted} == wanted


def _fingerprint(traces: Traces) -> str:
    """Return a digest of the rows."""
    digest = hashlib.sha256("\n".join(traces.users).encode())
    for column in (traces.user, traces.when, traces.lat, traces.lon):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _people(recipe: _Recipe) -> tuple[Grid, list[Trace]]:
    """Return the grid, and where the simulator's users of this recipe are seen on it."""
    users = dict(recipe.scenario["users"])
    if recipe.checkins is not None:
        users["queries"] = recipe.checkins["most"]
    setting = Setting(Scenario.model_validate({"lppms": ["identity"], **recipe.scenario, "users": users}))
    traces = Population(setting, 0).traces if recipe.checkins is None else _checkins(setting, recipe)
    return setting.world.grid, traces


def _checkins(setting: Setting, recipe: _Recipe) -> list[Trace]:
    """Let every user live for as many check-ins as she has."""
    assert recipe.checkins is not None
    counts = _unequal(len(setting.users), **recipe.checkins)
    counts = stream(setting.scenario.seed, "check-ins").permutation(counts)
    traces = []
    for number, (user, count) in enumerate(zip(setting.users, counts.tolist(), strict=True)):
        changes = recipe.changes if recipe.changes is not None and number % recipe.changes["every"] == 0 else None
        before = count if changes is None else min(count, changes["after"])
        trace = _lived(setting, user, before)
        traces.append(trace if before == count else _joined(trace, _lived(setting, f"{user}/changed", count - before)))
    return traces


def _lived(setting: Setting, person: str, queries: int) -> Trace:
    moves, moments = (stream(setting.scenario.seed, role, person, 0) for role in ("moves", "moments"))
    return live(setting.mobility, setting.demand, person, moves=moves, moments=moments, queries=queries).test


def _joined(first: Trace, then: Trace) -> Trace:
    """Return one life that goes on as another does."""
    times_s = np.concatenate([first.times_s, first.times_s[-1] + then.times_s])
    return Trace(first.user, times_s, np.concatenate([first.cells, then.cells]))


def _unequal(users: int, *, median: float, sigma: float, most: int) -> IntArray:
    """Return how many check-ins the users have, in order: a log-normal distribution at evenly spaced ranks.

    >>> _unequal(5, median=10, sigma=1, most=30).tolist()
    [2, 5, 10, 16, 30]
    """
    ranks = (np.arange(users) + 0.5) / users
    normal = np.array([NormalDist().inv_cdf(rank) for rank in ranks.tolist()])
    return np.clip(median * np.exp(sigma * normal), 1, most).astype(np.int64)


def _table(grid: Grid, traces: Sequence[Trace], *, begins_s: int, notes: Mapping[str, Any]) -> Traces:
    """Return the rows of a trace file: users are numbered, and seen in the middle of their cells."""
    cells = np.concatenate([trace.cells for trace in traces])
    lat, lon = grid.to_degrees(grid.x_km[cells], grid.y_km[cells])
    table = Traces(
        users=tuple(str(number) for number in range(1, len(traces) + 1)),
        user=np.repeat(np.arange(len(traces)), [len(trace) for trace in traces]),
        when=begins_s + np.concatenate([trace.times_s for trace in traces]),
        timed=True,
        lat=lat.round(6),
        lon=lon.round(6),
        others={},
        notes={},
    )
    return replace(table, notes={**notes, "rows_sha256": _fingerprint(table)})
