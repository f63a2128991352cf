"""Shifts in whole lives: every kind on recorded and on synthetic users, against the same lives without it."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.belief.in_force import InForce
from sim.belief.markov_filter import MarkovFilter
from sim.components.registry import registry
from sim.errors import InputError
from sim.events import Shift
from sim.execution.chunks import _in_force, _known
from sim.mobility.shifts.places import by_frequency
from sim.mobility.synthetic.city import attraction, pick, thresholds
from sim.mobility.traces import DAY_S, Life
from sim.rng import stream
from sim.scenario.models import Scenario
from sim.scenario.reading.source import parse_value
from sim.simulation.population import Setting, Stage
from sim.world import World
from sim.world.grid import Grid
from tests.support import MakeScenario, done

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


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record cabs as a trace file: each of them now and then stays in a cell."""
    world = {"grid": GRID, "roads": ROADS}
    users = {"count": 3, "queries": QUERIES, "mobility": "taxis", "demand": {"kind": "periodic", "period_s": 600}}
    data = {"name": "x", "seed": 9, "world": world, "users": users, "lppms": ["identity"]}
    traces = Stage(Setting(Scenario.model_validate(data)), 0).traces
    rows = [(t.user, s + 5 * DAY_S, c) for t in traces for s, c in zip(t.times_s, t.cells, strict=True)]
    path = tmp_path_factory.mktemp("traces") / "cabs.csv"
    pd.DataFrame(rows, columns=["user", "time", "cell"]).to_csv(path, index=False)
    return path


Build = Callable[..., Stage]


@pytest.fixture(scope="module")
def worlds() -> dict[int, World]:
    """Keep the world of each seed: nothing changes it, and roads take long to build."""
    return {}


@pytest.fixture
def stage(make_scenario: MakeScenario, recording: Path, worlds: dict[int, World]) -> Build:
    def make(who: str, *shifts: dict[str, Any], replication: int = 0, seed: int = 3, **said: Any) -> Stage:
        users = {"mobility": {"kind": "replay", "file": str(recording)}} if who == "replay" else SYNTHETIC[who]
        users = {"count": 3, "queries": QUERIES} | users | said
        world = {"grid": GRID, "roads": ROADS}
        setting = Setting(make_scenario(world=world, users=users, shifts=list(shifts), seed=seed, training={}))
        if seed in worlds:
            setting.world = worlds[seed]
        worlds[seed] = setting.world
        return Stage(setting, replication)

    return make


def same(one: Life, other: Life, stop: int | None = None) -> bool:
    """Whether two lives are the same to the bit, up to a query."""
    pairs = [(one.past.times_s, other.past.times_s), (one.past.cells, other.past.cells)]
    pairs += [(getattr(one.test, column)[:stop], getattr(other.test, column)[:stop]) for column in ("times_s", "cells")]
    return all(np.array_equal(a, b) for a, b in pairs)


def named(spec: dict[str, Any]) -> str:
    return " ".join(str(value) for key, value in spec.items() if key in {"kind", "what", "factor"})


# ------------------------------------------------------------------------------------------------ every kind


@pytest.mark.parametrize("who", ["replay", *SYNTHETIC])
@pytest.mark.parametrize("spec", ALL, ids=named)
def test_until_then_nothing_changes_and_then_something_does(who: str, spec: dict[str, Any], stage: Build) -> None:
    base, shifted = stage(who, past_queries=5).lives, stage(who, spec, past_queries=5).lives
    changed = 0
    for user, life in shifted.items():
        assert [shift[:2] for shift in life.shifts if not shift.ends] == [(user, spec["kind"])]
        at = life.shifts[0].index
        assert same(life, base[user], at - 1)
        if "at_query" in spec:
            assert at == AT
        else:
            begins_s = int(life.test.times_s[0]) // DAY_S * DAY_S + int(0.3 * DAY_S)
            assert at == 1 or life.test.times_s[at - 2] < begins_s
            assert begins_s <= life.test.times_s[at - 1]
        assert life.borders == tuple(shift.index for shift in life.shifts if shift.index > 1)
        changed += not same(life, base[user])
        if spec["kind"] not in {"rate", "close_roads", "reverse_roads"}:
            assert life.test.times_s.tolist() == base[user].test.times_s.tolist(), "the moments stay"
    # Who goes out seldom, checks in hours apart or always drives by the same few roads may not notice.
    assert changed == 3 or (
        who not in {"replay", "taxis"} and spec["kind"] in {"new_places", "close_roads", "reverse_roads"}
    )
    assert changed or who in {"favourites", "markov", "commuters"}


