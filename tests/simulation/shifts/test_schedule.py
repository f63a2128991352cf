"""Time windows and affected users of shifts."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from sim.errors import InputError
from sim.events import Shift
from sim.mobility.traces import DAY_S, Life
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.simulation.shifts.lives import (
    AT,
    Build,
    same,
)
from tests.support import MakeScenario, raises_code


def test_users_and_share_select_the_affected_users(population: Build) -> None:
    def affected(**settings: Any) -> set[str]:
        spec = {"kind": "new_places", "at_query": 10} | settings
        lives = population("favourites", spec, count=10, queries=20).lives
        base = population("favourites", count=10, queries=20).lives
        moved = {user for user, life in lives.items() if life.shifts}
        assert all(same(lives[user], base[user]) for user in lives if user not in moved)
        return moved

    assert affected(users=["user-003", "user-007"]) == {"user-003", "user-007"}
    assert len(affected()) == 10
    assert len(affected(share=0.25)) == 2
    assert len(affected(share=0.01)) == 1
    assert affected(share=0.5) == affected(share=0.5)
    assert affected(share=0.5) != affected(share=0.5, name="others")


def test_an_additional_user_changes_at_most_one_selected_user(population: Build) -> None:
    spec = {"kind": "relocate", "at_query": 2, "share": 0.3}
    chosen = [
        {user for user, life in population("favourites", spec, count=count, queries=2).lives.items() if life.shifts}
        for count in range(10, 31)
    ]
    for count, (before, now) in enumerate(pairwise(chosen), start=11):
        assert len(now) == round(0.3 * count)
        assert len(before - now) <= 1
        assert len(now - before) <= 1
    assert len(set.union(*chosen)) < 20


def test_a_user_whose_test_ends_before_a_shift_is_not_affected(make_scenario: MakeScenario, tmp_path: Path) -> None:
    rows = [("long", i, i % 5) for i in range(9)] + [("short", i, i % 5) for i in range(4)]
    pd.DataFrame(rows, columns=["user", "order", "cell"]).to_csv(tmp_path / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}

    def lives(**settings: Any) -> dict[str, Life]:
        return Population(
            Setting(make_scenario(users=users, shifts=[{"kind": "relocate"} | settings], training={})), 0
        ).lives

    shifted = lives(at_query=5)
    assert shifted["long"].shifts == (Shift("long", "relocate", 5),)
    assert (shifted["short"].shifts, shifted["short"].borders) == ((), ())
    with raises_code(InputError, "shift-without-effect") as error:
        lives(at_query=10)
    assert str(error.value).startswith("shifts.relocate: ")
    assert "query 10" in str(error.value)
    assert "9 queries" in str(error.value)
    with raises_code(InputError, "times-missing") as error:
        lives(at_day=1)
    assert "`at_day`" in str(error.value)


@pytest.mark.parametrize(("start", "text"), [({"at_day": 0.31}, "0.31 days"), ({"at_query": AT}, f"query {AT}")])
def test_a_shift_without_a_query_is_refused(start: dict[str, Any], text: str, population: Build) -> None:
    with raises_code(InputError, "shift-without-effect") as error:
        _ = population("replay", {"kind": "relocate", "for_days": 1e-6} | start).lives
    assert str(error.value).startswith("shifts.relocate: ")
    assert text in str(error.value)
    assert "1e-06 days" in str(error.value)
    assert "`for_days`" in str(error.value)


def test_days_count_from_the_beginning_of_the_test(population: Build) -> None:
    spec = {"kind": "relocate", "at_day": 2.5, "for_days": 1}
    for life in population("commuters", spec, queries=None, past_days=3, days=5).lives.values():
        begins, ends = life.shifts
        times_s = life.test.times_s
        assert times_s[begins.index - 2] < 5.5 * DAY_S <= times_s[begins.index - 1]
        assert times_s[ends.index - 2] < 6.5 * DAY_S <= times_s[ends.index - 1]
    with raises_code(InputError, "shift-without-effect") as error:
        _ = population("replay", spec | {"at_day": 4.5}).lives
    assert "4.5 days" in str(error.value)
    assert "0.8 days" in str(error.value)
