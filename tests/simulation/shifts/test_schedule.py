"""When shifts are in force, and for which users."""

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
from tests.support import MakeScenario


def test_who_is_chosen(population: Build) -> None:
    def whom(**said: Any) -> set[str]:
        spec = {"kind": "new_places", "at_query": 10} | said
        lives = population("favourites", spec, count=10, queries=20).lives
        base = population("favourites", count=10, queries=20).lives
        moved = {user for user, life in lives.items() if life.shifts}
        assert all(same(lives[user], base[user]) for user in lives if user not in moved)
        return moved

    assert whom(users=["user-003", "user-007"]) == {"user-003", "user-007"}
    assert len(whom()) == 10
    assert len(whom(share=0.25)) == 2
    assert len(whom(share=0.01)) == 1
    assert whom(share=0.5) == whom(share=0.5)
    assert whom(share=0.5) != whom(share=0.5, name="others")


def test_one_user_more_hardly_changes_who_is_chosen(population: Build) -> None:
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


def test_who_ends_before_a_shift_lacks_it(make_scenario: MakeScenario, tmp_path: Path) -> None:
    rows = [("long", i, i % 5) for i in range(9)] + [("short", i, i % 5) for i in range(4)]
    pd.DataFrame(rows, columns=["user", "order", "cell"]).to_csv(tmp_path / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}

    def lives(**said: Any) -> dict[str, Life]:
        return Population(
            Setting(make_scenario(users=users, shifts=[{"kind": "relocate"} | said], training={})), 0
        ).lives

    found = lives(at_query=5)
    assert found["long"].shifts == (Shift("long", "relocate", 5),)
    assert (found["short"].shifts, found["short"].borders) == ((), ())
    with pytest.raises(InputError) as raised:
        lives(at_query=10)
    assert str(raised.value) == (
        "shifts.relocate: it reaches nobody: it begins with query 10, the longest test of its users ends with query 9"
    )
    with pytest.raises(InputError, match="allowed are `at_query` and `for_queries`, found `at_day`"):
        lives(at_day=1)


@pytest.mark.parametrize(
    ("when", "begins"), [({"at_day": 0.31}, "after 0.31 days"), ({"at_query": AT}, f"with query {AT}")]
)
def test_a_shift_without_a_query_says_so(when: dict[str, Any], begins: str, population: Build) -> None:
    with pytest.raises(InputError) as raised:
        _ = population("replay", {"kind": "relocate", "for_days": 1e-6} | when).lives
    assert str(raised.value) == (
        f"shifts.relocate: it reaches nobody: it begins {begins} and lasts 1e-06 days, "
        "in which none of its users has a query; give it more `for_days`"
    )


def test_days_count_from_the_beginning_of_the_test(population: Build) -> None:
    spec = {"kind": "relocate", "at_day": 2.5, "for_days": 1}
    for life in population("commuters", spec, queries=None, past_days=3, days=5).lives.values():
        begins, ends = life.shifts
        times_s = life.test.times_s
        assert times_s[begins.index - 2] < 5.5 * DAY_S <= times_s[begins.index - 1]
        assert times_s[ends.index - 2] < 6.5 * DAY_S <= times_s[ends.index - 1]
    with pytest.raises(InputError, match=r"it begins after 4\.\d* days, the longest test of its users ends after 0\.8"):
        _ = population("replay", spec | {"at_day": 4.5}).lives