@pytest.mark.parametrize("who", ["replay", "commuters"])
@pytest.mark.parametrize("spec", ALL, ids=named)
def test_the_same_seed_gives_the_same_life(who: str, spec: dict[str, Any], stage: Build) -> None:
    one, two = (stage(who, spec).lives for _ in range(2))
    assert all(same(one[user], two[user]) and one[user].shifts == two[user].shifts for user in one)
    if spec["kind"] in {"relocate", "holiday"}:
        other = stage(who, spec, seed=4).lives if who != "replay" else stage(who, spec | {"name": "other"}).lives
        assert not all(same(one[user], other[user]) for user in one)


def test_people_move_to_the_same_place_in_every_replication(stage: Build) -> None:
    spec = {"kind": "relocate", "at_query": AT}
    lives = [stage("replay", spec, replication=replication).lives for replication in (0, 1)]
    assert all(same(lives[0][user], lives[1][user]) for user in lives[0])


# ------------------------------------------------------------------------------------------------ where they are


def after(life: Life, at: int = AT) -> np.ndarray[Any, Any]:
    return life.test.cells[at - 1 :]


def test_a_move_takes_the_home_elsewhere(stage: Build) -> None:
    for who in ("replay", "favourites", "commuters"):
        base, shifted = stage(who).lives, stage(who, {"kind": "relocate", "at_query": AT}).lives
        for user, life in shifted.items():
            home = by_frequency(base[user].test.cells[: AT - 1])[0]
            assert (after(life) == home).mean() < 0.5 * (after(base[user]) == home).mean() + 0.05


def test_a_commuter_who_moves_still_goes_to_work(stage: Build) -> None:
    moved = stage("commuters", {"kind": "relocate", "at_query": 25})
    mobility: Any = moved.setting.mobility
    for user, life in moved.lives.items():
        home, work, _ = mobility.places(user)
        new_home, same_work, _ = mobility.elsewhere("home", "relocate").places(user)
        cell = mobility.roads.cell
        assert same_work == work
        found = set(after(life, 25).tolist())
        assert {int(cell[new_home]), int(cell[work])} <= found
        assert (after(life, 25) == cell[home]).mean() < 0.1


def test_to_adopt_is_to_live_like_the_next_user(stage: Build) -> None:
    base = stage("replay").lives
    users = list(base)
    trace = stage("replay", {"kind": "adopt", "what": "trace", "at_query": AT}).lives
    profile = stage("replay", {"kind": "adopt", "at_query": AT}).lives
    one = stage("replay", {"kind": "adopt", "of": users[0], "what": "trace", "at_query": AT}).lives
    for user, model in zip(users, users[1:] + users[:1], strict=True):
        assert after(trace[user]).tolist() == after(base[model]).tolist()
        assert set(after(profile[user]).tolist()) <= set(base[model].test.cells.tolist())
        assert after(profile[user]).tolist() != after(base[model]).tolist()
        assert after(one[user]).tolist() == after(base[users[0]]).tolist()
    assert not one[users[0]].shifts, "she has that life already"


def test_a_shorter_life_starts_over(stage: Build, make_scenario: MakeScenario, tmp_path: Path) -> None:
    cells = {"long": list(range(10)), "short": [40, 41, 42]}
    rows = [(user, i, cell) for user, own in cells.items() for i, cell in enumerate(own)]
    pd.DataFrame(rows, columns=["user", "order", "cell"]).to_csv(tmp_path / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}
    shifts = [{"kind": "adopt", "what": "trace", "at_query": 3}]
    scenario = make_scenario(world={"grid": GRID}, users=users, shifts=shifts, training={})
    lives = Stage(Setting(scenario), 0).lives
    assert lives["long"].test.cells.tolist() == [0, 1, 42, 40, 41, 42, 40, 41, 42, 40]
    assert lives["short"].test.cells.tolist() == [40, 41, 2]


