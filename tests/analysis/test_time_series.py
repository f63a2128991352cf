"""Time series of a run against pandas on the whole log."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis import beliefs, time_series, trajectories
from sim.analysis.result import Result
from sim.analysis.statistics import ratio_of_means
from sim.analysis.summary import LOSS_AND_ERROR
from sim.events import Shift
from sim.storage.errors import RequestError, RunError
from sim.storage.load import load
from sim.storage.run_directory import RunDirectory
from tests.support import SMALL, raises_code, recorded_shifts

RECORD = "record: {expected: true, snapshots: [1, 5, 9]}\n"
SCENARIO = SMALL.replace("replications: 1", "replications: 2").replace("[0.5, 2]", "[0.5, 1, 2]") + RECORD
NAMES = list(LOSS_AND_ERROR)


def changed(user: str, replication: int) -> tuple[Shift, ...]:
    """Return shifts of the first user only: at the fifth query, and back at the ninth."""
    return (Shift(user, "move", 5), Shift(user, "move", 9, ends=True)) if user.endswith("1") else ()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("series")
    (folder / "small.yaml").write_text(SCENARIO)
    with recorded_shifts(changed):
        return sim.run(load(folder / "small.yaml"), out=folder / "run", figures=False, chunk_queries=1)


@pytest.fixture(scope="module")
def log(result: Result) -> pd.DataFrame:
    return result.events()


def oracle(log: pd.DataFrame, ends: list[int]) -> pd.DataFrame:
    """Return each user's means by window, computed with pandas."""
    middle = {"SP-Exp": 1, "PEB-Exp": 1, "identity": 0}
    rows = log[(log["event"] == "query") & (log["point"] == log["lppm"].map(middle))]
    rows = rows.assign(last_index=[min(end for end in ends if end >= index) for index in rows["index"]])
    for name in NAMES:
        rows[name] = rows[f"expected_{name}"].fillna(rows[name])
    keys = ["point", "lppm", "attack", "last_index", "user"]
    return rows.groupby(keys)[NAMES].mean()


def test_user_time_series_has_the_windows_of_the_run(result: Result, log: pd.DataFrame) -> None:
    windows = result.over_time()
    table = time_series.user_time_series(result.run)
    assert set(table["first_index"]) == set(windows["first_index"])
    assert set(table["last_index"]) == set(windows["last_index"])
    plain = oracle(log, sorted(set(windows["last_index"])))
    own = table.set_index(plain.index.names)[NAMES].sort_index()
    pd.testing.assert_frame_equal(own, plain, check_dtype=False)
    assert (table["queries"] == 2).all()


def test_selected_users_and_points(result: Result, log: pd.DataFrame) -> None:
    user = log["user"].iloc[0]
    table = time_series.user_time_series(result.run, points=[("PEB-Exp", 2)], users=[user], read=result.totals())
    own = log[(log["lppm"] == "PEB-Exp") & (log["point"] == 2) & (log["user"] == user) & (log["event"] == "query")]
    plain = own.groupby(["attack", "index"])["expected_quality_loss_km"].mean()
    assert table["user"].unique().tolist() == [user]
    np.testing.assert_allclose(table.sort_values(["attack", "last_index"])["quality_loss_km"], plain)


def test_efficiency_is_a_ratio_of_means(result: Result, log: pd.DataFrame) -> None:
    users = time_series.user_time_series(result.run)
    table = time_series.efficiency_time_series(users)
    # Efficiency is undefined without a loss.
    assert set(table["lppm"]) == {"SP-Exp", "PEB-Exp"}
    plain = oracle(log, sorted(set(users["last_index"])))
    for row in table.to_dict("records"):
        own = plain.xs((row["point"], row["lppm"], row["attack"], row["last_index"]))
        ratio, low, high = ratio_of_means(
            own[["adversary_error_km"]].to_numpy(float), own[["quality_loss_km"]].to_numpy(float)
        )
        assert row["users"] == 3
        assert row["efficiency"] == pytest.approx(own["adversary_error_km"].sum() / own["quality_loss_km"].sum())
        assert [row["efficiency_low"], row["efficiency_high"]] == pytest.approx([low[0], high[0]])
        assert row["efficiency"] == pytest.approx(ratio[0])
    assert len(table) == 2 * 2 * 12


def test_efficiency_is_undefined_without_an_attack(result: Result) -> None:
    users = time_series.user_time_series(result.run).assign(adversary_error_km=np.nan)
    assert time_series.efficiency_time_series(users).empty


