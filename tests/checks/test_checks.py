"""The contract checks: everything shipped passes them, and one's own components are found by name and put to work."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import click
import pandas as pd
import pytest
from pydantic import TypeAdapter

import sim
from sim.attack.inference import AnyAttack
from sim.belief.parameters import BeliefParameters
from sim.checks import CHECKS, check, check_made
from sim.checks.bench import Bench
from sim.cli.commands.check_component import check_component
from sim.components.imports import ComponentError
from sim.components.registry import METHODS, OneOf
from sim.lppm import dummies
from sim.lppm.dummies import DummiesParameters
from sim.lppm.parameters import DesignParameters
from sim.mobility.base import MobilityParameters
from sim.mobility.demand.parameters import DemandParameters
from sim.scenario.reference import listing
from tests.support import MakeScenario


def kinds(family: str) -> list[str]:
    return [kind for kind in listing()[family][1] if kind != "module:Class"]


def failing(family: str, make: Callable[[], Any], bench: Bench | None = None) -> dict[str, str]:
    """Return what is wrong, by the name of the check that found it."""
    outcomes = check_made(family, make, bench)
    tests = CHECKS[family]
    return {test.__name__: found.problem for test, found in zip(tests, outcomes, strict=True) if found.problem}


# What is shipped -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", kinds("mobility"))
def test_every_mobility_keeps_the_contract(kind: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    bench = Bench()
    said: dict[str, Any] = {"kind": kind}
    if kind == "replay":
        said["file"] = str(tmp_path / "traces.csv")
        pd.DataFrame({"user": list("abcd" * 9), "time": range(36), "cell": range(36)}).assign(
            cell=lambda table: table["cell"] % 12
        ).to_csv(said["file"], index=False)
    spec = TypeAdapter(Annotated[MobilityParameters, OneOf("mobility")]).validate_python(said)
    assert (
        failing("mobility", partial(spec.build, bench.world, make_scenario().seed, make_scenario().place), bench) == {}
    )


@pytest.mark.parametrize("kind", kinds("demand"))
def test_every_demand_keeps_the_contract(kind: str) -> None:
    spec = TypeAdapter(Annotated[DemandParameters, OneOf("demand")]).validate_python(kind)
    assert failing("demand", spec.build) == {}


@pytest.mark.parametrize("restart_s", [None, 1000])
@pytest.mark.parametrize(
    "kind",
    [
        *kinds("belief"),
        {"kind": "estimated_profile", "solver": "em", "gap": 1e-3},
        {"kind": "estimated_profile", "forget": {"half_life_queries": 3}},
        {"kind": "estimated_profile", "forget": {"half_life_days": 0.01, "adaptive": True, "recent": 3}},
        {"kind": "estimated_profile", "forget": {"window": 4}},
        {"kind": "estimated_profile", "regularise": {"prior_reports": 2}, "forget": {"half_life_days": 0.01}},
        {"kind": "estimated_profile", "regularise": {}, "forget": {"adaptive": True, "recent": 3}, "solver": "em"},
        {"kind": "recursive_profile", "half_life_queries": "none"},
        "gravity_filter",
        {"kind": "gravity_filter", "transitions": "learned"},
        {"kind": "gravity_filter", "half_life_queries": "none", "transitions": "none", "initial": "roads"},
        {"kind": "markov_em", "window": 4, "initial": "uniform"},
        {"kind": "home", "from_h": 0.25, "until_h": 0.8, "half_life_days": 0.01},
    ],
)
def test_every_belief_keeps_the_contract(kind: str | dict[str, Any], restart_s: int | None) -> None:
    bench = Bench()
    spec = TypeAdapter(Annotated[BeliefParameters, OneOf("belief")]).validate_python(kind)
    assert failing("belief", partial(spec.build, bench.statistics, restart_s, bench.world), bench) == {}


@pytest.mark.parametrize(
    "kind",
    [
        *kinds("design"),
        {"kind": "exponential", "remap": False},
        {"kind": "exponential", "quality_budget_km": 1.0},
        {"kind": "location_hiding", "remap": False},
        {"kind": "location_hiding", "quality_budget_km": 1.0},
        {"kind": "optimal_privacy", "quality_budget_km": 0.3, "solver": "simplex"},
        {"kind": "optimal_quality", "quality_budget_km": 0.8, "metric": "privacy"},
        {"kind": "planar_laplace", "remap": False},
        {"kind": "planar_laplace", "discretise": False},
        {"kind": "planar_laplace", "quality_budget_km": 1.0, "truncate": "renormalise"},
        {"kind": "planar_geometric", "remap": False},
        {"kind": "planar_geometric", "quality_budget_km": 1.0, "metric": "manhattan"},
        {"kind": "cloaking", "quality_budget_km": 1.0},
        {"kind": "snapping", "remap": False},
        {"kind": "snapping", "quality_budget_km": 1.0},
        {"kind": "dropping", "quality_budget_km": 1.0},
        {"kind": "dropping", "drop_loss_km": 3.0, "quality_budget_km": 1.0},
        {"kind": "dummies", "dummies_from": "uniform", "dummies": 2},
    ],
)
def test_every_design_keeps_the_contract(kind: str | dict[str, Any]) -> None:
    bench = Bench()
    spec = TypeAdapter(Annotated[DesignParameters, OneOf("design")]).validate_python(kind)
    assert failing("design", partial(spec.build, bench.world), bench) == {}


@pytest.mark.parametrize("dummies_from", ["belief", "uniform"])
def test_a_design_with_too_many_outputs_to_list_keeps_the_contract(
    dummies_from: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dummies, "LISTED", 0)
    bench = Bench()
    spec = DummiesParameters.model_validate({"kind": "dummies", "dummies_from": dummies_from})
    assert failing("design", partial(spec.build, bench.world), bench) == {}


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("kind", kinds("attack"))
def test_every_attack_keeps_the_contract(kind: str, expected: bool, make_scenario: MakeScenario) -> None:
    bench = Bench()
    spec = TypeAdapter(AnyAttack).validate_python(kind)
    scenario = make_scenario(record={"expected": expected})
    make = partial(spec.build, scenario.attack_context(bench.world, {"ann": bench.statistics, "bob": bench.statistics}))
    assert failing("attack", make, bench) == {}


def test_every_family_that_can_be_brought_along_has_checks() -> None:
    open_families = {family for family, (_, found) in listing().items() if "module:Class" in found}
    assert set(METHODS) == set(CHECKS) == open_families | {"attack"}
    assert all(test.__doc__ for tests in CHECKS.values() for test in tests)


def test_the_command_line_offers_the_families_there_are() -> None:
    """It cannot import them: that would take as long as everything else."""
    (option,) = (option for option in check_component.params if option.name == "family")
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == list(METHODS)


# One's own, by name ----------------------------------------------------------------------------------------------

OWN = '''
import numpy as np

from sim.events import Guess, Visit


class Patrol:
    """Walk the cells in order, a step every `step_s` seconds."""

    def __init__(self, *, world, seed, step_s=60):
        if step_s < 1:
            raise ValueError(f"step_s must be in [1, inf), got {step_s}")
        self.n_cells, self.step_s = world.grid.n_cells, step_s

    def users(self, count):
        return ["north", "south"][:count]

    def visits(self, user, rng):
        start = 0 if user == "north" else self.n_cells // 2
        index = 0
        while True:
            yield Visit(self.step_s * index, (start + index) % self.n_cells)
            index += 1


class EveryThird:
    def __init__(self, *, name="x"):
        self.name = name

    def queries(self, visits, rng):
        for index, visit in enumerate(visits):
            if index % 3 == 0:
                yield visit


class Recency:
    """Believe that she is where the last report came from, more or less."""

    def __init__(self, *, statistics, restart_s, trust):
        self._prior, self.trust = np.array(statistics.profile), trust

    def prior(self, time_s):
        return self._prior

    def observe(self, time_s, likelihood):
        posterior = likelihood / likelihood.sum()
        self._prior = self.trust * posterior + (1 - self.trust) / len(posterior)
        return posterior


class Table:
    """A channel as a matrix, written from the interface alone."""

    def __init__(self, matrix):
        self._matrix = matrix

    @property
    def n_outputs(self):
        return self._matrix.shape[1]

    def sample(self, cell, rng):
        return int(rng.choice(self.n_outputs, p=self._matrix[cell]))

    def likelihood(self, output):
        return self._matrix[:, output]

    def row(self, cell):
        return self._matrix[cell]

    def likelihoods(self):
        outputs = np.flatnonzero(self._matrix.any(axis=0))
        return outputs, self._matrix[:, outputs].T

    def matrix(self):
        return self._matrix


class NextDoor:
    """Tell the truth, or with probability `lie` the cell to the east of it."""

    def __init__(self, *, world, lie):
        n = world.grid.n_cells
        self.channel = Table((1 - lie) * np.eye(n) + lie * np.roll(np.eye(n), 1, axis=1))

    def __call__(self, prior):
        return self.channel


class Credulous:
    """Believe every report."""

    def __init__(self, *, world, statistics_of):
        self.statistics_of = statistics_of

    def observe(self, report):
        assert self.statistics_of(report.user).profile.size == report.channel.n_outputs
        return Guess(report.user, report.index, report.output)


class Inherits(NextDoor):
    pass


class Star(NextDoor):
    pass


def make_design(*, world):
    return NextDoor(world=world, lie=0.25)


class Nothing:
    pass


class Whole:
    def __init__(self, **given): ...

    def channel(self, time_s): ...

    def observe(self, report): ...


class Fragile:
    def __init__(self, *, world):
        self.world = world.no_such_thing

    def __call__(self, prior): ...
'''


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module of one's own into the current folder and return its name."""
    name = "own_parts_for_checks"
    (tmp_path / f"{name}.py").write_text(OWN)
    return in_folder(name, tmp_path, monkeypatch)