@pytest.mark.parametrize("length", [{"for_queries": 20}, {"for_days": 0.1}], ids=["queries", "days"])
@pytest.mark.parametrize("who", ["replay", "favourites", "taxis"])
def test_a_holiday_is_far_away_and_ends(who: str, length: dict[str, Any], stage: Build) -> None:
    if who == "favourites" and "for_days" in length:
        length = {"for_days": 3.0}
    spec = {"kind": "holiday", "at_query": AT, "away_km": 8, "spread_km": 0.5} | length
    base, shifted = stage(who).lives, stage(who, spec).lives
    grid = Grid.rectangle(rows=8, cols=8, width_km=16, height_km=16)
    for user, life in shifted.items():
        begins, ends = life.shifts
        assert (begins, ends) == (Shift(user, "holiday", AT), Shift(user, "holiday", ends.index, True))
        if "for_queries" in length:
            assert ends.index == AT + 20
        else:
            over_s = life.test.times_s[AT - 1] + int(length["for_days"] * DAY_S)
            assert life.test.times_s[ends.index - 2] < over_s <= life.test.times_s[ends.index - 1]
        assert life.borders == (AT, ends.index)
        assert after(life, ends.index).tolist() == after(base[user], ends.index).tolist()
        away = life.test.cells[AT - 1 : ends.index - 1]
        home = by_frequency(base[user].test.cells[: AT - 1])[0]
        from_home = np.hypot(grid.x_km - grid.x_km[home], grid.y_km - grid.y_km[home])
        assert np.median(from_home[away]) > 6


def test_a_drift_takes_more_and_more_of_the_new_life(stage: Build) -> None:
    spec = {"kind": "adopt", "what": "trace", "at_query": 201, "over_queries": 400, "weight": 0.8}
    base = stage("markov", queries=1200).lives
    life = stage("markov", spec, queries=1200).lives["user-001"]
    own, other = base["user-001"].test.cells, base["user-002"].test.cells
    told = own != other
    new = (life.test.cells == other)[told]
    assert ((life.test.cells == own) | (life.test.cells == other)).all()
    at = np.flatnonzero(told)
    share = [new[(at >= low) & (at < high)].mean() for low, high in ((0, 200), (200, 400), (400, 600), (600, 1200))]
    np.testing.assert_allclose(share, [0, 0.2, 0.6, 0.8], atol=0.1)
    assert share[0] == 0
    assert life.shifts == (Shift("user-001", "adopt", 201),)
    assert life.borders == (201, 601)


def test_shifts_follow_each_other(stage: Build) -> None:
    home = {"kind": "relocate", "at_query": 31}
    job = {"kind": "relocate", "name": "job", "what": "work", "at_query": 61}
    leave = {"kind": "holiday", "at_query": 91, "for_queries": 10}
    for who in ("replay", "commuters"):
        both, first = stage(who, home, job, leave).lives, stage(who, home).lives
        for user, life in both.items():
            names = ["relocate", "job", "holiday", "holiday"]
            assert [shift.name for shift in life.shifts] == names
            assert life.borders == (31, 61, 91, 101)
            assert same(life, first[user], 60)
            assert not same(life, first[user], 90)


@pytest.mark.parametrize("who", ["replay", "favourites", "commuters"])
def test_shifts_apply_as_they_begin_wherever_they_are_listed(who: str, stage: Build) -> None:
    leave = {"kind": "holiday", "at_query": AT, "for_queries": 20}
    move = {"kind": "relocate", "at_query": 40}
    one, two = stage(who, move, leave).lives, stage(who, leave, move).lives
    moved = stage(who, move).lives
    for user, life in two.items():
        assert same(life, one[user])
        assert life.shifts == one[user].shifts
        assert not same(life, moved[user]), "a holiday from the new home"
        assert after(life, AT + 20).tolist() == after(moved[user], AT + 20).tolist()


def test_a_later_change_is_one_of_the_new_life(stage: Build) -> None:
    move, taste = {"kind": "relocate", "at_query": 31}, {"kind": "new_places", "at_query": 61}
    own = stage("favourites", move, taste)
    mobility: Any = own.setting.mobility
    home = mobility.elsewhere("home", "relocate")
    for user, life in own.lives.items():
        visits = home.elsewhere("places", "new_places").visits(user, stream(3, "moves", user, 0))
        assert after(life, 61).tolist() == [visit.cell for visit in islice(visits, QUERIES)][60:]
    once = {"for_queries": 10}
    back = stage("favourites", move | once, taste).lives
    for user, life in back.items():
        visits = mobility.elsewhere("places", "new_places").visits(user, stream(3, "moves", user, 0))
        assert after(life, 61).tolist() == [visit.cell for visit in islice(visits, QUERIES)][60:], "home again by then"


