"""Summaries, windows, curves, shifts and replications against pandas and scipy on small logs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sim.analysis import event_log, summary
from sim.analysis.curves import loss_curves, user_points
from sim.analysis.event_log import SERIES, merge_sums, read_shifts
from sim.analysis.replications import replication_half_widths, replication_means, variance_ratio
from sim.analysis.statistics import intervals
from sim.analysis.summary import per_user, read_totals, summarize, summarize_users, tradeoff
from sim.analysis.sweep_labels import circumstances, with_distinct_names
from sim.analysis.windows import read_halves, read_over_time
from sim.storage.errors import RunError
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.run_directory import RunDirectory
from tests.analysis.variance import plain_half_width
from tests.support import a_manifest, raises_code


def row(**changes: Any) -> dict[str, Any]:
    plain = {
        "event": "query",
        "shift": None,
        "point": 0,
        "replication": 0,
        "user": "ann",
        "index": 1,
        "time_s": 0,
        "cell": 0,
        "output": 0,
        "lppm": "SP",
        "attack": "markov",
        "estimated_index": changes.get("index", 1),
        "estimate": 0,
        **dict.fromkeys(MEASURES),
    }
    return {**plain, **changes}


def write(path: Path, *parts: list[dict[str, Any]]) -> RunDirectory:
    run = RunDirectory.create(path)
    run.write_manifest(a_manifest())
    for i, rows in enumerate(parts):
        run.write_part(f"part{i}", pa.Table.from_pylist(rows, schema=EVENTS))
    return run


def queries(values: list[float], **same: Any) -> list[dict[str, Any]]:
    return [row(index=i + 1, quality_loss_km=v, adversary_error_km=2 * v, **same) for i, v in enumerate(values)]


def test_per_user_means_count_queries_only(tmp_path: Path) -> None:
    run = write(
        tmp_path,
        [
            *queries([1, 2, 6], user="ann"),
            row(event="shift", user="ann", index=3, quality_loss_km=100.0),
            row(user="ann", index=3, estimated_index=1, quality_loss_km=100.0, adversary_error_km=100.0),
            *queries([5], user="bob", attack=None, expected_quality_loss_km=4.0),
        ],
    )
    frame = per_user(run)
    assert frame[["user", "attack", "queries"]].values.tolist() == [["bob", "", 1], ["ann", "markov", 3]]
    assert frame["quality_loss_km"].tolist() == [5, 3]
    assert frame["adversary_error_km"].tolist() == [10, 6]
    assert frame["expected_quality_loss_km"].tolist()[0] == 4
    assert math.isnan(frame["expected_quality_loss_km"].tolist()[1])
    assert frame["expected_adversary_error_km"].isna().all()


def test_shifts_are_listed_once(tmp_path: Path) -> None:
    """A shift occurs under each mechanism, but is one event of the user."""
    nothing = {"attack": None, "estimated_index": None}

    def shift(name: str, index: int, **where: Any) -> dict[str, Any]:
        return row(event="shift", shift=name, index=index, time_s=10 * index, **nothing, **where)

    def end(name: str, index: int, **where: Any) -> dict[str, Any]:
        return shift(name, index, **where) | {"event": "shift_end"}

    run = write(
        tmp_path,
        [shift("away", 2, lppm=lppm) for lppm in ("SP", "PEB")] + [end("away", 3)] + queries([1, 2, 3], user="ann"),
        queries([1, 2]),
        [shift("move", 1, user="bob"), shift("away", 1, user="bob"), shift("away", 5, replication=1, point=1)],
    )
    table = read_shifts(run)
    assert table.columns.tolist() == ["point", "replication", "shift", "event", "user", "index", "time_s"]
    assert table.values.tolist() == [
        [0, 0, "away", "shift", "ann", 2, 20],
        [0, 0, "away", "shift_end", "ann", 3, 30],
        [0, 0, "move", "shift", "bob", 1, 10],
        [0, 0, "away", "shift", "bob", 1, 10],
        [1, 1, "away", "shift", "ann", 5, 50],
    ]
    assert per_user(run)["queries"].sum() == 5


def test_log_without_changes_has_no_shifts(tmp_path: Path) -> None:
    assert read_shifts(write(tmp_path, queries([1, 2]))).empty


def test_missing_values_do_not_count(tmp_path: Path) -> None:
    rows = [row(index=1, quality_loss_km=2.0), row(index=2, output=None), row(index=3, quality_loss_km=4.0)]
    frame = per_user(write(tmp_path, rows))
    assert frame["queries"].item() == 3
    assert frame["quality_loss_km"].item() == 3


def test_interval_over_users(tmp_path: Path) -> None:
    """Users have equal weights, whatever their numbers of queries and replications."""
    run = write(
        tmp_path,
        queries([1, 1, 1, 1], user="ann") + queries([3, 3], user="ann", replication=1),
        queries([5], user="bob") + queries([9, 9], user="cem"),
    )
    summary = summarize(run)
    assert summary[["users", "replications", "queries"]].values.tolist() == [[3, 2, 9]]
    means = [2.0, 5.0, 9.0]
    low, high = stats.t.interval(0.95, 2, np.mean(means), stats.sem(means))
    table = summary[["quality_loss_km", "quality_loss_km_low", "quality_loss_km_high"]].iloc[0]
    np.testing.assert_allclose(table.astype(float), [np.mean(means), low, high], rtol=1e-12)
    np.testing.assert_allclose(summary["adversary_error_km_high"], 2 * high, rtol=1e-12)
    assert summary["expected_quality_loss_km"].isna().all()


def test_interval_over_replications_of_one_user(tmp_path: Path) -> None:
    parts = [queries([v], replication=i) for i, v in enumerate([1.0, 2.0, 6.0])]
    summary = summarize(write(tmp_path, *parts))
    low, high = stats.t.interval(0.95, 2, 3, stats.sem([1, 2, 6]))
    table = summary[["quality_loss_km", "quality_loss_km_low", "quality_loss_km_high"]].iloc[0]
    np.testing.assert_allclose(table.astype(float), [3, low, high], rtol=1e-12)


def test_no_interval_for_a_single_simulation(tmp_path: Path) -> None:
    run = write(tmp_path, queries([1, 2]))
    summary = summarize(run)
    assert summary["quality_loss_km"].item() == 1.5
    assert summary[["quality_loss_km_low", "quality_loss_km_high"]].isna().all(axis=None)
    text = run.write_csv("summary.csv", summary).read_text().splitlines()
    assert text[0].startswith(
        "point,lppm,attack,users,replications,queries,"
        "quality_loss_km,quality_loss_km_low,quality_loss_km_high,adversary_error_km,"
    )
    assert text[1].startswith("0,SP,markov,1,1,2,1.5,,,3.0,,")


def test_series_with_one_and_several_users_side_by_side(tmp_path: Path) -> None:
    rows = [
        *queries([1], user="ann", lppm="A"),
        *queries([3], user="bob", lppm="A"),
        *queries([1], lppm="B"),
        *queries([2], lppm="B", replication=1),
    ]
    summary = summarize(write(tmp_path, rows)).set_index("lppm")
    assert summary["users"].to_dict() == {"A": 2, "B": 1}
    assert summary["quality_loss_km"].to_dict() == {"A": 2, "B": 1.5}
    half = stats.t.ppf(0.975, 1)
    assert summary["quality_loss_km_high"].to_dict() == pytest.approx({"A": 2 + half, "B": 1.5 + half / 2})


def test_summary_without_attack(tmp_path: Path) -> None:
    rows = [row(attack=None, user=u, quality_loss_km=v) for u, v in (("ann", 1.0), ("bob", 2.0))]
    summary = summarize(write(tmp_path, rows))
    assert summary["attack"].tolist() == [""]
    assert summary["quality_loss_km"].tolist() == [1.5]
    assert summary["adversary_error_km"].isna().all()


def test_result_does_not_depend_on_the_distribution_over_parts(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    runs = [
        queries(rng.random(37).tolist(), point=p, replication=r, user=u, lppm=lppm)
        for p, r, u, lppm in itertools.product(range(2), range(3), ["ann", "bob"], ["A", "B"])
    ]
    one = write(tmp_path / "one", [r for rows in runs for r in rows])
    many = write(tmp_path / "many", *reversed(runs))
    texts = [run.write_csv("summary.csv", summarize(run)).read_bytes() for run in (one, many)]
    assert texts[0] == texts[1]
    pd.testing.assert_frame_equal(read_over_time(one), read_over_time(many), rtol=1e-12)


def compact_at(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Merge sums whenever there are more than `rows` rows."""
    for module in (event_log, summary):
        monkeypatch.setattr(module, "COMPACT_ROWS", rows)


