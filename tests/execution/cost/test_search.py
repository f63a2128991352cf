"""The estimated cost of searches for realised budgets agrees with the simulations of a run."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.execution.calibration import measuring
from sim.execution.cost import search
from sim.execution.cost.search import estimate_with_search, with_assumed_strengths
from sim.execution.plan import Chunk
from sim.scenario.models import Scenario
from sim.scenario.sweep import points
from tests.support import MakeScenario

estimate = partial(estimate_with_search, limit_s=600)  # however busy the machine is


def budgeted(kind: str, realised: float = 0.5) -> dict[str, Any]:
    return {"kind": kind, "design": {"quality_budget_km": {"realised": realised}}}


def simulated(scenario: Scenario, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of simulations of the searches of a run."""
    counts: list[int] = []
    run_chunk = vars(measuring)["run_chunk"]

    def counted(chunk: Chunk, *others: Any) -> Any:
        counts.append(len(chunk.replications))
        return run_chunk(chunk, *others)

    with monkeypatch.context() as patch:
        patch.setattr(measuring, "run_chunk", counted)
        sim.run(scenario, out=folder, figures=False)
    return sum(counts)


@pytest.mark.parametrize("lppms", [["SP-Exp"], ["SP-Exp", "SP-LH", "PEB-Exp"], ["Snap"]])
def test_the_searches_simulate_about_as_often_as_estimated(
    lppms: list[str], make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario(lppms=[budgeted(kind) for kind in lppms])
    seen: list[int] = []
    plain = vars(search)["estimate"]

    def watched(scenario: Scenario, swept: Any, **options: Any) -> Any:
        cost = plain(scenario, swept, **options)
        seen.append(cost.simulations)
        return cost

    monkeypatch.setattr(search, "estimate", watched)
    cost = estimate(scenario)
    assert cost.times is not None
    assert cost.times.searches == len(lppms)
    assert cost.times.search_s > 0
    assert cost.seconds == cost.times.cpu_s()
    number = simulated(scenario, tmp_path / "run", monkeypatch)
    assert number / 2.5 <= seen[1] <= 2.5 * number


def test_the_search_adds_to_the_time_of_the_run(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-Exp"), "SP-LH"])
    cost = estimate(scenario)
    assert cost.times is not None
    assert cost.times.wall_s(1) > cost.times.start_s + cost.times.search_s + cost.times.end_s
    assert estimate(make_scenario(lppms=["SP-LH"])).times.searches == 0  # type: ignore[union-attr]


def test_assumed_strengths_replace_every_budget(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-Exp"), budgeted("Snap"), budgeted("Drop"), "SP-LH"])
    (point,) = with_assumed_strengths(points(scenario))
    assert all(lppm.design.realised_budget is None for lppm in point.scenario.lppms)
