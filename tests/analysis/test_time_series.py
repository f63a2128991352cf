"""Courses of a run against plain pandas on its whole log."""

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
from tests.support import SMALL, told_shifts

RECORD = "record: {expected: true, snapshots: [1, 5, 9]}\n"
SCENARIO = SMALL.replace("replications: 1", "replications: 2").replace("[0.5, 2]", "[0.5, 1, 2]") + RECORD
FIGURES = list(LOSS_AND_ERROR)


def changed(user: str, replication: int) -> tuple[Shift, ...]:
    """Only the first user changes, with her fifth query, and back with the ninth."""
    return (Shift(user, "move", 5), Shift(user, "move", 9, ends=True)) if user.endswith("1") else ()


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("courses")
    (folder / "small.yaml").write_text(SCENARIO)
    with told_shifts(changed):
        return sim.run(load(folder / "small.yaml"), out=folder / "run", figures=False, chunk_queries=1)


@pytest.fixture(scope="module")
def log(result: Result) -> pd.DataFrame:
    return result.events()


def oracle(log: pd.DataFrame, ends: list[int]) -> pd.DataFrame:
    """Return each user's means by window in the plainest way."""
    middle = {"SP-Exp": 1, "PEB-Exp": 1, "identity": 0}
    rows = log[(log["event"] == "query") & (log["point"] == log["lppm"].map(middle))]
    rows = rows.assign(last_index=[min(end for end in ends if end >= index) for index in rows["index"]])
    for name in FIGURES:
        rows[name] = rows[f"expected_{name}"].fillna(rows[name])
    keys = ["point", "lppm", "attack", "last_index", "user"]
    return rows.groupby(keys)[FIGURES].mean()


def test_users_have_their_own_means_in_the_windows_of_all(result: Result, log: pd.DataFrame) -> None:
    windows = result.over_time()
    found = time_series.user_courses(result.run)
    assert set(found["first_index"]) == set(windows["first_index"])
    assert set(found["last_index"]) == set(windows["last_index"])
    plain = oracle(log, sorted(set(windows["last_index"])))
    own = found.set_index(plain.index.names)[FIGURES].sort_index()
    pd.testing.assert_frame_equal(own, plain, check_dtype=False)
    assert (found["queries"] == 2).all()


def test_some_users_and_other_points(result: Result, log: pd.DataFrame) -> None:
    user = log["user"].iloc[0]
    found = time_series.user_courses(result.run, points=[("PEB-Exp", 2)], users=[user], read=result.totals())
    own = log[(log["lppm"] == "PEB-Exp") & (log["point"] == 2) & (log["user"] == user) & (log["event"] == "query")]
    plain = own.groupby(["attack", "index"])["expected_quality_loss_km"].mean()
    assert found["user"].unique().tolist() == [user]
    np.testing.assert_allclose(found.sort_values(["attack", "last_index"])["quality_loss_km"], plain)


def test_the_efficiency_is_a_ratio_of_means(result: Result, log: pd.DataFrame) -> None:
    users = time_series.user_courses(result.run)
    found = time_series.efficiency_course(users)
    # Without a loss there is no efficiency.
    assert set(found["lppm"]) == {"SP-Exp", "PEB-Exp"}
    plain = oracle(log, sorted(set(users["last_index"])))
    for row in found.to_dict("records"):
        own = plain.xs((row["point"], row["lppm"], row["attack"], row["last_index"]))
        ratio, low, high = ratio_of_means(
            own[["adversary_error_km"]].to_numpy(float), own[["quality_loss_km"]].to_numpy(float)
        )
        assert row["users"] == 3
        assert row["efficiency"] == pytest.approx(own["adversary_error_km"].sum() / own["quality_loss_km"].sum())
        assert [row["efficiency_low"], row["efficiency_high"]] == pytest.approx([low[0], high[0]])
        assert row["efficiency"] == pytest.approx(ratio[0])
    assert len(found) == 2 * 2 * 12


def test_no_attack_no_efficiency(result: Result) -> None:
    users = time_series.user_courses(result.run).assign(adversary_error_km=np.nan)
    assert time_series.efficiency_course(users).empty


def distances(run: RunDirectory, log: pd.DataFrame, lppm: str, point: int) -> dict[int, list[float]]:
    """Return the distances of each user's belief from her truth, in the plainest way."""
    (part,) = [part for part in run.parts() if part.startswith(f"{point:04d}-0000-0000-")]
    arrays = run.snapshots(part)
    found: dict[int, list[float]] = {}
    for i, user in enumerate(arrays["user"].tolist()):
        if arrays["lppm"][i] != lppm:
            continue
        own = log[(log["user"] == user) & (log["lppm"] == lppm) & (log["point"] == point) & (log["replication"] == 0)]
        own = own[(own["event"] == "query") & (own["attack"] == "markov")]
        for index in [1, 5, 9] if lppm == "SP-Exp" else [int(arrays["index"][i])]:
            lives = [range(1, 5), range(5, 9), range(9, 13)] if user.endswith("1") else [range(1, 13)]
            (life,) = [life for life in lives if index in life]
            truth = own.loc[own["index"].isin(life), "cell"].value_counts(normalize=True)
            truth = truth.reindex(range(20), fill_value=0.0)
            found.setdefault(index, []).append(float(np.abs(arrays["profile"][i] - truth).sum() / 2))
    return found


