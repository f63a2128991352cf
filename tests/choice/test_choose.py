"""Choose a mechanism: calibrated losses, errors and hidden homes, the ranking, and the files that reproduce it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis.result import Result
from sim.choice.candidates import DEFAULT, names_of, suitable
from sim.choice.choose import Choice, choose, scenario_text, with_candidates
from sim.choice.population import recorded, synthetic
from sim.choice.prepare import prepared
from sim.choice.ranking import Interval, mean_interval, sentences
from sim.choice.request import Request
from sim.choice.table import ranking_table
from sim.choice.write import page, write_choice
from sim.errors import InputError
from sim.execution.calibration import chunks as calibration_chunks
from sim.execution.calibration import measuring
from sim.execution.calibration.home_goal import HomeGoal
from sim.execution.calibration.measuring import measure
from sim.scenario.models import Scenario
from sim.storage.errors import RunError
from sim.storage.load import load
from tests.support import MakeScenario, raises_code

MAX_LOSS = Request(kind="max-loss", target=0.5)
CANDIDATES = ["Exp", "SP-Exp", "Drop"]


@pytest.fixture(autouse=True)
def few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate each strength four times only."""
    monkeypatch.setattr(measuring, "QUERIES", 1)


def chosen(scenario: Scenario, request: Request, folder: Path, **options: Any) -> Choice:
    return choose(scenario, request, folder, figures=False, notify=lambda _line: None, **options)


@pytest.fixture
def base(make_scenario: MakeScenario) -> Scenario:
    users = {"count": 6, "queries": 25, "mobility": {"kind": "favourites", "places": 4}}
    return make_scenario(users=users, lppms=CANDIDATES, replications=3, attacks=["sporadic", "markov", "smoothing"])


def errors_of(result: Result) -> pd.DataFrame:
    """Mean error by LPPM and attack, in km, computed from the event log in another way than the ranking."""
    events = result.events()
    events = events[events["event"] == "query"]
    rows: dict[Any, float] = {}
    for (lppm, attack), own in events.groupby(["lppm", "attack"]):
        if attack == "smoothing":
            last = own.loc[own.groupby(["replication", "user", "estimated_index"])["index"].idxmax()]
            rows[lppm, attack] = last.groupby(["replication", "user"])["adversary_error_km"].mean().mean()
        else:
            rows[lppm, attack] = own.groupby(["replication", "user"])["expected_adversary_error_km"].mean().mean()
    return pd.Series(rows).unstack()


def test_candidates_have_the_loss_and_are_ranked_by_their_strongest_attack(base: Scenario, tmp_path: Path) -> None:
    choice = chosen(base, MAX_LOSS, tmp_path / "choice")
    errors = errors_of(choice.result)
    assert [one.name for one in choice.ranking.candidates] == errors.min(axis=1).sort_values(
        ascending=False
    ).index.tolist()
    for one in choice.ranking.candidates:
        assert one.errors_km == pytest.approx(errors.loc[one.name].to_dict())
        assert one.strongest == errors.loc[one.name].idxmin()
        assert one.loss_km.low < MAX_LOSS.target < one.loss_km.high
    loss = choice.result.summary().drop_duplicates("lppm").set_index("lppm")["expected_quality_loss_km"]
    assert {one.name: one.loss_km.value for one in choice.ranking.candidates} == pytest.approx(loss.to_dict())


def test_the_written_scenario_reproduces_the_choice(base: Scenario, tmp_path: Path) -> None:
    choice = chosen(base, MAX_LOSS, tmp_path / "choice")
    write_choice(choice)
    again = sim.run(load(tmp_path / "choice" / "scenario.yaml"), out=tmp_path / "again", figures=False)
    pd.testing.assert_frame_equal(again.summary(), choice.result.summary())
    numbers = json.loads((tmp_path / "choice" / "choice.json").read_text())
    assert numbers["choice"] == choice.ranking.best.name
    assert {one["name"]: one["strength"] for one in numbers["candidates"]} == {
        one.name: one.strength for one in choice.ranking.candidates
    }
    page = (tmp_path / "choice" / "choice.html").read_text()
    assert "<script" not in page
    assert all(name in page for name in CANDIDATES)
    alone = scenario_text(choice, [choice.ranking.best.name])
    assert alone.count("epsilon_per_km") + alone.count("drop_probability") == 1


