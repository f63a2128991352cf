"""Every shipped component passes its contract checks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click
import pandas as pd
import pytest
from pydantic import TypeAdapter

from sim.attack.bayesian import AnyAttack
from sim.belief.parameters import BeliefParameters
from sim.checks import CHECKS
from sim.checks.bench import Bench
from sim.cli.commands.check_component import check_component
from sim.components.files import Place
from sim.components.registry import METHODS, OneOf
from sim.interfaces import Attack
from sim.lppm.designs import dummies
from sim.lppm.designs.dummies import DummiesParameters
from sim.lppm.parameters import DesignParameters
from sim.mobility.demand.parameters import DemandParameters
from sim.mobility.parameters import MobilityParameters
from sim.scenario.reference import listing
from tests.checks.contract import failing
from tests.support import MakeScenario


def kinds(family: str) -> list[str]:
    return [kind for kind in listing()[family][1] if kind != "module:Class"]


@pytest.mark.parametrize("kind", kinds("mobility"))
def test_every_mobility_keeps_the_contract(kind: str, make_scenario: MakeScenario, tmp_path: Path) -> None:
    data: dict[str, Any] = {"kind": kind}
    if kind == "replay":
        data["file"] = str(tmp_path / "traces.csv")
        pd.DataFrame({"user": list("abcd" * 9), "time": range(36), "cell": range(36)}).assign(
            cell=lambda table: table["cell"] % 12
        ).to_csv(data["file"], index=False)
    spec = TypeAdapter(Annotated[MobilityParameters, OneOf("mobility")]).validate_python(data)
    assert failing("mobility", lambda bench: spec.build(bench.world, 3, Place())) == {}


@pytest.mark.parametrize("kind", kinds("demand"))
def test_every_demand_keeps_the_contract(kind: str) -> None:
    spec = TypeAdapter(Annotated[DemandParameters, OneOf("demand")]).validate_python(kind)
    assert failing("demand", lambda _bench: spec.build()) == {}


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
    spec = TypeAdapter(Annotated[BeliefParameters, OneOf("belief")]).validate_python(kind)
    assert failing("belief", lambda bench: spec.build(bench.statistics, restart_s, bench.world)) == {}


@pytest.mark.parametrize(
    "kind",
    [
        *kinds("design"),
        {"kind": "exponential", "remap": False},
        {"kind": "exponential", "quality_budget_km": 1.0},
        {"kind": "exponential", "reveal_probability": 0.3},
        {"kind": "exponential", "reveal_probability": 1.0},
        {"kind": "exponential", "reveal_probability": 0.3, "quality_budget_km": 0.7},
        {"kind": "coin", "quality_budget_km": 0.7},
        {"kind": "coin", "reveal_probability": 0.0},
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
    spec = TypeAdapter(Annotated[DesignParameters, OneOf("design")]).validate_python(kind)
    assert failing("design", lambda bench: spec.build(bench.world)) == {}


@pytest.mark.parametrize("dummies_from", ["belief", "uniform"])
def test_design_with_too_many_outputs_to_list_passes_the_checks(
    dummies_from: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dummies, "LISTED", 0)
    spec = DummiesParameters.model_validate({"kind": "dummies", "dummies_from": dummies_from})
    assert failing("design", lambda bench: spec.build(bench.world)) == {}


@pytest.mark.parametrize("expected", [True, False])
@pytest.mark.parametrize("kind", kinds("attack"))
def test_every_attack_keeps_the_contract(kind: str, expected: bool, make_scenario: MakeScenario) -> None:
    spec = TypeAdapter(AnyAttack).validate_python(kind)
    scenario = make_scenario(record={"expected": expected})

    def make(bench: Bench) -> Attack:
        known = {"ann": bench.statistics, "bob": bench.statistics}
        return spec.build(scenario.attack_context(bench.world, known))

    assert failing("attack", make) == {}


def test_every_family_with_custom_components_has_checks() -> None:
    open_families = {family for family, (_, by_kind) in listing().items() if "module:Class" in by_kind}
    assert set(METHODS) == set(CHECKS) == open_families | {"attack", "lppm"}
    assert all(check.__doc__ for checks in CHECKS.values() for check in checks)


def test_command_line_option_lists_all_families() -> None:
    """The command repeats the list, since importing it would slow down the command line."""
    (option,) = (option for option in check_component.params if option.name == "family")
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == list(METHODS)
