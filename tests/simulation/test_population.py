"""Users of one replication: their lives, pasts and random streams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.simulation.recorded_users import FAVOURITES, counted, error_of, replay, trips
from tests.support import MakeScenario

DAY_S = 86_400


@pytest.mark.parametrize("restart", ["never", "daily"])
def test_true_statistics_equal_manual_counts_in_the_test(restart: str, make_scenario: MakeScenario) -> None:
    scenario = make_scenario(markov_restart=restart)
    population = Population(Setting(scenario), 0)
    for user in population.setting.users:
        truth, trace = population.truth(user), population.lives[user].test
        profile, transition = counted(trace, scenario.restart_s)
        np.testing.assert_allclose(truth.profile, profile, rtol=1e-12)
        np.testing.assert_allclose(truth.start_profile, profile, rtol=1e-12)
        np.testing.assert_allclose(truth.transition, transition, rtol=1e-12)


def test_replications_have_the_same_users_with_other_traces(make_scenario: MakeScenario) -> None:
    setting = Setting(make_scenario())
    one, again, other = Population(setting, 0), Population(setting, 0), Population(setting, 1)
    assert setting.users == ["user-001", "user-002", "user-003"]
    assert [len(trace) for trace in one.traces] == [25] * 3
    for user in setting.users:
        assert one.lives[user].test.cells.tolist() == again.lives[user].test.cells.tolist()
        assert one.lives[user].test.cells.tolist() != other.lives[user].test.cells.tolist()


def test_the_past_is_the_beginning_of_the_same_life(make_scenario: MakeScenario) -> None:
    """Ten queries of past and fifteen of test are the twenty-five of a user without a past."""
    whole = Population(Setting(make_scenario()), 0)
    users = {"count": 3, "queries": 15, "past_queries": 10, "mobility": FAVOURITES}
    divided = Population(Setting(make_scenario(users=users)), 0)
    for user, life in divided.lives.items():
        assert (len(life.past), len(life.test)) == (10, 15)
        assert [*life.past.cells, *life.test.cells] == whole.lives[user].test.cells.tolist()
        assert [*life.past.times_s, *life.test.times_s] == whole.lives[user].test.times_s.tolist()


def test_the_test_starts_after_the_past_days(make_scenario: MakeScenario) -> None:
    users = {"count": 3, "days": 3, "past_days": 2.5, "mobility": FAVOURITES}
    for life in Population(Setting(make_scenario(users=users)), 0).lives.values():
        assert life.past.times_s.max() < 2.5 * DAY_S <= life.test.times_s.min()
        assert 4 * DAY_S < life.test.times_s.max() < 5.5 * DAY_S


def test_a_user_without_test_queries_is_reported(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": list("aaab"), "time": range(4), "cell": range(4)}) | {"past_queries": 2}
    population = Population(Setting(make_scenario(users=users, training={})), 0)
    error = error_of(lambda: population.lives)
    assert (error.code, str(error).split()[:2]) == ("no-queries", ["users:", "b"])


def test_days_count_from_the_first_day_of_each_user(make_scenario: MakeScenario, tmp_path: Path) -> None:
    times = [day * 86_400 + 5 for day in (0, 1, 2, 3, 7, 8, 9, 10)]
    users = replay(tmp_path, {"user": list("aaaabbbb"), "time": times, "cell": range(8)}) | {"past_days": 2, "days": 1}
    lives = Population(Setting(make_scenario(users=users)), 0).lives
    assert {user: (life.past.cells.tolist(), life.test.cells.tolist()) for user, life in lives.items()} == {
        "a": ([0, 1], [2]),
        "b": ([4, 5], [6]),
    }


@pytest.mark.parametrize(
    "changes",
    [{"demand": "periodic"}, {"demand": "poisson"}, {"days": 1}, {"past_days": 1}, {"markov_restart": "daily"}],
)
def test_a_file_without_times_excludes_durations(
    changes: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    users = replay(tmp_path, {"user": list("aaaa"), "order": range(4), "cell": range(4)})
    assert len(Population(Setting(make_scenario(users=users, training={})), 0).lives["a"].test) == 4
    restart = {"markov_restart": changes.pop("markov_restart")} if "markov_restart" in changes else {}
    setting = Setting(make_scenario(users=users | changes, training={}, **restart))
    assert error_of(lambda: setting.users).code == "times-missing"


def test_a_demand_with_too_many_queries_is_refused(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.mobility.traces.LONGEST", 1000)
    users = replay(tmp_path, {"user": ["a", "a"], "time": [0, 10**9], "cell": [0, 1]}, max_gap_s=10**9)
    users |= {"demand": {"kind": "periodic", "period_s": 1}}
    population = Population(Setting(make_scenario(users=users, training={})), 0)
    message = str(error_of(lambda: population.lives))
    assert message.startswith("users: a ")
    assert "1,000" in message


def test_queries_added_by_a_shift_are_not_in_gaps(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, trips([0, 3]))
    shift = {"kind": "rate", "name": "busy", "factor": 10, "at_query": 2}
    setting = Setting(make_scenario(users=users, training={}, shifts=[shift]))
    times_s = Population(setting, 0).lives["a"].test.times_s % 86_400
    assert times_s.size > 5 * 180
    assert times_s.max() <= 28_800 + 90 * 60
    assert setting.readings()["users"]["gaps"] == 1


def test_a_user_with_queries_only_in_gaps_is_reported_with_a_remedy(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    table = {"user": list("aaaa"), "time": [0, 10_000, 20_000, 30_000], "cell": range(4)}
    demand = {"demand": {"kind": "poisson", "per_hour": 60}}
    population = Population(Setting(make_scenario(users=replay(tmp_path, table) | demand, training={})), 0)
    error = error_of(lambda: population.lives)
    assert (error.code, str(error).split()[:2]) == ("no-queries", ["users:", "a"])
    assert "3 gaps of over 7200 s" in str(error)
    assert "`max_gap_s`" in str(error)
    assert Population(
        Setting(make_scenario(users=replay(tmp_path, table, max_gap_s=10_000) | demand, training={})), 0
    ).lives
    others = {"kind": "others", "mobility": replay(tmp_path, table)["mobility"]} | demand
    population = Population(Setting(make_scenario(training={"t": others})), 0)
    error = error_of(lambda: population.knowledge("t"))
    assert error.code == "no-queries"
    assert "3 gaps of over 7200 s" in str(error)


def test_days_of_a_recorded_past_count_from_its_first_day(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """Not from 1970: the first day of a past may be day 14,000."""
    times = [(14_000 + day) * 86_400 + 5 for day in range(6)]
    users = replay(tmp_path, {"user": ["a"] * 6, "time": times, "cell": range(6)}) | {"past_days": 4}
    sets = {"two": {"kind": "own_past", "days": 2}, "half": {"kind": "own_past", "days": 0.5}, "all": "own_past"}
    population = Population(Setting(make_scenario(users=users, training=sets)), 0)
    assert {name: population.knowledge(name)("a").n_visits for name in sets} == {"two": 2, "half": 1, "all": 4}
    np.testing.assert_allclose(population.knowledge("two")("a").profile[:4], [0.5, 0.5, 0, 0])


def test_custom_mobility_must_stay_on_the_grid_and_move_forward_in_time(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    (tmp_path / "astray.py").write_text(
        "from sim.events import Visit\n"
        "class Astray:\n"
        "    def __init__(self, *, world, seed, cell=0, step=1): self.cell, self.step = cell, step\n"
        "    def users(self, count): return ['a']\n"
        "    def visits(self, user, rng): yield from (Visit(self.step * i, self.cell) for i in range(9))\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(tmp_path))
        patch.setenv("LPPM_SIM_ALLOW_CODE", "1")
        for settings, expected in (
            ({"cell": 20}, "users: cells of a must be in [0, 20), got 20 to 20"),
            ({"step": -1}, "users: times_s must not decrease, got 0 then -1"),
        ):
            users = {"queries": 3, "mobility": {"kind": "astray:Astray"} | settings}
            population = Population(Setting(make_scenario(users=users, training={})), 0)
            error = error_of(lambda population=population: population.lives)  # type: ignore[misc]
            assert str(error) == expected


def test_a_share_of_each_recorded_trace_is_the_past(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = {"user": list("aaaaabb"), "order": range(7), "cell": range(7)}
    users = replay(tmp_path, table) | {"past_share": 0.5}
    lives = Population(Setting(make_scenario(users=users, training={"p": "own_past"})), 0).lives
    assert {user: (life.past.cells.tolist(), life.test.cells.tolist()) for user, life in lives.items()} == {
        "a": ([0, 1], [2, 3, 4]),
        "b": ([5], [6]),
    }
    shorter = Population(Setting(make_scenario(users=users | {"queries": 1})), 0).lives
    assert shorter["a"].test.cells.tolist() == [2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"past_share": 0.5, "past_queries": 2},
        {"past_share": 0.5, "days": 2.0},
        {"past_share": 0.5, "queries": 5, "mobility": "favourites"},
        {"past_share": 1.0},
    ],
)
def test_past_share_needs_recorded_traces(wrong: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": list("aa"), "order": range(2), "cell": range(2)}) | wrong
    with pytest.raises(ValueError, match="past_share"):
        make_scenario(users=users)


def test_users_and_replications_have_separate_random_streams(make_scenario: MakeScenario) -> None:
    """All users of a Markov chain have the same distribution and differ only in their streams."""
    users = {"count": 2, "queries": 40, "mobility": "markov"}
    poisson = users | {"demand": {"kind": "poisson", "per_hour": 5}}
    moving, asking = (Setting(make_scenario(users=settings)) for settings in (users, poisson))
    moves, moments = (
        [Population(setting, replication).lives[user].test for replication in (0, 1) for user in setting.users]
        for setting in (moving, asking)
    )
    assert len({tuple(trace.cells.tolist()) for trace in moves}) == 4
    assert len({tuple(trace.times_s.tolist()) for trace in moments}) == 4
