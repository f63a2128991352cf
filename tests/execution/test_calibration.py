"""Realised budgets: the strength calibration by simulations, against closed forms, and its place in a run."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq

import sim
from sim.analysis.calibrations import calibration_table, limits
from sim.errors import InputError, InvalidValue
from sim.execution.calibration import chunks as calibration_chunks
from sim.execution.calibration import measuring
from sim.execution.calibration.goals import ErrorGoal, LossGoal, quantile_limits
from sim.execution.calibration.measuring import Measured, Sample, interval, measure, sample
from sim.execution.population_cache import PopulationCache
from sim.scenario.models import Scenario
from sim.scenario.sweep import Point, points
from tests.support import MakeScenario, raises_code

BUDGET_KM = 0.5


def budgeted(kind: str, realised: float = BUDGET_KM, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "design": {"quality_budget_km": {"realised": realised, **more}}}


@pytest.fixture
def replayed(make_scenario: MakeScenario, tmp_path: Path) -> Scenario:
    """A replay of recorded traces: every replication has the same movements."""
    rng = np.random.default_rng(5)
    lines = [f"u{user},{600 * r},{rng.integers(20) // (1 + user)}" for user in range(3) for r in range(30)]
    (tmp_path / "traces.csv").write_text("\n".join(["user,time_s,cell", *lines]))
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "traces.csv")}}
    return make_scenario(users=users, training={}, lppms=[budgeted("Exp")], attacks=["sporadic"])


def loss_km(scenario: Scenario, epsilon: float, cells: dict[str, list[int]]) -> float:
    """The loss of the exponential mechanism without remap in closed form, averaged over queries, then users."""
    distance = scenario.build_world().quality_distance.matrix_km
    weights = np.exp(-epsilon * distance)
    by_cell = (weights * distance).sum(axis=1) / weights.sum(axis=1)
    return float(np.mean([by_cell[own].mean() for own in cells.values()]))


def test_the_strength_is_the_root_in_closed_form(replayed: Scenario, tmp_path: Path) -> None:
    result = sim.run(replayed, out=tmp_path / "run", figures=False)
    cells = {str(user): own["cell"].tolist() for user, own in result.events().groupby("user")}
    (calibration,) = result.manifest.calibrations
    root = brentq(lambda epsilon: loss_km(replayed, epsilon, cells) - BUDGET_KM, 0.01, 100)
    assert calibration.strength == pytest.approx(root, rel=0.01)
    assert calibration.loss_km == pytest.approx(loss_km(replayed, calibration.strength, cells), rel=1e-9)
    assert (
        calibration.loss_km_low == calibration.loss_km == calibration.loss_km_high
    )  # expected losses of recorded traces are exact
    assert result.summary()["expected_quality_loss_km"].iloc[0] == pytest.approx(BUDGET_KM, rel=0.002)


def test_a_quantile_over_users_holds_for_that_share(replayed: Scenario, tmp_path: Path) -> None:
    scenario = replayed.with_settings({"lppms": [budgeted("Exp", at=0.6)]})
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    losses = result.per_user().set_index("user")["expected_quality_loss_km"].sort_values()
    assert losses.iloc[1] == pytest.approx(BUDGET_KM, rel=0.002)  # two of three users: the smallest share above 60 %
    assert losses.iloc[2] > BUDGET_KM * 1.01


def test_learning_mechanisms_meet_the_budget_where_their_own_model_fails(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    plain = {"kind": "PEB-Exp", "name": "own model", "design": {"quality_budget_km": BUDGET_KM}}
    scenario = make_scenario(lppms=[budgeted("PEB-Exp"), plain], attacks=[], replications=20)
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    (calibration,) = result.manifest.calibrations
    loss = result.summary().drop_duplicates("lppm").set_index("lppm")["expected_quality_loss_km"]
    # 20 replications are also those of the search: the run repeats its random numbers.
    assert calibration.replications == 20
    assert loss["PEB-Exp"] == pytest.approx(calibration.loss_km, rel=1e-9)
    assert loss["PEB-Exp"] == pytest.approx(BUDGET_KM, rel=0.002)
    assert abs(loss["own model"] - BUDGET_KM) > 0.05 * BUDGET_KM
    assert calibration.loss_km_low < BUDGET_KM < calibration.loss_km_high


def test_common_random_numbers_make_the_loss_monotone(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-Exp")])
    (point,) = points(scenario)
    populations = PopulationCache()
    taken = Sample(4, 3, 3, 300)
    # Movements differ between replications by far more than strengths of one percent.
    losses = [
        measure(point, scenario.lppms[0], LossGoal(), 2 * 1.01**step, taken, populations).value for step in range(8)
    ]
    assert all(one > other for one, other in itertools.pairwise(losses))


def counted(monkeypatch: pytest.MonkeyPatch, most: int = 10_000) -> list[float]:
    """Record the strengths that are measured; interrupt the search after a number of them."""
    tried: list[float] = []

    def measure_counted(point: Point, lppm: Any, goal: Any, strength: float, *others: Any) -> Measured:
        if len(tried) == most:
            raise sim.UserError("stopped")
        tried.append(strength)
        return measure(point, lppm, goal, strength, *others)

    monkeypatch.setattr(calibration_chunks, "measure", measure_counted)
    return tried


def test_an_interrupted_search_continues_and_a_finished_one_is_not_repeated(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-Exp"), budgeted("SP-LH")])
    with monkeypatch.context() as patch:
        tried = counted(patch)
        whole = sim.run(scenario, out=tmp_path / "whole", figures=False)
    number = len(tried)
    with monkeypatch.context() as patch:
        tried = counted(patch, most=number - 2)
        with pytest.raises(sim.UserError, match="stopped"):
            sim.run(scenario, out=tmp_path / "cut", figures=False)
    with monkeypatch.context() as patch:
        tried = counted(patch)
        cut = sim.run(scenario, out=tmp_path / "cut", figures=False)
        assert len(tried) == 2
        again = sim.run(scenario.with_settings({"replications": 2}), out=tmp_path / "cut", figures=False)
        assert len(tried) == 2
    assert cut.manifest.calibrations == whole.manifest.calibrations == again.manifest.calibrations
    assert [lppm["design"]["quality_budget_km"] for lppm in whole.manifest.recorded_scenario["lppms"]] == [
        {"at": None, "realised": BUDGET_KM}
    ] * 2


def test_damaged_evaluations_are_computed_again(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-LH")])
    before = sim.run(scenario, out=tmp_path / "run", figures=False).manifest.calibrations
    for file in (tmp_path / "run" / "calibration").iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    assert sim.run(scenario, out=tmp_path / "run", figures=False).manifest.calibrations == before


def test_workers_find_the_same_strengths(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-Exp"), budgeted("SP-LH")], attacks=[])
    one = sim.run(scenario, out=tmp_path / "one", figures=False)
    two = sim.run(scenario, out=tmp_path / "two", figures=False, workers=2)
    assert one.manifest.calibrations == two.manifest.calibrations
    assert one.run.parts() == two.run.parts()


def test_a_sweep_over_realised_budgets(make_scenario: MakeScenario, tmp_path: Path) -> None:
    path = "lppms.*.design.quality_budget_km"
    budgets = [{"realised": 0.8}, {"realised": 0.2}]
    scenario = make_scenario(lppms=["Exp", "Drop"], sweep={path: budgets}, attacks=["sporadic"])
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    assert result.points()[f"{path}.realised"].tolist() == [0.8, 0.2]
    calibration = {(one.lppm, one.asked_km): one for one in result.manifest.calibrations}
    assert len(calibration) == 4
    assert all(one.loss_km == pytest.approx(budget_km, rel=0.002) for (_, budget_km), one in calibration.items())
    assert calibration["Exp", 0.2].strength > calibration["Exp", 0.8].strength
    assert calibration["Drop", 0.2].strength < calibration["Drop", 0.8].strength
    table = calibration_table(result.manifest, result.points())
    assert table is not None
    assert len(table.rows) == 4
    assert limits(result.manifest, result.points()) == []


def test_a_budget_above_every_loss_is_a_stated_limit(make_scenario: MakeScenario, tmp_path: Path) -> None:
    result = sim.run(make_scenario(lppms=[budgeted("SP-Exp", 50.0)]), out=tmp_path / "run", figures=False)
    (calibration,) = result.manifest.calibrations
    assert (calibration.strength, calibration.outcome) == (0.0, "unreachable")
    (line,) = limits(result.manifest, result.points())
    assert "not reached" in line
    assert "SP-Exp" in line


def test_block_sizes_stay_below_the_budget(make_scenario: MakeScenario, tmp_path: Path) -> None:
    result = sim.run(make_scenario(lppms=[budgeted("Snap", 1.3)]), out=tmp_path / "run", figures=False)
    (calibration,) = result.manifest.calibrations
    assert (calibration.outcome, calibration.strength) == ("nearest", int(calibration.strength))
    assert calibration.loss_km < 1.3


def test_a_budget_below_every_loss_is_an_error(make_scenario: MakeScenario, tmp_path: Path) -> None:
    lossy = {"kind": "Drop", "design": {"drop_loss_km": 0.0, "quality_budget_km": {"realised": 0.1}}}
    scenario = make_scenario(lppms=[lossy])
    calibration = sim.run(scenario, out=tmp_path / "none", figures=False).manifest.calibrations[0]
    assert (calibration.outcome, calibration.loss_km) == ("unreachable", 0.0)
    cloak = {"kind": "SP-Cloak", "design": {"population": 1, "quality_budget_km": {"realised": 1e-4}}}
    with raises_code(InputError, "infeasible-budget"):
        sim.run(make_scenario(lppms=[cloak]), out=tmp_path / "run", figures=False)


def test_another_run_is_refused_before_anything_is_written(make_scenario: MakeScenario, tmp_path: Path) -> None:
    sim.run(make_scenario(), out=tmp_path / "run", figures=False)
    with raises_code(sim.UserError, "run-differs"):
        sim.run(make_scenario(lppms=[budgeted("SP-Exp")]), out=tmp_path / "run", figures=False)
    assert not (tmp_path / "run" / "calibration").exists()


def test_designs_without_a_run_or_a_strength_refuse(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-Exp"), budgeted("SP-Opt")])
    for lppm in scenario.lppms:
        with raises_code(InvalidValue, "uncalibrated-budget"):
            lppm.design.build(scenario.build_world())
    custom = {"name": "own", "belief": "fixed_profile", "design": {"kind": "m:C", "quality_budget_km": {"realised": 1}}}
    with raises_code(Exception, "no-strength"):
        make_scenario(lppms=[custom])


def test_large_populations_are_sampled(make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = make_scenario(lppms=[budgeted("SP-Exp")], users={"count": 90, "queries": 5, "mobility": "favourites"})
    (point,) = points(scenario)
    monkeypatch.setattr(measuring, "QUERIES", 100)
    monkeypatch.setattr(measuring, "MOST_QUERIES", 600)
    populations = PopulationCache()
    taken = sample(point, scenario.lppms[0], LossGoal(), populations)
    assert (taken.replications, taken.users, taken.of_users) == (4, 30, 90)
    every = measure(point, scenario.lppms[0], LossGoal(), 1.0, Sample(4, 90, 90, 1800), populations)
    some = measure(point, scenario.lppms[0], LossGoal(), 1.0, taken, populations)
    assert some.low < every.value < some.high
    assert some.high - some.low > every.high - every.low > 0


def test_the_goal_of_an_error_takes_the_strongest_attack(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(lppms=["SP-Exp"], replications=4)
    (point,) = points(scenario)
    calibration = measure(point, scenario.lppms[0], ErrorGoal(), 1.0, Sample(4, 3, 3, 300), PopulationCache())
    fixed = make_scenario(lppms=[{"kind": "SP-Exp", "design": {"epsilon_per_km": 1.0}}], replications=4)
    errors = sim.run(fixed, out=tmp_path / "run", figures=False).summary()["expected_adversary_error_km"]
    assert calibration.value == pytest.approx(errors.min(), rel=1e-9)
    assert errors.max() > errors.min()


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.default_rng(1)
    replications = [interval(rng.normal(1, 0.2, (6, 5)), LossGoal(), sampled=False) for _ in range(400)]
    users = [interval(rng.normal(1, 0.2, (2, 40)), LossGoal(), sampled=True) for _ in range(400)]
    quantiles = [quantile_limits(rng.random(60), 0.9) for _ in range(400)]
    for limits_of in ([one[1:] for one in replications], [one[1:] for one in users]):
        assert 0.92 <= np.mean([low <= 1 <= high for low, high in limits_of]) <= 0.98
    assert 0.92 <= np.mean([low <= 0.9 <= high for low, high in quantiles]) <= 1
