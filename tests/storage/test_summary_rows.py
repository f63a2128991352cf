"""A summary log, with means over windows of queries, gives the same metrics as a log of all queries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis import event_log, summary
from sim.analysis.curves import loss_curves
from sim.analysis.replications import replication_half_widths, replication_means, variance_ratio
from sim.analysis.result import Result
from sim.analysis.summary import per_user, read_totals, summarize, tradeoff
from sim.analysis.windows import read_halves, read_over_time
from sim.events import Guess, Query
from sim.execution.cost.estimate import estimate
from sim.execution.plan import Plan, tasks
from sim.lppm.channels.hiding import identity
from sim.mobility.traces import Trace
from sim.scenario.models import Scenario
from sim.scenario.sweep import points
from sim.simulation.recorder import SimulationLog
from sim.storage.errors import NotApplicable
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.load import load
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import Windows, _possible_ends, nearest_ends, require_uncut
from sim.world import World
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import MakeScenario, assert_faults, done, faults, raises_code

KEYS = ["point", "replication", "lppm", "user", "attack"]
WINDOW = 4
MECHANISMS = ["identity", "Exp", "SP-LH", "MK-Exp", "PEB-LH"]
ATTACKS = ["sporadic", "markov", "sporadic-trained", "markov-trained"]
LENGTHS = {"ann": 23, "bob": 8, "cem": 3, "dee": 24}
SWEEP = {"lppms.*.design.epsilon_per_km": [0.5, 2]}

VARIANTS: dict[str, dict[str, Any]] = {
    "all attacks": {"attacks": ATTACKS},
    "no attacks": {"attacks": []},
    "not expected": {"attacks": ["markov"], "expected": False},
    "a sweep": {"attacks": ["sporadic", "markov"], "sweep": SWEEP},
    "joined chunks": {"attacks": ["markov"], "chunk_queries": 1_000_000},
    "a window longer than a trace": {"attacks": ["sporadic"], "window": 1000},
    "a window of one query": {"attacks": ["sporadic"], "window": 1},
}


class Pair:
    """One study of four users, recorded as queries and as a summary."""

    def __init__(
        self, folder: Path, *, window: int = WINDOW, expected: bool = True, chunk_queries: int = 1, **changes: Any
    ) -> None:
        users = np.repeat(list(LENGTHS), list(LENGTHS.values()))
        cells = np.random.default_rng(5).integers(0, 20, len(users))
        pd.DataFrame({"user": users, "time": range(len(users)), "cell": cells}).to_csv(folder / "traces.csv")
        data: dict[str, Any] = {
            "seed": 3,
            "replications": 3,
            "world": {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}},
            "users": {"mobility": {"kind": "replay", "file": str(folder / "traces.csv")}},
            "training": {"others": {"kind": "others", "count": 4, "queries": 15, "mobility": "favourites"}},
            "lppms": MECHANISMS,
            **changes,
        }
        of_log: dict[str, dict[str, Any]] = {"queries": {"expected": expected}}
        of_log["summary"] = {"log": "summary", "window": window, "expected": expected}
        self.window = window
        self.scenarios = {log: Scenario.model_validate(data | {"record": record}) for log, record in of_log.items()}
        self.queries, self.summary = (
            sim.run(scenario, out=folder / log, figures=False, chunk_queries=chunk_queries)
            for log, scenario in self.scenarios.items()
        )


@pytest.fixture(scope="module", params=VARIANTS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Return both logs of a variant."""
    return Pair(tmp_path_factory.mktemp("pair"), **VARIANTS[request.param])


def same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    """Check that two tables are equal up to rounding, and not empty."""
    assert len(one)
    pd.testing.assert_frame_equal(one, other, rtol=1e-9, atol=1e-9)


TABLES: Mapping[str, Callable[[Result], pd.DataFrame]] = {
    "per_user": lambda result: per_user(result.run),
    "totals": lambda result: read_totals(result.run).users,
    "summarize": lambda result: summarize(result.run),
    "tradeoff": lambda result: tradeoff(result.run),
    "summary.csv": lambda result: result.run.read_csv("summary.csv"),
    "replication_means": lambda result: replication_means(per_user(result.run)),
    "replication_half_widths": lambda result: replication_half_widths(replication_means(per_user(result.run))),
    "curves": lambda result: loss_curves(per_user(result.run), [0.0, 0.5, 1.0]),
}


