"""Efficiency before and after a shift: query-by-query oracles, and time series with known metrics."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import stats

import sim
from sim.analysis.adaptation import OF_USER, Adaptation, adaptation, compare
from sim.analysis.event_log import read_shifts
from sim.analysis.statistics import ratio_of_means
from sim.events import Shift
from sim.interfaces import FloatArray
from sim.storage.errors import RequestError, RunError
from sim.storage.event_schema import EVENTS
from sim.storage.run_directory import RunDirectory
from tests.support import a_manifest, done, files, lppm_sim, raises_code, recorded_shifts, refused


def queries(
    error: Sequence[float] | FloatArray, loss: Sequence[float] | FloatArray | None = None, **same: Any
) -> pd.DataFrame:
    """Return the rows of one user's queries; the loss is 1 km by default."""
    frame = pd.DataFrame({"adversary_error_km": np.asarray(error, dtype=float)})
    frame["quality_loss_km"] = 1.0 if loss is None else loss
    frame["index"] = frame["estimated_index"] = np.arange(1, len(frame) + 1)
    known = {"event": "query", "shift": None, "point": 0, "replication": 0, "user": "ann", "lppm": "PEB"}
    return frame.assign(**(known | {"attack": "markov", "time_s": 0, "cell": 0} | same))


def shift(index: int, name: str = "move", *, ends: bool = False, **same: Any) -> pd.DataFrame:
    frame = queries([0.0], **same)
    frame[["attack", "adversary_error_km", "quality_loss_km", "estimated_index"]] = None
    return frame.assign(event="shift_end" if ends else "shift", shift=name, index=index)


def write(path: Path, *parts: Sequence[pd.DataFrame]) -> RunDirectory:
    run = RunDirectory.create(path)
    run.write_manifest(a_manifest())
    for i, frames in enumerate(parts):
        rows = [
            {str(name): value for name, value in row.items()}
            for frame in frames
            for row in frame.replace({np.nan: None}).to_dict("records")
        ]
        run.write_part(f"part{i}", pa.Table.from_pylist(rows, schema=EVENTS))
    return run


def stepped(drop: int, *, at: int = 101, after: int = 200, low: float = 0.5) -> list[float]:
    """Return errors that fall to a lower level for `drop` queries after the shift."""
    return [2.0] * (at - 1) + [2.0 * low] * drop + [2.0] * (after - drop)


def one(path: Path, errors: Sequence[float], *, at: int = 101, **options: Any) -> pd.Series[Any]:
    run = write(path, [shift(at), queries(errors)])
    return adaptation(run, **options).summary.iloc[0]


# ------------------------------------------------------------------------------------------------ known time series


@pytest.mark.parametrize(
    ("drop", "window", "recovered", "taken"),
    [(100, 50, 0.9, 140), (100, 10, 0.9, 108), (100, 50, 0.75, 125), (100, 50, 1.0, 150), (11, 50, 0.9, 51)],
)
def test_recovery_from_a_step_is_exact(drop: int, window: int, recovered: float, taken: int, tmp_path: Path) -> None:
    """With the efficiency halved, a fraction s of the window may be low, where 1 - s / 2 is the recovery level."""
    row = one(tmp_path, stepped(drop), window=window, recovered=recovered)
    assert row["queries_to_recover"] == row["queries_to_recover_median"] == row["pooled_queries_to_recover"] == taken
    assert (row["users"], row["censored"], row["pooled_censored"], row["left_out"]) == (1, 0, False, 0)
    assert row["efficiency_before"] == row["efficiency_end"] == 2
    assert row["efficiency_lowest"] == pytest.approx(1 + max(0, window - drop) / window)
    # Each query at the low level is half lost, later ones are not.
    assert row["queries_lost"] == pytest.approx(drop / 2)
    assert row["pooled_queries_lost"] == pytest.approx(drop / 2)


@pytest.mark.parametrize("drop", [0, 10])
def test_minimum_recovery_time_is_one_window(drop: int, tmp_path: Path) -> None:
    row = one(tmp_path, stepped(drop))
    assert row["queries_to_recover"] == 50
    assert row["queries_lost"] == pytest.approx(drop / 2)


