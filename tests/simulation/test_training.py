"""Training data of a population: other people, the past, the test, or nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sim.errors import InputError
from sim.execution.adversary_knowledge import known_statistics
from sim.mobility.smoothed_statistics import SmoothedStatistics
from sim.mobility.statistics import statistics
from sim.mobility.traces import Life, live
from sim.simulation import population, setting
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.simulation.recorded_users import FAVOURITES, N_CELLS, counted, error_of, replay
from tests.support import MakeScenario, raises_code

DAY_S = 86_400


def spied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Life]]:
    """Return a list to which the name and the life of every generated user are added."""
    seen: list[tuple[str, Life]] = []

    def spy(mobility: Any, demand: Any, user: str, **rest: Any) -> Life:
        life = live(mobility, demand, user, **rest)
        seen.append((user, life))
        return life

    for module in (population, setting):
        monkeypatch.setattr(module, "live", spy)
    return seen


def test_others_are_the_same_in_every_replication(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spied(monkeypatch)
    scenario = make_scenario(training={"crowd": {"kind": "others", "count": 8, "queries": 30}})
    setting = Setting(scenario)
    first = Population(setting, 0).knowledge("crowd")("user-001")
    assert Population(setting, 1).knowledge("crowd")("user-002") is first, "computed once, shared by all"
    assert first.n_visits == 8 * 30
    assert [user for user, _ in seen] == [f"crowd/user-{i:03d}" for i in range(1, 9)]
    cells = np.concatenate([life.test.cells for _, life in seen])
    np.testing.assert_allclose(first.profile, np.bincount(cells, minlength=N_CELLS) / 240)
    separate = Population(Setting(scenario), 5).knowledge("crowd")("user-001")
    assert separate.profile.tolist() == first.profile.tolist()


def test_people_of_training_sets_differ_from_test_users(
    make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = spied(monkeypatch)
    sets = {"a": {"kind": "others", "count": 3}, "b": {"kind": "others", "count": 3}}
    population = Population(Setting(make_scenario(training=sets)), 0)
    for name in sets:
        population.knowledge(name)
    assert population.lives
    assert len(seen) == 9
    traces = {tuple(life.test.cells) for _, life in seen}
    assert len(traces) == 9
    mobility: Any = population.setting.mobility
    assert len({tuple(mobility.profile(user)) for user, _ in seen}) == 9, "their places differ too"


@pytest.mark.parametrize(
    ("settings", "length"),
    [({}, 25), ({"queries": 7}, 7), ({"count": 2}, 25), ({"demand": "poisson", "queries": 4}, 4)],
)
def test_others_live_as_the_users_by_default(
    settings: dict[str, Any], length: int, make_scenario: MakeScenario
) -> None:
    population = Population(Setting(make_scenario(training={"t": {"kind": "others"} | settings})), 0)
    assert population.knowledge("t")("user-001").n_visits == settings.get("count", 10) * length


def test_others_may_have_another_mobility(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = spied(monkeypatch)
    others = {"kind": "others", "count": 2, "mobility": {"kind": "markov", "step_s": 500}, "days": 0.5}
    population = Population(Setting(make_scenario(training={"t": others})), 0)
    population.knowledge("t")
    assert [np.unique(np.diff(life.test.times_s)).tolist() for _, life in seen] == [[500], [500]]
    assert [life.test.times_s[-1] for _, life in seen] == [43_000] * 2


@pytest.mark.parametrize(
    ("settings", "length"), [({}, 40), ({"queries": 12}, 12), ({"days": 0.05}, 9), ({"days": 0.05, "queries": 5}, 5)]
)
@pytest.mark.parametrize("kind", ["own_past", "other_user"])
def test_the_past_is_counted_from_its_beginning(
    kind: str, settings: dict[str, Any], length: int, make_scenario: MakeScenario
) -> None:
    # One query every 500 s: 0.05 days are 4,320 s, with queries at 0, 500, ..., 4,000 s.
    users = {"count": 3, "queries": 10, "past_queries": 40, "mobility": {"kind": "markov", "step_s": 500}}
    population = Population(Setting(make_scenario(users=users, training={"past": {"kind": kind} | settings})), 0)
    next_user = {"user-001": "user-002", "user-002": "user-003", "user-003": "user-001"}
    for user in population.setting.users:
        known = population.knowledge("past")(user)
        past = population.lives[user if kind == "own_past" else next_user[user]].past
        profile, transition = counted(past.part(0, length))
        assert known.n_visits == length
        np.testing.assert_allclose(known.profile, profile, rtol=1e-12)
        np.testing.assert_allclose(known.transition, transition, rtol=1e-12)


def test_other_users_are_all_users_but_one(make_scenario: MakeScenario) -> None:
    users = {"count": 4, "queries": 10, "past_queries": 40, "mobility": {"kind": "markov", "step_s": 500}}
    sets = {"rest": {"kind": "other_users", "queries": 12}, "all": {"kind": "other_users", "days": 0.05}}
    population = Population(Setting(make_scenario(users=users, training=sets)), 0, range(2))
    everybody = Population(Setting(make_scenario(users=users, training=sets)), 0)
    for name, length in (("rest", 12), ("all", 9)):
        for user in population.members:
            known = population.knowledge(name)(user)
            pasts = [life.past.part(0, length) for other, life in everybody.lives.items() if other != user]
            expected = statistics(pasts, n_cells=N_CELLS)
            assert known.n_visits == 3 * length
            assert known.profile.tolist() == expected.profile.tolist()
            assert known.transition.tolist() == expected.transition.tolist()
            assert population.knowledge(name)(user) is known


def test_other_users_need_another_past(make_scenario: MakeScenario) -> None:
    users = {"count": 1, "queries": 10, "past_queries": 40, "mobility": FAVOURITES}
    population = Population(Setting(make_scenario(users=users, training={"rest": "other_users"})), 0)
    with raises_code(InputError, "no-past") as error:
        population.knowledge("rest")("user-001")
    assert "no other user than user-001" in str(error.value)


@pytest.mark.parametrize("others", [{"kind": "others", "count": 3}, "other_users"])
def test_own_and_others_is_the_population_chain(others: Any, make_scenario: MakeScenario) -> None:
    """Compare with M = (own + kappa M') / (row + kappa), M' = .99 M_others + .01 pi_others, row by row."""
    users = {"count": 3, "queries": 10, "past_queries": 40, "mobility": FAVOURITES}
    both = {"kind": "own_and_others", "own": "past", "others": "rest"}
    sets = {"past": "own_past", "rest": others, "both": both, "alone": {"kind": "own_and_others", "others": "rest"}}
    population = Population(Setting(make_scenario(users=users, training=sets)), 0)
    for user in population.users:
        own, rest, combined, alone = (population.knowledge(name)(user) for name in sets)
        of_others = 0.99 * rest.transition + 0.01 * rest.profile
        counts = own.counted[:, None] * own.transition * (own.counted[:, None] > 0)
        expected = (counts + 30 * of_others) / (own.counted[:, None] + 30)
        np.testing.assert_allclose(combined.transition, expected, rtol=1e-12)
        np.testing.assert_allclose(combined.start_profile, (40 * own.profile + 30 * rest.profile) / 70, rtol=1e-12)
        np.testing.assert_allclose(alone.transition, of_others, rtol=1e-12)
        assert alone.start_profile.tolist() == rest.start_profile.tolist()
        assert (combined.n_visits, alone.n_visits) == (40 + rest.n_visits, rest.n_visits)
        assert combined.n_transitions == own.n_transitions + rest.n_transitions
        assert combined.counted.tolist() == (own.counted + rest.counted).tolist()
        assert combined.fallback_rows == np.count_nonzero(own.counted + rest.counted == 0)
        assert population.knowledge("both")(user) is combined
        assert [part.pooled for part in (own, rest, combined, alone)] == [False, True, False, False]


def test_users_share_the_other_people_of_a_population_chain(make_scenario: MakeScenario) -> None:
    users = {"count": 2, "queries": 10, "past_queries": 10, "mobility": FAVOURITES}
    both = {"kind": "own_and_others", "own": "past", "others": "crowd", "pseudo_counts": 5, "independent_share": 0.2}
    sets = {"past": "own_past", "crowd": {"kind": "others", "count": 2}, "both": both}
    know = Population(Setting(make_scenario(users=users, training=sets)), 0).knowledge("both")
    one, two = know("user-001"), know("user-002")
    assert isinstance(one, SmoothedStatistics)
    assert isinstance(two, SmoothedStatistics)
    assert one.others is two.others
    counted, of_others = one.own.counted[:, None], 0.8 * one.others.transition + 0.2 * one.others.profile
    np.testing.assert_allclose(one.transition, (counted * one.own.transition + 5 * of_others) / (counted + 5))


def test_the_worst_case_adversary_has_the_statistics_of_the_test(make_scenario: MakeScenario) -> None:
    users = {"count": 2, "queries": 30, "past_queries": 20, "mobility": FAVOURITES}
    sets = {"both": {"kind": "own_and_others", "own": "past", "others": "rest"}, "past": "own_past"}
    sets |= {"rest": "other_users"}
    scenario = make_scenario(users=users, training=sets, attacks=["markov", "markov-trained"])
    population = Population(Setting(scenario), 0)
    worst, trained = (known_statistics(attack, population) for attack in scenario.attacks)
    for user, life in population.lives.items():
        profile, transition = counted(life.test)
        assert worst[user].profile == pytest.approx(profile)
        assert worst[user].transition == pytest.approx(transition)
        assert trained[user] is population.knowledge("both")(user)


def test_parts_of_combined_training_sets_are_used(make_scenario: MakeScenario) -> None:
    sets = {
        "unused": {"kind": "others", "count": 3},
        "crowd": {"kind": "others", "count": 2},
        "both": {"kind": "own_and_others", "others": "crowd"},
    }
    scenario = make_scenario(training=sets, lppms=[{"kind": "MK-Exp", "training": "both"}], attacks=["sporadic"])
    assert scenario.training_sets_used() == {"both", "crowd"}


def test_the_past_differs_between_replications(make_scenario: MakeScenario) -> None:
    users = {"count": 2, "queries": 10, "past_queries": 40, "mobility": FAVOURITES}
    setting = Setting(make_scenario(users=users, training={"past": "own_past"}))
    one, two = (Population(setting, replication).knowledge("past")("user-001") for replication in (0, 1))
    assert one.profile.tolist() != two.profile.tolist()


def test_training_on_nothing_is_uniform(make_scenario: MakeScenario) -> None:
    for training, name in (({"none": "nothing"}, "none"), ({"none": "nothing"}, None), ({}, None)):
        known = Population(Setting(make_scenario(training=training)), 0).knowledge(name)("user-001")
        assert known.profile.tolist() == [1 / N_CELLS] * N_CELLS
        assert (known.transition == 1 / N_CELLS).all()


def test_own_test_trains_on_the_test(make_scenario: MakeScenario) -> None:
    population = Population(Setting(make_scenario(training={"past": "nothing", "truth": "own_test"})), 0)
    for user, life in population.lives.items():
        profile, transition = counted(life.test)
        known = population.knowledge("truth")(user)
        assert known.profile == pytest.approx(profile)
        assert known.transition == pytest.approx(transition)


def test_the_default_is_the_first_training_set(make_scenario: MakeScenario) -> None:
    sets = {"z": {"kind": "others", "count": 2}, "a": {"kind": "nothing"}}
    population = Population(Setting(make_scenario(training=sets)), 0)
    assert population.knowledge(None)("user-001") is population.knowledge("z")("user-001")


def test_statistics_are_computed_once_and_shared(make_scenario: MakeScenario) -> None:
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


def test_a_replay_can_train_on_other_users_of_the_file(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = {"user": list("abc") * 4, "time": range(12), "cell": [0, 1, 2] * 4}
    users = replay(tmp_path, table, select={"users": ["a"]})
    others = {"kind": "others", "mobility": users["mobility"] | {"select": {"exclude": {"users": ["a"]}}}}
    population = Population(Setting(make_scenario(users=users, training={"t": others})), 0)
    assert population.setting.users == ["a"]
    assert population.truth("a").profile[:3].tolist() == [1, 0, 0]
    assert population.knowledge("t")("a").profile[:3].tolist() == [0, 0.5, 0.5]


def test_training_on_a_missing_past_is_refused(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = {"user": list("aaab"), "time": [80_000, 90_000, 180_000, 100_000], "cell": range(4)}
    users = replay(tmp_path, table) | {"past_days": 2}
    know = Population(
        Setting(make_scenario(users=users, training={"p": {"kind": "own_past", "days": 0.5}})), 0
    ).knowledge("p")
    error = error_of(lambda: know("b"))
    assert (error.code, str(error).split()[:2]) == ("no-queries", ["users:", "b"])
    table = {"user": list("aab"), "time": [80_000, 180_000, 100_000], "cell": range(3)}
    users = replay(tmp_path, table) | {"past_days": 1, "count": 1}
    know = Population(
        Setting(make_scenario(users=users, training={"p": {"kind": "own_past", "days": 0.5}})), 0
    ).knowledge("p")
    error = error_of(lambda: know("a"))
    assert (error.code, str(error).split()[:2]) == ("no-past", ["training:", "a"])


def test_training_on_others_without_queries_is_refused(make_scenario: MakeScenario) -> None:
    others = {"kind": "others", "count": 4, "days": 1e-6}
    population = Population(Setting(make_scenario(training={"t": others})), 0)
    error = error_of(lambda: population.knowledge("t"))
    assert error.code == "no-queries"
    assert str(error).startswith("training.t: none of the 4 ")


def test_the_past_of_another_user_needs_two_users(make_scenario: MakeScenario) -> None:
    users = {"count": 1, "queries": 5, "past_queries": 5, "mobility": FAVOURITES}
    population = Population(Setting(make_scenario(users=users, training={"p": "other_user"})), 0)
    assert str(error_of(lambda: population.knowledge("p"))).startswith("training.p: ")
