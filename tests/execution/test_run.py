"""Whole runs: the same seed gives the same bytes, and components do not affect each other."""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.events import Guess, Report
from sim.execution.failures import FailedChunks
from sim.scenario.reading.faults import ScenarioError
from tests.support import MakeScenario, files, plan
from tests.support import log_of as run


def test_same_seed_same_bytes(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=2, sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]})
    run(scenario, tmp_path / "a")
    run(scenario, tmp_path / "b")
    first, second = files(tmp_path / "a"), files(tmp_path / "b")
    assert first == second
    assert sum(name.startswith("events/") for name in first) == 4


def test_another_seed_gives_another_log(make_scenario: MakeScenario, tmp_path: Path) -> None:
    one, two = run(make_scenario(), tmp_path / "a"), run(make_scenario(seed=4), tmp_path / "b")
    assert not one["cell"].equals(two["cell"])


def moves(events: pd.DataFrame) -> pd.DataFrame:
    columns = ["replication", "user", "index", "time_s", "cell"]
    return events[columns].drop_duplicates().sort_values(columns, ignore_index=True)


def test_another_lppm_does_not_change_movements(make_scenario: MakeScenario, tmp_path: Path) -> None:
    one = run(make_scenario(lppms=["SP-Exp"]), tmp_path / "a")
    two = run(
        make_scenario(lppms=["identity", {"kind": "MK-LH", "design": {"quality_budget_km": 0.5}}]), tmp_path / "b"
    )
    pd.testing.assert_frame_equal(moves(one), moves(two))


def test_a_swept_parameter_does_not_change_movements(make_scenario: MakeScenario, tmp_path: Path) -> None:
    events = run(make_scenario(sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]}), tmp_path / "a")
    one, two = (moves(events[events["point"] == point]) for point in (0, 1))
    pd.testing.assert_frame_equal(one, two)


