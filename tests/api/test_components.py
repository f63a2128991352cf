"""Mechanisms and attacks used alone: all short names, parameters, custom objects, and the event log of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.interfaces import FloatArray, Generator
from tests.support import raises_code

WORLD = sim.make_world("rectangle", rows=3, cols=4, width_km=4, height_km=3)
CELLS = [0, 1, 1, 5, 6, 5, 1, 0, 0, 1]
TRAINED = sim.make_statistics(CELLS, world=WORLD)
ON_EARTH = sim.make_world("san_francisco", rows=3, cols=4)


@pytest.fixture
def rng() -> Generator:
    return np.random.default_rng(1)


@pytest.mark.parametrize("name", sim.list_components("lppm")["kind"])
def test_every_short_name_of_an_lppm_reports(name: str, rng: Generator) -> None:
    mechanism = sim.make_lppm(name, world=ON_EARTH, training=TRAINED)
    first, second = mechanism.report(5, 0, rng), mechanism.report(6, 60, rng)
    assert (first.user, first.index, first.time_s, second.index) == ("user", 1, 0, 2)
    assert (first.channel is None) == mechanism.full
    loss_km = mechanism.expected_metrics(120).quality_loss_km
    assert loss_km is not None
    assert loss_km >= 0


@pytest.mark.parametrize("name", sim.list_components("attack")["kind"])
def test_every_short_name_of_an_attack_estimates(name: str, rng: Generator) -> None:
    mechanism = sim.make_lppm("PEB-Exp", world=WORLD, training=TRAINED)
    statistics: Any = {"user": TRAINED} if name.startswith("identification") else TRAINED
    attack = sim.make_attack(name, world=WORLD, statistics=statistics)
    guess = attack.observe(mechanism.report(5, 0, rng))
    assert (guess.user, guess.index) == ("user", 1)
    assert 0 <= guess.estimate < WORLD.grid.n_cells


def test_attack_on_outputs_that_are_not_cells(rng: Generator) -> None:
    mechanism = sim.make_lppm("SP-Cloak", world=WORLD, training=TRAINED)
    for name in ("face-value", "sporadic"):
        attack = sim.make_attack(name, world=WORLD, statistics=TRAINED, lppm=mechanism)
        assert 0 <= attack.observe(mechanism.report(5, 0, rng)).estimate < WORLD.grid.n_cells


def test_loop_reproduces_the_event_log(tmp_path: Path) -> None:
    scenario = sim.make_scenario(
        world={"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5, "height_km": 4}},
        users={"count": 3, "queries": 15, "past_queries": 20, "mobility": {"kind": "favourites", "places": 4}},
        training={"past": {"kind": "own_past"}},
        lppms=["SP-Exp", "PEB-Exp", "MK-LH", "PEB-full-LH"],
        attacks=["sporadic", "markov", "face-value"],
        replications=2,
        seed=11,
    )
    events = sim.run(scenario, out=tmp_path / "run", figures=False).events()
    world = scenario.build_world()
    compared = 0
    for replication in (0, 1):
        queries = sim.scenario_traces(scenario, replication=replication)
        for user, own in queries.groupby("user"):
            known = {part: sim.make_statistics(rows, world=world) for part, rows in own.groupby("part")}
            test = own[own["part"] == "test"]
            of_user = events.query("replication == @replication and user == @user")
            for lppm in scenario.lppms:
                mechanism = sim.make_lppm(lppm, world=world, training=known["past"], user=str(user))
                noise = sim.stream(scenario.seed, "lppm", lppm.name, str(user), replication)
                reports = [
                    mechanism.report(cell, time_s, noise)
                    for cell, time_s in zip(test["cell"].tolist(), test["time_s"].tolist(), strict=True)
                ]
                for attack in scenario.attacks_on(lppm):
                    statistics = known["test" if attack.knows == "test" else "past"]
                    adversary = sim.make_attack(attack, world=world, statistics=statistics)
                    estimates = [adversary.observe(report).estimate for report in reports]
                    rows = of_user.query("lppm == @lppm.name and attack == @attack.name").sort_values("index")
                    assert rows["output"].tolist() == [report.output for report in reports]
                    assert rows["estimate"].tolist() == estimates
                    compared += len(rows)
    assert compared == len(events)


def test_keywords_reach_the_belief_and_the_design() -> None:
    mechanism = sim.make_lppm("PEB-Exp", world=WORLD, epsilon_per_km=2.0, fading=0.25, remap=False)
    same = sim.make_lppm(
        "PEB-Exp", world=WORLD, belief={"fading": 0.25}, design={"epsilon_per_km": 2.0, "remap": False}
    )
    composed = sim.make_lppm(
        world=WORLD,
        belief={"kind": "estimated_profile", "fading": 0.25},
        design={"kind": "exponential", "epsilon_per_km": 2.0, "remap": False},
    )
    expected = mechanism.channel(0).matrix()
    for other in (same, composed):
        assert np.array_equal(other.channel(0).matrix(), expected)
    assert not np.array_equal(sim.make_lppm("PEB-Exp", world=WORLD).channel(0).matrix(), expected)


def test_histogram_is_normalised() -> None:
    histogram = np.bincount(CELLS, minlength=12)
    mechanism = sim.make_lppm("SP-Exp", world=WORLD, training=histogram)
    assert mechanism.belief.prior(0).tolist() == TRAINED.profile.tolist()
    metrics = mechanism.expected_metrics(prior=histogram, epsilon=True)
    assert metrics == mechanism.expected_metrics(epsilon=True)
    assert metrics.epsilon_per_km is not None


@pytest.mark.parametrize(
    ("arguments", "path", "hint"),
    [
        ({"kind": "PEB-Exp", "epsilon": 1.0}, "epsilon", "epsilon_per_km"),
        ({"kind": "PEB-Exp", "epsilon_per_km": -1.0}, "design.epsilon_per_km", "-1.0"),
        ({"kind": "PEB-Exp", "design": {"epsilon": 1.0}}, "design.epsilon", "epsilon_per_km"),
        ({"kind": "PEB-Ex"}, "kind", "PEB-Exp"),
        ({"belief": "fixed_profile"}, "design", "design"),
        ({"belief": "fixed_profil", "design": "exponential"}, "belief", "fixed_profile"),
        ({"kind": "SP-Exp", "learns_from": "cell"}, "learns_from", "cells"),
    ],
)
def test_wrong_parameters_of_lppms_get_suggestions(arguments: dict[str, Any], path: str, hint: str) -> None:
    with pytest.raises(sim.ScenarioError) as error:
        sim.make_lppm(world=WORLD, **arguments)
    (fault,) = error.value.faults
    assert (fault.where, fault.path) == ("make_lppm", path)
    assert hint in fault.message


@pytest.mark.parametrize(
    ("arguments", "path", "hint"),
    [
        ({"kind": "markof"}, "kind", "markov"),
        ({"kind": "markov", "decide": "path"}, "decide", "decides"),
        ({"kind": "sporadic-learning", "fadin": 0.5}, "fadin", "fading"),
        ({"kind": "sporadic-learning", "fading": -1.0}, "belief.fading", "-1.0"),
        ({"belief": "markov_filte"}, "belief", "markov_filter"),
    ],
)
def test_wrong_parameters_of_attacks_get_suggestions(arguments: dict[str, Any], path: str, hint: str) -> None:
    with pytest.raises(sim.ScenarioError) as error:
        sim.make_attack(world=WORLD, **arguments)
    (fault,) = error.value.faults
    assert (fault.where, fault.path) == ("make_attack", path)
    assert hint in fault.message


def test_cell_outside_the_world_is_refused(rng: Generator) -> None:
    with pytest.raises(ValueError, match=r"^cell\b.*12"):
        sim.make_lppm("SP-Exp", world=WORLD).report(12, 0, rng)


@pytest.mark.parametrize("wrong", [np.ones(5), -np.ones(12), np.zeros(12), np.full(12, np.nan)])
def test_wrong_histograms_are_refused(wrong: FloatArray) -> None:
    with pytest.raises(ValueError, match=r"^training\b"):
        sim.make_lppm("SP-Exp", world=WORLD, training=wrong)


def test_statistics_of_another_world_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^statistics\b.*12"):
        sim.make_attack("markov", world=sim.make_world(), statistics=TRAINED)


class Constant:
    """Design that always reports one cell."""

    uses_prior = False

    def __init__(self, *, world: sim.World, cell: int = 0) -> None:
        matrix = np.zeros((world.n_cells, world.n_cells))
        matrix[:, cell] = 1.0
        self._channel = sim.MatrixChannel(matrix)

    def __call__(self, prior: FloatArray) -> sim.Channel:
        return self._channel


class Here:
    """Belief that the user is in one cell."""

    def __init__(self, *, statistics: sim.Statistics, restart_s: int | None, cell: int = 7) -> None:
        self._prior: FloatArray = np.eye(statistics.n_cells)[cell]
        self.reports = 0

    def prior(self, time_s: int) -> FloatArray:
        return self._prior

    def observe(self, time_s: int, likelihood: FloatArray) -> FloatArray:
        self.reports += 1
        return self._prior


class Stubborn:
    """Attack that always answers the most frequent cell."""

    def __init__(self, *, world: sim.World, statistics_of: Any, offset: int = 0) -> None:
        self._statistics_of, self._offset = statistics_of, offset

    def observe(self, report: sim.Report) -> sim.Guess:
        cell = int(self._statistics_of(report.user).profile.argmax()) + self._offset
        return sim.Guess(report.user, report.index, cell)


def test_custom_designs_and_beliefs_are_passed_directly(rng: Generator) -> None:
    by_class = sim.make_lppm(world=WORLD, belief="fixed_profile", design=Constant, cell=3)
    by_object = sim.make_lppm("PEB-Exp", world=WORLD, design=Constant(world=WORLD, cell=3))
    by_function = sim.make_lppm(world=WORLD, belief=Here, design=Constant(world=WORLD, cell=3).__call__)
    for mechanism in (by_class, by_object, by_function):
        assert mechanism.report(5, 0, rng).output == 3
    believing = sim.make_lppm(world=WORLD, belief=Here, design="exponential", epsilon_per_km=1.0, cell=4)
    assert believing.belief.prior(0)[4] == 1
    believing.report(4, 0, rng)
    assert isinstance(believing.belief, Here)
    assert believing.belief.reports == 1


def test_custom_attacks_are_passed_directly(rng: Generator) -> None:
    report = sim.make_lppm("SP-Exp", world=WORLD).report(5, 0, rng)
    assert sim.make_attack(Stubborn, world=WORLD, statistics=TRAINED, offset=2).observe(report).estimate == 3
    known = Stubborn(world=WORLD, statistics_of=lambda _user: TRAINED)
    assert sim.make_attack(known, world=WORLD) is known
    belief = Here(statistics=TRAINED, restart_s=None)
    for given in (Here, belief):
        assert sim.make_attack(belief=given, world=WORLD).observe(report).estimate == 7
        assert sim.make_attack("sporadic", belief=given, world=WORLD).observe(report).estimate == 7
    assert belief.reports == 0  # each user has a copy


@pytest.mark.parametrize(
    "arguments", [{"belief": "fixed_profile", "design": 3}, {"belief": object(), "design": "identity"}]
)
def test_objects_without_the_methods_are_refused(arguments: dict[str, Any]) -> None:
    with raises_code(sim.ComponentError, "missing-method"):
        sim.make_lppm(world=WORLD, **arguments)


def test_identification_needs_the_statistics_of_each_user() -> None:
    with raises_code(sim.InputError, "statistics-by-user"):
        sim.make_attack("identification", world=WORLD, statistics=TRAINED)


def test_checks_accept_classes_and_names() -> None:
    assert sim.check_component(Constant, cell=2)["passed"].all()
    assert sim.check_component("exponential")["passed"].all()
    broken = sim.check_component(Stubborn, offset=100)
    assert not broken["passed"].all()
    assert (broken["problem"] == "").tolist() == broken["passed"].tolist()


def test_lists_of_components() -> None:
    everything = sim.list_components()
    assert {"lppm", "attack", "design"} <= set(everything["family"])
    assert everything["description"].str.len().min() > 0
    assert sim.list_parameters("exponential")["family"].unique().tolist() == ["design"]
    with raises_code(sim.InputError, "unknown-family"):
        sim.list_components("desing")
    with raises_code(sim.InputError, "unknown-kind"):
        sim.list_parameters("exp")


def test_a_world_with_services(tmp_path: Path) -> None:
    (tmp_path / "zones.csv").write_text("cell,label\n0,a\n1,a\n2,b\n3,b\n")
    zones = {"zone": {"kind": "zone", "labels": "zones.csv"}}
    world = sim.make_world("rectangle", rows=1, cols=4, width_km=4, height_km=1, services=zones, folder=tmp_path)
    assert world.services["zone"].matrix()[0].tolist() == [0, 0, 1, 1]


def test_world_from_parameters() -> None:
    world = sim.make_world(quality_distance="euclidean", rows=5, cols=5)
    assert world.n_cells == 25
    assert world.privacy_distance is not world.quality_distance
    roads = [sim.make_world("rectangle", rows=3, cols=3, width_km=3, height_km=3, roads="lattice").roads for _ in "ab"]
    assert roads[0] is not None
    assert roads[1] is not None
    assert dict(roads[0].graph.adj) == dict(roads[1].graph.adj)
    with pytest.raises(sim.ScenarioError, match="'cols'"):
        sim.make_world("rectangle", rows=3, col=3, width_km=3, height_km=3)


def test_world_of_locations(tmp_path: Path) -> None:
    (tmp_path / "points.csv").write_text("name,lat,lon\nhome,37.70,-122.45\nwork,37.78,-122.40\n")
    world = sim.make_world(locations={"kind": "points", "file": "points.csv"}, folder=tmp_path)
    assert world.locations.labels == ("home", "work")
    assert world.quality_distance.kind == "euclidean"
    with raises_code(sim.InputError, "needs-grid"):
        sim.export_mechanism("SP-Exp", world={"locations": {"kind": "points", "file": "points.csv"}}, folder=tmp_path)
    with pytest.raises(sim.ScenarioError, match=r"\[exclusive-keys\]"):
        sim.make_world("san_francisco", locations={"kind": "points", "file": "points.csv"}, folder=tmp_path)