@pytest.mark.parametrize("factor", [None, 0.5, 2.0])
@pytest.mark.parametrize("who", ["commuters", "commuters' visits", "favourites"])
def test_a_new_life_keeps_to_the_clock(who: str, factor: float | None, stage: Build) -> None:
    rate = [] if factor is None else [{"kind": "rate", "at_query": 31, "factor": factor}]
    own = stage(who, {"kind": "relocate", "at_query": AT}, *rate, queries=300)
    mobility: Any = own.setting.mobility
    for user, life in own.lives.items():
        moved = mobility.elsewhere("home", "relocate").visits(user, stream(3, "moves", user, 0))
        visits = list(islice(moved, 2500))
        assert visits[-1].time_s > life.test.times_s[-1]
        last = np.searchsorted([visit.time_s for visit in visits], life.test.times_s[AT - 1 :], side="right") - 1
        there = np.array([visit.cell for visit in visits])[last]
        assert (after(life) == there).all()


def test_visits_in_the_same_second_each_have_a_place_of_their_own(stage: Build) -> None:
    often = {"mobility": {"kind": "favourites", "visits_per_day": 80_000.0}}
    own = stage("favourites", {"kind": "relocate", "at_query": AT}, **often)
    mobility: Any = own.setting.mobility
    for user, life in own.lives.items():
        assert (np.diff(life.test.times_s) == 0).any()
        visits = mobility.elsewhere("home", "relocate").visits(user, stream(3, "moves", user, 0))
        assert after(life).tolist() == [visit.cell for visit in islice(visits, QUERIES)][AT - 1 :]


def recorded(make_scenario: MakeScenario, folder: Path, cells: list[int], *shifts: dict[str, Any], **said: Any) -> Life:
    """Return the life of somebody who was recorded in these cells."""
    pd.DataFrame({"user": "ann", "order": range(len(cells)), "cell": cells}).to_csv(folder / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(folder / "t.csv")}} | said
    scenario = make_scenario(world={"grid": GRID}, users=users, shifts=list(shifts), training={})
    return Stage(Setting(scenario), 0).lives["ann"]


def goal(name: str, home: int) -> int:
    """Return where somebody moves whose home was in a cell."""
    life = attraction(Grid.rectangle(rows=8, cols=8, width_km=16, height_km=16), seed=3).copy()
    life[home] = 0
    return pick(thresholds(life), stream(3, "shift", name, "ann").random())


