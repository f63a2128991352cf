"""Users, shifts and comparisons of lives for the tests of shifts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sim.mobility.synthetic.city import attraction, pick, thresholds
from sim.mobility.traces import Life
from sim.rng import stream
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.world.grid import Grid
from tests.support import MakeScenario

GRID = {"kind": "rectangle", "rows": 8, "cols": 8, "width_km": 16.0, "height_km": 16.0}


ROADS = {"kind": "lattice", "spacing_km": 1.0}


QUERIES, AT = 120, 61


SYNTHETIC: dict[str, dict[str, Any]] = {
    "favourites": {"mobility": "favourites"},
    "markov": {"mobility": "markov"},
    "commuters": {"mobility": "commuters", "demand": {"kind": "poisson", "per_hour": 2.0}},
    "commuters' visits": {"mobility": "commuters"},
    "taxis": {"mobility": "taxis", "demand": {"kind": "periodic", "period_s": 600}},
}


OF_PLACES: list[dict[str, Any]] = [
    {"kind": "relocate"},
    {"kind": "relocate", "what": "work"},
    {"kind": "new_places"},
    {"kind": "adopt"},
    {"kind": "adopt", "what": "trace"},
    {"kind": "holiday", "for_queries": 20},
]


OTHERS: list[dict[str, Any]] = [
    {"kind": "rate", "at_query": AT, "factor": 0.5},
    {"kind": "rate", "at_query": AT, "factor": 2.0},
    {"kind": "close_roads", "at_day": 0.3, "share": 0.4},
    {"kind": "reverse_roads", "at_day": 0.3, "share": 1.0},
]


ALL = [{"at_query": AT} | spec for spec in OF_PLACES] + OTHERS


Build = Callable[..., Population]


def same(one: Life, other: Life, stop: int | None = None) -> bool:
    """Return whether two lives are identical up to a query."""
    pairs = [(one.past.times_s, other.past.times_s), (one.past.cells, other.past.cells)]
    pairs += [(getattr(one.test, column)[:stop], getattr(other.test, column)[:stop]) for column in ("times_s", "cells")]
    return all(np.array_equal(a, b) for a, b in pairs)


def named(spec: dict[str, Any]) -> str:
    return " ".join(str(value) for key, value in spec.items() if key in {"kind", "what", "factor"})


def after(life: Life, at: int = AT) -> np.ndarray[Any, Any]:
    return life.test.cells[at - 1 :]


def recorded(
    make_scenario: MakeScenario, folder: Path, cells: list[int], *shifts: dict[str, Any], **settings: Any
) -> Life:
    """Return the life of a user who was recorded in these cells."""
    pd.DataFrame({"user": "ann", "order": range(len(cells)), "cell": cells}).to_csv(folder / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(folder / "t.csv")}} | settings
    scenario = make_scenario(world={"grid": GRID}, users=users, shifts=list(shifts), training={})
    return Population(Setting(scenario), 0).lives["ann"]


def goal(name: str, home: int) -> int:
    """Return the new home of a user whose home was in a cell."""
    life = attraction(Grid.rectangle(rows=8, cols=8, width_km=16, height_km=16), seed=3).copy()
    life[home] = 0
    return pick(thresholds(life), stream(3, "shift", name, "ann").random())
