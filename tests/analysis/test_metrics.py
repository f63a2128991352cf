"""Metrics of a run against pandas on the whole log, and recorded posteriors against Bayes' rule by hand."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sim
from sim import report
from sim.analysis import metrics
from sim.analysis.event_log import SERIES
from sim.analysis.metrics import METRICS
from sim.analysis.result import Result
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.lppm.theory import theory
from sim.scenario.models import Scenario
from sim.storage.event_schema import EVENTS
from sim.storage.run_directory import RunDirectory
from sim.world.distances.euclidean import euclidean
from tests.support import a_manifest, done

SCENARIO: dict[str, Any] = {
    "name": "metrics",
    "seed": 3,
    "replications": 2,
    "world": {"grid": {"kind": "rectangle", "rows": 2, "cols": 3, "width_km": 3.0, "height_km": 2.0}},
    "users": {"count": 3, "queries": 12, "mobility": {"kind": "favourites", "places": 3}},
    "training": {"others": {"kind": "others", "count": 4, "queries": 20}},
    "lppms": ["SP-Exp", "PEB-LH", "identity"],
    "attacks": ["sporadic", "markov"],
    "record": {"posterior": True, "epsilon": "euclidean", "snapshots": [1, 5, 9]},
}


def ran(folder: Path, **changes: Any) -> Result:
    return sim.run(Scenario.model_validate(SCENARIO | changes), out=folder, figures=False, chunk_queries=1)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return ran(tmp_path_factory.mktemp("metrics") / "run")


def row_of(result: Result, lppm: str, attack: str) -> dict[Any, Any]:
    table = result.metrics()
    (row,) = table[(table["lppm"] == lppm) & (table["attack"] == attack)].to_dict("records")
    return row


def test_metrics_are_means_over_users_of_means_over_replications(result: Result) -> None:
    log = result.events()
    log = log.assign(hit_rate=(log["cell"] == log["estimate"]).astype(float))
    by_user = [*SERIES, "user", "replication"]
    plain = log.groupby(by_user)[["hit_rate", "posterior_entropy_bits", "posterior_at_truth", "epsilon_per_km"]].mean()
    plain["epsilon_spent_per_km"] = log.groupby(by_user)["epsilon_per_km"].sum()
    users = plain.groupby([*SERIES, "user"]).mean().groupby(SERIES)
    table = result.metrics().set_index(SERIES)
    assert len(table) == 6
    for name, mean in users.mean().items():
        pd.testing.assert_series_equal(table[name], mean, check_names=False, obj=str(name))
    worst = log.groupby(SERIES)["quality_loss_km"].max()
    pd.testing.assert_series_equal(table["worst_quality_loss_km"], worst, check_names=False)
    half = 4.302652729911275 * users["hit_rate"].std() / math.sqrt(3)  # Student's t with two degrees of freedom
    pd.testing.assert_series_equal(table["hit_rate_high"] - table["hit_rate"], half, check_names=False)
    summary = result.summary().set_index(SERIES)
    for end in ("", "_low", "_high"):
        assert table[f"adversary_error_km{end}"].equals(summary[f"expected_adversary_error_km{end}"])
    assert np.isinf(table.xs("identity", level="lppm")["epsilon_spent_per_km"]).all()
    assert np.isfinite(table.xs("PEB-LH", level="lppm")["epsilon_spent_per_km"]).all()
    assert table["identified_share"].isna().all()


def test_predicted_metrics_are_those_of_channel_and_belief_at_each_snapshot(result: Result) -> None:
    scenario = Scenario.model_validate(SCENARIO)
    world = scenario.build_world()
    distances = {"quality": world.quality_distance, "privacy": world.privacy_distance}
    rows = []
    for part in result.run.parts():
        snapshots = result.run.snapshots(part)
        for place, (lppm, user) in enumerate(zip(snapshots["lppm"].tolist(), snapshots["user"].tolist(), strict=True)):
            design = next(one for one in scenario.lppms if one.name == lppm).design.build(world)
            prior = snapshots["profile"][place]
            own = theory(design(prior), prior, epsilon_in=euclidean(world.grid), **distances)
            assert own == pytest.approx([float(snapshots[f"own_{name}"][place]) for name in own._fields])
            rows.append({"lppm": lppm, "user": user, **{f"own_{name}": x for name, x in own._asdict().items()}})
    frame = pd.DataFrame(rows)
    assert frame["lppm"].value_counts().to_dict() == {"SP-Exp": 6, "PEB-LH": 18, "identity": 6}
    plain = frame.groupby(["lppm", "user"]).mean().groupby("lppm").mean()
    table = result.metrics().set_index(["lppm", "attack"]).xs("markov", level="attack").sort_index()
    for name in ("own_quality_loss_km", "own_adversary_error_km", "own_entropy_bits", "own_worst_loss_km"):
        pd.testing.assert_series_equal(table[name], plain[name], check_names=False)
    row = row_of(result, "SP-Exp", "markov")
    assert row["own_adversary_error_km"] == pytest.approx(row["own_quality_loss_km"])
    assert row["adversary_error_km"] < row["own_adversary_error_km"]  # the adversary knows more than the mechanism


def test_recorded_posteriors_are_bayes_by_hand(result: Result) -> None:
    """The sporadic adversary knows the user's cell distribution, and SP-Exp always uses the same channel."""
    scenario = Scenario.model_validate(SCENARIO)
    world = scenario.build_world()
    part = result.run.parts()[0]
    snapshots = result.run.snapshots(part)
    prior = snapshots["profile"][snapshots["lppm"].tolist().index("SP-Exp")]
    channel = next(one for one in scenario.lppms if one.name == "SP-Exp").design.build(world)(prior)
    matrix = channel.matrix()
    log = result.run.read_part(part).to_pandas()
    mine = log[(log["lppm"] == "SP-Exp") & (log["attack"] == "sporadic")]
    assert set(mine["user"]) == {"user-001", "user-002", "user-003"}
    for _, own in mine.groupby(["user", "replication"]):
        profile = [(own["cell"] == cell).mean() for cell in range(6)]
        for row in own.to_dict("records"):
            joint = [profile[x] * matrix[x, row["output"]] for x in range(6)]
            posterior = [mass / sum(joint) for mass in joint]
            bits = -sum(mass * math.log2(mass) for mass in posterior if mass > 0)
            assert row["posterior_entropy_bits"] == pytest.approx(bits)
            assert row["posterior_at_truth"] == pytest.approx(posterior[row["cell"]])
            assert row["epsilon_per_km"] == exact_epsilon_per_km(channel, euclidean(world.grid))


