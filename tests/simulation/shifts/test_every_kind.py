"""Every kind of shift, for recorded and synthetic users, compared with the same lives without it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sim.components.registry import registry
from sim.events import Shift
from sim.mobility.traces import DAY_S
from sim.scenario.reading.source import parse_value
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.simulation.shifts.lives import (
    ALL,
    AT,
    OF_PLACES,
    ROADS,
    SYNTHETIC,
    Build,
    after,
    named,
    same,
)
from tests.support import MakeScenario, done


@pytest.mark.parametrize("who", ["replay", *SYNTHETIC])
@pytest.mark.parametrize("spec", ALL, ids=named)
def test_a_life_changes_only_after_the_shift(who: str, spec: dict[str, Any], population: Build) -> None:
    base, shifted = population(who, past_queries=5).lives, population(who, spec, past_queries=5).lives
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
            assert life.test.times_s.tolist() == base[user].test.times_s.tolist(), "times do not change"
    # Users who move rarely, query hours apart or always use the same few roads may not be affected.
    assert changed == 3 or (
        who not in {"replay", "taxis"} and spec["kind"] in {"new_places", "close_roads", "reverse_roads"}
    )
    assert changed or who in {"favourites", "markov", "commuters"}


@pytest.mark.parametrize("who", ["replay", "commuters"])
@pytest.mark.parametrize("spec", ALL, ids=named)
def test_the_same_seed_gives_the_same_life(who: str, spec: dict[str, Any], population: Build) -> None:
    one, two = (population(who, spec).lives for _ in range(2))
    assert all(same(one[user], two[user]) and one[user].shifts == two[user].shifts for user in one)
    if spec["kind"] in {"relocate", "holiday"}:
        other = (
            population(who, spec, seed=4).lives if who != "replay" else population(who, spec | {"name": "other"}).lives
        )
        assert not all(same(one[user], other[user]) for user in one)


def test_shifts_follow_each_other(population: Build) -> None:
    home = {"kind": "relocate", "at_query": 31}
    job = {"kind": "relocate", "name": "job", "what": "work", "at_query": 61}
    leave = {"kind": "holiday", "at_query": 91, "for_queries": 10}
    for who in ("replay", "commuters"):
        both, first = population(who, home, job, leave).lives, population(who, home).lives
        for user, life in both.items():
            names = ["relocate", "job", "holiday", "holiday"]
            assert [shift.name for shift in life.shifts] == names
            assert life.borders == (31, 61, 91, 101)
            assert same(life, first[user], 60)
            assert not same(life, first[user], 90)


@pytest.mark.parametrize("who", ["replay", "favourites", "commuters"])
def test_shifts_apply_in_the_order_of_their_starts(who: str, population: Build) -> None:
    leave = {"kind": "holiday", "at_query": AT, "for_queries": 20}
    move = {"kind": "relocate", "at_query": 40}
    one, two = population(who, move, leave).lives, population(who, leave, move).lives
    moved = population(who, move).lives
    for user, life in two.items():
        assert same(life, one[user])
        assert life.shifts == one[user].shifts
        assert not same(life, moved[user]), "a holiday from the new home"
        assert after(life, AT + 20).tolist() == after(moved[user], AT + 20).tolist()


def test_a_shortened_life_has_the_shifts_within_it(population: Build) -> None:
    life = population("favourites", {"kind": "holiday", "at_query": 31, "for_queries": 30}).lives["user-001"]
    assert life.first(60).shifts == (Shift("user-001", "holiday", 31),)
    assert life.first(60).borders == (31,)
    assert life.first(61).borders == (31, 61)
    assert life.first(0).shifts == ()


def test_the_command_writes_the_shifted_traces(tmp_path: Path, write: Callable[..., Path]) -> None:
    path = write(shifts="[{kind: adopt, what: trace, at_query: 4}]")
    done("traces", path, "-o", tmp_path / "t.csv")
    shifted = pd.read_csv(tmp_path / "t.csv").groupby("user")["cell"].apply(list)
    done("traces", path, "--set", "shifts=[]", "-o", tmp_path / "u.csv")
    plain = pd.read_csv(tmp_path / "u.csv").groupby("user")["cell"].apply(list)
    assert shifted["user-001"] == plain["user-001"][:3] + plain["user-002"][3:]


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(OF_PLACES), st.integers(2, 40), st.integers(1, 40) | st.none(), st.integers(0, 20)),
        min_size=1,
        max_size=3,
    )
)
def test_borders_and_rows_of_any_shifts(
    population: Build, drawn: list[tuple[dict[str, Any], int, int | None, int]]
) -> None:
    shifts = [
        spec
        | {"name": f"s{i}", "at_query": at, "over_queries": over}
        | ({} if length is None else {"for_queries": length})
        for i, (spec, at, length, over) in enumerate(drawn)
    ]
    own = population("favourites", *shifts, queries=40)
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
    page = (Path(__file__).parents[3] / "docs" / "background" / "behaviour_shifts.md").read_text(encoding="utf-8")
    return [text for text in re.findall(r"```yaml\n(.*?)```", page, re.DOTALL) if text.startswith("shifts:")]


@pytest.mark.parametrize("text", examples(), ids=lambda text: text.split("kind: ")[1].split(",")[0])
def test_the_examples_of_the_documentation_work(text: str, make_scenario: MakeScenario) -> None:
    shifts = parse_value(text.removeprefix("shifts:"), "docs/background/behaviour_shifts.md")
    world = {"grid": {"kind": "rectangle", "rows": 10, "cols": 10, "width_km": 20.0, "height_km": 20.0}, "roads": ROADS}
    users = {"count": 3, "queries": 600, "mobility": {"kind": "favourites", "visits_per_day": 20.0}}
    lives = Population(Setting(make_scenario(world=world, users=users, shifts=shifts, training={})), 0).lives
    names = {shift.name for life in lives.values() for shift in life.shifts}
    assert names == {spec.get("name", spec["kind"]) for spec in shifts}


def test_every_kind_has_an_example() -> None:
    assert {kind for text in examples() for kind in re.findall(r"kind: (\w+)", text)} == set(registry.kinds("shift"))