def test_an_interrupted_choice_continues(base: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = chosen(base, MAX_LOSS, tmp_path / "whole")
    tried: list[Any] = []

    def counted(*arguments: Any) -> Any:
        tried.append(arguments)
        return measure(*arguments)

    def stopped(*arguments: Any) -> Any:
        if len(tried) == 5:
            raise sim.UserError("stopped")
        return counted(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(calibration_chunks, "measure", stopped)
        with pytest.raises(sim.UserError, match="stopped"):
            chosen(base, MAX_LOSS, tmp_path / "cut")
    evaluations = sum(one["strengths_tried"] for one in strengths_tried(tmp_path / "whole"))
    tried.clear()
    with monkeypatch.context() as patch:
        patch.setattr(calibration_chunks, "measure", counted)
        cut = chosen(base, MAX_LOSS, tmp_path / "cut")
    assert len(tried) == evaluations - 5
    assert cut.ranking.described() == whole.ranking.described()
    with monkeypatch.context() as patch:
        patch.setattr(calibration_chunks, "measure", stopped)  # a finished choice simulates nothing
        assert chosen(base, MAX_LOSS, tmp_path / "cut").ranking.described() == whole.ranking.described()


def strengths_tried(folder: Path) -> list[dict[str, int]]:
    files = (folder / "search" / "calibration").iterdir()
    return [{"strengths_tried": np.load(file)["strength"].size} for file in files]


def test_a_share_of_the_users_keeps_the_loss(base: Scenario, tmp_path: Path) -> None:
    choice = chosen(with_candidates(base, ["Exp"]), replace(MAX_LOSS, at=0.8), tmp_path / "choice")
    (one,) = choice.ranking.candidates
    mean = chosen(with_candidates(base, ["Exp"]), MAX_LOSS, tmp_path / "mean").ranking.best
    assert one.strength > mean.strength  # less noise: the users who lose most count
    assert one.loss_km.value < MAX_LOSS.target


def test_the_least_loss_with_an_error(base: Scenario, tmp_path: Path) -> None:
    request = Request(kind="min-error", target=0.3)
    scenario = with_candidates(base.model_copy(update={"attacks": base.attacks[:2]}), ["Exp", "Drop"])
    choice = chosen(scenario, request, tmp_path / "choice")
    losses = [one.loss_km.value for one in choice.ranking.candidates]
    assert losses == sorted(losses)
    for one in choice.ranking.candidates:
        assert one.error_km.value == pytest.approx(0.3, rel=0.2)  # 3 replications here, 4 in the search
        assert one.behind is None or one.behind.value >= 0


def test_an_error_that_no_candidate_reaches_is_stated(base: Scenario, tmp_path: Path) -> None:
    scenario = with_candidates(base, ["Drop", "Exp"])
    with raises_code(RunError, "goal-not-reached"):
        chosen(scenario, Request(kind="min-error", target=50.0), tmp_path / "choice")


def test_homes_are_hidden_for_the_days_asked_for(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        world={
            "grid": {"kind": "rectangle", "rows": 6, "cols": 6, "width_km": 6, "height_km": 6},
            "roads": "lattice",
        },
        users={
            "count": 5,
            "mobility": "commuters",
            "demand": {"kind": "periodic", "period_s": 7200},
            "past_days": 1,
            "days": 6,
        },
        training={"own": "own_past", "others": "other_users"},
        lppms=["Exp"],
        attacks=[{"kind": "sporadic-learning", "training": "others"}],
    )
    request = Request(kind="hide-home", target=3.0, within_km=0.6, share=0.6)
    choice = chosen(scenario, request, tmp_path / "choice")
    (one,) = choice.ranking.candidates
    assert one.hidden is not None
    assert 0.3 <= one.hidden.value <= 1
    looser = chosen(scenario, replace(request, share=0.2), tmp_path / "looser").ranking.best
    assert looser.strength >= one.strength
    assert "homes are hidden" in sentences(choice.ranking, request)[1]


def test_the_share_of_hidden_homes_counts_censored_users() -> None:
    goal = HomeGoal(days=5, within_km=0.5)
    # Known on day 2; not known until day 3 (left); not known until days 9 and 9: survival 3/4 at day 5.
    assert goal.over_users(np.array([[2.0, -3.0, -9.0, -9.0]])) == pytest.approx([0.75])
    assert goal.hidden_share(np.array([-3.0, -3.0])) == 0.0  # nobody is observed long enough


def test_recorded_users_and_region(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines = ["user,time,lat,lon"]
    for user in range(5):
        for number in range(30 + 10 * user):
            lines.append(f"u{user},{3600 * number},{46.2 + 0.02 * rng.random():.5f},{6.1 + 0.05 * rng.random():.5f}")
    lines.append("u4,9999999,10.0,10.0")
    file = tmp_path / "traces.csv"
    file.write_text("\n".join(lines))
    base = recorded(file, MAX_LOSS, users=3)
    grid = base.data["world"]["grid"]
    assert 46.19 < grid["south"] < 46.201
    assert 46.219 < grid["north"] < 46.23
    assert 6.09 < grid["west"] < 6.101
    assert 6.149 < grid["east"] < 6.16
    assert base.data["users"]["mobility"]["select"] == {"min_visits": 50, "first": 3}
    assert base.data["users"]["queries"] == 100
    assert any("leaves out" in remark for remark in base.remarks)
    with raises_code(InputError, "too-few-visits"):
        (tmp_path / "few.csv").write_text("\n".join(lines[:10]))
        recorded(tmp_path / "few.csv", MAX_LOSS)


def test_the_queries_left_out_are_stated(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    lines = ["user,time,lat,lon"]
    for user, rows in enumerate((300, 150)):
        places = 46.2 + 0.02 * rng.random((rows, 2))
        lines += [f"u{user},{3600 * n},{lat:.5f},{lon - 40:.5f}" for n, (lat, lon) in enumerate(places)]
    file = tmp_path / "traces.csv"
    file.write_text("\n".join(lines))
    inside = recorded(file, MAX_LOSS).data["users"]
    assert inside["queries"] == 100
    remarks = prepared(MAX_LOSS, ["Exp"], data=file).remarks
    (remark,) = [text for text in remarks if "queries are used" in text]
    used, of_all = (int(word) for word in remark.split() if word.isdigit() and word != "100")
    assert 100 + 60 < used < 100 + 75 + 1 < of_all < 226  # 150 and 75 rows of the second halves, 2 % outside the region
    assert not any("queries are used" in text for text in prepared(MAX_LOSS, ["Exp"]).remarks)


def test_a_goal_missed_in_the_comparison_is_marked(base: Scenario, tmp_path: Path) -> None:
    scenario = base.model_copy(update={"users": base.users.model_copy(update={"queries": 5}), "replications": 1})
    choice = chosen(scenario, MAX_LOSS, tmp_path / "choice")
    losses = choice.result.summary().drop_duplicates("lppm").set_index("lppm")["expected_quality_loss_km"]
    off = {name for name, loss_km in losses.items() if abs(loss_km / 0.5 - 1) > 0.01}
    assert off
    candidates = {one.name: one for one in choice.ranking.candidates}
    assert {name: one.realised for name, one in candidates.items()} == pytest.approx(losses.to_dict())
    assert {name for name, one in candidates.items() if one.outcome == "nearest"} == off
    (loss,) = [column for column in ranking_table(choice.ranking, MAX_LOSS).columns if column.heading == "loss"]
    rows = ranking_table(choice.ranking, MAX_LOSS).rows
    assert {str(row["name"]) for row in rows if loss.cell(row).mark} == off
    (line,) = [text for text in sentences(choice.ranking, MAX_LOSS) if "differ from the goal" in text]
    assert all(str(name) in line for name in off)
    assert {text.partition(":")[0] for text in choice.remarks if "in the comparison" in text} == off


def test_synthetic_days_cover_the_goal() -> None:
    assert synthetic(Request(kind="hide-home", target=30.0)).data["users"]["days"] == 37
    grid = synthetic(Request(kind="max-loss", target=2.0)).data["world"]["grid"]
    assert (grid["rows"], grid["cols"]) == (10, 10)


def test_candidates_by_name(base: Scenario) -> None:
    assert names_of([]) == list(DEFAULT)
    with raises_code(InputError, "unknown-lppm"):
        names_of(["PEB-Epx"])
    good, remarks = suitable(names_of(["all"]), base, all_of_them=True)
    assert {"SP-Exp", "Exp", "PEB-MK-AMix", "SP-Opt"} <= set(good)
    assert {"Dummies", "PEB-full-Exp", "SP-Coin"} & set(good) == set()
    assert len(good) + len(remarks) == len(names_of(["all"]))
    with raises_code(InputError, "no-candidate"):
        suitable(["identity"] if "identity" in names_of(["all"]) else ["Dummies"], base, all_of_them=False)


def test_ties_and_intervals() -> None:
    values = np.array([1.0, 1.2, 0.8, 1.1, 0.9, 1.0])
    single, several = mean_interval(values), mean_interval(values, comparisons=6)
    assert single.half < several.half
    assert mean_interval(values[:3]).value == 1.0
    assert np.isnan(mean_interval(values[:3]).low)
    assert Interval(1.0, 0.5, 1.2).half == 0.5


def test_cells_fit_the_goal_within_limits() -> None:
    def cells_m(request: Request, **options: Any) -> tuple[float, str]:
        base = synthetic(request, **options)
        return 1000 * 10 / base.data["world"]["grid"]["rows"], base.remarks[1]

    assert cells_m(Request(kind="max-loss", target=1.0)) == (500, "20 x 20 cells of about 500 m (half the goal)")
    size_m, why = cells_m(Request(kind="max-loss", target=0.3))
    assert 240 < size_m < 260
    assert "half the goal of 300 m needs more than 1,58" in why
    days = Request(kind="hide-home", target=300.0)
    assert cells_m(days)[0] == 500  # 20 x 20 cells are always allowed
    assert "as given" in cells_m(days, cell_km=0.5)[1]


def test_a_goal_below_the_cells_is_a_warning_before_the_choice(base: Scenario, tmp_path: Path) -> None:
    choice = chosen(with_candidates(base, ["Exp"]), MAX_LOSS, tmp_path / "choice")
    (warning,) = [text for text in choice.warnings if "smaller than a cell" in text]
    html = page(choice)
    assert html.index("Warning: ") < html.index("on average, use")
    fine = Request(kind="max-loss", target=1.2)
    assert not chosen(with_candidates(base, ["Exp"]), fine, tmp_path / "fine").warnings
    assert "500 m" in warning