def test_users_who_never_recover_are_censored_at_the_end(tmp_path: Path) -> None:
    run = write(
        tmp_path,
        [frame for user in "abc" for frame in (shift(101, user=user), queries(stepped(100), user=user))],
        [shift(101, user="d"), queries(stepped(200), user="d")],
        [shift(101, user="e"), queries(stepped(400, after=400), user="e")],
    )
    adapted = adaptation(run)
    (row,) = adapted.summary.to_dict("records")
    assert (row["users"], row["censored"]) == (5, 2)
    assert adapted.users["queries_to_recover"].tolist() == [140, 140, 140, 200, 400]
    assert adapted.users["censored"].tolist() == [False] * 3 + [True] * 2
    assert row["queries_to_recover_median"] == 140
    assert row["queries_to_recover"] == pytest.approx((3 * 140 + 600) / 5)
    assert adapted.users["queries_lost"].tolist() == pytest.approx([50, 50, 50, 100, 200])
    # Pooled, 3 of 5 users recover fully: 0.8 < 0.9. Beyond query 200 only one user remains.
    assert row["pooled_censored"]
    assert row["pooled_queries_to_recover"] == adapted.time_series["queries_after"].max() == 200
    assert row["efficiency_end"] == pytest.approx((3 * 2 + 2 * 1) / 5)


def test_efficiency_is_a_ratio_of_sums(tmp_path: Path) -> None:
    """The loss of most queries is zero: a mean of ratios would be infinite."""
    errors, losses = [0.0, 0.0, 0.0, 6.0] * 4, [0.0, 3.0, 0.0, 1.0] * 4
    run = write(tmp_path, [shift(9), queries(errors, losses)])
    adapted = adaptation(run, window=4)
    assert adapted.summary["efficiency_before"].item() == 1.5
    assert adapted.time_series["efficiency"].tolist() == pytest.approx([1.5] * len(adapted.time_series))
    assert adapted.time_series["queries_after"].tolist() == [-4, -3, -2, -1, 0, 4, 5, 6, 7, 8]


def test_replications_are_summed_before_the_ratio(tmp_path: Path) -> None:
    rows = [
        [shift(3, replication=r), queries([error] * 6, [loss] * 6, replication=r)]
        for r, (error, loss) in enumerate([(1.0, 1.0), (5.0, 2.0)])
    ]
    adapted = adaptation(write(tmp_path, *rows), window=2)
    assert adapted.users["efficiency_before"].tolist() == [2.0]
    assert adapted.time_series["efficiency"].tolist() == pytest.approx([2.0] * 4)


def test_expected_metrics_are_preferred(tmp_path: Path) -> None:
    rows = queries([1.0] * 6).assign(expected_adversary_error_km=3.0, expected_quality_loss_km=2.0)
    assert adaptation(write(tmp_path, [shift(3), rows]), window=2).summary["efficiency_before"].item() == 1.5


# --------------------------------------------------------------------------------------------------- an oracle


Row = dict[str, Any]


def oracle(
    events: list[Row], *, window: int, before: int, recovered: float, name: str
) -> dict[tuple[str, str, str], dict[str, float]]:
    """Compute each user's metrics query by query, without running sums."""
    changes: dict[tuple[str, str, int], list[Row]] = {}
    for row in events:
        if row["shift"] is not None:
            changes.setdefault((row["lppm"], row["user"], row["replication"]), []).append(row)
    offsets: dict[tuple[str, str, str], list[tuple[int, Row]]] = {}
    for row in events:
        own_changes = changes.get((row["lppm"], row["user"], row["replication"]), [])
        begins = [change["index"] for change in own_changes if (change["shift"], change["event"]) == (name, "shift")]
        if row["shift"] is None and begins:
            start = max((change["index"] for change in own_changes if change["index"] < begins[0]), default=1)
            end = min((change["index"] for change in own_changes if change["index"] > begins[0]), default=10**9)
            if start <= row["index"] < end and row["index"] >= begins[0] - before:
                own = offsets.setdefault((row["lppm"], row["attack"], row["user"]), [])
                own.append((row["index"] - begins[0], row))
    return {key: _user_metrics(own, window=window, recovered=recovered) for key, own in offsets.items()}