def test_home_is_where_she_was_most_since_her_life_changed(make_scenario: MakeScenario, tmp_path: Path) -> None:
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
def test_one_query_does_not_tell_where_home_is(
    first: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    cells = ([3] * 9 + [40]) * 20
    move = {"kind": "relocate", "at_query": 101}
    life = recorded(make_scenario, tmp_path, cells, first, move)
    assert life.test.cells[99] == 40
    assert by_frequency(after(life, 101))[0] == goal("relocate", 3)


def test_home_is_the_new_one_even_before_the_first_query_there(make_scenario: MakeScenario, tmp_path: Path) -> None:
    one, two = ({"kind": "relocate", "name": name, "at_query": 11} for name in ("one", "two"))
    life = recorded(make_scenario, tmp_path, [0] * 20, one, two)
    assert after(life, 11).tolist() == [goal("two", goal("one", 0))] * 10


def test_the_past_tells_where_home_is(make_scenario: MakeScenario, tmp_path: Path) -> None:
    life = recorded(make_scenario, tmp_path, [0] * 6 + [9, 0, 0], {"kind": "relocate", "at_query": 2}, past_queries=6)
    assert life.test.cells.tolist() == [9, goal("relocate", 0), goal("relocate", 0)]


def test_who_is_chosen(stage: Build) -> None:
    def whom(**said: Any) -> set[str]:
        spec = {"kind": "new_places", "at_query": 10} | said
        lives = stage("favourites", spec, count=10, queries=20).lives
        base = stage("favourites", count=10, queries=20).lives
        moved = {user for user, life in lives.items() if life.shifts}
        assert all(same(lives[user], base[user]) for user in lives if user not in moved)
        return moved

    assert whom(users=["user-003", "user-007"]) == {"user-003", "user-007"}
    assert len(whom()) == 10
    assert len(whom(share=0.25)) == 2
    assert len(whom(share=0.01)) == 1
    assert whom(share=0.5) == whom(share=0.5)
    assert whom(share=0.5) != whom(share=0.5, name="others")


def test_one_user_more_hardly_changes_who_is_chosen(stage: Build) -> None:
    spec = {"kind": "relocate", "at_query": 2, "share": 0.3}
    chosen = [
        {user for user, life in stage("favourites", spec, count=count, queries=2).lives.items() if life.shifts}
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
        return Stage(Setting(make_scenario(users=users, shifts=[{"kind": "relocate"} | said], training={})), 0).lives

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
def test_a_shift_without_a_query_says_so(when: dict[str, Any], begins: str, stage: Build) -> None:
    with pytest.raises(InputError) as raised:
        _ = stage("replay", {"kind": "relocate", "for_days": 1e-6} | when).lives
    assert str(raised.value) == (
        f"shifts.relocate: it reaches nobody: it begins {begins} and lasts 1e-06 days, "
        "in which none of its users has a query; give it more `for_days`"
    )


def test_a_life_cut_short_keeps_what_lies_in_it(stage: Build) -> None:
    life = stage("favourites", {"kind": "holiday", "at_query": 31, "for_queries": 30}).lives["user-001"]
    assert life.first(60).shifts == (Shift("user-001", "holiday", 31),)
    assert life.first(60).borders == (31,)
    assert life.first(61).borders == (31, 61)
    assert life.first(0).shifts == ()


# ------------------------------------------------------------------------------------------------ when and how often


def test_days_count_from_the_beginning_of_the_test(stage: Build) -> None:
    spec = {"kind": "relocate", "at_day": 2.5, "for_days": 1}
    for life in stage("commuters", spec, queries=None, past_days=3, days=5).lives.values():
        begins, ends = life.shifts
        times_s = life.test.times_s
        assert times_s[begins.index - 2] < 5.5 * DAY_S <= times_s[begins.index - 1]
        assert times_s[ends.index - 2] < 6.5 * DAY_S <= times_s[ends.index - 1]
    with pytest.raises(InputError, match=r"it begins after 4\.\d* days, the longest test of its users ends after 0\.8"):
        _ = stage("replay", spec | {"at_day": 4.5}).lives


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_a_rate_changes_how_often_she_queries(factor: float, stage: Build) -> None:
    spec = {"kind": "rate", "at_query": 201, "factor": factor, "for_days": 4.0}
    base = stage("commuters", queries=1300).lives
    for user, life in stage("commuters", spec, queries=1300).lives.items():
        begins, ends = life.shifts
        assert begins.index == 201
        from_s = base[user].test.times_s[200]
        usual = np.sum((base[user].test.times_s >= from_s) & (base[user].test.times_s < from_s + 4 * DAY_S))
        assert ends.index - begins.index == pytest.approx(factor * usual, rel=0.25)
        rest = base[user].test.times_s[base[user].test.times_s >= from_s + 4 * DAY_S]
        n = min(len(rest), 1301 - ends.index)
        assert life.test.times_s[ends.index - 1 :][:n].tolist() == rest[:n].tolist()


def test_a_rate_of_a_recording_leaves_some_out(stage: Build) -> None:
    base = stage("replay").lives
    for user, life in stage("replay", {"kind": "rate", "at_query": AT, "factor": 0.3}).lives.items():
        recorded = set(zip(base[user].test.times_s.tolist(), base[user].test.cells.tolist(), strict=True))
        assert set(zip(life.test.times_s.tolist(), life.test.cells.tolist(), strict=True)) < recorded


@pytest.mark.parametrize("factor", [0.25, 3.0])
@pytest.mark.parametrize("length", [50, 150])
def test_a_rate_ends_when_it_would_without_another_one(length: int, factor: float, stage: Build) -> None:
    one = {"kind": "rate", "name": "one", "at_query": 20, "factor": 2.0, "for_queries": length}
    two = {"kind": "rate", "name": "two", "at_query": 30, "factor": factor, "for_queries": 50}
    alone = stage("commuters", one, queries=300).lives
    listed_later = stage("commuters", two, one).lives
    for user, life in stage("commuters", one, two).lives.items():
        assert same(life, listed_later[user])
        assert life.shifts == listed_later[user].shifts
        end_s = alone[user].test.times_s[20 + length - 1]
        assert [shift.index for shift in life.shifts if shift == (user, "one", shift.index, True)] == [
            life.test.times_s.searchsorted(end_s) + 1
        ] * bool(end_s <= life.test.times_s[-1])
        assert [shift.index for shift in life.shifts if shift.name == "two"] == [30, 80]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_rate_leaves_a_past_that_is_a_share_as_it_was(factor: float, stage: Build) -> None:
    said = {"past_share": 0.5, "queries": None}
    base = stage("replay", **said).lives
    for user, life in stage("replay", {"kind": "rate", "at_query": 20, "factor": factor}, **said).lives.items():
        assert same(life, base[user], 19)
        assert len(life.past) == QUERIES // 2
        assert life.shifts[0].index == 20
        assert life.test.times_s[-1] > base[user].test.times_s[40]


def test_a_rate_of_one_is_noted_but_no_border(stage: Build) -> None:
    move, rate = {"kind": "relocate", "at_query": AT}, {"kind": "rate", "at_query": AT + 1, "factor": 1.0}
    own, base = stage("favourites", move, rate), stage("favourites", move).lives
    for user, life in own.lives.items():
        assert same(life, base[user])
        assert [shift.name for shift in life.shifts] == ["relocate", "rate"]
        assert life.borders == (AT,)
    faster = stage("favourites", move, rate | {"factor": 2.0}).lives
    assert all(life.borders == (AT, AT + 1) for life in faster.values())


def test_closed_roads_turn_people_away(stage: Build) -> None:
    cells = [27, 28, 35, 36]
    spec = {"kind": "close_roads", "at_day": 0.3, "cells": cells}
    for who in ("taxis", "replay"):
        base, shifted = stage(who).lives, stage(who, spec).lives
        through = [
            sum(np.isin(after(lives[user], shifted[user].shifts[0].index), cells).sum() for user in lives)
            for lives in (base, shifted)
        ]
        assert through[1] < through[0]


def test_roads_open_again(stage: Build) -> None:
    spec = {"kind": "close_roads", "at_day": 0.2, "share": 0.5, "for_days": 0.3}
    base, shifted = stage("replay").lives, stage("replay", spec).lives
    for user, life in shifted.items():
        begins, ends = life.shifts
        assert ends.ends
        last = life.test.times_s.searchsorted(life.test.times_s[ends.index - 1] + 7200)
        assert life.test.cells[last:].tolist() == base[user].test.cells[last:].tolist()
        assert life.borders == (begins.index, ends.index)


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ({"users": ["user-01"]}, "shifts.adopt: `users`: no such user, found 'user-01' (did you mean 'user-001'?)"),
        ({"of": "eve"}, "shifts.adopt: `of`: no such user, found 'eve'; there are user-001, user-002, user-003"),
        ({"of": "user-002", "users": ["user-002"]}, "it concerns nobody but user-002, who has that life already"),
    ],
)
def test_unknown_users_are_named(said: dict[str, Any], expected: str, stage: Build) -> None:
    with pytest.raises(InputError) as raised:
        _ = stage("favourites", {"kind": "adopt", "at_query": 5} | said).lives
    assert expected in str(raised.value)