def test_every_table_is_equal_for_both_logs(pair: Pair) -> None:
    for read in TABLES.values():
        if pair.scenarios["queries"].attacks or read is not TABLES["curves"]:
            same(read(pair.summary), read(pair.queries))
    summary, queries = (variance_ratio(result.per_user()) for result in (pair.summary, pair.queries))
    assert summary.empty == (not pair.scenarios["queries"].record.expected)
    noise = [name for name in summary.columns if name.endswith("_km2")]
    assert summary.empty or (queries[noise].max() > 1e-6).any()
    # A variance of rounding errors has no meaningful ratio.
    known = (queries[noise] > 1e-12).all(axis="columns")
    pd.testing.assert_frame_equal(summary[known], queries[known], rtol=1e-6)
    np.testing.assert_allclose(summary[noise], queries[noise], rtol=1e-9, atol=1e-12)
    totals = [read_totals(result.run) for result in (pair.summary, pair.queries)]
    assert totals[0].extent.last_index == totals[1].extent.last_index == max(LENGTHS.values())
    pd.testing.assert_series_equal(totals[0].replications, totals[1].replications)


def test_comparisons_at_equal_loss_are_equal_for_both_logs(pair: Pair) -> None:
    if pair.scenarios["queries"].sweep:
        at_loss = [result.at_loss([0.5, 1.0, 2.0]) for result in (pair.summary, pair.queries)]
        same(*at_loss)
        assert at_loss[0]["users"].nunique() > 1, "the set depends on the loss"