def test_recording_more_changes_nothing_else(result: Result, tmp_path: Path) -> None:
    """Movements, reports and estimates are the same."""
    bare = ran(tmp_path / "bare", record={"snapshots": []})
    more = [name for name in EVENTS.names if name.startswith("posterior") or name == "epsilon_per_km"]
    pd.testing.assert_frame_equal(bare.events().drop(columns=more), result.events().drop(columns=more))
    table = bare.metrics()
    shown = metrics.recorded_metrics(table)
    assert shown == ["quality_loss_km", "worst_quality_loss_km", "adversary_error_km", "hit_rate"]
    assert metrics.unrecorded_metrics(table, bare.manifest) == [
        "Set record.posterior for entropy bits, posterior at truth.",
        "Set record.epsilon for epsilon per km, epsilon spent per km.",
        "Set record.snapshots for own Q-bar km, own worst loss km, own P_AE km, own entropy bits.",
    ]
    assert metrics.unrecorded_metrics(result.metrics(), result.manifest) == []


def test_summarized_log_lacks_metrics_of_single_queries(tmp_path: Path) -> None:
    result = ran(tmp_path / "run", record={"log": "summary", "window": 5, "snapshots": [1]})
    table = result.metrics()
    assert metrics.recorded_metrics(table) == [
        "quality_loss_km",
        "own_quality_loss_km",
        "own_worst_loss_km",
        "adversary_error_km",
        "own_adversary_error_km",
        "own_entropy_bits",
    ]
    (hint,) = metrics.unrecorded_metrics(table, result.manifest)
    assert ": worst loss km, hit rate, entropy bits, posterior at truth" in hint
    assert "Set record.log to queries" in hint