def _user_metrics(own: list[tuple[int, Row]], *, window: int, recovered: float) -> dict[str, float]:
    def efficiency(start: int, stop: int) -> float:
        inside = [row for offset, row in own if start <= offset < stop]
        return float(sum(row["adversary_error_km"] for row in inside) / sum(row["quality_loss_km"] for row in inside))

    earlier, after = efficiency(-(10**9), 0), max(offset for offset, _ in own) + 1
    series = {k: efficiency(k - window, k) for k in range(window, after + 1)}
    taken = next((k for k, value in series.items() if value >= recovered * earlier), after)
    return {
        "efficiency_before": earlier,
        "efficiency_lowest": min(series.values()),
        "efficiency_end": series[after],
        "queries_to_recover": taken,
        "queries_lost": taken * max(0.0, 1 - efficiency(0, taken) / earlier),
    }


def busy(seed: int) -> list[list[pd.DataFrame]]:
    """Return parts with several users, replications, attacks and shifts at different times."""
    rng = np.random.default_rng(seed)
    parts = []
    for lppm, replication in itertools.product(("PEB", "SP"), range(2)):
        frames = []
        for i, user in enumerate(("ann", "bob", "cem")):
            own: dict[str, Any] = {"user": user, "lppm": lppm, "replication": replication}
            if user != "cem":
                frames += [shift(5, "early", **own), shift(30 + i + replication, **own)]
                frames.append(shift(80 + 3 * i, "late", ends=bool(i), **own))
            for attack in ("markov", "bayes"):
                loss = rng.gamma(2, 1, 100 + i)
                level = np.where(np.arange(100 + i) < 40, 1.0, 0.6)
                frames.append(queries(rng.gamma(2, 1, 100 + i) * level, loss, attack=attack, **own))
        parts.append(frames)
    return parts


@pytest.mark.parametrize("seed", range(3))
def test_metrics_equal_the_oracle(seed: int, tmp_path: Path) -> None:
    run = write(tmp_path, *busy(seed))
    events = [row for table in run.tables() for row in table.to_pylist()]
    options: dict[str, Any] = {"window": 7, "before": 20, "recovered": 0.8}
    adapted = adaptation(run, shift="move", **options)
    expected = oracle(events, name="move", **options)
    assert set(adapted.users["user"]) == {"ann", "bob"}
    rows = {(row["lppm"], row["attack"], row["user"]): row for row in adapted.users.to_dict("records")}
    assert rows.keys() == expected.keys()
    for key, metrics in expected.items():
        assert {name: rows[key][name] for name in OF_USER} == pytest.approx(metrics)


def test_sums_do_not_depend_on_the_distribution_of_rows_over_parts(tmp_path: Path) -> None:
    parts = busy(0)
    shared, apart = write(tmp_path / "1", *parts), write(tmp_path / "2", [frame for part in parts for frame in part])
    tables = [adaptation(run, shift="move", window=7) for run in (shared, apart)]
    for name in ("summary", "users", "time_series"):
        one, other = (getattr(adapted, name) for adapted in tables)
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_splitting_queries_over_replications_keeps_the_efficiency(tmp_path: Path) -> None:
    """Errors and losses scaled by the same factor have the same ratio."""
    rng = np.random.default_rng(1)
    errors, losses = rng.gamma(2, 1, (2, 60))
    whole = write(tmp_path / "1", [shift(31), queries(errors, losses)])
    parts = [
        [shift(31, replication=r), queries(errors * f, losses * f, replication=r)] for r, f in enumerate((0.3, 0.7))
    ]
    halves = write(tmp_path / "2", *parts)
    series = [adaptation(run, window=10).time_series["efficiency"].to_numpy() for run in (whole, halves)]
    np.testing.assert_allclose(series[0], series[1], rtol=1e-12)


