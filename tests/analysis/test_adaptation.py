"""Efficiency before and after a shift: oracles worked out query by query, and courses whose figures are known."""

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
from tests.support import a_manifest, done, files, lppm_sim, refused, told_shifts


def queries(
    error: Sequence[float] | FloatArray, loss: Sequence[float] | FloatArray | None = None, **same: Any
) -> pd.DataFrame:
    """Return the rows of one user's queries, with a loss of 1 km unless said."""
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
    """Return errors that fall to a lower level for so many queries after the shift."""
    return [2.0] * (at - 1) + [2.0 * low] * drop + [2.0] * (after - drop)


def one(path: Path, errors: Sequence[float], *, at: int = 101, **options: Any) -> pd.Series[Any]:
    run = write(path, [shift(at), queries(errors)])
    return adaptation(run, **options).summary.iloc[0]


# ------------------------------------------------------------------------------------------------ known courses


@pytest.mark.parametrize(
    ("drop", "window", "recovered", "taken"),
    [(100, 50, 0.9, 140), (100, 10, 0.9, 108), (100, 50, 0.75, 125), (100, 50, 1.0, 150), (11, 50, 0.9, 51)],
)
def test_recovery_from_a_step_is_exact(drop: int, window: int, recovered: float, taken: int, tmp_path: Path) -> None:
    """At half the efficiency, a share s of the window may be bad, where 1 - s / 2 is the level."""
    row = one(tmp_path, stepped(drop), window=window, recovered=recovered)
    assert row["queries_to_recover"] == row["queries_to_recover_median"] == row["pooled_queries_to_recover"] == taken
    assert (row["users"], row["censored"], row["pooled_censored"], row["left_out"]) == (1, 0, False, 0)
    assert row["efficiency_before"] == row["efficiency_end"] == 2
    assert row["efficiency_lowest"] == pytest.approx(1 + max(0, window - drop) / window)
    # Each bad query is half lost, and those after them are not.
    assert row["queries_lost"] == pytest.approx(drop / 2)
    assert row["pooled_queries_lost"] == pytest.approx(drop / 2)


@pytest.mark.parametrize("drop", [0, 10])
def test_the_least_is_a_window(drop: int, tmp_path: Path) -> None:
    row = one(tmp_path, stepped(drop))
    assert row["queries_to_recover"] == 50
    assert row["queries_lost"] == pytest.approx(drop / 2)


def test_who_never_recovers_is_censored_at_the_end(tmp_path: Path) -> None:
    run = write(
        tmp_path,
        [frame for user in "abc" for frame in (shift(101, user=user), queries(stepped(100), user=user))],
        [shift(101, user="d"), queries(stepped(200), user="d")],
        [shift(101, user="e"), queries(stepped(400, after=400), user="e")],
    )
    found = adaptation(run)
    (row,) = found.summary.to_dict("records")
    assert (row["users"], row["censored"]) == (5, 2)
    assert found.users["queries_to_recover"].tolist() == [140, 140, 140, 200, 400]
    assert found.users["censored"].tolist() == [False] * 3 + [True] * 2
    assert row["queries_to_recover_median"] == 140
    assert row["queries_to_recover"] == pytest.approx((3 * 140 + 600) / 5)
    assert found.users["queries_lost"].tolist() == pytest.approx([50, 50, 50, 100, 200])
    # Together 3 of 5 are back to the full level: 0.8, which is not enough. Beyond query 200 only one is left.
    assert row["pooled_censored"]
    assert row["pooled_queries_to_recover"] == found.course["queries_after"].max() == 200
    assert row["efficiency_end"] == pytest.approx((3 * 2 + 2 * 1) / 5)


def test_efficiency_is_a_ratio_of_sums(tmp_path: Path) -> None:
    """Nought loss at most queries: a mean of ratios would be infinite."""
    errors, losses = [0.0, 0.0, 0.0, 6.0] * 4, [0.0, 3.0, 0.0, 1.0] * 4
    run = write(tmp_path, [shift(9), queries(errors, losses)])
    found = adaptation(run, window=4)
    assert found.summary["efficiency_before"].item() == 1.5
    assert found.course["efficiency"].tolist() == pytest.approx([1.5] * len(found.course))
    assert found.course["queries_after"].tolist() == [-4, -3, -2, -1, 0, 4, 5, 6, 7, 8]


