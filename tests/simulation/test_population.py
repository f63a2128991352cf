"""The people of a replication: who they are trained on, what is known of them, and that past and test are apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sim.analysis import narrative as sentences
from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.mobility.traces import Life, Trace, live
from sim.simulation import population, setting
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.support import MakeScenario

DAY_S = 86_400
N_CELLS = 20
FAVOURITES = {"kind": "favourites", "places": 4}


def counted(trace: Trace, restart_s: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Count a trace by hand: its profile, and its transitions with the profile in the rows without data."""
    profile = np.zeros(N_CELLS)
    pairs = np.zeros((N_CELLS, N_CELLS))
    for cell in trace.cells:
        profile[cell] += 1 / len(trace)
    for i in range(len(trace) - 1):
        if restart_s is None or trace.times_s[i] // restart_s == trace.times_s[i + 1] // restart_s:
            pairs[trace.cells[i], trace.cells[i + 1]] += 1
    transition = np.array([row / row.sum() if row.sum() else profile for row in pairs])
    return profile, transition


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Life]]:
    """Return a list in which everybody who lives leaves her name and her life."""
    seen: list[tuple[str, Life]] = []

    def spy(mobility: Any, demand: Any, user: str, **rest: Any) -> Life:
        life = live(mobility, demand, user, **rest)
        seen.append((user, life))
        return life

    for module in (population, setting):
        monkeypatch.setattr(module, "live", spy)
    return seen


# ------------------------------------------------------------------------------------------------ test


@pytest.mark.parametrize("restart", ["never", "daily"])
def test_the_truth_is_what_one_counts_in_the_test_by_hand(restart: str, make_scenario: MakeScenario) -> None:
    scenario = make_scenario(markov_restart=restart)
    population = Population(Setting(scenario), 0)
    for user in population.setting.users:
        truth, trace = population.truth(user), population.lives[user].test
        profile, transition = counted(trace, scenario.restart_s)
        np.testing.assert_allclose(truth.profile, profile, rtol=1e-12)
        np.testing.assert_allclose(truth.start_profile, profile, rtol=1e-12)
        np.testing.assert_allclose(truth.transition, transition, rtol=1e-12)


def test_every_replication_has_the_same_people_on_other_ways(make_scenario: MakeScenario) -> None:
    setting = Setting(make_scenario())
    one, again, other = Population(setting, 0), Population(setting, 0), Population(setting, 1)
    assert setting.users == ["user-001", "user-002", "user-003"]
    assert [len(trace) for trace in one.traces] == [25] * 3
    for user in setting.users:
        assert one.lives[user].test.cells.tolist() == again.lives[user].test.cells.tolist()
        assert one.lives[user].test.cells.tolist() != other.lives[user].test.cells.tolist()


def test_the_past_is_cut_off_the_same_life(make_scenario: MakeScenario) -> None:
    """Ten queries of past and fifteen of test are the twenty-five of a user without a past."""
    whole = Population(Setting(make_scenario()), 0)
    users = {"count": 3, "queries": 15, "past_queries": 10, "mobility": FAVOURITES}
    parted = Population(Setting(make_scenario(users=users)), 0)
    for user, life in parted.lives.items():
        assert (len(life.past), len(life.test)) == (10, 15)
        assert [*life.past.cells, *life.test.cells] == whole.lives[user].test.cells.tolist()
        assert [*life.past.times_s, *life.test.times_s] == whole.lives[user].test.times_s.tolist()


def test_past_days_end_where_the_days_of_the_test_begin(make_scenario: MakeScenario) -> None:
    users = {"count": 3, "days": 3, "past_days": 2.5, "mobility": FAVOURITES}
    for life in Population(Setting(make_scenario(users=users)), 0).lives.values():
        assert life.past.times_s.max() < 2.5 * DAY_S <= life.test.times_s.min()
        assert 4 * DAY_S < life.test.times_s.max() < 5.5 * DAY_S


# ------------------------------------------------------------------------------------------------ training