# -------------------------------------------------------------------------------------------------- intervals


def test_delta_method_agrees_with_a_bootstrap_over_users() -> None:
    rng = np.random.default_rng(5)
    losses = rng.gamma(4, 0.5, 60)
    errors = losses * rng.normal(0.8, 0.2, 60)
    ratio, low, high = (float(values[0]) for values in ratio_of_means(errors[:, None], losses[:, None]))
    drawn = rng.integers(0, 60, (4000, 60))
    again = errors[drawn].sum(axis=1) / losses[drawn].sum(axis=1)
    assert ratio == pytest.approx(errors.sum() / losses.sum())
    assert (low, high) == pytest.approx(np.percentile(again, [2.5, 97.5]).tolist(), abs=0.15 * (high - low))


def test_interval_has_the_nominal_coverage() -> None:
    """The tolerance is three standard errors of 4,000 samples plus one percentage point for the approximation."""
    rng = np.random.default_rng(6)
    losses = rng.gamma(4, 0.5, (30, 4000))
    errors = losses * rng.normal(0.8, 0.3, (30, 4000))
    _, low, high = ratio_of_means(errors, losses)
    assert np.mean((low <= 0.8) & (high >= 0.8)) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("lengths", "last"), [((20, 20, 10), 20), ((20, 10, 10), 10), ((20, 10), 20)])
def test_pooled_time_series_ends_when_half_of_the_users_remain(
    lengths: tuple[int, ...], last: int, tmp_path: Path
) -> None:
    frames = [
        frame
        for i, length in enumerate(lengths)
        for frame in (shift(11, user=f"u{i}"), queries([1.0] * (10 + length), user=f"u{i}"))
    ]
    series = adaptation(write(tmp_path, frames), window=5).time_series
    assert series["queries_after"].max() == last
    assert series["users"].iloc[-1] == sum(length >= last for length in lengths)


def test_single_user_has_no_interval(tmp_path: Path) -> None:
    row = one(tmp_path, stepped(100))
    assert (
        row[[f"{name}{end}" for name in ("efficiency_before", "queries_lost") for end in ("_low", "_high")]]
        .isna()
        .all()
    )


def test_intervals_of_the_time_series_are_over_users(tmp_path: Path) -> None:
    users = {"ann": (1.0, 1.0), "bob": (3.0, 2.0), "cem": (2.0, 4.0)}
    frames = [
        frame
        for user, (error, loss) in users.items()
        for frame in (shift(4, user=user), queries([error] * 6, [loss] * 6, user=user))
    ]
    row = adaptation(write(tmp_path, frames), window=3).time_series.iloc[-1]
    ratio = 6 / 7
    residuals = [(error - ratio * loss) / (7 / 3) for error, loss in users.values()]
    half = stats.t.ppf(0.975, 2) * stats.sem(residuals)
    expected = [3, ratio, ratio - half, ratio + half]
    assert row[["users", "efficiency", "efficiency_low", "efficiency_high"]].tolist() == pytest.approx(expected)


def test_comparison_is_paired_by_user(tmp_path: Path) -> None:
    drops = {"PEB": [100, 120, 150, 90], "fast": [20, 30, 60, 40]}
    frames = [
        frame
        for lppm, own in drops.items()
        for user, drop in zip("abcd", own, strict=True)
        for frame in (shift(101, user=user, lppm=lppm), queries(stepped(drop), user=user, lppm=lppm))
    ]
    adapted = adaptation(write(tmp_path, frames))
    (row,) = adapted.compare("PEB").to_dict("records")
    assert (row["lppm"], row["against"], row["users"]) == ("fast", "PEB", 4)
    taken = {lppm: [drop + 40 for drop in own] for lppm, own in drops.items()}
    test = stats.ttest_rel(taken["fast"], taken["PEB"])
    interval = test.confidence_interval(0.95)
    assert row["queries_to_recover"] == pytest.approx(np.subtract(taken["fast"], taken["PEB"]).mean())
    assert row["queries_to_recover_low"] == pytest.approx(interval.low)
    assert row["queries_to_recover_high"] == pytest.approx(interval.high)
    assert row["recovery_ratio"] == pytest.approx(sum(taken["fast"]) / sum(taken["PEB"]))
    assert row["recovery_ratio_low"] < row["recovery_ratio"] < row["recovery_ratio_high"]
    with raises_code(RequestError, "unknown-lppm") as error:
        compare(adapted.users, "slow")
    assert "'slow'" in str(error.value)
    assert "PEB, fast" in str(error.value)