def distances(run: RunDirectory, log: pd.DataFrame, lppm: str, point: int) -> dict[int, list[float]]:
    """Return the distance of the belief from the true profile by snapshot index, computed with pandas."""
    (part,) = [part for part in run.parts() if part.startswith(f"{point:04d}-0000-0000-")]
    arrays = run.snapshots(part)
    table: dict[int, list[float]] = {}
    for i, user in enumerate(arrays["user"].tolist()):
        if arrays["lppm"][i] != lppm:
            continue
        own = log[(log["user"] == user) & (log["lppm"] == lppm) & (log["point"] == point) & (log["replication"] == 0)]
        own = own[(own["event"] == "query") & (own["attack"] == "markov")]
        for index in [1, 5, 9] if lppm == "SP-Exp" else [int(arrays["index"][i])]:
            regimes = [range(1, 5), range(5, 9), range(9, 13)] if user.endswith("1") else [range(1, 13)]
            (regime,) = [regime for regime in regimes if index in regime]
            truth = own.loc[own["index"].isin(regime), "cell"].value_counts(normalize=True)
            truth = truth.reindex(range(20), fill_value=0.0)
            table.setdefault(index, []).append(float(np.abs(arrays["profile"][i] - truth).sum() / 2))
    return table


@pytest.mark.parametrize("lppm", ["SP-Exp", "PEB-Exp"])
def test_belief_is_compared_with_the_profile_of_the_current_regime(
    result: Result, log: pd.DataFrame, lppm: str
) -> None:
    table = beliefs.belief_distance(result.run)
    own = table[table["lppm"] == lppm].set_index("index")
    plain = distances(result.run, log, lppm, 1)
    assert own.index.tolist() == [1, 5, 9] == sorted(plain)
    for index, values in plain.items():
        assert len(values) == own["users"][index] == 3
        half = 4.302652729911275 * np.std(values, ddof=1) / 3**0.5
        mean = np.mean(values)
        ends = [float(own[f"distance{end}"][index]) for end in ("", "_low", "_high")]
        assert ends == pytest.approx([mean, mean - half, mean + half])


def test_belief_of_the_identity_is_ignored(result: Result) -> None:
    assert any("identity" in result.run.snapshots(part)["lppm"] for part in result.run.parts())
    assert set(beliefs.belief_distance(result.run)["lppm"]) == {"SP-Exp", "PEB-Exp"}
    with raises_code(RequestError, "no-belief") as error:
        beliefs.belief_distance(result.run, points=[("identity", 0)])
    assert "identity" in str(error.value)


def test_distance_of_a_fixed_belief_changes_with_a_shift(result: Result, log: pd.DataFrame) -> None:
    """The cells of the user before and after the shift differ, so the distances differ too."""
    user = next(name for name in log["user"].unique() if name.endswith("1"))
    table = beliefs.belief_distance(result.run, points=[("SP-Exp", 1)], users=[user])
    assert (table["users"] == 1).all()
    assert table["distance_low"].isna().all()
    assert table["distance"].nunique() > 1


def test_trace_of_one_user(result: Result, log: pd.DataFrame) -> None:
    user = log["user"].iloc[0]
    table = trajectories.user_trace(result.run, lppm="PEB-Exp", point=1, attack="sporadic", user=user)
    same: Any = {"lppm": "PEB-Exp", "point": 1, "attack": "sporadic", "user": user, "replication": 0}
    own = log[(log[list(same)] == pd.Series(same)).all(axis=1)]
    columns = ["index", "time_s", "cell", "output", "estimate"]
    pd.testing.assert_frame_equal(table.queries[columns], own[columns].reset_index(drop=True), check_dtype=False)
    assert table.queries["shown"].tolist() == [(output,) for output in own["output"]]
    assert table.believed_at == 9
    assert table.belief is not None
    assert table.belief.sum() == pytest.approx(1)
    with raises_code(RequestError, "no-such-query") as error:
        trajectories.user_trace(result.run, lppm="PEB-Exp", point=1, attack="sporadic", user="nobody")
    assert "'nobody' under PEB-Exp against sporadic" in str(error.value)


def test_summarized_log_has_no_cells(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL + "record: {log: summary, window: 4}\n")
    run = sim.run(load(path), out=tmp_path / "run", figures=False).run
    with pytest.raises(RunError, match=r"record\.log"):
        beliefs.belief_distance(run)
    with pytest.raises(RunError, match=r"record\.log"):
        trajectories.user_trace(run, lppm="SP-Exp", point=0, attack="sporadic", user="user-1")
    assert set(time_series.user_time_series(run)["last_index"]) == {4, 8, 12}


def test_run_without_snapshots_has_no_belief(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL + "record: {snapshots: []}\n")
    run = sim.run(load(path), out=tmp_path / "run", figures=False).run
    with raises_code(RunError, "no-snapshots") as error:
        beliefs.belief_distance(run)
    assert "record.snapshots" in str(error.value)


def test_only_parts_of_the_selected_points_are_read(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_part = RunDirectory.open_part

    def counted(run: RunDirectory, part: str) -> Any:
        opened.append(part)
        return open_part(run, part)

    read = result.totals()
    monkeypatch.setattr(RunDirectory, "open_part", counted)
    time_series.user_time_series(result.run, points=[("PEB-Exp", 2)], read=read)
    assert {part[:4] for part in opened} == {"0002"}
    opened.clear()
    beliefs.belief_distance(result.run, points=[("PEB-Exp", 1)])
    assert {part[:14] for part in opened} == {"0001-0000-0000"}
