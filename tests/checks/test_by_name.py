"""Custom components are imported by name, checked, and used in a scenario."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.checks import CHECKS, check
from sim.components.imports import ComponentError
from tests.support import MakeScenario, raises_code

CUSTOM = '''
import numpy as np

from sim.events import Guess, Visit


class Patrol:
    """Visit the cells in order, a step every `step_s` seconds."""

    def __init__(self, *, world, seed, step_s=60):
        if step_s < 1:
            raise ValueError(f"step_s must be in [1, inf), got {step_s}")
        self.n_cells, self.step_s = world.n_cells, step_s

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
    """Mix the posterior of the last report and a uniform distribution."""

    def __init__(self, *, statistics, restart_s, trust):
        self._prior, self.trust = np.array(statistics.profile), trust

    def prior(self, time_s):
        return self._prior

    def observe(self, time_s, likelihood):
        posterior = likelihood / likelihood.sum()
        self._prior = self.trust * posterior + (1 - self.trust) / len(posterior)
        return posterior


class Table:
    """A channel given by its matrix, which implements only the interface."""

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
    """Report the true cell or, with probability `lie`, the cell to the east of it."""

    def __init__(self, *, world, lie):
        n = world.n_cells
        self.channel = Table((1 - lie) * np.eye(n) + lie * np.roll(np.eye(n), 1, axis=1))

    def __call__(self, prior):
        return self.channel


class Credulous:
    """Estimate the reported cell."""

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
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a module with custom components into the current folder and return its name."""
    name = "custom_parts_for_checks"
    (tmp_path / f"{name}.py").write_text(CUSTOM)
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
        ("EveryThird", {"name": "also the name of a parameter of construct"}),
        ("Recency", {"trust": 0.5}),
        ("NextDoor", {"lie": 0.25}),
        ("Inherits", {"lie": 0.25}),
        ("Credulous", {}),
    ],
)
def test_custom_component_is_imported_and_its_family_recognised(
    name: str, parameters: dict[str, Any], module: str
) -> None:
    outcomes = check(f"{module}:{name}", parameters=parameters)
    assert [outcome.problem for outcome in outcomes] == [None] * len(outcomes)
    family = {"Patrol": "mobility", "EveryThird": "demand", "Recency": "belief", "Credulous": "attack"}
    assert len(outcomes) == 1 + len(CHECKS[family.get(name, "design")])
    assert outcomes[0].check == "can be constructed from a scenario"
    assert len({outcome.check for outcome in outcomes}) == len(outcomes)


def test_function_is_rejected(module: str) -> None:
    with raises_code(ComponentError, "not-a-class"):
        check(f"{module}:make_design")
    (outcome,) = check(f"{module}:make_design", family="design")
    assert outcome.problem is not None
    assert "a function" in outcome.problem


def test_complete_lppm_is_not_checked_as_an_attack_by_default(module: str) -> None:
    assert len(check(f"{module}:Whole")) == 1 + len(CHECKS["lppm"])
    assert check(f"{module}:Whole", family="attack")[1].problem, "on request it is checked as an attack, and fails"