def test_what_cannot_be_is_refused(stage: Build) -> None:
    with pytest.raises(InputError, match=r"shifts\.adopt: to adopt the life of another user needs two users or more"):
        _ = stage("favourites", {"kind": "adopt", "at_query": 5}, count=1).lives
    with pytest.raises(InputError, match=r"shifts\.close_roads: `cells` must be below 64, found 64"):
        _ = stage("taxis", {"kind": "close_roads", "at_day": 0.1, "cells": [64]}).lives


# ------------------------------------------------------------------------------------------------ who knows


def test_statistics_in_force_are_counted_stretch_by_stretch(stage: Build) -> None:
    own = stage("favourites", {"kind": "holiday", "at_query": 31, "for_queries": 20, "users": ["user-002"]})
    assert own.regimes("user-001") == [(1, own.truth("user-001"))]
    found = own.regimes("user-002")
    assert [first for first, _ in found] == [1, 31, 51]
    cells = own.lives["user-002"].test.cells
    for (_, regime), (low, high) in zip(found, [(0, 30), (30, 50), (50, QUERIES)], strict=True):
        np.testing.assert_allclose(regime.profile, np.bincount(cells[low:high], minlength=64) / (high - low))
    assert own.regimes("user-002") is found
    whole = np.bincount(cells, minlength=64) / QUERIES
    np.testing.assert_allclose(own.truth("user-002").profile, whole)


