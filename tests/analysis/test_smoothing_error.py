"""Smoothing errors against a direct computation, and other readers of the log, which ignore revised estimates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sim
from sim import report
from sim.analysis.beliefs import belief_distance
from sim.analysis.result import Result
from sim.analysis.smoothing_error import smoothing_errors
from sim.analysis.trajectories import user_trace
from sim.execution.cost.estimate import estimate
from sim.scenario.models import Scenario
from sim.storage.event_schema import EVENTS
from sim.storage.load import load
from sim.storage.run_directory import RunDirectory
from tests.support import MakeScenario, assert_fault, done, faults

CHANGES: dict[str, Any] = {
    "replications": 2,
    "users": {"count": 3, "queries": 12, "mobility": {"kind": "markov"}},
    "lppms": ["SP-Exp", {"kind": "PEB-Exp", "name": "full", "learns_from": "cells"}],
    "shifts": [{"kind": "adopt", "what": "trace", "at_query": 6}],
    "record": {"snapshots": [1, 4, 12]},
}
ATTACKS = [
    "markov",
    {"kind": "smoothing", "hindsight": {"lags": [2, 4]}},
    {"kind": "path", "hindsight": {"lags": [3], "final": False}},
    "face-value",
    {"kind": "smoothing", "name": "assuming", "knows": "training", "assumes": "exponential"},
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    make = {
        "name": "small",
        "seed": 3,
        "world": {"grid": {"kind": "rectangle", "rows": 3, "cols": 3, "width_km": 3.0, "height_km": 3.0}},
        "training": {"others": {"kind": "others", "count": 4, "queries": 20}},
        "attacks": ATTACKS,
    }
    scenario = Scenario.model_validate(make | CHANGES)
    return sim.run(scenario, out=tmp_path_factory.mktemp("runs") / "smoothing", figures=False, chunk_queries=1)


def test_smoothing_errors_equal_a_direct_computation(result: Result) -> None:
    events = result.events()
    events = events[events["estimate"].notna()]
    errors: dict[tuple[Any, ...], float] = {}
    for row in events.to_dict("records"):
        key = (row["lppm"], row["attack"], row["user"], row["replication"], row["index"], int(row["estimated_index"]))
        assert key not in errors, "each estimate is recorded once"
        errors[key] = row["adversary_error_km"]
    errors_by_lag = smoothing_errors(result.run)
    expected = {
        (lppm, attack, lag)
        for lppm, attack, lags in (
            ("SP-Exp", "smoothing", ("2", "4", "final")),
            ("SP-Exp", "path", ("3",)),
            ("SP-Exp", "assuming", ("1", "5", "final")),
            ("full", "assuming", ("1", "5", "final")),
        )
        for lag in lags
    }
    assert {(row["lppm"], row["attack"], row["lag"]) for row in errors_by_lag.to_dict("records")} == expected
    for row in errors_by_lag.to_dict("records"):
        means, before = [], []
        for user in sorted(set(events["user"])):
            pairs = [
                (error, errors[(*key[:4], s, s)])
                for key, error in errors.items()
                for r, s in [key[4:]]
                if key[:3] == (row["lppm"], row["attack"], user)
                and r > s
                and (r == 12 if row["lag"] == "final" else r - s == int(row["lag"]))
            ]
            means.append(np.mean([then for then, _ in pairs]))
            before.append(np.mean([online for _, online in pairs]))
            assert len(pairs) == 2 * (11 if row["lag"] == "final" else 12 - int(row["lag"]))
        gains = np.subtract(before, means)
        assert row["users"] == 3
        assert row["adversary_error_km"] == pytest.approx(np.mean(means))
        assert row["online_error_km"] == pytest.approx(np.mean(before))
        assert row["gain_km"] == pytest.approx(np.mean(gains))
        half = 4.302652729911275 * np.std(gains, ddof=1) / np.sqrt(3)  # t(0.975; 2)
        assert row["gain_km_low"] == pytest.approx(row["gain_km"] - half)
        assert row["gain_km_high"] == pytest.approx(row["gain_km"] + half)


def test_lags_are_sorted_with_final_last(result: Result) -> None:
    for _, rows in result.hindsight().groupby(["lppm", "attack"]):
        lags = [np.inf if lag == "final" else int(lag) for lag in rows["lag"]]
        assert lags == sorted(lags)


def test_table_is_written_and_printed(result: Result) -> None:
    written = result.run.read_csv("hindsight.csv")
    assert written["lag"].tolist() == result.hindsight()["lag"].tolist()
    assert written["gain_km"].to_numpy() == pytest.approx(result.hindsight()["gain_km"].to_numpy())
    text = done("summarize", str(result.run))
    assert "Adversary error of past queries" in text
    assert "Not computed against full" in text
    assert "markov, smoothing, path." in text


def test_revised_estimates_change_no_other_table(result: Result, tmp_path: Path) -> None:
    """All other tables, belief distances and traces are the same without the rows of revised estimates."""
    bare = RunDirectory.create(tmp_path / "bare")
    for part in result.run.parts():
        frame = result.run.read_part(part).to_pandas()
        kept = frame[frame["estimated_index"].isna() | (frame["estimated_index"] == frame["index"])]
        assert len(kept) < len(frame)
        rows = pa.Table.from_pandas(kept, schema=EVENTS, preserve_index=False)
        bare.write_part(part, rows, result.run.notes(part), snapshots=result.run.snapshots(part))
    bare.write_manifest(result.manifest)
    bare.write_csv("points.csv", result.points())
    other = Result(bare)
    assert other.hindsight().empty
    for table in ("summary", "over_time", "per_user", "shifts"):
        pd.testing.assert_frame_equal(getattr(result, table)(), getattr(other, table)())
    points = [("SP-Exp", 0), ("full", 0)]
    pd.testing.assert_frame_equal(belief_distance(result.run, points=points), belief_distance(bare, points=points))
    selection: dict[str, Any] = {"lppm": "SP-Exp", "point": 0, "attack": "smoothing", "user": "user-001"}
    one_trace, other_trace = (user_trace(run, **selection) for run in (result.run, bare))
    pd.testing.assert_frame_equal(one_trace.queries, other_trace.queries)


def test_correct_assumption_makes_the_estimate_equal_the_report(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """With the mechanism's own belief and design, and d_P = d_Q, the optimal estimate is the remapped output."""
    changes = {
        "users": {"count": 2, "queries": 12, "mobility": {"kind": "markov"}},
        "lppms": [{"kind": "MK-Exp", "design": {"epsilon_per_km": 0.7}}],
        "attacks": [
            {"kind": "markov-trained", "name": "right", "assumes": {"kind": "exponential", "epsilon_per_km": 0.7}},
            {"kind": "markov-trained", "name": "wrong", "assumes": {"kind": "exponential", "epsilon_per_km": 0.1}},
        ],
    }
    events = sim.run(make_scenario(**changes), out=tmp_path / "run", figures=False).events()
    right, wrong = (events[events["attack"] == name] for name in ("right", "wrong"))
    assert (right["estimate"] == right["output"]).all()
    assert right["expected_adversary_error_km"].to_numpy() == pytest.approx(
        right["expected_quality_loss_km"].to_numpy()
    )
    assert not (wrong["estimate"] == wrong["output"]).all()


