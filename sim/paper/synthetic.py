"""Synthetic populations that replace the paper's data sets, with similar statistics."""

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
    """Parameters of a synthetic population, which the metadata of its file contains."""

    begins_s: int
    """Unix time of the first midnight, at the start of a Monday."""
    scenario: Mapping[str, Any]
    """Scenario keys of seed, world, mobility and demand."""
    checkins: Mapping[str, Any] | None = None
    """Distribution of check-ins per user: log-normal with this `median` and `sigma`, at most `most`."""
    changes: Mapping[str, int] | None = None
    """Behaviour shift: each `every`-th user has other favourite places from check-in `after` onwards."""


# Users visit favourite places and check in at random times: two consecutive check-ins belong to the same visit with
# probability per_hour / (per_hour + visits_per_day / 24). Brightkite users have few places and long visits, Gowalla
# users move more.
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
    # Cabs stay in the city, which is the ten northernmost rows of the paper's grid.
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
    """Write the trace file of a synthetic population to a folder, as a replacement of the real data set.

    `dataset` is one of `studies.DATASETS`. The content is deterministic. An intact file that the same version wrote
    from the same recipe is not changed, so that runs that read it can be resumed; any other file is replaced.
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
    if not _is_intact(path, notes):
        traces = _table(*_people(recipe), begins_s=recipe.begins_s, notes=notes)
        with atomic_file(path) as file:
            trace_file.write(file, traces)
    return path


def _is_intact(path: Path, notes: Mapping[str, Any]) -> bool:
    """Return whether the file exists, has these notes and has not been modified."""
    if not path.is_file():
        return False
    try:
        traces = trace_file.read(path)
    except InputError:
        return False
    expected = {**notes, "rows_sha256": _fingerprint(traces)}
    return {name: traces.notes.get(name) for name in expected} == expected


def _fingerprint(traces: Traces) -> str:
    """Return a digest of the rows."""
    digest = hashlib.sha256("\n".join(traces.users).encode())
    for column in (traces.user, traces.when, traces.lat, traces.lon):
        digest.update(np.ascontiguousarray(column).tobytes())
    return digest.hexdigest()


def _people(recipe: _Recipe) -> tuple[Grid, list[Trace]]:
    """Return the grid of a recipe and the traces of its users."""
    users = dict(recipe.scenario["users"])
    if recipe.checkins is not None:
        users["queries"] = recipe.checkins["most"]
    setting = Setting(Scenario.model_validate({"lppms": ["identity"], **recipe.scenario, "users": users}))
    traces = Population(setting, 0).traces if recipe.checkins is None else _checkins(setting, recipe)
    return setting.world.grid, traces


def _checkins(setting: Setting, recipe: _Recipe) -> list[Trace]:
    """Simulate the check-ins of all users."""
    assert recipe.checkins is not None
    counts = _unequal(len(setting.users), **recipe.checkins)
    counts = stream(setting.scenario.seed, "check-ins").permutation(counts)
    traces = []
    for number, (user, count) in enumerate(zip(setting.users, counts.tolist(), strict=True)):
        changes = recipe.changes if recipe.changes is not None and number % recipe.changes["every"] == 0 else None
        before = count if changes is None else min(count, changes["after"])
        trace = _simulated(setting, user, before)
        if before < count:
            trace = _joined(trace, _simulated(setting, f"{user}/changed", count - before))
        traces.append(trace)
    return traces


def _simulated(setting: Setting, person: str, queries: int) -> Trace:
    moves, moments = (stream(setting.scenario.seed, role, person, 0) for role in ("moves", "moments"))
    return live(setting.mobility, setting.demand, person, moves=moves, moments=moments, queries=queries).test


def _joined(first: Trace, then: Trace) -> Trace:
    """Return the first trace followed by the second one."""
    times_s = np.concatenate([first.times_s, first.times_s[-1] + then.times_s])
    return Trace(first.user, times_s, np.concatenate([first.cells, then.cells]))


def _unequal(users: int, *, median: float, sigma: float, most: int) -> IntArray:
    """Return the sorted numbers of check-ins per user: quantiles of a log-normal distribution, clipped to [1, most].

    >>> _unequal(5, median=10, sigma=1, most=30).tolist()
    [2, 5, 10, 16, 30]
    """
    ranks = (np.arange(users) + 0.5) / users
    normal = np.array([NormalDist().inv_cdf(rank) for rank in ranks.tolist()])
    return np.clip(median * np.exp(sigma * normal), 1, most).astype(np.int64)


def _table(grid: Grid, traces: Sequence[Trace], *, begins_s: int, notes: Mapping[str, Any]) -> Traces:
    """Return the rows of a trace file, with numbered users and positions at the centres of cells."""
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
