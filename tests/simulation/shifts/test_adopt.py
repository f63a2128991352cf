"""Adoption of another user's behaviour in whole lives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sim.errors import InputError
from sim.events import Shift
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.simulation.shifts.lives import (
    AT,
    GRID,
    Build,
    after,
)
from tests.support import MakeScenario, raises_code


def test_adopt_takes_the_life_of_the_next_user(population: Build) -> None:
    base = population("replay").lives
    users = list(base)
    trace = population("replay", {"kind": "adopt", "what": "trace", "at_query": AT}).lives
    profile = population("replay", {"kind": "adopt", "at_query": AT}).lives
    one = population("replay", {"kind": "adopt", "of": users[0], "what": "trace", "at_query": AT}).lives
    for user, model in zip(users, users[1:] + users[:1], strict=True):
        assert after(trace[user]).tolist() == after(base[model]).tolist()
        assert set(after(profile[user]).tolist()) <= set(base[model].test.cells.tolist())
        assert after(profile[user]).tolist() != after(base[model]).tolist()
        assert after(one[user]).tolist() == after(base[users[0]]).tolist()
    assert not one[users[0]].shifts, "this user already has that life"


def test_a_shorter_trace_is_repeated(population: Build, make_scenario: MakeScenario, tmp_path: Path) -> None:
    cells = {"long": list(range(10)), "short": [40, 41, 42]}
    rows = [(user, i, cell) for user, own in cells.items() for i, cell in enumerate(own)]
    pd.DataFrame(rows, columns=["user", "order", "cell"]).to_csv(tmp_path / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}
    shifts = [{"kind": "adopt", "what": "trace", "at_query": 3}]
    scenario = make_scenario(world={"grid": GRID}, users=users, shifts=shifts, training={})
    lives = Population(Setting(scenario), 0).lives
    assert lives["long"].test.cells.tolist() == [0, 1, 42, 40, 41, 42, 40, 41, 42, 40]
    assert lives["short"].test.cells.tolist() == [40, 41, 2]


def test_a_drift_takes_an_increasing_share_of_the_new_life(population: Build) -> None:
    spec = {"kind": "adopt", "what": "trace", "at_query": 201, "over_queries": 400, "weight": 0.8}
    base = population("markov", queries=1200).lives
    life = population("markov", spec, queries=1200).lives["user-001"]
    own, other = base["user-001"].test.cells, base["user-002"].test.cells
    differs = own != other
    new = (life.test.cells == other)[differs]
    assert ((life.test.cells == own) | (life.test.cells == other)).all()
    at = np.flatnonzero(differs)
    share = [new[(at >= low) & (at < high)].mean() for low, high in ((0, 200), (200, 400), (400, 600), (600, 1200))]
    np.testing.assert_allclose(share, [0, 0.2, 0.6, 0.8], atol=0.1)
    assert share[0] == 0
    assert life.shifts == (Shift("user-001", "adopt", 201),)
    assert life.borders == (201, 601)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"users": ["user-01"]}, ["`users`", "'user-01'", "'user-001'"]),
        ({"of": "eve"}, ["`of`", "'eve'", "user-001, user-002, user-003"]),
        ({"of": "user-002", "users": ["user-002"]}, ["user-002"]),
    ],
)
def test_unknown_users_are_reported(settings: dict[str, Any], expected: list[str], population: Build) -> None:
    with pytest.raises(InputError) as raised:
        _ = population("favourites", {"kind": "adopt", "at_query": 5} | settings).lives
    assert str(raised.value).startswith("shifts.adopt: ")
    assert all(words in str(raised.value) for words in expected)


def test_impossible_shifts_are_refused(population: Build) -> None:
    with raises_code(InputError, "too-few-users"):
        _ = population("favourites", {"kind": "adopt", "at_query": 5}, count=1).lives
    with pytest.raises(InputError, match=r"^shifts\.close_roads: `cells` .* 64$"):
        _ = population("taxis", {"kind": "close_roads", "at_day": 0.1, "cells": [64]}).lives
