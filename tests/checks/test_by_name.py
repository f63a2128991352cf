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
from tests.support import MakeScenario

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
    """Write a custom module into the current folder and return its name."""
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
def test_a_custom_component_is_imported_and_recognised(name: str, parameters: dict[str, Any], own: str) -> None:
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
        ("{own}", "it is not registered; allowed is module:Class, or one of cloaking, "),
        (":", "is named module:Class, found ':'"),
        (".own:X", "is named module:Class"),
        ("", "'': it is not registered; allowed is module:Class, or one of cloaking, "),
    ],
)
def test_a_component_that_does_not_exist(name: str, words: str, own: str) -> None:
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


def test_a_scenario_of_custom_components(own: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
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