def in_folder(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("Patrol", {"step_s": 90}),
        ("EveryThird", {"name": "construct has a parameter of that name too"}),
        ("Recency", {"trust": 0.5}),
        ("NextDoor", {"lie": 0.25}),
        ("Inherits", {"lie": 0.25}),
        ("Credulous", {}),
    ],
)
def test_ones_own_component_is_found_and_recognised(name: str, parameters: dict[str, Any], own: str) -> None:
    outcomes = check(f"{own}:{name}", parameters=parameters)
    assert [outcome.problem for outcome in outcomes] == [None] * len(outcomes)
    family = {"Patrol": "mobility", "EveryThird": "demand", "Recency": "belief", "Credulous": "attack"}
    assert len(outcomes) == 1 + len(CHECKS[family.get(name, "design")])
    assert outcomes[0].check == "can be made from a scenario"
    assert len({outcome.check for outcome in outcomes}) == len(outcomes)


def test_a_function_is_no_component(own: str) -> None:
    with pytest.raises(ComponentError, match="must be a class, found a function"):
        check(f"{own}:make_design")
    (outcome,) = check(f"{own}:make_design", family="design")
    assert outcome.problem is not None
    assert "must be a class, found a function" in outcome.problem


def test_a_whole_lppm_is_not_taken_for_an_attack(own: str) -> None:
    with pytest.raises(ComponentError, match="a whole LPPM, for which there are no checks"):
        check(f"{own}:Whole")
    assert check(f"{own}:Whole", family="attack")[1].problem, "by request it is checked as an attack, which it is not"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no_such_module:X", "module 'no_such_module' cannot be imported: ModuleNotFoundError: No module named"),
        ("{own}:NextDor", "has no 'NextDor' (did you mean 'NextDoor'?), it defines Patrol, EveryThird"),
        ("{own}:Nothing", "its family is not clear from its methods (mobility: users, visits; demand: queries;"),
        ("{own}", "is named module:Class, found "),
        (":", "is named module:Class, found ':'"),
        (".own:X", "is named module:Class"),
        ("", "is named module:Class, found ''"),
    ],
)
def test_a_component_that_is_not_there(name: str, words: str, own: str) -> None:
    with pytest.raises(ComponentError) as caught:
        check(name.format(own=own))
    assert words in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("class X:\n    def __call__(self prior): ...\n", "SyntaxError: "),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("class X(Unknown): ...\n", "NameError: name 'Unknown' is not defined"),
    ],
)
def test_a_module_that_breaks(text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_parts_for_checks.py").write_text(text)
    in_folder("broken_parts_for_checks", tmp_path, monkeypatch)
    with pytest.raises(ComponentError) as caught:
        check("broken_parts_for_checks:X")
    assert f"module 'broken_parts_for_checks' cannot be imported: {words}" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("NextDoor", {}, "missing 1 required keyword-only argument: 'lie'"),
        ("NextDoor", {"lie": 0.2, "lay": 1}, "unexpected keyword argument 'lay'"),
        ("Patrol", {"step_s": 0}, "raised ValueError when made with step_s=0: step_s must be in [1, inf), got 0"),
        ("NextDoor", {"lie": 0.2, "world": None}, "the simulator itself passes world"),
        (
            "Fragile",
            {},
            "raised AttributeError when made without parameters: 'World' object has no attribute 'no_such_thing'",
        ),
    ],
)
def test_parameters_that_do_not_fit(name: str, parameters: dict[str, Any], words: str, own: str) -> None:
    (outcome,) = check(f"{own}:{name}", parameters=parameters)
    assert outcome.check == "can be made from a scenario"
    assert outcome.problem is not None
    assert words in outcome.problem