@pytest.mark.parametrize(
    ("name", "code", "part"),
    [
        ("no_such_module:X", "class-not-importable", "'no_such_module'"),
        ("{module}:NextDor", "unknown-class", "'NextDor' (did you mean 'NextDoor'?); it defines Patrol, EveryThird"),
        ("{module}:Nothing", "ambiguous-family", "(mobility: users, visits; demand: queries;"),
        ("{module}", "unknown-kind", "module:Class, or one of android_coarse, "),
        (":", "invalid-class-name", "module:Class, found ':'"),
        (".own:X", "invalid-class-name", "module:Class, found '.own:X'"),
        ("", "unknown-kind", "module:Class, or one of android_coarse, "),
    ],
)
def test_unknown_component_is_reported_with_the_allowed_ones(name: str, code: str, part: str, module: str) -> None:
    with raises_code(ComponentError, code) as error:
        check(name.format(module=module))
    assert part in str(error.value)
    assert error.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("class X:\n    def __call__(self prior): ...\n", "SyntaxError: "),
        ("import no_such_package\n", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("class X(Unknown): ...\n", "NameError: name 'Unknown' is not defined"),
    ],
)
def test_module_that_fails_to_import_is_reported_with_the_exception(
    text: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_parts_for_checks.py").write_text(text)
    in_folder("broken_parts_for_checks", tmp_path, monkeypatch)
    with raises_code(ComponentError, "class-not-importable") as error:
        check("broken_parts_for_checks:X")
    assert "'broken_parts_for_checks'" in str(error.value)
    assert part in str(error.value)


@pytest.mark.parametrize(
    ("name", "parameters", "parts"),
    [
        ("NextDoor", {}, ["missing 1 required keyword-only argument: 'lie'"]),
        ("NextDoor", {"lie": 0.2, "lay": 1}, ["unexpected keyword argument 'lay'"]),
        ("Patrol", {"step_s": 0}, ["ValueError", "step_s=0", "step_s must be in [1, inf), got 0"]),
        ("NextDoor", {"lie": 0.2, "world": None}, ["simulator", "world"]),
        ("Fragile", {}, ["AttributeError", "'World' object has no attribute 'no_such_thing'"]),
    ],
)
def test_invalid_parameters_are_reported(name: str, parameters: dict[str, Any], parts: list[str], module: str) -> None:
    (outcome,) = check(f"{module}:{name}", parameters=parameters)
    assert outcome.check == "can be constructed from a scenario"
    assert outcome.problem is not None
    assert all(part in outcome.problem for part in parts)


def test_unknown_family_is_rejected_with_the_allowed_ones(module: str) -> None:
    with raises_code(ComponentError, "unknown-family") as error:
        check(f"{module}:NextDoor", family="desing")
    assert "mobility, demand, belief, design, lppm, attack, got 'desing'" in str(error.value)


def test_scenario_of_custom_components(module: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        users={
            "queries": 200,
            "mobility": {"kind": f"{module}:Patrol", "step_s": 100},
            "demand": {"kind": f"{module}:EveryThird", "name": "y"},
        },
        training={},
        lppms=[
            {
                "name": "mine",
                "belief": {"kind": f"{module}:Recency", "trust": 0.5},
                "design": {"kind": f"{module}:NextDoor", "lie": 0},
            },
            {"name": "half", "belief": {"kind": f"{module}:Recency", "trust": 0.5}, "design": "exponential"},
        ],
        attacks=[{"name": "credulous", "kind": f"{module}:Credulous"}, "sporadic"],
        sweep={"lppms.mine.design.lie": [0, 0.25, 1]},
    )
    result = sim.run(scenario, out=tmp_path / "run", figures=False, allow_code=True)
    events = result.events()
    for user, start in (("north", 0), ("south", 10)):
        rows = events[events["user"] == user].drop_duplicates("index").sort_values("index")
        assert rows["time_s"].tolist() == [300 * i for i in range(200)]
        assert rows["cell"].tolist() == [(start + 3 * i) % 20 for i in range(200)]
    mine = events[events["lppm"] == "mine"]
    moved = (mine["output"] - mine["cell"]) % 20
    assert moved.groupby(mine["point"]).agg(["min", "max"]).to_numpy().tolist() == [[0, 0], [0, 1], [1, 1]]
    assert moved[mine["point"] == 1].mean() == pytest.approx(0.25, abs=0.07)
    credulous = events[events["attack"] == "credulous"]
    assert (credulous["estimate"] == credulous["output"]).all()
    assert (credulous["adversary_error_km"] == credulous["quality_loss_km"]).all()
    assert credulous["expected_adversary_error_km"].isna().all()
    assert events[events["attack"] == "sporadic"]["expected_adversary_error_km"].notna().all()
    # The optimal attack works against custom channels: one that always moves one cell east hides nothing.
    shifted = mine[(mine["point"] == 2) & (mine["attack"] == "sporadic")]
    assert (shifted["estimate"] == shifted["cell"]).all()
    assert events[events["lppm"] == "half"]["point"].unique().tolist() == [0]
    again = sim.run(
        sim.load(tmp_path / "run" / "manifest.json", allow_code=True), out=tmp_path / "again", figures=False
    )
    pd.testing.assert_frame_equal(events, again.events())