def test_window_longer_than_all_traces_is_an_error(tmp_path: Path) -> None:
    run = write(tmp_path, [shift(3), queries([1.0] * 6)])
    with raises_code(RequestError, "window-too-long") as error:
        adaptation(run)
    assert "50 queries after move" in str(error.value)
    assert "--window" in str(error.value)


def test_reference_with_a_single_point_is_compared_at_every_point(tmp_path: Path) -> None:
    drops = {(0, "PEB"): 100, (0, "fast"): 20, (1, "fast"): 40}
    frames = [
        frame
        for (point, lppm), drop in drops.items()
        for user in "ab"
        for frame in (
            shift(101, user=user, lppm=lppm, point=point),
            queries(stepped(drop), user=user, lppm=lppm, point=point),
        )
    ]
    table = adaptation(write(tmp_path, frames)).compare("PEB")
    assert table[["point", "users", "queries_to_recover"]].to_numpy().tolist() == [[0, 2, -80], [1, 2, -60]]
    again = adaptation(write(tmp_path, frames)).compare("fast")
    assert again["point"].tolist() == [0]


# --------------------------------------------------------------------------------------------- analysed range


def test_default_is_the_first_shift(tmp_path: Path) -> None:
    run = write(tmp_path, [shift(4, "a"), shift(7, "b"), queries([1, 1, 1, 2, 2, 2, 6, 6, 6])])
    first, second = adaptation(run, window=2), adaptation(run, window=2, shift="b")
    assert (first.summary["shift"].item(), second.summary["shift"].item()) == ("a", "b")
    # Other changes limit the analysed range on both sides.
    assert first.users[["efficiency_before", "efficiency_end", "queries_after"]].values.tolist() == [[1, 2, 3]]
    assert second.users[["efficiency_before", "efficiency_end", "queries_after"]].values.tolist() == [[2, 6, 3]]
    with raises_code(RequestError, "unknown-shift") as error:
        adaptation(run, shift="c")
    assert "'c'; available: a, b" in str(error.value)


def test_each_point_uses_its_own_shift(tmp_path: Path) -> None:
    parts = [
        [shift(at, name, point=p), queries([1.0] * 12, point=p)] for p, (at, name) in enumerate([(4, "a"), (7, "b")])
    ]
    adapted = adaptation(write(tmp_path, *parts, [queries([1.0] * 12, point=2)]), window=2)
    assert adapted.summary[["point", "shift"]].values.tolist() == [[0, "a"], [1, "b"]]
    assert adapted.users["queries_after"].tolist() == [9, 6]


def test_end_of_a_shift_ends_the_analysed_range(tmp_path: Path) -> None:
    errors = [2.0] * 10 + [1.0] * 10 + [2.0] * 10
    adapted = adaptation(write(tmp_path, [shift(11), shift(21, ends=True), queries(errors)]), window=5)
    assert adapted.users[["queries_after", "censored", "efficiency_end"]].values.tolist() == [[10, True, 1.0]]