@pytest.mark.parametrize(
    ("attack", "belief"),
    [
        ({"kind": "sporadic"}, InForce),
        ({"kind": "markov"}, InForce),
        ({"kind": "sporadic", "knows": "whole_test"}, FixedProfile),
        ({"kind": "markov", "knows": "whole_test"}, MarkovFilter),
        ({"kind": "sporadic-trained"}, FixedProfile),
    ],
)
def test_who_knows_what_is_in_force(attack: dict[str, Any], belief: type, make_scenario: MakeScenario) -> None:
    scenario = make_scenario(attacks=[attack], shifts=[{"kind": "relocate", "at_query": 9, "users": ["user-001"]}])
    stage = Stage(Setting(scenario), 0)
    spec = scenario.attacks[0]
    built = spec.build(scenario.attack_context(stage.setting.world, _known(spec, stage), _in_force(spec, stage)))
    assert isinstance(built, OptimalAttack)
    assert type(built._belief_of("user-001")) is belief
    assert not isinstance(built._belief_of("user-002"), InForce), "her life does not change"


def test_the_command_writes_the_shifted_traces(tmp_path: Path, write: Callable[..., Path]) -> None:
    path = write(shifts="[{kind: adopt, what: trace, at_query: 4}]")
    done("traces", path, "-o", tmp_path / "t.csv")
    found = pd.read_csv(tmp_path / "t.csv").groupby("user")["cell"].apply(list)
    done("traces", path, "--set", "shifts=[]", "-o", tmp_path / "u.csv")
    plain = pd.read_csv(tmp_path / "u.csv").groupby("user")["cell"].apply(list)
    assert found["user-001"] == plain["user-001"][:3] + plain["user-002"][3:]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(OF_PLACES), st.integers(2, 40), st.integers(1, 40) | st.none(), st.integers(0, 20)),
        min_size=1,
        max_size=3,
    )
)
def test_borders_and_rows_of_any_shifts(stage: Build, drawn: list[tuple[dict[str, Any], int, int | None, int]]) -> None:
    shifts = [
        spec
        | {"name": f"s{i}", "at_query": at, "over_queries": over}
        | ({} if length is None else {"for_queries": length})
        for i, (spec, at, length, over) in enumerate(drawn)
    ]
    own = stage("favourites", *shifts, queries=40)
    for user, life in own.lives.items():
        assert [shift.index for shift in life.shifts] == sorted(shift.index for shift in life.shifts)
        assert list(life.borders) == sorted(set(life.borders))
        assert {shift.index for shift in life.shifts} <= set(life.borders)
        assert all(2 <= border <= 40 for border in life.borders)
        assert [(shift.name, shift.index) for shift in sorted(life.shifts, key=lambda s: s.name) if not shift.ends] == [
            (spec["name"], spec["at_query"]) for spec in shifts
        ]
        assert sum(regime.n_visits for _, regime in own.regimes(user)) == 40


def examples() -> list[str]:
    page = (Path(__file__).parents[2] / "docs" / "shifts.md").read_text(encoding="utf-8")
    return [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if text.startswith("shifts:")]


@pytest.mark.parametrize("text", examples(), ids=lambda text: text.split("kind: ")[1].split(",")[0])
def test_the_examples_of_the_page_work(text: str, make_scenario: MakeScenario) -> None:
    shifts = parse_value(text.removeprefix("shifts:"), "docs/shifts.md")
    world = {"grid": {"kind": "rectangle", "rows": 10, "cols": 10, "width_km": 20.0, "height_km": 20.0}, "roads": ROADS}
    users = {"count": 3, "queries": 600, "mobility": {"kind": "favourites", "visits_per_day": 20.0}}
    lives = Stage(Setting(make_scenario(world=world, users=users, shifts=shifts, training={})), 0).lives
    found = {shift.name for life in lives.values() for shift in life.shifts}
    assert found == {spec.get("name", spec["kind"]) for spec in shifts}


def test_every_kind_has_an_example() -> None:
    assert {kind for text in examples() for kind in re.findall(r"kind: (\w+)", text)} == set(registry.kinds("shift"))