def test_periodic_merging_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [queries([float(i), 1.0], user=f"u{i % 7}", replication=i) for i in range(30)]
    run = write(tmp_path, *parts)
    whole = per_user(run), read_over_time(run)
    compact_at(3, monkeypatch)
    pd.testing.assert_frame_equal(per_user(run), whole[0])
    pd.testing.assert_frame_equal(read_over_time(run), whole[1])


def random_log(seed: int, *, users: int, replications: int) -> list[list[dict[str, Any]]]:
    """Return the rows of each simulation; some metrics are missing, some rows are not online estimates."""
    rng = np.random.default_rng(seed)
    simulations = []
    for point, replication, lppm in itertools.product(range(2), range(replications), ["A", "B"]):
        rows = []
        for user, attack in itertools.product([f"u{i}" for i in range(users)], ["x", "y"] if lppm == "A" else [None]):
            same: dict[str, Any] = {"point": point, "replication": replication, "lppm": lppm}
            same |= {"user": user, "attack": attack}
            for index in range(1, int(rng.integers(2, 9))):
                values = dict(zip(MEASURES, (1000 + rng.random(4)).tolist(), strict=True))
                if attack is None:
                    values["adversary_error_km"] = values["expected_adversary_error_km"] = None
                if rng.random() < 0.2:
                    values["quality_loss_km"] = None
                rows.append(row(index=index, **same, **values))
            rows.append(row(index=index, estimated_index=index - 1, **same, quality_loss_km=9e9))
            rows.append(row(index=99, event="shift", **same, quality_loss_km=9e9))
        simulations.append(rows)
    return simulations