def test_mechanism_without_channel_needs_an_attack_without_channel(write: Callable[..., Path]) -> None:
    lppms = "[SP-Exp, {kind: PEB-Exp, learns_from: cells}]"
    (fault,) = faults(write(lppms=lppms))
    assert_fault(fault, "lppms.1.learns_from [no-applicable-attack]", "`face-value`", "`assumes`")
    assert len(faults(write(lppms=lppms, attacks=None))) == 1  # with the default attacks
    for enough in ("[face-value, markov]", "[{kind: markov, assumes: exponential}]", "[]"):
        load(write(lppms=lppms, attacks=enough))


def test_summarized_log_cannot_record_revised_estimates(write: Callable[..., Path]) -> None:
    first, second = faults(write(attacks="[markov, smoothing, {kind: path, name: p}]", record="summary"))
    assert_fault(first, "attacks.1 [needs-query-log]", "`record: summary`")
    assert_fault(second, "attacks.2 [needs-query-log]", "`record: summary`")
    load(write(attacks="[{kind: path, hindsight: null}]", record="{log: summary}"))


def test_cost_estimate_counts_the_rows(result: Result) -> None:
    scenario = Scenario.model_validate(result.manifest.recorded_scenario)
    assert estimate(scenario, measure=False).rows == len(result.events()[result.events()["event"] == "query"])


def test_check_reports_attacks_that_cannot_be_computed(write: Callable[..., Path]) -> None:
    path = write(lppms="[SP-Exp, {kind: PEB-Exp, name: full, learns_from: cells}]", attacks="[markov, face-value]")
    printed = " ".join(done("check", path).split())
    assert (
        "Not computed against full, which learns from true cells and therefore publishes no channel: markov." in printed
    )
    assert "Not computed" not in done("check", write())


def test_lags_are_the_requested_ones_also_for_short_traces(make_scenario: MakeScenario, tmp_path: Path) -> None:
    """The largest lag occurs at the last report only, but its estimates are not final."""
    attacks = [
        {"kind": "smoothing", "hindsight": {"lags": [1, 3], "final": False}},
        {"kind": "path", "hindsight": {"lags": [1, 2, 3], "final": False}},
    ]
    users = {"count": 2, "queries": 4, "mobility": "favourites"}
    errors_by_lag = sim.run(
        make_scenario(attacks=attacks, users=users, lppms=["SP-Exp"]), out=tmp_path / "run", figures=False
    ).hindsight()
    lags = {attack: own["lag"].tolist() for attack, own in errors_by_lag.groupby("attack")}
    assert lags == {"smoothing": ["1", "3"], "path": ["1", "2", "3"]}
    assert errors_by_lag.loc[
        (errors_by_lag["attack"] == "path") & (errors_by_lag["lag"] == "3"), "guesses"
    ].tolist() == [2]


def test_page_has_a_table_of_smoothing_errors(result: Result) -> None:
    page = report.page([result])
    table = page[page.index("<h3>Past queries</h3>") :]
    errors_by_lag = result.hindsight()
    assert table[: table.index("</table>")].count("<tr>") == 1 + len(errors_by_lag)
    for row in errors_by_lag.to_dict("records"):
        assert f'data-value="{row["gain_km"]:.6g}"' in table
