"""Exceeded quality budgets are detected, reported and marked; insignificant excesses are not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim import report
from sim.analysis import budgets
from sim.analysis import narrative as sentences
from sim.cli.output.result import print_result
from sim.scenario.models import Scenario
from tests.support import MakeScenario, a_manifest

NAN = float("nan")


def summary(lppm: str = "SP-Exp", point: int = 0, **changes: Any) -> dict[str, Any]:
    row = {"point": point, "lppm": lppm, "attack": "markov", "users": 5, "queries": 500, "spread": "interval"}
    row |= {"quality_loss_km": 0.85, "quality_loss_km_low": 0.7, "expected_quality_loss_km": NAN}
    return row | changes


def exceeded_budgets(scenario: Scenario, *rows: dict[str, Any]) -> list[tuple[int, str, float, float]]:
    table = pd.DataFrame(rows)
    exceeded = budgets.exceeded_budgets([(0, scenario), (1, scenario)], table)
    return [(one["point"], one["lppm"], one["asked_km"], one["realised_km"]) for one in exceeded]


@pytest.fixture
def budgeted(make_scenario: MakeScenario) -> Scenario:
    return make_scenario(
        lppms=[
            {"kind": "SP-Exp", "design": {"quality_budget_km": 0.3}},
            {"kind": "PEB-LH", "design": {"quality_budget_km": 1.0}},
            "identity",
        ]
    )


@pytest.mark.parametrize(
    ("changes", "is_exceeded"),
    [
        ({}, True),
        ({"quality_loss_km_low": 0.2}, False),  # the lower limit, or the least of a few users, is below the budget
        ({"quality_loss_km": 0.31, "quality_loss_km_low": 0.305}, False),  # excess below the tolerance
        ({"expected_quality_loss_km": 0.33, "quality_loss_km_low": -2.0}, True),  # expected: no sampling noise
        ({"expected_quality_loss_km": 0.31}, False),
        ({"expected_quality_loss_km": 0.29}, False),
        ({"quality_loss_km_low": NAN}, True),  # no interval, but many queries and a large excess
        ({"quality_loss_km_low": NAN, "queries": 20}, False),
        ({"quality_loss_km_low": NAN, "quality_loss_km": 0.36}, False),
        ({"quality_loss_km": NAN, "quality_loss_km_low": NAN}, False),
    ],
)
def test_budget_is_exceeded_if_the_excess_is_significant(
    changes: dict[str, Any], is_exceeded: bool, budgeted: Scenario
) -> None:
    assert bool(exceeded_budgets(budgeted, summary(**changes))) == is_exceeded


def test_largest_excess_comes_first_and_each_lppm_counts_once(budgeted: Scenario) -> None:
    rows = [
        summary("PEB-LH", quality_loss_km=1.5, quality_loss_km_low=1.2),
        summary(),
        summary(attack="sporadic"),
        summary(point=1, quality_loss_km=3.0),
        summary("identity", quality_loss_km=9.0),
    ]
    assert exceeded_budgets(budgeted, *rows) == [
        (1, "SP-Exp", 0.3, 3.0),
        (0, "SP-Exp", 0.3, 0.85),
        (0, "PEB-LH", 1.0, 1.5),
    ]


def test_warning_has_the_losses_and_counts_the_rest() -> None:
    one = {"point": 0, "lppm": "SP-Exp", "at": "quality_budget_km 0.3", "asked_km": 0.3, "realised_km": 0.85}
    many = [one, one | {"at": "", "asked_km": 0.0}, one, one, one]
    first, second, third, rest = sentences.warnings(a_manifest(exceeded_budgets=many))
    assert first == (
        "SP-Exp (quality_budget_km 0.3) exceeded its quality budget of 0.3 km: the loss was 0.85 km (+183 %)"
    )
    assert second == "SP-Exp exceeded its quality budget of 0 km: the loss was 0.85 km"
    assert "a budget holds under the mechanism's own model" in third
    assert rest == "2 more losses exceed their budgets: see `exceeded_budgets` in manifest.json"
    assert sentences.warnings(a_manifest(exceeded_budgets=[one] * 4))[-1].startswith(
        "1 more loss exceeds its budget: see"
    )


def test_manifest_terminal_and_report_warn_about_exceeded_budgets(
    make_scenario: MakeScenario, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The mechanism is trained on users whose behaviour differs from that of the test users."""
    scenario = make_scenario(
        lppms=[{"kind": "SP-Exp"}, {"kind": "Exp"}],
        sweep={"lppms.*.design.quality_budget_km": [0.2, 1.0]},
    )
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    budgets_km = {0: 0.2, 1: 1.0}
    table = result.summary().drop_duplicates(["point", "lppm"])
    losses = dict(zip(zip(table["point"], table["lppm"], strict=True), table["expected_quality_loss_km"], strict=True))
    expected = {key for key, loss in losses.items() if loss > 1.05 * budgets_km[key[0]]}
    assert expected, "the scenario must exceed a budget"
    assert len(expected) < len(losses), "the scenario must meet a budget"
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert {(one["point"], one["lppm"]) for one in manifest["exceeded_budgets"]} == expected
    print_result(result)
    printed = capsys.readouterr().out
    lines = [line for line in printed.splitlines() if line.startswith("│")]
    marked = [line for line in lines if " ! " in line]
    assert len(marked) == len(expected)
    point, lppm = max(expected, key=lambda key: losses[key] / budgets_km[key[0]])
    warning = (
        f"{lppm} (quality_budget_km {budgets_km[point]:g}) exceeded its quality budget of {budgets_km[point]:g} km: "
        f"the loss was {losses[point, lppm]:.2f} km (+{100 * (losses[point, lppm] / budgets_km[point] - 1):.0f} %)"
    )
    assert warning in " ".join(printed.split())
    page = report.page([result])
    assert warning in page
    assert page.count('title="exceeds the quality budget"') == len(expected)