def test_users_without_enough_data_are_excluded_and_counted(tmp_path: Path) -> None:
    """Bob has too few queries after the shift, cem none before it, di no loss; eve has no shift; only ann counts."""
    frames = [
        *(shift(11, user="ann"), queries([1.0] * 20, user="ann")),
        *(shift(17, user="bob"), queries([1.0] * 20, user="bob")),
        *(shift(1, user="cem"), queries([1.0] * 20, user="cem")),
        *(shift(11, user="di"), queries([1.0] * 20, [0.0] * 20, user="di")),
        queries([1.0] * 20, user="eve"),
    ]
    adapted = adaptation(write(tmp_path, frames), window=5)
    assert adapted.summary[["users", "left_out"]].values.tolist() == [[1, 3]]
    assert adapted.users["user"].tolist() == ["ann"]


def test_run_without_shifts_or_attacks_is_an_error(tmp_path: Path) -> None:
    with raises_code(RequestError, "no-shift"):
        adaptation(write(tmp_path / "1", [queries([1.0] * 6)]))
    unattacked = queries([0.0] * 6, attack=None).assign(adversary_error_km=None)
    with raises_code(RunError, "no-efficiency"):
        adaptation(write(tmp_path / "2", [shift(3), unattacked]))


@pytest.mark.parametrize("options", [{"window": 0}, {"before": 0}, {"recovered": 0.0}, {"recovered": 1.5}])
def test_parameters_out_of_range_are_errors(options: dict[str, Any], tmp_path: Path) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=rf"^{name}\b.*{options[name]}"):
        adaptation(RunDirectory(tmp_path), **options)


# -------------------------------------------------------------------------------------------- summarized logs