def plain_summary(events: pd.DataFrame) -> pd.DataFrame:
    """Compute the summary from the whole log with pandas and scipy, series by series."""
    is_online = events["estimated_index"].isna() | (events["estimated_index"] == events["index"])
    rows = events[(events["event"] == "query") & is_online].assign(attack=lambda frame: frame["attack"].fillna(""))
    table = []
    for series, own in rows.groupby(SERIES, sort=True):
        one = dict(zip(SERIES, series, strict=True))
        numbers = {name: own[key].nunique() for name, key in (("users", "user"), ("replications", "replication"))}
        one |= numbers | {"queries": len(own)}
        of_simulations = own.groupby(["user", "replication"])[list(MEASURES)].mean()
        units = of_simulations if numbers["users"] == 1 else of_simulations.groupby("user").mean()
        for name in MEASURES:
            values = units[name].dropna().to_numpy(dtype=float)
            half = stats.t.ppf(0.975, len(values) - 1) * stats.sem(values) if len(values) > 1 else np.nan
            if min(numbers["users"], numbers["replications"]) > 1 and len(values):
                half = plain_half_width(of_simulations[name].unstack("replication").to_numpy())
            mean = values.mean() if len(values) else np.nan
            one |= {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
        table.append(one)
    return pd.DataFrame(table)


@pytest.mark.parametrize("compact", [10**6, 40, 1])
@pytest.mark.parametrize(("users", "replications"), [(3, 12), (1, 12), (1, 1), (2, 1)])
def test_incremental_summary_equals_that_of_the_whole_log(
    users: int, replications: int, compact: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The merging frequency and the order of simulations do not matter."""
    compact_at(compact, monkeypatch)
    simulations = random_log(4, users=users, replications=replications)
    order = np.random.default_rng(5).permutation(len(simulations))
    run = write(tmp_path, *(simulations[i] for i in order))
    events = pd.concat([table.to_pandas() for table in run.tables()], ignore_index=True)
    expected = plain_summary(events)
    summary = summarize(run)
    pd.testing.assert_frame_equal(summary, expected, rtol=1e-12, check_dtype=False)
    assert summary["replications"].eq(replications).all()


def test_means_over_replications_are_bitwise_those_of_pandas(tmp_path: Path) -> None:
    """Below the merging limit, the order of summation is the same."""
    run = write(tmp_path, *random_log(6, users=3, replications=5))
    users, read = per_user(run), read_totals(run)
    by_user = users.groupby([*SERIES, "user"], as_index=False, sort=True)[list(MEASURES)].mean()
    pd.testing.assert_frame_equal(read.users[by_user.columns], by_user, check_exact=True)
    pd.testing.assert_frame_equal(summarize(run), summarize_users(users), check_exact=True)
    assert read.users["queries"].sum() == users["queries"].sum()


def test_one_pass_serves_all_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = write(tmp_path, *random_log(7, users=3, replications=5))
    run.write_csv("points.csv", pd.DataFrame({"point": [0, 1], "epsilon_per_km": [0.5, 1]}))
    alone = tradeoff(run), read_over_time(run), user_points(per_user(run))
    reads: list[str] = []
    open_part = RunDirectory.open_part

    def counted(run: RunDirectory, part: str) -> Any:
        reads.append(part)
        return open_part(run, part)

    monkeypatch.setattr(RunDirectory, "open_part", counted)
    read = read_totals(run)
    assert read.extent.last_index == alone[1]["last_index"].max()
    together = tradeoff(run, read), read_over_time(run, extent=read.extent), user_points(read.users)
    pd.testing.assert_frame_equal(alone[0], together[0], check_exact=True)
    pd.testing.assert_frame_equal(alone[1], together[1], check_exact=True)
    pd.testing.assert_frame_equal(alone[2], together[2], rtol=1e-12)  # pandas rounds by the order of its keys
    assert sorted(reads) == sorted(2 * run.parts())


def test_memory_does_not_grow_with_replications(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows retained between parts do not grow with the number of parts."""
    compact_at(20, monkeypatch)
    retained: list[int] = []
    merge = merge_sums

    def watched(pieces: list[pa.Table], keys: list[str], *names: Sequence[str]) -> pa.Table:
        retained.append(sum(piece.num_rows for piece in pieces))
        return merge(pieces, keys, *names)

    for module in (event_log, summary):
        monkeypatch.setattr(module, "merge_sums", watched)
    run = write(tmp_path, *random_log(8, users=3, replications=40))
    groups_of_a_part, groups = 3 * 2, 2 * 3 * (2 + 1)
    assert len(read_totals(run).users) == groups
    assert max(retained) <= 20 + groups_of_a_part
    assert sum(retained) == groups * 40
    retained.clear()
    read_over_time(run, window=4)
    assert max(retained) <= 2 * groups * 2 + groups_of_a_part * 2


def test_over_time_windows(tmp_path: Path) -> None:
    run = write(
        tmp_path,
        queries([1, 3, 10, 20, 7], user="ann") + queries([5, 7, 0], user="bob"),
        queries([3, 5, 10, 20, 9], user="ann", replication=1),
    )
    frame = read_over_time(run, window=2)
    assert frame[["first_index", "last_index", "users", "queries"]].values.tolist() == [
        [1, 2, 2, 6],
        [3, 4, 2, 5],
        [5, 5, 1, 2],
    ]
    assert frame["quality_loss_km"].tolist() == [4.5, 7.5, 8.0]
    low, high = stats.t.interval(0.95, 1, 4.5, stats.sem([3, 6]))
    assert frame["quality_loss_km_low"].iloc[0] == pytest.approx(low)
    assert frame["quality_loss_km_high"].iloc[0] == pytest.approx(high)
    assert math.isnan(frame["quality_loss_km_low"].iloc[2])


@pytest.mark.parametrize(("queries_each", "windows"), [(1, 1), (20, 20), (21, 20), (288, 20), (300, 20)])
def test_over_time_makes_about_twenty_windows_of_nearly_equal_length(
    tmp_path: Path, queries_each: int, windows: int
) -> None:
    frame = read_over_time(write(tmp_path, queries([1.0] * queries_each)))
    assert len(frame) == windows
    lengths = frame["last_index"] - frame["first_index"] + 1
    assert lengths.max() - lengths.min() <= 1
    assert lengths.tolist() == frame["queries"].tolist()
    assert (frame["first_index"].iloc[0], frame["last_index"].iloc[-1]) == (1, queries_each)
    assert (frame["first_index"].iloc[1:].to_numpy() == frame["last_index"].iloc[:-1].to_numpy() + 1).all()


def test_window_must_be_positive(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^window\b.*\[1, inf\), got 0"):
        read_over_time(write(tmp_path, queries([1])), window=0)


def test_empty_runs(tmp_path: Path) -> None:
    with raises_code(RunError, "no-results"):
        summarize(write(tmp_path / "none"))
    shifts = write(tmp_path / "shifts", [row(event="shift")])
    assert summarize(shifts).empty
    assert read_over_time(shifts).empty
    assert loss_curves(per_user(shifts), [1.0]).empty


def test_damaged_part_is_an_error(tmp_path: Path) -> None:
    run = write(tmp_path, queries([1]), queries([2]))
    run.part_path("part1").write_bytes(b"PAR1 torn")
    with pytest.raises(RunError, match=r"part1\.parquet"):
        summarize(run)


def test_tradeoff_has_the_swept_values(tmp_path: Path) -> None:
    run = write(tmp_path, queries([1], point=0) + queries([2], point=1))
    run.write_csv("points.csv", pd.DataFrame({"point": [0, 1], "epsilon_per_km": [0.5, 1], "users": [7, 8]}))
    frame = tradeoff(run)
    assert frame["epsilon_per_km"].tolist() == [0.5, 1.0]
    assert frame["users"].tolist() == [1, 1]
    assert frame["users_swept"].tolist() == [7, 8]


def points_of_users(points: dict[str, list[tuple[float, float]]], **same: Any) -> pd.DataFrame:
    rows = [
        {
            "point": i,
            "lppm": "SP",
            "attack": "markov",
            "user": user,
            "replication": 0,
            "queries": 1,
            "quality_loss_km": loss,
            "adversary_error_km": error,
            "expected_quality_loss_km": np.nan,
            "expected_adversary_error_km": np.nan,
            **same,
        }
        for user, line in points.items()
        for i, (loss, error) in enumerate(line)
    ]
    return pd.DataFrame(rows)


def test_curves_interpolate_per_user_and_never_extrapolate() -> None:
    users = points_of_users({"ann": [(2, 2), (0, 0), (1, 0.5)], "bob": [(1, 1), (3, 2)], "cem": [(9, 9)]})
    frame = loss_curves(users, [0, 0.5, 1, 2, 3, 4])
    assert frame["users"].tolist() == [1, 1, 2, 2, 1, 0]
    np.testing.assert_allclose(frame["mean_km"], [0, 0.25, 0.75, 1.75, 2, np.nan])
    np.testing.assert_allclose(frame["min_km"], [0, 0.25, 0.5, 1.5, 2, np.nan])
    np.testing.assert_allclose(frame["max_km"], [0, 0.25, 1, 2, 2, np.nan])
    assert list(frame.columns) == [
        "lppm",
        "attack",
        "quality_loss_km",
        "users",
        "mean_km",
        "min_km",
        "max_km",
    ]


def test_curves_average_replications_and_equal_losses_and_prefer_expected() -> None:
    line = {"ann": [(0.0, 0.0), (2.0, 2.0)]}
    again = {"ann": [(0.0, 0.0), (4.0, 4.0)]}
    users = pd.concat([points_of_users(line), points_of_users(again, replication=1)])
    assert loss_curves(users, [3.0])["mean_km"].item() == 3.0
    ties = points_of_users({"ann": [(1, 1), (1, 2), (1, 3)]})
    assert loss_curves(ties, [1.0])["mean_km"].item() == 2.0
    expected = points_of_users(line).assign(expected_quality_loss_km=[0, 1], expected_adversary_error_km=[0, 5])
    assert loss_curves(expected, [1.0])["mean_km"].item() == 5.0


@given(
    values=st.lists(st.floats(0, 100), min_size=2, max_size=30),
    split=st.integers(1, 5),
)
def test_intervals_equal_those_of_scipy(values: list[float], split: int) -> None:
    units = pd.DataFrame({"point": [i % split for i in range(len(values))], **dict.fromkeys(MEASURES, values)})
    frame = intervals(units, ["point"])
    for point, low in zip(frame["point"], frame["quality_loss_km_low"], strict=True):
        own = [v for i, v in enumerate(values) if i % split == point]
        if len(own) < 2:
            assert math.isnan(low)
        else:
            half = stats.t.ppf(0.975, len(own) - 1) * np.std(own, ddof=1) / math.sqrt(len(own))
            assert low == pytest.approx(np.mean(own) - half, abs=1e-9)


def test_labels_distinguish_other_swept_parameters() -> None:
    frame = pd.DataFrame({"lppm": ["SP", "SP", "SP", "identity"], "point": [0, 1, 2, 0]})
    points = pd.DataFrame(
        {
            "point": [0, 1, 2],
            "lppms.*.design.epsilon_per_km": [0.5, 1.0, 0.5],
            "lppms.*.training": ["few", "few", "many"],
            "users.count": [4, 4, 8],
        }
    )
    assert with_distinct_names(frame, points)["lppm"].tolist() == [
        "SP (training few)",
        "SP (training few)",
        "SP (training many)",
        "identity",
    ]
    assert circumstances(frame, points) == ["count 4", "count 4", "count 8", ""]
    only_strength = points[["point", "lppms.*.design.epsilon_per_km"]]
    assert with_distinct_names(frame, only_strength)["lppm"].tolist() == frame["lppm"].tolist()
    assert circumstances(frame, only_strength) == [""] * 4


ByUser = Mapping[str, Sequence[float]]


def of_replications(sampled: ByUser, expected: ByUser | None = None) -> pd.DataFrame:
    """Return a table as of `per_user` with one LPPM and attack and these losses by user and replication."""
    return pd.DataFrame(
        [
            {
                "point": 0,
                "lppm": "A",
                "attack": "x",
                "user": user,
                "replication": i,
                "queries": 1,
                "quality_loss_km": value,
                "adversary_error_km": 2 * value,
                "expected_quality_loss_km": None if expected is None else expected[user][i],
                "expected_adversary_error_km": None if expected is None else 3 * expected[user][i],
            }
            for user, values in sampled.items()
            for i, value in enumerate(values)
        ]
    )


def test_replication_means_are_means_over_users() -> None:
    sampled, expected = {"ann": [1, 2, 6], "bob": [5, 7, 7]}, {"ann": [2, 2, 4], "bob": [6, 7, 8]}
    means = replication_means(of_replications(sampled))
    assert means["quality_loss_km"].tolist() == [3, 4.5, 6.5]
    halves = replication_half_widths(means)
    half = stats.t.ppf(0.975, 2) * stats.sem([3, 4.5, 6.5])
    assert halves[["quality_loss_km", "adversary_error_km"]].values.tolist() == [pytest.approx([half, 2 * half])]
    better = replication_means(of_replications(sampled, expected))
    assert better[["quality_loss_km", "adversary_error_km"]].values.tolist() == [[4, 12], [4.5, 13.5], [6, 18]]


def test_variance_ratio_is_that_of_the_means_over_independent_users() -> None:
    sampled, expected = {"ann": [1, 2, 6], "bob": [5, 7, 7]}, {"ann": [2, 2, 4], "bob": [6, 7, 8]}
    table = variance_ratio(of_replications(sampled, expected)).set_index("metric")
    loss = table.T["quality_loss_km"]
    assert loss[["users", "replications"]].tolist() == [2, 3]
    variance = {name: sum(np.var(v, ddof=1) for v in of.values()) / 4 for name, of in (("s", sampled), ("e", expected))}
    removed = sum(np.var(np.subtract(sampled[user], expected[user]), ddof=1) for user in sampled) / 4
    assert loss["sampled_km2"] == pytest.approx(variance["s"])
    assert loss["expected_km2"] == pytest.approx(variance["e"])
    assert loss["ratio"] == pytest.approx(variance["s"] / variance["e"])
    assert loss["removed_share"] == pytest.approx(removed / variance["s"])
    assert table.loc["adversary_error_km", "ratio"] == pytest.approx(4 / 9 * variance["s"] / variance["e"])


def test_variance_ratio_is_the_ratio_of_the_required_replications() -> None:
    """Movements have variance 1 in both metrics, noise has variance 3 in the sampled metric only."""
    rng = np.random.default_rng(5)
    moved = {f"u{i}": rng.normal(size=200) for i in range(20)}
    sampled = {user: (values + rng.normal(scale=3**0.5, size=200)).tolist() for user, values in moved.items()}
    users = of_replications(sampled, {user: values.tolist() for user, values in moved.items()})
    table = variance_ratio(users).set_index("metric").loc["quality_loss_km"]
    assert table["ratio"] == pytest.approx(4, rel=0.1)
    assert table["removed_share"] == pytest.approx(3 / 4, rel=0.1)
    means = users.groupby("replication")[["quality_loss_km", "expected_quality_loss_km"]].mean()
    assert table["sampled_km2"] == pytest.approx(means["quality_loss_km"].var(), rel=0.3)
    assert table["expected_km2"] == pytest.approx(means["expected_quality_loss_km"].var(), rel=0.3)


def test_variance_ratio_of_exact_metrics_is_infinite_and_needs_two_replications() -> None:
    exact = of_replications({"ann": [1, 2, 6]}, {"ann": [0.1 + 0.2, 0.3, 0.3]})
    assert variance_ratio(exact)["ratio"].tolist() == [np.inf, np.inf]
    assert variance_ratio(of_replications({"ann": [1]}, {"ann": [1]})).empty
    assert variance_ratio(of_replications({"ann": [1, 2]})).empty
    nothing = variance_ratio(of_replications({"ann": [0, 0]}, {"ann": [0, 0]}))
    assert nothing["ratio"].isna().all()


@pytest.mark.parametrize("last", [1, 2, 5, 6, 7])
def test_middle_of_an_odd_number_of_queries_is_in_the_last_half(last: int, tmp_path: Path) -> None:
    run = write(tmp_path, queries([float(i) for i in range(1, last + 1)]))
    table = read_halves(run).set_index("half")
    first = [i for i in range(1, last + 1) if i <= last / 2]
    rest = [i for i in range(1, last + 1) if i > last / 2]
    assert table["queries"].to_dict() == {half: len(own) for half, own in (("first", first), ("last", rest)) if own}
    means = {half: np.mean(own) for half, own in (("first", first), ("last", rest)) if own}
    assert table["quality_loss_km"].to_dict() == pytest.approx(means)


def test_halves_are_those_of_the_longest_trace(tmp_path: Path) -> None:
    """The boundary is the same for all users: half of the highest index of the run."""
    run = write(tmp_path, queries([1, 2, 3, 4, 5, 6, 7], user="ann"), queries([1, 2, 3, 4, 5], user="bob"))
    table = read_halves(run).set_index(["user", "half"])["queries"].to_dict()
    assert table == {("ann", "first"): 3, ("ann", "last"): 4, ("bob", "first"): 3, ("bob", "last"): 2}