@pytest.mark.parametrize("lppm", ["SP-Exp", "PEB-Exp"])
def test_beliefs_are_compared_with_the_life_that_is_led(result: Result, log: pd.DataFrame, lppm: str) -> None:
    found = beliefs.belief_distance(result.run)
    own = found[found["lppm"] == lppm].set_index("index")
    plain = distances(result.run, log, lppm, 1)
    assert own.index.tolist() == [1, 5, 9] == sorted(plain)
    for index, values in plain.items():
        assert len(values) == own["users"][index] == 3
        half = 4.302652729911275 * np.std(values, ddof=1) / 3**0.5
        mean = np.mean(values)
        ends = [float(own[f"distance{end}"][index]) for end in ("", "_low", "_high")]
        assert ends == pytest.approx([mean, mean - half, mean + half])


def test_what_the_identity_believes_does_not_count(result: Result) -> None:
    assert any("identity" in result.run.snapshots(part)["lppm"] for part in result.run.parts())
    assert set(beliefs.belief_distance(result.run)["lppm"]) == {"SP-Exp", "PEB-Exp"}
    with pytest.raises(RequestError, match="nothing depends on what identity believes: choose another LPPM"):
        beliefs.belief_distance(result.run, points=[("identity", 0)])


def test_a_change_of_life_makes_a_difference(result: Result, log: pd.DataFrame) -> None:
    """The user who moves has other cells before and after: the same belief is not as far from both."""
    user = next(name for name in log["user"].unique() if name.endswith("1"))
    found = beliefs.belief_distance(result.run, points=[("SP-Exp", 1)], users=[user])
    assert (found["users"] == 1).all()
    assert found["distance_low"].isna().all()
    assert found["distance"].nunique() > 1


def test_one_users_trace(result: Result, log: pd.DataFrame) -> None:
    user = log["user"].iloc[0]
    found = trajectories.user_trace(result.run, lppm="PEB-Exp", point=1, attack="sporadic", user=user)
    same: Any = {"lppm": "PEB-Exp", "point": 1, "attack": "sporadic", "user": user, "replication": 0}
    own = log[(log[list(same)] == pd.Series(same)).all(axis=1)]
    columns = ["index", "time_s", "cell", "output", "estimate"]
    pd.testing.assert_frame_equal(found.queries[columns], own[columns].reset_index(drop=True), check_dtype=False)
    assert found.queries["shown"].tolist() == [(output,) for output in own["output"]]
    assert found.believed_at == 9
    assert found.belief is not None
    assert found.belief.sum() == pytest.approx(1)
    with pytest.raises(RequestError, match=r"no query of user 'nobody' under PEB-Exp against sporadic"):
        trajectories.user_trace(result.run, lppm="PEB-Exp", point=1, attack="sporadic", user="nobody")


def test_of_a_summary_the_cells_are_not_known(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL + "record: {log: summary, window: 4}\n")
    run = sim.run(load(path), out=tmp_path / "run", figures=False).run
    with pytest.raises(RunError, match=r"is a summary, without the cells .* record\.log to queries"):
        beliefs.belief_distance(run)
    with pytest.raises(RunError, match="is a summary"):
        trajectories.user_trace(run, lppm="SP-Exp", point=0, attack="sporadic", user="user-1")
    assert set(time_series.user_courses(run)["last_index"]) == {4, 8, 12}


def test_without_snapshots_there_is_no_belief(tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL + "record: {snapshots: []}\n")
    run = sim.run(load(path), out=tmp_path / "run", figures=False).run
    with pytest.raises(RunError, match=r"no snapshot of what its mechanisms believe: set record\.snapshots"):
        beliefs.belief_distance(run)


def test_only_the_parts_of_the_points_are_read(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    open_part = RunDirectory.open_part

    def counted(run: RunDirectory, part: str) -> Any:
        opened.append(part)
        return open_part(run, part)

    read = result.totals()
    monkeypatch.setattr(RunDirectory, "open_part", counted)
    time_series.user_courses(result.run, points=[("PEB-Exp", 2)], read=read)
    assert {part[:4] for part in opened} == {"0002"}
    opened.clear()
    beliefs.belief_distance(result.run, points=[("PEB-Exp", 1)])
    assert {part[:14] for part in opened} == {"0001-0000-0000"}