def test_an_additional_user_lppm_or_attack_does_not_change_other_rows(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    small = make_scenario(lppms=["PEB-Exp"], attacks=["markov"])
    users = small.users.model_copy(update={"count": 4})
    large = make_scenario(
        lppms=["MK-Exp", "PEB-Exp"],
        attacks=["sporadic", "markov", "markov-trained"],
        users=users.model_dump(exclude_unset=True),
    )
    few, many = run(small, tmp_path / "a"), run(large, tmp_path / "b")
    common = many.query("lppm == 'PEB-Exp' and attack == 'markov' and user != 'user-004'")
    keys = ["user", "index"]
    pd.testing.assert_frame_equal(few.sort_values(keys, ignore_index=True), common.sort_values(keys, ignore_index=True))


@pytest.mark.parametrize("lppm", ["SP-Exp", "MK-Exp", "PEB-LH"])
def test_two_interleaved_users_equal_the_same_users_in_separate_runs(
    lppm: str, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    table = pd.DataFrame(
        {"user": list("abab" * 6), "time": range(24), "cell": [0, 7, 1, 7, 5, 8, 0, 9, 1, 7, 0, 12] * 2}
    )
    frames = []
    for who in ("ab", "a", "b"):
        file = tmp_path / f"{who}.csv"
        table[table["user"].isin(list(who))].to_csv(file, index=False)
        scenario = make_scenario(
            lppms=[lppm], users={"mobility": {"kind": "replay", "file": str(file)}}, training={"no data": "nothing"}
        )
        frames.append(run(scenario, tmp_path / who))
    both, *apart = frames
    # The first day starts at the same midnight for all users, so times agree too.
    joined = pd.concat(apart).sort_values(["user", "index", "attack"], ignore_index=True)
    pd.testing.assert_frame_equal(both.sort_values(["user", "index", "attack"], ignore_index=True), joined)


@pytest.mark.parametrize(
    ("lppm", "belief"),
    [
        ("SP-Exp", "fixed_profile"),
        ("SP-LH", "fixed_profile"),
        ("MK-Exp", "markov_filter"),
        ("MK-LH", "markov_filter"),
        ("PEB-Exp", "estimated_profile"),
        ("PEB-LH", "estimated_profile"),
    ],
)
@pytest.mark.parametrize(("distance", "expected"), [("manhattan", True), ("euclidean", True), ("manhattan", False)])
def test_an_adversary_with_the_belief_of_the_mechanism_estimates_the_output(
    lppm: str, belief: str, distance: str, expected: bool, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    world = make_scenario().world.model_dump(exclude_unset=True)
    scenario = make_scenario(
        world=world | {"privacy_distance": distance, "quality_distance": distance},
        lppms=[lppm],
        attacks=[{"name": "twin", "belief": belief, "knows": "training"}],
        record={"expected": expected},
    )
    events = run(scenario, tmp_path / "run")
    assert (events["estimate"] == events["output"]).all()
    assert (events["adversary_error_km"] == events["quality_loss_km"]).all()
    if expected:
        pd.testing.assert_series_equal(
            events["expected_adversary_error_km"], events["expected_quality_loss_km"], check_names=False, rtol=1e-12
        )


def test_realised_metrics_agree_with_expected_ones(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=20, lppms=["SP-Exp", "PEB-Exp"])
    events = run(scenario, tmp_path / "run")
    for measure in ("quality_loss_km", "adversary_error_km"):
        for _, rows in events.groupby(["lppm", "attack"]):
            difference = rows[measure] - rows[f"expected_{measure}"]
            # Given the past, realised minus expected has mean 0 (a martingale): five standard errors are a wide margin.
            assert abs(difference.mean()) < 5 * difference.std() / len(difference) ** 0.5


def test_the_expected_loss_of_a_fixed_mechanism_depends_only_on_the_cell(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    events = run(make_scenario(replications=2, lppms=["SP-Exp"]), tmp_path / "run")
    by_cell = events.groupby("cell")["expected_quality_loss_km"]
    assert (by_cell.max() == by_cell.min()).all()


def test_each_replication_has_noise_of_its_own_and_each_user_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = pd.DataFrame({"user": ["a"] * 30 + ["b"] * 30, "order": [*range(30)] * 2, "cell": [3, 7, 11] * 20})
    table.to_csv(tmp_path / "t.csv", index=False)
    users = {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")}}
    scenario = make_scenario(
        replications=2,
        lppms=["Exp"],
        attacks=[],
        users=users,
        training={"none": "nothing"},
        record={"expected": False},  # otherwise one replication suffices
    )
    events = run(scenario, tmp_path / "run")
    drawn = {key: tuple(rows["output"]) for key, rows in events.groupby(["user", "replication"])}
    assert len(set(drawn.values())) == 4


def test_without_attacks_there_is_a_row_per_query(make_scenario: MakeScenario, tmp_path: Path) -> None:
    result = sim.run(make_scenario(attacks=[], lppms=["SP-Exp"]), out=tmp_path / "run", figures=False)
    events = result.events()
    assert len(events) == 3 * 25
    assert events["attack"].isna().all()
    assert events["adversary_error_km"].isna().all()
    assert result.summary()["quality_loss_km"].gt(0).all()


def test_expected_metrics_can_be_switched_off(make_scenario: MakeScenario, tmp_path: Path) -> None:
    on = run(make_scenario(), tmp_path / "on")
    off = run(make_scenario(record={"expected": False}), tmp_path / "off")
    assert off["expected_quality_loss_km"].isna().all()
    assert off["expected_adversary_error_km"].isna().all()
    pd.testing.assert_series_equal(on["output"], off["output"])
    pd.testing.assert_series_equal(on["estimate"], off["estimate"])


def test_mechanisms_that_a_sweep_does_not_change_run_once(make_scenario: MakeScenario) -> None:
    scenario = make_scenario(lppms=["SP-Exp", "SP-LH"], sweep={"lppms.*.design.epsilon_per_km": [0.5, 1, 2]})
    assert [chunk.lppms for chunk in plan(scenario)] == [("SP-Exp", "SP-LH"), ("SP-Exp",), ("SP-Exp",)]


def test_two_mechanisms_of_one_name_are_refused_in_python_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    twice = [{"kind": "SP-Exp", "design": {"epsilon_per_km": epsilon}} for epsilon in (0.1, 5.0)]
    with pytest.raises(ScenarioError) as error:
        run(make_scenario(lppms=twice), tmp_path / "run")
    assert "lppms" in str(error.value)
    assert "'SP-Exp'" in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("estimate", "shift"), [(-1, 0), (99, 0), (3, -1)])
def test_an_attack_with_invalid_answers_fails(
    estimate: int, shift: int, make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Invalid:
        def __init__(self, **given: Any) -> None: ...

        def observe(self, report: Report) -> Guess:
            return Guess(report.user, max(report.index + shift, 1), estimate)

    module = types.ModuleType("invalid")
    module.__dict__["Invalid"] = Invalid
    module.__file__ = __file__
    monkeypatch.setitem(sys.modules, "invalid", module)
    monkeypatch.setattr("sim.execution.inputs.source_file", lambda _name, _access: Path(__file__))
    monkeypatch.setenv("LPPM_SIM_ALLOW_CODE", "1")
    with pytest.raises(FailedChunks, match="RuntimeError: "):
        run(make_scenario(attacks=[{"kind": "invalid:Invalid", "name": "invalid"}]), tmp_path / "run")


def test_snapshots_hold_the_belief_of_the_mechanism(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(record={"snapshots": [1, 7]})
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    (part,) = result.run.parts()
    snapshots: dict[str, Any] = result.run.snapshots(part)
    frame = pd.DataFrame({key: snapshots[key] for key in ("lppm", "user", "index")})
    assert frame[frame["lppm"] == "PEB-LH"]["index"].tolist() == [1] * 3 + [7] * 3
    assert frame[frame["lppm"] == "SP-Exp"]["index"].tolist() == [1] * 3
    assert snapshots["profile"].sum(axis=1) == pytest.approx(1)
    assert snapshots["profile"].shape == (9, 20)


def test_disclosed_cells_give_the_reports_of_the_full_type_and_errors_of_optimal_attacks(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    """The optimal estimates need the channel, which only the disclosing mechanism publishes."""
    outputs = {}
    for learns_from in ("cells", "disclosed_cells"):
        lppm = {"kind": "RPEB-Exp", "learns_from": learns_from}
        events = run(make_scenario(lppms=[lppm], attacks=["sporadic", "face-value"]), tmp_path / learns_from)
        outputs[learns_from] = events[events["attack"] == "face-value"]["output"].tolist()
        errors = events[events["attack"] == "sporadic"]["expected_adversary_error_km"]
        assert len(errors) == (len(outputs[learns_from]) if learns_from == "disclosed_cells" else 0)
        assert errors.notna().all()
    assert outputs["cells"] == outputs["disclosed_cells"]