def test_replications_are_added_up_before_the_ratio(tmp_path: Path) -> None:
    rows = [
        [shift(3, replication=r), queries([error] * 6, [loss] * 6, replication=r)]
        for r, (error, loss) in enumerate([(1.0, 1.0), (5.0, 2.0)])
    ]
    found = adaptation(write(tmp_path, *rows), window=2)
    assert found.users["efficiency_before"].tolist() == [2.0]
    assert found.course["efficiency"].tolist() == pytest.approx([2.0] * 4)


def test_expected_figures_are_used_where_there_are_any(tmp_path: Path) -> None:
    rows = queries([1.0] * 6).assign(expected_adversary_error_km=3.0, expected_quality_loss_km=2.0)
    assert adaptation(write(tmp_path, [shift(3), rows]), window=2).summary["efficiency_before"].item() == 1.5


# --------------------------------------------------------------------------------------------------- an oracle


Row = dict[str, Any]


def plainly(
    events: list[Row], *, window: int, before: int, recovered: float, name: str
) -> dict[tuple[str, str, str], dict[str, float]]:
    """Work out each user's figures query by query, without any sums that are kept."""
    changes: dict[tuple[str, str, int], list[Row]] = {}
    for row in events:
        if row["shift"] is not None:
            changes.setdefault((row["lppm"], row["user"], row["replication"]), []).append(row)
    offsets: dict[tuple[str, str, str], list[tuple[int, Row]]] = {}
    for row in events:
        lived = changes.get((row["lppm"], row["user"], row["replication"]), [])
        begins = [change["index"] for change in lived if (change["shift"], change["event"]) == (name, "shift")]
        if row["shift"] is None and begins:
            start = max((change["index"] for change in lived if change["index"] < begins[0]), default=1)
            end = min((change["index"] for change in lived if change["index"] > begins[0]), default=10**9)
            if start <= row["index"] < end and row["index"] >= begins[0] - before:
                own = offsets.setdefault((row["lppm"], row["attack"], row["user"]), [])
                own.append((row["index"] - begins[0], row))
    return {key: _figures(own, window=window, recovered=recovered) for key, own in offsets.items()}


def _figures(own: list[tuple[int, Row]], *, window: int, recovered: float) -> dict[str, float]:
    def efficiency(start: int, stop: int) -> float:
        inside = [row for offset, row in own if start <= offset < stop]
        return float(sum(row["adversary_error_km"] for row in inside) / sum(row["quality_loss_km"] for row in inside))

    earlier, after = efficiency(-(10**9), 0), max(offset for offset, _ in own) + 1
    course = {k: efficiency(k - window, k) for k in range(window, after + 1)}
    taken = next((k for k, value in course.items() if value >= recovered * earlier), after)
    return {
        "efficiency_before": earlier,
        "efficiency_lowest": min(course.values()),
        "efficiency_end": course[after],
        "queries_to_recover": taken,
        "queries_lost": taken * max(0.0, 1 - efficiency(0, taken) / earlier),
    }


def busy(seed: int) -> list[list[pd.DataFrame]]:
    """Return parts with several users, replications, attacks and shifts, at moments of their own."""
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
def test_the_figures_are_those_of_a_plain_reading(seed: int, tmp_path: Path) -> None:
    run = write(tmp_path, *busy(seed))
    events = [row for table in run.tables() for row in table.to_pylist()]
    options: dict[str, Any] = {"window": 7, "before": 20, "recovered": 0.8}
    found = adaptation(run, shift="move", **options)
    expected = plainly(events, name="move", **options)
    assert set(found.users["user"]) == {"ann", "bob"}
    rows = {(row["lppm"], row["attack"], row["user"]): row for row in found.users.to_dict("records")}
    assert rows.keys() == expected.keys()
    for key, figures in expected.items():
        assert {name: rows[key][name] for name in OF_USER} == pytest.approx(figures)


def test_sums_do_not_depend_on_how_rows_are_packed(tmp_path: Path) -> None:
    parts = busy(0)
    shared, apart = write(tmp_path / "1", *parts), write(tmp_path / "2", [frame for part in parts for frame in part])
    tables = [adaptation(run, shift="move", window=7) for run in (shared, apart)]
    for name in ("summary", "users", "course"):
        one, other = (getattr(found, name) for found in tables)
        pd.testing.assert_frame_equal(one, other, check_exact=True)


def test_a_split_query_leaves_the_efficiency(tmp_path: Path) -> None:
    """Half of the replications with twice the figures, as the same ratio."""
    rng = np.random.default_rng(1)
    errors, losses = rng.gamma(2, 1, (2, 60))
    whole = write(tmp_path / "1", [shift(31), queries(errors, losses)])
    parts = [
        [shift(31, replication=r), queries(errors * f, losses * f, replication=r)] for r, f in enumerate((0.3, 0.7))
    ]
    halves = write(tmp_path / "2", *parts)
    courses = [adaptation(run, window=10).course["efficiency"].to_numpy() for run in (whole, halves)]
    np.testing.assert_allclose(courses[0], courses[1], rtol=1e-12)