def test_identification_is_by_name_and_revised_estimates_do_not_count(tmp_path: Path) -> None:
    """The log of an identification attack, with an estimate of an earlier query among the others."""
    estimates = [("ann", 1, 1, "bob", 0), ("ann", 2, 2, "ann", 3), ("ann", 2, 1, None, 3), ("bob", 1, 1, "bob", 1)]
    rows = [
        dict.fromkeys(EVENTS.names)
        | {"event": "query", "point": 0, "replication": 0, "user": user, "index": index, "time_s": 0, "cell": 3}
        | {"lppm": "mine", "attack": "who", "estimated_index": about, "estimate": estimate, "identity": identity}
        | {"quality_loss_km": float(index), "adversary_error_km": 1.0}
        for user, index, about, identity, estimate in estimates
    ]
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest(a_manifest())
    run.write_part("odd", pa.Table.from_pylist(rows, schema=EVENTS))
    (table,) = metrics.metrics(run).to_dict("records")
    assert table["identified_share"] == 0.75
    assert table["hit_rate"] == 0.25
    assert table["worst_quality_loss_km"] == 2.0
    assert table["users"] == 2


def test_log_without_queries_has_no_metrics(tmp_path: Path) -> None:
    rows = [
        dict.fromkeys(EVENTS.names)
        | {"event": "shift", "shift": "move", "point": 0, "replication": 0, "user": "ann", "index": 1, "time_s": 0}
        | {"cell": 3, "lppm": "mine"}
    ]
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest(a_manifest())
    run.write_part("odd", pa.Table.from_pylist(rows, schema=EVENTS))
    assert metrics.metrics(run).empty


def test_incremental_accumulation_changes_no_metric(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = metrics.metrics(result.run)
    monkeypatch.setattr(metrics, "_COMPACT_ROWS", 1)
    pd.testing.assert_frame_equal(metrics.metrics(result.run), whole)


def test_run_writes_metrics_csv_and_summarize_prints_it(result: Result) -> None:
    written = result.run.file("metrics.csv").read_bytes()
    pd.testing.assert_frame_equal(result.run.read_csv("metrics.csv"), result.metrics(), check_dtype=False)
    result.run.file("metrics.csv").unlink()
    printed = done("summarize", result.path, "--metrics")
    assert result.run.file("metrics.csv").read_bytes() == written
    row = row_of(result, "SP-Exp", "markov")
    events = result.events().query("lppm == 'SP-Exp' and attack == 'markov' and index == estimated_index")
    hits = events.assign(hit=events["cell"] == events["estimate"]).groupby(["user", "replication"])["hit"].mean()
    own = hits.groupby("user").mean()
    assert f"{row['hit_rate']:.3f} ({own.min():.3f} to {own.max():.3f})" in printed
    assert "range over users in parentheses" in printed
    assert f"{row['own_quality_loss_km']:.3f}" in printed
    assert "\u221e" in printed
    assert METRICS["hit_rate"].description in printed
    assert "identified" not in printed


def test_page_has_a_table_of_the_recorded_metrics(result: Result) -> None:
    page = report.page([result])
    section = page.partition('<section id="metrics">')[2].partition("</section>")[0]
    heads = re.findall(r'<th scope="col" data-type="number" title="([^"]*)"', section)
    recorded = metrics.recorded_metrics(result.metrics())
    assert heads == [METRICS[name].description.replace("'", "&#x27;") for name in recorded]
    assert len(re.findall("<tr>", section)) == 7
    row = row_of(result, "PEB-LH", "sporadic")
    assert f'data-value="{row["own_entropy_bits"]:.6g}"' in section
    assert section.count('<td data-value="Infinity">∞</td>') == 4
    json.loads(page.partition('id="data">')[2].partition("</script>")[0])