def summed(frame: pd.DataFrame, size: int) -> pd.DataFrame:
    """Return the rows of a summarized log: the means of `size` queries each."""
    groups = frame.groupby((frame["index"] - 1) // size)
    means = groups[["adversary_error_km", "quality_loss_km"]].mean()
    rest = groups.last().drop(columns=means.columns)
    return pd.concat([rest, means], axis=1).assign(event="summary", estimated_index=None)


def test_summarized_log_gives_the_same_at_the_ends_of_its_windows(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    errors, losses = rng.gamma(2, 1, (2, 123))
    rows = queries(errors, losses)
    full, short = (
        adaptation(write(tmp_path / name, [shift(41), table]), window=20, before=45)
        for name, table in (("full", rows), ("short", summed(rows, 10)))
    )
    expected_series = full.time_series[full.time_series["queries_after"] % 10 == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(short.time_series, expected_series)
    assert short.users["queries_after"].tolist() == [83]
    expected = errors[0:40].sum() / losses[0:40].sum()
    assert short.users["efficiency_before"].tolist() == pytest.approx([expected])


@pytest.mark.parametrize("at", [42, 45, 50])
def test_summarized_row_across_the_shift_is_an_error(at: int, tmp_path: Path) -> None:
    run = write(tmp_path, [shift(at), summed(queries([1.0] * 100), 10)])
    with pytest.raises(RunError, match=rf"\b41 to 50\b.*\b{at}\b.*\b{at - 1}\b"):
        adaptation(run)


def test_window_that_splits_summarized_rows_is_an_error(tmp_path: Path) -> None:
    run = write(tmp_path, [shift(41), summed(queries([1.0] * 100), 10)])
    with pytest.raises(RunError, match=r"\b15\b.*\b20\b"):
        adaptation(run, window=15)


def test_users_without_the_shift_are_ignored(tmp_path: Path) -> None:
    """Summarized rows of users who do not change may have any length."""
    frames = [shift(41), summed(queries([1.0] * 100), 10), summed(queries([1.0] * 100, user="bob"), 30)]
    adapted: Adaptation = adaptation(write(tmp_path, frames), window=20)
    assert adapted.users["user"].tolist() == ["ann"]
    assert read_shifts(write(tmp_path, frames))["user"].tolist() == ["ann"]


# ------------------------------------------------------------------------------------------------------- runs


MOVE = """
name: moved
seed: 3
replications: 2
world: {grid: {kind: rectangle, rows: 4, cols: 5, width_km: 5, height_km: 4}}
users: {count: 3, queries: 120, mobility: {kind: favourites, places: 4}}
training: {others: {kind: others, count: 8, queries: 30}}
lppms: [SP-Exp, {kind: SP-Exp, name: mild, design: {epsilon_per_km: 2}}]
attacks: [sporadic]
"""


def moved(user: str, replication: int) -> tuple[Shift, ...]:
    return (Shift(user, "move", 61 + replication),)


def cells(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines]


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("moved.yaml").write_text(MOVE)
    return Path("moved.yaml")


def test_run_with_shifts_reports_the_adaptation(scenario: Path) -> None:
    with recorded_shifts(moved):
        text = done("run", scenario, "-o", "run")
    assert re.search(r"before and after move; .* window of 50 .* 90 %", " ".join(text.split()))
    names = sorted(path.name for path in Path("run/figures").glob("adaptation.*"))
    assert names == ["adaptation.pdf", "adaptation.png", "adaptation.svg"]
    result = sim.Result.open("run")
    written = result.run.read_csv("adaptation.csv")
    summary = result.adaptation().summary
    pd.testing.assert_frame_equal(written[summary.columns], summary, check_dtype=False)
    assert written[["lppm", "users", "left_out"]].values.tolist() == [["SP-Exp", 3, 0], ["mild", 3, 0]]
    assert result.adaptation() is result.adaptation()
    assert len(result.shifts()) == 6
    before = files(Path("run/figures"))
    Path("run/figures/adaptation.png").unlink()
    assert "run/figures/adaptation.png" in done("plot", "run").split()
    assert files(Path("run/figures")) == before


def test_command_has_the_same_defaults_and_options(scenario: Path) -> None:
    with recorded_shifts(moved):
        done("run", scenario, "-o", "run", "--no-figures")
    written = Path("run/adaptation.csv").read_bytes()
    assert not Path("run/figures").exists() or not list(Path("run/figures").glob("adaptation.*"))
    text = done("adaptation", "run")
    assert Path("run/adaptation.csv").read_bytes() == written
    heading, *body = [row for row in cells(text) if row[0] != ""]
    assert heading[:7] == ["LPPM", "attack", "Q-bar", "Q after", "before", "minimum", "end"]
    assert "minus SP-Exp" in heading
    assert [row[:2] for row in body] == [["SP-Exp", "sporadic"], ["mild", "sporadic"]]
    adapted = sim.Result.open("run").adaptation()
    own = adapted.users.loc[adapted.users["lppm"] == "SP-Exp", "efficiency_before"]
    written_before = f"{adapted.summary['efficiency_before'].iloc[0]:.3f} ({own.min():.3f} to {own.max():.3f})"
    assert written_before.startswith(body[0][4])
    assert body[0][4].count("(") == 1
    text = done("adaptation", "run", "--window", "10", "--recovered", "0.5", "--before", "20", "--against", "mild")
    assert re.search(r"window of 10 .* 50 %", " ".join(text.split()))
    assert "minus mild" in cells(text)[0]
    assert Path("run/adaptation.csv").read_bytes() != written
    assert "100 queries after move" in refused("adaptation", "run", "--window", "100")
    assert "SP-Exp, mild" in refused("adaptation", "run", "--against", "wild")
    assert "'rest'; available: move" in refused("adaptation", "run", "--shift", "rest")


def test_run_without_shifts_has_no_adaptation(scenario: Path) -> None:
    text = done("run", scenario, "-o", "run", "--no-figures", "--set", "users.queries=10")
    assert "fficiency" not in text
    assert not Path("run/adaptation.csv").exists()
    assert "`shifts`" in refused("adaptation", "run")


def test_summarized_row_across_the_shift_does_not_fail_the_run(scenario: Path) -> None:
    summary = ("--set", "record={log: summary, window: 25}", "--no-figures")
    with recorded_shifts(lambda user, _: (Shift(user, "move", 61),)):
        text = done("run", scenario, "-o", "run", *summary)
    assert re.search(r"\b51 to 75\b.*\b61\b", " ".join(text.split()))
    assert not Path("run/adaptation.csv").exists()
    result = lppm_sim("adaptation", "run")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "record.window" in result.stderr
    assert "60" in result.stderr
