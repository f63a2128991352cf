"""Fixtures: populations with and without shifts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sim.mobility.traces import DAY_S
from sim.scenario.models import Scenario
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.world import World
from tests.simulation.shifts.lives import GRID, QUERIES, ROADS, SYNTHETIC, Build
from tests.support import MakeScenario


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the traces of cabs to a file; each cab sometimes stays in a cell."""
    world = {"grid": GRID, "roads": ROADS}
    users = {"count": 3, "queries": QUERIES, "mobility": "taxis", "demand": {"kind": "periodic", "period_s": 600}}
    data = {"name": "x", "seed": 9, "world": world, "users": users, "lppms": ["identity"]}
    traces = Population(Setting(Scenario.model_validate(data)), 0).traces
    rows = [(t.user, s + 5 * DAY_S, c) for t in traces for s, c in zip(t.times_s, t.cells, strict=True)]
    path = tmp_path_factory.mktemp("traces") / "cabs.csv"
    pd.DataFrame(rows, columns=["user", "time", "cell"]).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def worlds() -> dict[int, World]:
    """Cache of the world of each seed: it does not change, and roads are slow to build."""
    return {}


@pytest.fixture
def population(make_scenario: MakeScenario, recording: Path, worlds: dict[int, World]) -> Build:
    def make(who: str, *shifts: dict[str, Any], replication: int = 0, seed: int = 3, **settings: Any) -> Population:
        users = {"mobility": {"kind": "replay", "file": str(recording)}} if who == "replay" else SYNTHETIC[who]
        users = {"count": 3, "queries": QUERIES} | users | settings
        world = {"grid": GRID, "roads": ROADS}
        setting = Setting(make_scenario(world=world, users=users, shifts=list(shifts), seed=seed, training={}))
        if seed in worlds:
            setting.world = worlds[seed]
        worlds[seed] = setting.world
        return Population(setting, replication)

    return make