def test_others_are_the_same_in_every_replication_and_as_many_as_said(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = spied(monkeypatch)
    scenario = make_scenario(training={"crowd": {"kind": "others", "count": 8, "queries": 30}})
    setting = Setting(scenario)
    first = Population(setting, 0).knowledge("crowd")("user-001")
    assert Population(setting, 1).knowledge("crowd")("user-002") is first, "counted once, shared by all"
    assert first.n_visits == 8 * 30
    assert [user for user, _ in seen] == [f"crowd/user-{i:03d}" for i in range(1, 9)]
    cells = np.concatenate([life.test.cells for _, life in seen])
    np.testing.assert_allclose(first.profile, np.bincount(cells, minlength=N_CELLS) / 240)
    apart = Population(Setting(scenario), 5).knowledge("crowd")("user-001")
    assert apart.profile.tolist() == first.profile.tolist()


def test_strangers_are_not_the_test_users_under_another_name(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = spied(monkeypatch)
    sets = {"a": {"kind": "others", "count": 3}, "b": {"kind": "others", "count": 3}}
    population = Population(Setting(make_scenario(training=sets)), 0)
    for name in sets:
        population.knowledge(name)
    assert population.lives
    assert len(seen) == 9
    ways = {tuple(life.test.cells) for _, life in seen}
    assert len(ways) == 9
    mobility: Any = population.setting.mobility
    assert len({tuple(mobility.profile(user)) for user, _ in seen}) == 9, "they also like other places"


@pytest.mark.parametrize(
    ("said", "length"),
    [({}, 25), ({"queries": 7}, 7), ({"count": 2}, 25), ({"demand": "poisson", "queries": 4}, 4)],
)
def test_others_live_as_the_users_unless_said(said: dict[str, Any], length: int, make_scenario: MakeScenario) -> None:
    population = Population(Setting(make_scenario(training={"t": {"kind": "others"} | said})), 0)
    assert population.knowledge("t")("user-001").n_visits == said.get("count", 10) * length


def test_others_may_move_in_their_own_way(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spied(monkeypatch)
    others = {"kind": "others", "count": 2, "mobility": {"kind": "markov", "step_s": 500}, "days": 0.5}
    population = Population(Setting(make_scenario(training={"t": others})), 0)
    population.knowledge("t")
    assert [np.unique(np.diff(life.test.times_s)).tolist() for _, life in seen] == [[500], [500]]
    assert [life.test.times_s[-1] for _, life in seen] == [43_000] * 2


@pytest.mark.parametrize(
    ("said", "length"), [({}, 40), ({"queries": 12}, 12), ({"days": 0.05}, 9), ({"days": 0.05, "queries": 5}, 5)]
)
@pytest.mark.parametrize("kind", ["own_past", "other_user"])
def test_the_past_is_counted_from_its_beginning(
    kind: str, said: dict[str, Any], length: int, make_scenario: MakeScenario
) -> None:
    # One query each 500 s: 0.05 days are 4,320 s and hold those at 0, 500 ... 4,000.
    users = {"count": 3, "queries": 10, "past_queries": 40, "mobility": {"kind": "markov", "step_s": 500}}
    population = Population(Setting(make_scenario(users=users, training={"past": {"kind": kind} | said})), 0)
    whose = {"user-001": "user-002", "user-002": "user-003", "user-003": "user-001"}
    for user in population.setting.users:
        known = population.knowledge("past")(user)
        past = population.lives[user if kind == "own_past" else whose[user]].past
        profile, transition = counted(past.part(0, length))
        assert known.n_visits == length
        np.testing.assert_allclose(known.profile, profile, rtol=1e-12)
        np.testing.assert_allclose(known.transition, transition, rtol=1e-12)


def test_the_past_is_another_one_in_each_replication(make_scenario: MakeScenario) -> None:
    users = {"count": 2, "queries": 10, "past_queries": 40, "mobility": FAVOURITES}
    setting = Setting(make_scenario(users=users, training={"past": "own_past"}))
    one, two = (Population(setting, replication).knowledge("past")("user-001") for replication in (0, 1))
    assert one.profile.tolist() != two.profile.tolist()


def test_nothing_is_uniform(make_scenario: MakeScenario) -> None:
    for training, name in (({"none": "nothing"}, "none"), ({"none": "nothing"}, None), ({}, None)):
        known = Population(Setting(make_scenario(training=training)), 0).knowledge(name)("user-001")
        assert known.profile.tolist() == [1 / N_CELLS] * N_CELLS
        assert (known.transition == 1 / N_CELLS).all()


def test_a_bound_is_trained_on_the_test_itself(make_scenario: MakeScenario) -> None:
    population = Population(Setting(make_scenario(training={"past": "nothing", "truth": "own_test"})), 0)
    for user, life in population.lives.items():
        profile, transition = counted(life.test)
        known = population.knowledge("truth")(user)
        assert known.profile == pytest.approx(profile)
        assert known.transition == pytest.approx(transition)


def test_the_first_training_set_is_meant_unless_said(make_scenario: MakeScenario) -> None:
    sets = {"z": {"kind": "others", "count": 2}, "a": {"kind": "nothing"}}
    population = Population(Setting(make_scenario(training=sets)), 0)
    assert population.knowledge(None)("user-001") is population.knowledge("z")("user-001")


def test_what_is_known_is_counted_once_and_shared(make_scenario: MakeScenario) -> None:
    users = {"count": 2, "queries": 10, "past_queries": 10, "mobility": FAVOURITES}
    sets = {"crowd": {"kind": "others"}, "own": {"kind": "own_past"}, "next": {"kind": "other_user"}, "none": "nothing"}
    population = Population(Setting(make_scenario(users=users, training=sets)), 0)
    know = {name: population.knowledge(name) for name in sets}
    assert know["crowd"]("user-001") is know["crowd"]("user-002")
    assert know["none"]("user-001") is know["none"]("user-002")
    assert know["own"]("user-001") is population.knowledge("own")("user-001")
    assert know["own"]("user-001") is not know["own"]("user-002")
    assert know["next"]("user-001") is know["own"]("user-002")
    assert population.truth("user-001") is population.truth("user-001")
    assert not know["own"]("user-001").profile.flags.writeable


# ------------------------------------------------------------------------------------------------ replays and refusals


def replay(tmp_path: Path, table: dict[str, Any], **said: Any) -> dict[str, Any]:
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    return {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")} | said}


def test_a_replay_is_trained_on_other_people_of_the_file(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = {"user": list("abc") * 4, "time": range(12), "cell": [0, 1, 2] * 4}
    users = replay(tmp_path, table, select={"users": ["a"]})
    others = {"kind": "others", "mobility": users["mobility"] | {"select": {"exclude": {"users": ["a"]}}}}
    population = Population(Setting(make_scenario(users=users, training={"t": others})), 0)
    assert population.setting.users == ["a"]
    assert population.truth("a").profile[:3].tolist() == [1, 0, 0]
    assert population.knowledge("t")("a").profile[:3].tolist() == [0, 0.5, 0.5]


def message(make: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as raised:
        make()
    return str(raised.value)


def test_a_user_without_a_test_is_named(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": list("aaab"), "time": range(4), "cell": range(4)}) | {"past_queries": 2}
    population = Population(Setting(make_scenario(users=users, training={})), 0)
    assert message(lambda: population.lives) == "users: b never queries in the test; in her past she does 1 times"


def test_a_user_without_a_past_is_not_trained_on_nothing_in_silence(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    table = {"user": list("aaab"), "time": [80_000, 90_000, 180_000, 100_000], "cell": range(4)}
    users = replay(tmp_path, table) | {"past_days": 2}
    know = Population(
        Setting(make_scenario(users=users, training={"p": {"kind": "own_past", "days": 0.5}})), 0
    ).knowledge("p")
    assert message(lambda: know("b")).startswith("users: b never queries in the test")
    table = {"user": list("aab"), "time": [80_000, 180_000, 100_000], "cell": range(3)}
    users = replay(tmp_path, table) | {"past_days": 1, "count": 1}
    know = Population(
        Setting(make_scenario(users=users, training={"p": {"kind": "own_past", "days": 0.5}})), 0
    ).knowledge("p")
    assert message(lambda: know("a")).startswith("training: a has no past to learn from")


def test_days_count_from_each_users_own_first_day(make_scenario: MakeScenario, tmp_path: Path) -> None:
    times = [day * 86_400 + 5 for day in (0, 1, 2, 3, 7, 8, 9, 10)]
    users = replay(tmp_path, {"user": list("aaaabbbb"), "time": times, "cell": range(8)}) | {"past_days": 2, "days": 1}
    lives = Population(Setting(make_scenario(users=users)), 0).lives
    assert {user: (life.past.cells.tolist(), life.test.cells.tolist()) for user, life in lives.items()} == {
        "a": ([0, 1], [2]),
        "b": ([4, 5], [6]),
    }


def test_others_who_never_query_are_not_trained_on_in_silence(make_scenario: MakeScenario) -> None:
    others = {"kind": "others", "count": 4, "days": 1e-6}
    population = Population(Setting(make_scenario(training={"t": others})), 0)
    assert message(lambda: population.knowledge("t")).startswith("training.t: none of these 4 people ever queries")


def test_the_only_user_has_no_other_user(make_scenario: MakeScenario) -> None:
    users = {"count": 1, "queries": 5, "past_queries": 5, "mobility": FAVOURITES}
    population = Population(Setting(make_scenario(users=users, training={"p": "other_user"})), 0)
    assert message(lambda: population.knowledge("p")) == (
        "training.p: the past of another user needs two users or more, found one"
    )


@pytest.mark.parametrize(
    "changes",
    [{"demand": "periodic"}, {"demand": "poisson"}, {"days": 1}, {"past_days": 1}, {"markov_restart": "daily"}],
)
def test_seconds_are_not_counted_in_a_file_without_times(
    changes: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    users = replay(tmp_path, {"user": list("aaaa"), "order": range(4), "cell": range(4)})
    assert len(Population(Setting(make_scenario(users=users, training={})), 0).lives["a"].test) == 4
    restart = {"markov_restart": changes.pop("markov_restart")} if "markov_restart" in changes else {}
    setting = Setting(make_scenario(users=users | changes, training={}, **restart))
    assert "the trace file tells the order of visits but no times" in message(lambda: setting.users)


def test_a_demand_that_never_ends_is_stopped(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.mobility.traces.LONGEST", 1000)
    users = replay(tmp_path, {"user": ["a", "a"], "time": [0, 10**9], "cell": [0, 1]}, max_gap_s=10**9)
    users |= {"demand": {"kind": "periodic", "period_s": 1}}
    population = Population(Setting(make_scenario(users=users, training={})), 0)
    assert message(lambda: population.lives).startswith("users: a queries more than 1,000 times")


def trips(days: Sequence[int], user: str = "a", minutes: int = 90) -> dict[str, list[Any]]:
    """Return rows as in Geolife: on each of these days a trip with a row a minute, and nothing in between."""
    times = [day * 86_400 + 28_800 + minute * 60 for day in days for minute in range(minutes)]
    return {"user": [user] * len(times), "time": times, "cell": [number % 20 for number in range(len(times))]}


def both(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: one[name] + other[name] for name in one}


COVERAGE = ("queries_recorded", "queries_carried", "queries_cut", "gaps")


def coverage(reading: dict[str, int]) -> list[int]:
    return [reading[name] for name in COVERAGE]


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"queries": 40},
        {"days": 3},
        {"past_queries": 3},
        {"past_queries": 3, "queries": 7},
        {"past_days": 2, "queries": 7},
        {"past_days": 2, "days": 4},
        {"past_share": 0.5},
        {"past_share": 0.5, "queries": 3},
    ],
)
@pytest.mark.parametrize("period_s", [60, 300, 1800])
def test_queries_in_the_past_and_the_test_are_counted_as_they_are_asked(
    limits: dict[str, Any], period_s: int, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    table = both(trips([0, 3, 4, 11]), trips([7, 7, 9], "b", minutes=40))
    users = replay(tmp_path, table) | {"demand": {"kind": "periodic", "period_s": period_s}} | limits
    setting = Setting(make_scenario(users=users, training={}))
    lives = Population(setting, 0).lives.values()
    recorded, carried, cut, gaps = coverage(setting.readings()["users"])
    assert recorded + carried == sum(len(life.past) + len(life.test) for life in lives)
    uncut = replay(tmp_path, table, max_gap_s=10**9) | {"demand": users["demand"]}
    whole = Population(Setting(make_scenario(users=uncut, training={})), 0).lives
    last = {life.test.user: life.test.times_s[-1] for life in lives}
    possible = sum((life.test.times_s <= last[user]).sum() for user, life in whole.items())
    assert cut == possible - recorded - carried
    assert (gaps > 0) == (cut > 0)


def test_a_carried_position_is_counted(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": ["a"] * 3, "time": [0, 3600, 86_400], "cell": [0, 1, 2]}) | {"demand": "periodic"}
    setting = Setting(make_scenario(users=users, training={}))
    assert coverage(setting.readings()["users"]) == [3, 11, 275, 1]
    assert sentences.left_out(setting.readings()) == [
        "users: 11 of 14 queries (79 %) fall between recorded visits and repeat the last position",
        "users: 14 queries are made while positions are recorded; 275 are cut in 1 gap of over 2 h between visits "
        "(max_gap_s)",
    ]


def test_other_people_are_cut_and_counted_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = both(trips([0, 3]), trips([7, 9], "b"))
    users = replay(tmp_path, table, select={"users": ["a"]}) | {"queries": 5}
    mobility = users["mobility"] | {"select": {"users": ["b"]}, "max_gap_s": 90_000}
    sets = {
        "own file": {"kind": "others", "mobility": mobility, "demand": "periodic"},
        "as users": {"kind": "others", "demand": "periodic"},
        "short": {"kind": "others", "mobility": mobility, "demand": "periodic", "queries": 20},
    }
    setting = Setting(make_scenario(users=users, training=sets))
    found = setting.readings()
    assert "gaps" not in found["users"], "every visit is a query, nothing is carried or cut"
    assert coverage(found["training.own file"]) == [36, 0, 558, 1]
    assert coverage(found["training.as users"]) == [5, 0, 0, 0]
    assert "rows" not in found["training.as users"], "the file is that of the users, which is told of there"
    assert coverage(found["training.short"]) == [20, 0, 558, 1]
    assert Population(setting, 0).knowledge("own file")("a").n_visits == 36


def test_expected_queries_at_random_moments_are_said_to_be_so(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, trips([0, 3])) | {"demand": {"kind": "poisson", "per_hour": 120}}
    notes = sentences.left_out(Setting(make_scenario(users=users, training={})).readings())
    assert notes == [
        "users: about 202 of 356 queries (57 %) fall between recorded visits and repeat the last position",
        "users: about 356 queries are made while positions are recorded; 8,462 are cut in 1 gap of over 2 h between "
        "visits (max_gap_s)",
    ]


def test_queries_that_a_shift_adds_do_not_fall_into_gaps(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, trips([0, 3]))
    shift = {"kind": "rate", "name": "busy", "factor": 10, "at_query": 2}
    setting = Setting(make_scenario(users=users, training={}, shifts=[shift]))
    times_s = Population(setting, 0).lives["a"].test.times_s % 86_400
    assert times_s.size > 5 * 180
    assert times_s.max() <= 28_800 + 90 * 60
    assert sentences.left_out(setting.readings()) == [
        "users: no queries are made in 1 gap of over 2 h between visits (max_gap_s)"
    ]


def test_a_user_whom_the_cut_leaves_without_queries_is_named_with_a_remedy(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    table = {"user": list("aaaa"), "time": [0, 10_000, 20_000, 30_000], "cell": range(4)}
    demand = {"demand": {"kind": "poisson", "per_hour": 60}}
    population = Population(Setting(make_scenario(users=replay(tmp_path, table) | demand, training={})), 0)
    remedy = (
        "; no queries are asked in 3 gaps of over 7200 s between visits: raise `max_gap_s` of the replay, use "
        "`demand: every_visit`, or leave out users with few visits by `select`"
    )
    assert (
        message(lambda: population.lives) == "users: a never queries in the test; in her past she does 0 times" + remedy
    )
    assert Population(
        Setting(make_scenario(users=replay(tmp_path, table, max_gap_s=10_000) | demand, training={})), 0
    ).lives
    others = {"kind": "others", "mobility": replay(tmp_path, table)["mobility"]} | demand
    population = Population(Setting(make_scenario(training={"t": others})), 0)
    assert message(lambda: population.knowledge("t")).endswith(remedy)


def test_days_of_a_recorded_past_count_from_its_first_day(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """Not from 1970: a past that begins on day 14,000 has its first day there."""
    times = [(14_000 + day) * 86_400 + 5 for day in range(6)]
    users = replay(tmp_path, {"user": ["a"] * 6, "time": times, "cell": range(6)}) | {"past_days": 4}
    sets = {"two": {"kind": "own_past", "days": 2}, "half": {"kind": "own_past", "days": 0.5}, "all": "own_past"}
    population = Population(Setting(make_scenario(users=users, training=sets)), 0)
    assert {name: population.knowledge(name)("a").n_visits for name in sets} == {"two": 2, "half": 1, "all": 4}
    np.testing.assert_allclose(population.knowledge("two")("a").profile[:4], [0.5, 0.5, 0, 0])


def test_more_users_than_the_file_has_are_refused(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": list("ab"), "time": range(2), "cell": range(2)}) | {"count": 3}
    setting = Setting(make_scenario(users=users, training={}))
    assert message(lambda: setting.users) == "users: count must be in [1, 2], got 3"


def test_somebodys_own_movers_stay_on_the_grid_and_in_time(make_scenario: MakeScenario, tmp_path: Path) -> None:
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
        for said, expected in (
            ({"cell": 20}, "users: cells of a must be in [0, 20), got 20 to 20"),
            ({"step": -1}, "users: times_s must not decrease, got 0 then -1"),
        ):
            users = {"queries": 3, "mobility": {"kind": "astray:Astray"} | said}
            population = Population(Setting(make_scenario(users=users, training={})), 0)
            assert message(lambda population=population: population.lives) == expected  # type: ignore[misc]


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        ({"roads": {"kind": "lattice", "spacing_km": 10}}, "world: spacing_km must leave 2 to 200,000 crossings"),
        ({"roads": {"kind": "lattice", "spacing_km": 0.001}}, "which leaves 20,000,000"),
    ],
)
def test_roads_that_cannot_be_are_refused(world: dict[str, Any], expected: str, make_scenario: MakeScenario) -> None:
    grid = make_scenario().world.grid.model_dump()
    setting = Setting(make_scenario(world={"grid": grid} | world))
    assert expected in message(lambda: setting.world)


HEADER = "user,time,cell\n"


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        (
            "t.csv",
            f"{HEADER}a,1,2\na,x,3\na,3,99\n",
            "2 bad rows: line 3: time must be seconds or ISO-8601 text, found 'x'; line 4:",
        ),
        ("t.csv", f"{HEADER}a,nan,2\n", "1 bad row: line 2: time must be seconds or ISO-8601 text, found 'nan'"),
        ("t.csv", f"{HEADER}a,1,-1\n", "cell must be an integer in [0, 19]"),
        ("t.csv", f"{HEADER}a,1,true\n", "cell must be an integer in [0, 19]"),
        ("t.csv", f"{HEADER}a,1580000000000,1\n", "time must be seconds, not milliseconds or less, found 15800000"),
        ("t.csv", "who,when,where\na,1,2\n", "name them with `columns: {user: who, time: when, cell: where}`"),
        ("t.csv", "user,time,lat,lon\na,1,2,3\n", "no column for cell (cell, cell_id); lat and lon need a grid"),
        ("t.csv", HEADER, "none of its 0 rows is in the region"),
        ("t.csv", "", "the file is empty: its first line must name the columns"),
        ("t.csv.gz", "no gzip", "Not a gzipped file"),
        ("t.zip", "no zip", "File is not a zip file"),
        ("t.tar", "no tar", "file could not be opened"),
        ("t.bz2", "no bzip2", "Invalid data stream"),
        ("t.xz", "no lzma", "t.xz: "),
        ("t.parquet", "no parquet", "t.parquet: "),
    ],
)  # fmt: skip
def test_a_bad_trace_file_is_refused_with_its_name_and_the_reason(
    file: str, content: str, expected: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content)
    setting = Setting(make_scenario(users={"mobility": {"kind": "replay", "file": file}}).at(tmp_path, None))
    said = message(lambda: setting.users)
    assert said.startswith(f"users.mobility: {tmp_path / file}: ")
    assert expected in said


def test_a_selection_of_nobody_says_what_was_selected(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = {"user": list("ab"), "time": range(2), "cell": range(2)}
    users = replay(tmp_path, table, select={"min_visits": 9, "exclude": {"first": 1}})
    setting = Setting(make_scenario(users=users))
    expected = "the selection (min_visits: 9, exclude: first: 1) leaves none of its 2 users"
    assert message(lambda: setting.users).endswith(expected)


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("d.csv", "0,1\n1,0\n", "the matrix must have shape (20, 20), found (2, 2)"),
        ("d.csv", "0,1\n1\n", "the number of columns changed from 2 to 1 at row 2"),
        ("d.csv", "a,b\n", "could not convert string 'a'"),
        ("d.csv", "", "the file is empty"),
        ("d.npy", "no array", "this is no .npy file of plain numbers"),
        ("d.txt", "0", "a distance file must end in .npy or .csv, got '.txt'"),
    ],
)
def test_a_bad_distance_file_is_refused_with_its_name_and_the_reason(
    file: str, content: str, expected: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content)
    world = make_scenario().world.model_dump() | {"quality_distance": {"kind": "matrix", "file": file}}
    setting = Setting(make_scenario(world=world).at(tmp_path, None))
    said = message(lambda: setting.world)
    assert said.startswith(f"world: {tmp_path / file}: {expected}")
    assert "pickle" not in said
    assert "usecols" not in said


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
def test_a_share_of_the_past_is_for_recorded_traces_alone(
    wrong: dict[str, Any], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    users = replay(tmp_path, {"user": list("aa"), "order": range(2), "cell": range(2)}) | wrong
    with pytest.raises(ValueError, match="past_share"):
        make_scenario(users=users)


def test_users_and_replications_move_and_query_by_streams_of_their_own(make_scenario: MakeScenario) -> None:
    """All users of a Markov chain have the same law: only their streams tell them apart."""
    users = {"count": 2, "queries": 40, "mobility": "markov"}
    poisson = users | {"demand": {"kind": "poisson", "per_hour": 5}}
    moving, asking = (Setting(make_scenario(users=said)) for said in (users, poisson))
    moves, moments = (
        [Population(setting, replication).lives[user].test for replication in (0, 1) for user in setting.users]
        for setting in (moving, asking)
    )
    assert len({tuple(trace.cells.tolist()) for trace in moves}) == 4
    assert len({tuple(trace.times_s.tolist()) for trace in moments}) == 4