# -------------------------------------------------------------------------------------------------- intervals


def test_the_delta_method_is_near_a_bootstrap_over_users() -> None:
    rng = np.random.default_rng(5)
    losses = rng.gamma(4, 0.5, 60)
    errors = losses * rng.normal(0.8, 0.2, 60)
    ratio, low, high = (float(values[0]) for values in ratio_of_means(errors[:, None], losses[:, None]))
    drawn = rng.integers(0, 60, (4000, 60))
    again = errors[drawn].sum(axis=1) / losses[drawn].sum(axis=1)
    assert ratio == pytest.approx(errors.sum() / losses.sum())
    assert (low, high) == pytest.approx(np.percentile(again, [2.5, 97.5]).tolist(), abs=0.15 * (high - low))


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Of 4,000 samples of 30 users, 95 % within three standard errors and a point of the approximation."""
    rng = np.random.default_rng(6)
    losses = rng.gamma(4, 0.5, (30, 4000))
    errors = losses * rng.normal(0.8, 0.3, (30, 4000))
    _, low, high = ratio_of_means(errors, losses)
    assert np.mean((low <= 0.8) & (high >= 0.8)) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("lengths", "last"), [((20, 20, 10), 20), ((20, 10, 10), 10), ((20, 10), 20)])
def test_the_course_ends_with_half_of_the_users(lengths: tuple[int, ...], last: int, tmp_path: Path) -> None:
    frames = [
        frame
        for i, length in enumerate(lengths)
        for frame in (shift(11, user=f"u{i}"), queries([1.0] * (10 + length), user=f"u{i}"))
    ]
    course = adaptation(write(tmp_path, frames), window=5).course
    assert course["queries_after"].max() == last
    assert course["users"].iloc[-1] == sum(length >= last for length in lengths)


def test_one_user_has_no_interval(tmp_path: Path) -> None:
    row = one(tmp_path, stepped(100))
    assert (
        row[[f"{name}{end}" for name in ("efficiency_before", "queries_lost") for end in ("_low", "_high")]]
        .isna()
        .all()
    )


def test_bands_are_over_users(tmp_path: Path) -> None:
    users = {"ann": (1.0, 1.0), "bob": (3.0, 2.0), "cem": (2.0, 4.0)}
    frames = [
        frame
        for user, (error, loss) in users.items()
        for frame in (shift(4, user=user), queries([error] * 6, [loss] * 6, user=user))
    ]
    row = adaptation(write(tmp_path, frames), window=3).course.iloc[-1]
    ratio = 6 / 7
    residuals = [(error - ratio * loss) / (7 / 3) for error, loss in users.values()]
    half = stats.t.ppf(0.975, 2) * stats.sem(residuals)
    expected = [3, ratio, ratio - half, ratio + half]
    assert row[["users", "efficiency", "efficiency_low", "efficiency_high"]].tolist() == pytest.approx(expected)


def test_mechanisms_are_compared_user_by_user(tmp_path: Path) -> None:
    drops = {"PEB": [100, 120, 150, 90], "fast": [20, 30, 60, 40]}
    frames = [
        frame
        for lppm, own in drops.items()
        for user, drop in zip("abcd", own, strict=True)
        for frame in (shift(101, user=user, lppm=lppm), queries(stepped(drop), user=user, lppm=lppm))
    ]
    found = adaptation(write(tmp_path, frames))
    (row,) = found.compare("PEB").to_dict("records")
    assert (row["lppm"], row["against"], row["users"]) == ("fast", "PEB", 4)
    taken = {lppm: [drop + 40 for drop in own] for lppm, own in drops.items()}
    test = stats.ttest_rel(taken["fast"], taken["PEB"])
    interval = test.confidence_interval(0.95)
    assert row["queries_to_recover"] == pytest.approx(np.subtract(taken["fast"], taken["PEB"]).mean())
    assert row["queries_to_recover_low"] == pytest.approx(interval.low)
    assert row["queries_to_recover_high"] == pytest.approx(interval.high)
    assert row["recovery_ratio"] == pytest.approx(sum(taken["fast"]) / sum(taken["PEB"]))
    assert row["recovery_ratio_low"] < row["recovery_ratio"] < row["recovery_ratio_high"]
    with pytest.raises(RequestError, match="no LPPM 'slow' to compare with: there are PEB, fast"):
        compare(found.users, "slow")


def test_windows_that_nobody_has_are_refused(tmp_path: Path) -> None:
    run = write(tmp_path, [shift(3), queries([1.0] * 6)])
    with pytest.raises(RequestError, match=r"nobody has 50 queries after move, .* A shorter window may do"):
        adaptation(run)


def test_a_mechanism_that_was_run_once_is_compared_with_at_every_point(tmp_path: Path) -> None:
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


# ------------------------------------------------------------------------------------------- what is looked at


def test_the_first_shift_counts_unless_another_is_named(tmp_path: Path) -> None:
    run = write(tmp_path, [shift(4, "a"), shift(7, "b"), queries([1, 1, 1, 2, 2, 2, 6, 6, 6])])
    first, second = adaptation(run, window=2), adaptation(run, window=2, shift="b")
    assert (first.summary["shift"].item(), second.summary["shift"].item()) == ("a", "b")
    # Another change ends what is looked at, and begins it.
    assert first.users[["efficiency_before", "efficiency_end", "queries_after"]].values.tolist() == [[1, 2, 3]]
    assert second.users[["efficiency_before", "efficiency_end", "queries_after"]].values.tolist() == [[2, 6, 3]]
    with pytest.raises(RequestError, match="no shift 'c': there are a, b"):
        adaptation(run, shift="c")


def test_each_point_has_a_shift_of_its_own(tmp_path: Path) -> None:
    parts = [
        [shift(at, name, point=p), queries([1.0] * 12, point=p)] for p, (at, name) in enumerate([(4, "a"), (7, "b")])
    ]
    found = adaptation(write(tmp_path, *parts, [queries([1.0] * 12, point=2)]), window=2)
    assert found.summary[["point", "shift"]].values.tolist() == [[0, "a"], [1, "b"]]
    assert found.users["queries_after"].tolist() == [9, 6]


def test_the_end_of_a_shift_ends_what_is_looked_at(tmp_path: Path) -> None:
    errors = [2.0] * 10 + [1.0] * 10 + [2.0] * 10
    found = adaptation(write(tmp_path, [shift(11), shift(21, ends=True), queries(errors)]), window=5)
    assert found.users[["queries_after", "censored", "efficiency_end"]].values.tolist() == [[10, True, 1.0]]


def test_who_cannot_be_judged_is_left_out_and_counted(tmp_path: Path) -> None:
    """Ann can be; bob has too few queries after the shift, cem none before it, di loses nothing, eve never changes."""
    frames = [
        *(shift(11, user="ann"), queries([1.0] * 20, user="ann")),
        *(shift(17, user="bob"), queries([1.0] * 20, user="bob")),
        *(shift(1, user="cem"), queries([1.0] * 20, user="cem")),
        *(shift(11, user="di"), queries([1.0] * 20, [0.0] * 20, user="di")),
        queries([1.0] * 20, user="eve"),
    ]
    found = adaptation(write(tmp_path, frames), window=5)
    assert found.summary[["users", "left_out"]].values.tolist() == [[1, 3]]
    assert found.users["user"].tolist() == ["ann"]


def test_a_run_without_shifts_or_attacks_says_so(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="has no shift: there is nothing to adapt to"):
        adaptation(write(tmp_path / "1", [queries([1.0] * 6)]))
    unattacked = queries([0.0] * 6, attack=None).assign(adversary_error_km=None)
    with pytest.raises(RunError, match="no figures of an attack on users who change"):
        adaptation(write(tmp_path / "2", [shift(3), unattacked]))


@pytest.mark.parametrize("options", [{"window": 0}, {"before": 0}, {"recovered": 0.0}, {"recovered": 1.5}])
def test_nonsense_is_refused(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="window and before must be in"):
        adaptation(RunDirectory(tmp_path), **options)


# -------------------------------------------------------------------------------------------------- summaries


def summed(frame: pd.DataFrame, size: int) -> pd.DataFrame:
    """Return the rows of a summary: the means of so many queries each."""
    groups = frame.groupby((frame["index"] - 1) // size)
    means = groups[["adversary_error_km", "quality_loss_km"]].mean()
    rest = groups.last().drop(columns=means.columns)
    return pd.concat([rest, means], axis=1).assign(event="summary", estimated_index=None)


def test_a_summary_gives_the_same_at_the_ends_of_its_windows(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    errors, losses = rng.gamma(2, 1, (2, 123))
    rows = queries(errors, losses)
    full, short = (
        adaptation(write(tmp_path / name, [shift(41), table]), window=20, before=45)
        for name, table in (("full", rows), ("short", summed(rows, 10)))
    )
    wanted = full.course[full.course["queries_after"] % 10 == 0].reset_index(drop=True)
    pd.testing.assert_frame_equal(short.course, wanted)
    assert short.users["queries_after"].tolist() == [83]
    expected = errors[0:40].sum() / losses[0:40].sum()
    assert short.users["efficiency_before"].tolist() == pytest.approx([expected])


@pytest.mark.parametrize("at", [42, 45, 50])
def test_a_summary_that_cuts_the_shift_says_so(at: int, tmp_path: Path) -> None:
    run = write(tmp_path, [shift(at), summed(queries([1.0] * 100), 10)])
    said = rf"one row for queries 41 to 50, but the shift comes at query {at}: .* to a divisor of {at - 1},"
    with pytest.raises(RunError, match=said):
        adaptation(run)


def test_windows_that_cut_rows_of_a_summary_are_refused(tmp_path: Path) -> None:
    run = write(tmp_path, [shift(41), summed(queries([1.0] * 100), 10)])
    with pytest.raises(RunError, match="windows of 15 would cut: ask for a window of 20"):
        adaptation(run, window=15)


def test_users_of_the_shift_alone_are_read(tmp_path: Path) -> None:
    """A summary of somebody who does not change may lie anywhere."""
    frames = [shift(41), summed(queries([1.0] * 100), 10), summed(queries([1.0] * 100, user="bob"), 30)]
    found: Adaptation = adaptation(write(tmp_path, frames), window=20)
    assert found.users["user"].tolist() == ["ann"]
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


def test_a_run_with_shifts_tells_how_mechanisms_adapt(scenario: Path) -> None:
    with told_shifts(moved):
        text = done("run", scenario, "-o", "run")
    assert "before and after move; queries until a window of 50 is back at 90 %" in " ".join(text.split())
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


def test_the_command_has_the_same_defaults_and_takes_others(scenario: Path) -> None:
    with told_shifts(moved):
        done("run", scenario, "-o", "run", "--no-figures")
    written = Path("run/adaptation.csv").read_bytes()
    assert not Path("run/figures").exists() or not list(Path("run/figures").glob("adaptation.*"))
    text = done("adaptation", "run")
    assert Path("run/adaptation.csv").read_bytes() == written
    heading, *body = [row for row in cells(text) if row[0] != ""]
    assert heading[:5] == ["LPPM", "attack", "before", "lowest", "at the end"]
    assert "minus SP-Exp" in heading
    assert [row[:2] for row in body] == [["SP-Exp", "sporadic"], ["mild", "sporadic"]]
    found = sim.Result.open("run").adaptation()
    own = found.users.loc[found.users["lppm"] == "SP-Exp", "efficiency_before"]
    written_before = f"{found.summary['efficiency_before'].iloc[0]:.3f} ({own.min():.3f} to {own.max():.3f})"
    assert written_before.startswith(body[0][2])
    assert body[0][2].count("(") == 1
    text = done("adaptation", "run", "--window", "10", "--recovered", "0.5", "--before", "20", "--against", "mild")
    assert "a window of 10 is back at 50 %" in " ".join(text.split())
    assert "minus mild" in cells(text)[0]
    assert Path("run/adaptation.csv").read_bytes() != written
    assert "nobody has 100 queries after move" in refused("adaptation", "run", "--window", "100")
    assert "there are SP-Exp, mild" in refused("adaptation", "run", "--against", "wild")
    assert "no shift 'rest': there are move" in refused("adaptation", "run", "--shift", "rest")


def test_a_run_without_shifts_has_nothing_to_adapt_to(scenario: Path) -> None:
    text = done("run", scenario, "-o", "run", "--no-figures", "--set", "users.queries=10")
    assert "fficiency" not in text
    assert not Path("run/adaptation.csv").exists()
    assert "has no shift: there is nothing to adapt to" in refused("adaptation", "run")


def test_a_summary_that_cuts_the_shift_is_a_run_all_the_same(scenario: Path) -> None:
    summary = ("--set", "record={log: summary, window: 25}", "--no-figures")
    with told_shifts(lambda user, _: (Shift(user, "move", 61),)):
        text = done("run", scenario, "-o", "run", *summary)
    assert "how mechanisms adapt cannot be told" in text
    assert "with one row for queries 51 to 75, but the shift comes at query 61" in " ".join(text.split())
    assert not Path("run/adaptation.csv").exists()
    result = lppm_sim("adaptation", "run")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Set record.window to a divisor of 60" in result.stderr
