"""Scenarios built in Python: the same models, digests and faults as from files."""

from __future__ import annotations

import inspect
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import sim
from sim.lppm.designs.exponential import ExponentialParameters
from sim.scenario.reading.source import parse_text
from tests.support import HOSTILE, SMALL, raises_code

USERS: dict[str, Any] = {"count": 2, "queries": 6, "mobility": "favourites"}


def test_python_and_file_give_the_same_scenario(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(SMALL)
    from_file = sim.load(tmp_path / "small.yaml")
    from_python = sim.make_scenario(**parse_text(SMALL, "small").data)
    assert from_python.digest == from_file.digest
    assert from_python.model_dump() == from_file.model_dump()
    assert sim.make_scenario(parse_text(SMALL, "small").data).digest == from_file.digest


def test_keywords_take_precedence_over_the_mapping() -> None:
    assert sim.make_scenario({"seed": 3, "users": USERS, "lppms": ["SP-Exp"]}, seed=4).seed == 4


def test_keywords_are_the_keys_of_a_scenario() -> None:
    own = {"scenario", "settings", "folder", "data", "allow_code", "unknown"}
    assert set(inspect.signature(sim.make_scenario).parameters) - own == set(sim.Scenario.model_fields)


def test_numpy_values_and_parameter_objects_are_accepted() -> None:
    scenario = sim.make_scenario(
        users=USERS,
        lppms=[
            {"name": "mine", "belief": "fixed_profile", "design": ExponentialParameters(epsilon_per_km=2.0)},
            {"kind": "SP-Exp", "design": {"epsilon_per_km": np.float64(0.5)}},
        ],
        sweep={"lppms.SP-Exp.design.epsilon_per_km": np.array([1.0, 2.0])},
        record={"snapshots": range(1, 4)},
        seed=np.int64(5),  # type: ignore[arg-type]
    )
    assert scenario.lppms[0].design == ExponentialParameters(epsilon_per_km=2.0)
    assert scenario.sweep == {"lppms.SP-Exp.design.epsilon_per_km": [1.0, 2.0]}
    assert (scenario.seed, scenario.record.snapshots) == (5, [1, 2, 3])


def test_all_faults_are_reported_with_their_paths() -> None:
    with pytest.raises(sim.ScenarioError) as error:
        sim.make_scenario(
            users=USERS | {"queries": 0}, lppms=[{"kind": "SP-Exp", "design": {"epsilon": 1}}], attacks=["markof"]
        )
    faults = {fault.path: fault for fault in error.value.faults}
    assert set(faults) == {"users.queries", "lppms.0.design.epsilon", "attacks.0"}
    assert all(fault.where == "make_scenario" for fault in faults.values())
    assert "'epsilon_per_km'" in faults["lppms.0.design.epsilon"].message
    assert "'markov'" in faults["attacks.0"].message


def test_sweeps_are_validated() -> None:
    with pytest.raises(sim.ScenarioError) as error:
        sim.make_scenario(users=USERS, lppms=["SP-Exp"], sweep={"lppms.*.design.epsilon_per_km": [1, -1]})
    assert [fault.path for fault in error.value.faults] == ["lppms.0.design.epsilon_per_km"]
    assert "-1" in str(error.value)
    swept = {"lppms.*.design.epsilon_per_km": [1, 2], "users.count": [1, 2]}
    assert sim.make_scenario(users=USERS, lppms=["SP-Exp"], sweep=swept).sweep == swept


def test_settings_change_values_by_path() -> None:
    scenario = sim.make_scenario(users=USERS, lppms=["SP-Exp"], settings={"lppms.*.design.epsilon_per_km": 3.0})
    assert scenario.lppms[0].design == ExponentialParameters(epsilon_per_km=3.0)


def test_with_settings_returns_a_changed_copy() -> None:
    scenario = sim.make_scenario(users=USERS, lppms=["SP-Exp"])
    changed = scenario.with_settings({"replications": 9})
    assert (scenario.replications, changed.replications) == (3, 9)
    with pytest.raises(sim.ScenarioError, match="'replications'"):
        scenario.with_settings({"replicatons": 9})


def test_yaml_restores_the_scenario(tmp_path: Path) -> None:
    scenario = sim.make_scenario(**parse_text(SMALL, "small").data)
    (tmp_path / "again.yaml").write_text(scenario.to_yaml())
    assert sim.load(tmp_path / "again.yaml").digest == scenario.digest
    assert yaml.safe_load(scenario.to_yaml())["name"] == "small"


def test_files_are_relative_to_the_folder(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("user,time,cell\nann,0,1\nann,60,2\n")
    users = {"mobility": {"kind": "replay", "file": "t.csv"}}
    scenario = sim.make_scenario(users=users, lppms=["SP-Exp"], folder=tmp_path)
    assert scenario.locate("t.csv") == tmp_path / "t.csv"
    assert scenario.with_settings({"seed": 2}).locate("t.csv") == tmp_path / "t.csv"
    with pytest.raises(sim.ScenarioError, match=r"t\.csv"):
        sim.make_scenario(users=users, lppms=["SP-Exp"])


MODULE = """
from sim.lppm.channels.exponential import exponential

class Blur:
    uses_prior = False

    def __init__(self, *, world, width_km=1.0):
        self._channel = exponential(world.quality_distance, 1 / width_km)

    def __call__(self, prior):
        return self._channel
"""


def test_class_of_a_module_is_named_and_permitted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blurring.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    blur = __import__("blurring").Blur
    lppm = {"name": "blur", "belief": "fixed_profile", "design": {"kind": blur, "width_km": 2.0}}
    scenario = sim.make_scenario(users=USERS, lppms=[lppm], attacks=["sporadic"], replications=1)
    assert scenario.own_components() == ["blurring:Blur"]
    assert len(sim.run(scenario, out=tmp_path / "run", figures=False).events()) == 12
    named = {"name": "other", "belief": "fixed_profile", "design": "other:Blur"}
    with pytest.raises(sim.CodeNotAllowed):
        sim.run(sim.make_scenario(users=USERS, lppms=[lppm, named]), out=tmp_path / "other", figures=False)


def test_class_of_a_notebook_cell_is_refused_in_scenarios() -> None:
    cell_class = type("Blur", (), {"__module__": "__main__"})
    with raises_code(sim.ComponentError, "class-not-importable") as error:
        sim.make_scenario(users=USERS, lppms=[{"name": "x", "belief": "fixed_profile", "design": cell_class}])
    assert "writefile" in str(error.value)


def test_representations_are_short_and_escaped() -> None:
    scenario = sim.make_scenario(users=USERS, lppms=["SP-Exp"], description=HOSTILE[0], sweep={"seed": [1, 2]})
    assert "SP-Exp" in repr(scenario)
    assert str(scenario) == repr(scenario)
    assert len(repr(scenario)) < 250
    page = scenario._repr_html_()
    assert "<script>" not in page
    assert "2 points" in page