def test_an_unknown_family_is_refused(own: str) -> None:
    with pytest.raises(ComponentError, match="family must be one of mobility, demand, belief, design, attack"):
        check(f"{own}:NextDoor", family="desing")


def test_a_scenario_made_of_ones_own_components(own: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        users={
            "queries": 200,
            "mobility": {"kind": f"{own}:Patrol", "step_s": 100},
            "demand": {"kind": f"{own}:EveryThird", "name": "y"},
        },
        training={},
        lppms=[
            {
                "name": "mine",
                "belief": {"kind": f"{own}:Recency", "trust": 0.5},
                "design": {"kind": f"{own}:NextDoor", "lie": 0},
            },
            {"name": "half", "belief": {"kind": f"{own}:Recency", "trust": 0.5}, "design": "exponential"},
        ],
        attacks=[{"name": "credulous", "kind": f"{own}:Credulous"}, "sporadic"],
        sweep={"lppms.mine.design.lie": [0, 0.25, 1]},
    )
    result = sim.run(scenario, out=tmp_path / "run", figures=False, allow_code=True)
    events = result.events()
    for user, start in (("north", 0), ("south", 10)):
        rows = events[events["user"] == user].drop_duplicates("index").sort_values("index")
        assert rows["time_s"].tolist() == [300 * i for i in range(200)]
        assert rows["cell"].tolist() == [(start + 3 * i) % 20 for i in range(200)]
    mine = events[events["lppm"] == "mine"]
    lied = (mine["output"] - mine["cell"]) % 20
    assert lied.groupby(mine["point"]).agg(["min", "max"]).to_numpy().tolist() == [[0, 0], [0, 1], [1, 1]]
    assert lied[mine["point"] == 1].mean() == pytest.approx(0.25, abs=0.07)
    credulous = events[events["attack"] == "credulous"]
    assert (credulous["estimate"] == credulous["output"]).all()
    assert (credulous["adversary_error_km"] == credulous["quality_loss_km"]).all()
    assert credulous["expected_adversary_error_km"].isna().all()
    assert events[events["attack"] == "sporadic"]["expected_adversary_error_km"].notna().all()
    # The optimal attack works against anybody's channel: one that always steps east hides nothing.
    shifted = mine[(mine["point"] == 2) & (mine["attack"] == "sporadic")]
    assert (shifted["estimate"] == shifted["cell"]).all()
    assert events[events["lppm"] == "half"]["point"].unique().tolist() == [0]
    again = sim.run(
        sim.load(tmp_path / "run" / "manifest.json", allow_code=True), out=tmp_path / "again", figures=False
    )
    pd.testing.assert_frame_equal(events, again.events())
