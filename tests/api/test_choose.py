"""`sim.choose`: the object agrees with the command's files, has its defaults, and refuses wrong requests."""

from __future__ import annotations

import inspect
import json
from copy import copy
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.cli.commands.choose import choose as command
from sim.errors import InputError
from sim.execution.calibration import measuring
from sim.scenario.models import Scenario
from tests.support import MakeScenario, raises_code


@pytest.fixture
def town(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> Scenario:
    monkeypatch.setattr(measuring, "QUERIES", 1)
    users = {"count": 6, "queries": 20, "mobility": {"kind": "favourites", "places": 4}}
    return make_scenario(users=users, lppms=["SP-Exp"], replications=2)


def test_the_choice_agrees_with_its_files(town: Scenario, tmp_path: Path) -> None:
    options: dict[str, Any] = {"max_loss_km": 0.5, "lppms": ["Exp", "SP-Exp", "Drop"], "scenario": town}
    choice = sim.choose(**options, figures=False, out=tmp_path / "choice", progress=False)
    numbers = json.loads((choice.folder / "choice.json").read_text())
    ranking = choice.ranking()
    assert ranking["lppm"].tolist() == [one["name"] for one in numbers["candidates"]]
    assert ranking["strength"].tolist() == [one["strength"] for one in numbers["candidates"]]
    for column, key in (("loss_km", "loss_km"), ("error_km", "error_km")):
        for suffix, limit in (("", "value"), ("_low", "low"), ("_high", "high")):
            assert ranking[column + suffix].tolist() == [one[key][limit] for one in numbers["candidates"]]
    assert ranking["error_km"].is_monotonic_decreasing
    assert choice.best.name == numbers["choice"] == ranking["lppm"].iloc[0]
    assert choice.runner_up is not None
    assert choice.runner_up.name == numbers["runner_up"]
    assert ranking.loc[ranking["tie"], "lppm"].tolist() == choice.not_distinguishable == numbers["not_distinguishable"]
    assert pd.isna(ranking["behind_km"].iloc[0])
    assert choice.page.read_text().startswith("<!doctype html>")
    assert choice.warnings == numbers["warnings"]
    assert any("smaller than a cell (1000 m)" in warning for warning in choice.warnings)
    assert choice.sentences[0].startswith(f"To lose 0.5 km on average, use {choice.best.name}")
    assert choice.scenario_text.count("name:") >= 1
    assert repr(choice).startswith(f"<Choice of {choice.best.name} with ")
    assert all(name in choice._repr_html_() for name in ranking["lppm"])
    again = sim.run(choice.scenario, out=tmp_path / "again", figures=False)
    pd.testing.assert_frame_equal(again.summary(), choice.result.summary())


def test_defaults_are_those_of_the_command() -> None:
    ours = inspect.signature(sim.choose).parameters
    names = {"users": "users", "seed": "seed", "figures": "figures", "cell_km": "cell", "at": "at", "out": "out"}
    options = copy(command).make_context("choose", ["--max-loss", "1km"]).params  # click caches the help option
    names |= {"within_km": "within", "for_users": "for_users", "hide_home_days": "hide_home_for"}
    for name, option in names.items():
        assert ours[name].default == options[option], name


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"max_loss_km": 0.3, "min_error_km": 1.0},
        {"max_loss_km": 0.0},
        {"max_loss_km": float("nan")},
        {"min_error_km": 1.0, "at": 0.9},
        {"max_loss_km": 0.3, "at": 1.0},
        {"hide_home_days": 30, "within_km": -1.0},
        {"hide_home_days": 30, "for_users": 1.5},
    ],
)
def test_wrong_goals(request_: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with raises_code(InputError, "wrong-goal"):
        sim.choose(**request_)
    assert list(tmp_path.iterdir()) == []