def test_each_row_has_the_means_of_its_window(pair: Pair) -> None:
    queries, summary = pair.queries.events(), pair.summary.events()
    queries["window"] = (queries["index"] - 1) // pair.window
    groups = queries.groupby([*KEYS, "window"], dropna=False, sort=True)
    by_hand = groups.agg({"index": "last", "time_s": "last"} | dict.fromkeys(MEASURES, "mean")).reset_index()
    windows = summary.assign(window=(summary["index"] - 1) // pair.window).sort_values([*KEYS, "window"])
    columns = [*KEYS, "window", "index", "time_s", *MEASURES]
    same(windows[columns].reset_index(drop=True), by_hand[columns].astype(windows[columns].dtypes))


def test_summary_rows_have_no_cell(pair: Pair) -> None:
    events = pair.summary.events()
    assert list(events.columns) == EVENTS.names
    assert set(events["event"]) == {"summary"}
    assert set(events["cell"]) == {-1}
    assert events[["output", "estimate", "estimated_index"]].isna().all(axis=None)


def test_the_estimated_number_of_rows_is_exact(pair: Pair) -> None:
    per_simulation = sum(-(-length // pair.window) for length in LENGTHS.values())
    scenario = pair.scenarios["summary"]
    cost = estimate(scenario, measure=False)
    rows = sum(table.num_rows for table in pair.summary.run.tables())
    assert rows == cost.rows == cost.simulations * per_simulation * max(len(scenario.attacks), 1)
    assert cost.queries == estimate(pair.scenarios["queries"], measure=False).queries


def test_snapshots_are_the_same(pair: Pair) -> None:
    snapshots = [
        [result.run.snapshots(part) for part in sorted(result.run.parts(), key=lambda part: part[:14])]
        for result in (pair.summary, pair.queries)
    ]
    assert sum(len(part["index"]) for part in snapshots[0])
    for one, other in zip(*snapshots, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_windows_of_whole_rows_are_equal(tmp_path: Path) -> None:
    pair = Pair(tmp_path, attacks=["sporadic", "markov"])
    for window in (4, 8, 12, 20, 24, 100):
        same(*(read_over_time(result.run, window=window) for result in (pair.summary, pair.queries)))
    same(read_halves(pair.summary.run), read_halves(pair.queries.run))


@pytest.mark.parametrize("window", [1, 3, 6, 7, 10])
def test_a_window_that_splits_rows_is_refused(window: int, tmp_path: Path) -> None:
    pair = Pair(tmp_path, attacks=["sporadic"], lppms=["identity"])
    with raises_code(NotApplicable, "window-splits-rows") as error:
        read_over_time(pair.summary.run, window=window)
    assert re.search(rf"queries \d+ to \d+.*record\.window to {window}\b", str(error.value))
    with raises_code(NotApplicable, "window-splits-rows"):
        read_over_time(pair.summary.run, window=window, extent=pair.summary.totals().extent)


def test_halves_that_split_rows_are_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path, attacks=["sporadic"], lppms=["identity"], window=8)
    with raises_code(NotApplicable, "window-splits-rows") as error:
        read_halves(pair.summary.run)
    assert str(error.value).startswith(f"{pair.summary.run} ")
    assert "queries 9 to 16" in str(error.value)
    assert "up to query 12" in str(error.value)
    assert "record.window to 12" in str(error.value)


@pytest.mark.parametrize(
    ("window", "ends"), [(4, [4, 8, 12, 16, 20, 24]), (10, [10, 20, 24]), (13, [13, 24]), (1000, [24])]
)
def test_a_time_series_uses_the_nearest_windows(window: int, ends: list[int], tmp_path: Path) -> None:
    pair = Pair(tmp_path, attacks=["sporadic"], window=window)
    series = read_over_time(pair.summary.run)
    assert sorted(set(series["last_index"])) == ends
    same(series, read_over_time(pair.queries.run, window=window))
    same(series, pair.summary.over_time())


def test_the_time_series_of_single_queries_is_equal_for_both_logs(tmp_path: Path) -> None:
    pair = Pair(tmp_path, attacks=["sporadic"], window=1)
    same(pair.summary.over_time(), pair.queries.over_time())


@pytest.mark.parametrize(("end", "splits"), [(4, False), (5, True), (7, True), (8, False)])
def test_ends_inside_a_row_are_refused(end: int, splits: bool, tmp_path: Path) -> None:
    with pytest.raises(NotApplicable, match=rf"\bquery {end}\b") if splits else nullcontext():
        require_uncut(np.array([end, 24]), Windows({(5, 8)}), RunDirectory(tmp_path))


def test_nearest_ends_do_not_split_rows() -> None:
    windows = Windows({(1, 10), (11, 20), (21, 30), (31, 40), (31, 37)})
    assert _possible_ends(40, windows).tolist() == [10, 20, 30, 40]
    assert nearest_ends(np.array([2, 14, 16, 31, 40]), windows).tolist() == [10, 20, 30, 40]
    assert nearest_ends(np.array([12, 38, 40]), windows).tolist() == [10, 40]


def test_both_logs_in_one_run(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = {"count": 3, "queries": 20, "mobility": "favourites"}
    sweep = {"record.log": ["queries", "summary"]}
    result = sim.run(make_scenario(users=users, record={"window": 5}, sweep=sweep), out=tmp_path / "run", figures=False)
    assert result.events().groupby("point")["event"].unique().map(list).tolist() == [["query"], ["summary"]]
    for table in (result.per_user(), result.over_time(), read_halves(result.run), result.totals().users):
        queries, summary = (table[table["point"] == point].drop(columns="point") for point in (0, 1))
        same(queries.reset_index(drop=True), summary.reset_index(drop=True))


def test_merging_blocks_of_replications_is_equal_for_both_logs(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (event_log, summary):
        monkeypatch.setattr(module, "COMPACT_ROWS", 3)
    same(read_totals(pair.summary.run).users, read_totals(pair.queries.run).users)
    assert read_totals(pair.summary.run).extent.last_index == max(LENGTHS.values())
    same(per_user(pair.summary.run), per_user(pair.queries.run))


def test_the_number_of_replications_is_equal_for_both_logs(make_scenario: MakeScenario, tmp_path: Path) -> None:
    until: dict[str, Any] = {"until_half_width_km": 0.1, "at_least": 3, "at_most": 30}
    numbers = []
    for log in ("queries", "summary"):
        result = sim.run(
            make_scenario(replications=until, record={"log": log, "window": 7}), out=tmp_path / log, figures=False
        )
        numbers.append([row.replications for row in result.manifest.repetitions])
    assert numbers[0] == numbers[1]
    assert max(numbers[0]) > until["at_least"]


def test_an_interrupted_summary_resumes(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=4, record={"log": "summary", "window": 10})
    whole = sim.run(scenario, out=tmp_path / "run", figures=False, chunk_queries=1)
    before = whole.events()
    parts = whole.run.parts()
    for part in parts[1:3]:
        whole.run.part_path(part).unlink()
    again = sim.run(scenario, out=tmp_path / "run", figures=False, chunk_queries=1)
    assert again.run.parts() == parts
    pd.testing.assert_frame_equal(again.events(), before)


@pytest.mark.parametrize(("silent", "fits"), [({2}, False), ({1, 2, 3}, True), ({4}, True), ({3, 4}, False)])
def test_expected_metrics_need_all_queries_of_a_window(silent: set[int], fits: bool, tmp_path: Path) -> None:
    """Users without queries have no row."""
    grid = Grid.rectangle(rows=1, cols=3, width_km=3.0, height_km=1.0)
    world = World(locations=grid, roads=None, quality_distance=manhattan(grid), privacy_distance=manhattan(grid))
    trace = Trace("ann", np.arange(4), np.array([0, 1, 2, 1]))
    nobody = Trace("bob", np.arange(0), np.arange(0))
    log = SimulationLog(world, [nobody, trace, replace(nobody, user="cem")], ["own"], window=3)
    channel = identity(grid.n_cells)
    for index, cell in enumerate(trace.cells.tolist(), start=1):
        log.user("ann").query(Query("ann", index, index, cell), cell, channel)
        foreseen = None if index in silent else np.zeros(grid.n_cells, dtype=np.int64)
        log.attack("own").guess(Guess("ann", index, 0, foreseen))
    if not fits:
        with pytest.raises(RuntimeError, match=r"\brecord\.log\b"):
            log.table(point=0, lppm="SP", replication=0)
        return
    table = log.table(point=0, lppm="SP", replication=0)
    run = RunDirectory.create(tmp_path / "run")
    run.write_part("one", table)
    means = per_user(run)
    assert means[["queries", "adversary_error_km", "expected_adversary_error_km"]].values.tolist() == [[4, 1.0, 1.0]]
    columns = table.to_pydict()
    assert (columns["user"], columns["index"], columns["time_s"]) == (["ann", "ann"], [3, 4], [2, 3])
    assert columns["adversary_error_km"] == [1.0, 1.0]
    assert columns["expected_adversary_error_km"] == [None if 1 in silent else 1.0, None if 4 in silent else 1.0]


def test_the_short_form_of_record_is_the_log(write: Callable[..., Path]) -> None:
    scenario = load(write(record="summary"))
    assert (scenario.record.log, scenario.record.window) == ("summary", 50)
    assert load(write(record="summary"), settings=["record.window=20"]).record.window == 20
    assert load(write(record="summary"), settings=["record.expected=false"]).record.log == "summary"
    assert load(write(), settings=["record.window=20"]).record.log == "queries"
    assert load(write(), settings=["record=summary"]).record == scenario.record
    swept = load(write(record="summary", sweep="{record.window: [3, 4]}"))
    assert [point.scenario.record.summary_window for point in points(swept)] == [3, 4]


def test_an_unknown_log_is_refused(write: Callable[..., Path]) -> None:
    allowed = "one of queries, summary"
    wrong = ("6:9: record [unknown-value]", "'sumary' (did you mean 'summary'?)", allowed)
    assert_faults(faults(write(record="sumary")), wrong)
    assert_faults(faults(write(record="{log: all}")), ("6:15: record.log [unknown-value]", allowed, "'all'"))
    window = faults(write(record="{log: summary, window: 0}"))
    assert_faults(window, ("6:32: record.window [out-of-range]", "at least 1", "found 0"))
    assert_faults(faults(write(record="7")), ("6:9: record [wrong-type]", "mapping"))


def test_chunk_ids_depend_on_the_log_and_its_window(make_scenario: MakeScenario) -> None:
    def ids(**record: Any) -> list[str]:
        return [chunk.id for chunk in Plan(tasks(points(make_scenario(record=record)))).chunks()]

    assert ids() == ids(log="queries") == ids(window=7)
    assert len({*ids(), *ids(log="summary"), *ids(log="summary", window=7)}) == 3 * len(ids())
    assert make_scenario(record="summary").digest != make_scenario().digest


def test_every_command_accepts_a_summary(small: Path) -> None:
    text = small.read_text().replace("replications: 1", "replications: 2")
    small.write_text(text + "record: {log: summary, window: 5}\n")
    rows = 3 * 3 * 2 * (3 + 2) * 2  # windows, users, attacks, simulations of a replication, replications
    assert f"{rows} rows" in done("check", small, "--no-time")
    printed = done("run", small, "-o", "run")
    done("run", small, "-o", "queries", "--set", "record=queries", "--no-figures")
    assert f"{rows} rows" in done("status", "run")
    same(pd.read_csv("run/summary.csv"), pd.read_csv("queries/summary.csv"))
    before = Path("run/summary.csv").read_bytes()
    Path("run/summary.csv").unlink()
    assert "SP-Exp" in done("summarize", "run")
    assert "SP-Exp" in printed
    assert Path("run/summary.csv").read_bytes() == before
    figures = sorted(Path("run/figures").iterdir())
    for figure in figures:
        figure.unlink()
    done("plot", "run")
    assert sorted(Path("run/figures").iterdir()) == figures
    done("export", "run", "-o", "log.csv")
    exported = pd.read_csv("log.csv")
    assert len(exported) == rows
    assert set(exported["event"]) == {"summary"}
