"""Query rates in whole lives."""

from __future__ import annotations

import numpy as np
import pytest

from sim.mobility.traces import DAY_S
from tests.simulation.shifts.lives import (
    AT,
    QUERIES,
    Build,
    same,
)


@pytest.mark.parametrize("factor", [0.25, 3.0])
def test_a_rate_changes_the_number_of_queries(factor: float, population: Build) -> None:
    spec = {"kind": "rate", "at_query": 201, "factor": factor, "for_days": 4.0}
    base = population("commuters", queries=1300).lives
    for user, life in population("commuters", spec, queries=1300).lives.items():
        begins, ends = life.shifts
        assert begins.index == 201
        from_s = base[user].test.times_s[200]
        usual = np.sum((base[user].test.times_s >= from_s) & (base[user].test.times_s < from_s + 4 * DAY_S))
        assert ends.index - begins.index == pytest.approx(factor * usual, rel=0.25)
        rest = base[user].test.times_s[base[user].test.times_s >= from_s + 4 * DAY_S]
        n = min(len(rest), 1301 - ends.index)
        assert life.test.times_s[ends.index - 1 :][:n].tolist() == rest[:n].tolist()


def test_a_lower_rate_of_a_recording_omits_queries(population: Build) -> None:
    base = population("replay").lives
    for user, life in population("replay", {"kind": "rate", "at_query": AT, "factor": 0.3}).lives.items():
        recorded = set(zip(base[user].test.times_s.tolist(), base[user].test.cells.tolist(), strict=True))
        assert set(zip(life.test.times_s.tolist(), life.test.cells.tolist(), strict=True)) < recorded


@pytest.mark.parametrize("factor", [0.25, 3.0])
@pytest.mark.parametrize("length", [50, 150])
def test_the_end_of_a_rate_does_not_depend_on_another_rate(length: int, factor: float, population: Build) -> None:
    one = {"kind": "rate", "name": "one", "at_query": 20, "factor": 2.0, "for_queries": length}
    two = {"kind": "rate", "name": "two", "at_query": 30, "factor": factor, "for_queries": 50}
    alone = population("commuters", one, queries=300).lives
    listed_later = population("commuters", two, one).lives
    for user, life in population("commuters", one, two).lives.items():
        assert same(life, listed_later[user])
        assert life.shifts == listed_later[user].shifts
        end_s = alone[user].test.times_s[20 + length - 1]
        assert [shift.index for shift in life.shifts if shift == (user, "one", shift.index, True)] == [
            life.test.times_s.searchsorted(end_s) + 1
        ] * bool(end_s <= life.test.times_s[-1])
        assert [shift.index for shift in life.shifts if shift.name == "two"] == [30, 80]


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_rate_does_not_change_a_past_share(factor: float, population: Build) -> None:
    settings = {"past_share": 0.5, "queries": None}
    base = population("replay", **settings).lives
    for user, life in population(
        "replay", {"kind": "rate", "at_query": 20, "factor": factor}, **settings
    ).lives.items():
        assert same(life, base[user], 19)
        assert len(life.past) == QUERIES // 2
        assert life.shifts[0].index == 20
        assert life.test.times_s[-1] > base[user].test.times_s[40]


def test_a_rate_of_one_is_recorded_without_a_border(population: Build) -> None:
    move, rate = {"kind": "relocate", "at_query": AT}, {"kind": "rate", "at_query": AT + 1, "factor": 1.0}
    own, base = population("favourites", move, rate), population("favourites", move).lives
    for user, life in own.lives.items():
        assert same(life, base[user])
        assert [shift.name for shift in life.shifts] == ["relocate", "rate"]
        assert life.borders == (AT,)
    faster = population("favourites", move, rate | {"factor": 2.0}).lives
    assert all(life.borders == (AT, AT + 1) for life in faster.values())
