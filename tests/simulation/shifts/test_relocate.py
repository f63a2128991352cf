"""Relocation in whole lives, and the home of a user."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.mobility.shifts.places import by_frequency
from sim.rng import stream
from tests.simulation.shifts.lives import (
    AT,
    QUERIES,
    Build,
    after,
    goal,
    named,
    recorded,
    same,
)
from tests.support import MakeScenario


def test_users_move_to_the_same_place_in_every_replication(population: Build) -> None:
    spec = {"kind": "relocate", "at_query": AT}
    lives = [population("replay", spec, replication=replication).lives for replication in (0, 1)]
    assert all(same(lives[0][user], lives[1][user]) for user in lives[0])


def test_a_relocation_changes_the_home(population: Build) -> None:
    for who in ("replay", "favourites", "commuters"):
        base, shifted = population(who).lives, population(who, {"kind": "relocate", "at_query": AT}).lives
        for user, life in shifted.items():
            home = by_frequency(base[user].test.cells[: AT - 1])[0]
            assert (after(life) == home).mean() < 0.5 * (after(base[user]) == home).mean() + 0.05


def test_a_commuter_who_moves_still_goes_to_work(population: Build) -> None:
    moved = population("commuters", {"kind": "relocate", "at_query": 25})
    mobility: Any = moved.setting.mobility
    for user, life in moved.lives.items():
        home, work, _ = mobility.places(user)
        new_home, same_work, _ = mobility.elsewhere("home", "relocate").places(user)
        cell = mobility.roads.cell
        assert same_work == work
        assert {int(cell[new_home]), int(cell[work])} <= set(after(life, 25).tolist())
        assert (after(life, 25) == cell[home]).mean() < 0.1


def test_a_later_shift_changes_the_new_life(population: Build) -> None:
    move, taste = {"kind": "relocate", "at_query": 31}, {"kind": "new_places", "at_query": 61}
    own = population("favourites", move, taste)
    mobility: Any = own.setting.mobility
    home = mobility.elsewhere("home", "relocate")
    for user, life in own.lives.items():
        visits = home.elsewhere("places", "new_places").visits(user, stream(3, "moves", user, 0))
        assert after(life, 61).tolist() == [visit.cell for visit in islice(visits, QUERIES)][60:]
    once = {"for_queries": 10}
    back = population("favourites", move | once, taste).lives
    for user, life in back.items():
        visits = mobility.elsewhere("places", "new_places").visits(user, stream(3, "moves", user, 0))
        assert after(life, 61).tolist() == [visit.cell for visit in islice(visits, QUERIES)][60:], "home again by then"


@pytest.mark.parametrize("factor", [None, 0.5, 2.0])
@pytest.mark.parametrize("who", ["commuters", "commuters' visits", "favourites"])
def test_a_new_life_has_the_same_times(who: str, factor: float | None, population: Build) -> None:
    rate = [] if factor is None else [{"kind": "rate", "at_query": 31, "factor": factor}]
    own = population(who, {"kind": "relocate", "at_query": AT}, *rate, queries=300)
    mobility: Any = own.setting.mobility
    for user, life in own.lives.items():
        moved = mobility.elsewhere("home", "relocate").visits(user, stream(3, "moves", user, 0))
        visits = list(islice(moved, 2500))
        assert visits[-1].time_s > life.test.times_s[-1]
        last = np.searchsorted([visit.time_s for visit in visits], life.test.times_s[AT - 1 :], side="right") - 1
        assert (after(life) == np.array([visit.cell for visit in visits])[last]).all()


def test_visits_in_the_same_second_have_separate_places(population: Build) -> None:
    often = {"mobility": {"kind": "favourites", "visits_per_day": 80_000.0}}
    own = population("favourites", {"kind": "relocate", "at_query": AT}, **often)
    mobility: Any = own.setting.mobility
    for user, life in own.lives.items():
        assert (np.diff(life.test.times_s) == 0).any()
        visits = mobility.elsewhere("home", "relocate").visits(user, stream(3, "moves", user, 0))
        assert after(life).tolist() == [visit.cell for visit in islice(visits, QUERIES)][AT - 1 :]


def test_home_is_the_most_frequent_cell_since_the_last_shift(make_scenario: MakeScenario, tmp_path: Path) -> None:
    one, two = ({"kind": "relocate", "name": name, "at_query": at} for name, at in (("one", 11), ("two", 15)))
    life = recorded(make_scenario, tmp_path, [0] * 20, one, two)
    first = goal("one", 0)
    assert life.test.cells.tolist() == [0] * 10 + [first] * 4 + [goal("two", first)] * 6


@pytest.mark.parametrize(
    "first",
    [
        {"kind": "holiday", "at_query": 11, "for_queries": 89},
        {"kind": "relocate", "name": "sublet", "at_query": 11, "for_queries": 89},
        {"kind": "rate", "at_query": 100, "factor": 1.5},
    ],
    ids=named,
)
def test_one_query_does_not_determine_the_home(
    first: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    cells = ([3] * 9 + [40]) * 20
    move = {"kind": "relocate", "at_query": 101}
    life = recorded(make_scenario, tmp_path, cells, first, move)
    assert life.test.cells[99] == 40
    assert by_frequency(after(life, 101))[0] == goal("relocate", 3)


def test_the_home_changes_before_the_first_query_there(make_scenario: MakeScenario, tmp_path: Path) -> None:
    one, two = ({"kind": "relocate", "name": name, "at_query": 11} for name in ("one", "two"))
    life = recorded(make_scenario, tmp_path, [0] * 20, one, two)
    assert after(life, 11).tolist() == [goal("two", goal("one", 0))] * 10


def test_the_past_determines_the_home(make_scenario: MakeScenario, tmp_path: Path) -> None:
    life = recorded(make_scenario, tmp_path, [0] * 6 + [9, 0, 0], {"kind": "relocate", "at_query": 2}, past_queries=6)
    assert life.test.cells.tolist() == [9, goal("relocate", 0), goal("relocate", 0)]
