"""More figures of a run against plain pandas on its whole log, and what was recorded against Bayes by hand."""

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
    "name": "figures",
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
    (found,) = table[(table["lppm"] == lppm) & (table["attack"] == attack)].to_dict("records")
    return found


def test_figures_are_means_over_users_of_means_over_replications(result: Result) -> None:
    log = result.events()
    log = log.assign(hit_rate=(log["cell"] == log["estimate"]).astype(float))
    by_user = [*SERIES, "user", "replication"]
    plain = log.groupby(by_user)[["hit_rate", "posterior_entropy_bits", "posterior_at_truth", "epsilon_per_km"]].mean()
    plain["epsilon_spent_per_km"] = log.groupby(by_user)["epsilon_per_km"].sum()
    users = plain.groupby([*SERIES, "user"]).mean().groupby(SERIES)
    found = result.metrics().set_index(SERIES)
    assert len(found) == 6
    for name, mean in users.mean().items():
        pd.testing.assert_series_equal(found[name], mean, check_names=False, obj=str(name))
    worst = log.groupby(SERIES)["quality_loss_km"].max()
    pd.testing.assert_series_equal(found["worst_quality_loss_km"], worst, check_names=False)
    half = 4.302652729911275 * users["hit_rate"].std() / math.sqrt(3)  # Student's t with two degrees of freedom
    pd.testing.assert_series_equal(found["hit_rate_high"] - found["hit_rate"], half, check_names=False)
    summary = result.summary().set_index(SERIES)
    for end in ("", "_low", "_high"):
        assert found[f"adversary_error_km{end}"].equals(summary[f"expected_adversary_error_km{end}"])
    assert np.isinf(found.xs("identity", level="lppm")["epsilon_spent_per_km"]).all()
    assert np.isfinite(found.xs("PEB-LH", level="lppm")["epsilon_spent_per_km"]).all()
    assert found["identified_share"].isna().all()


def test_what_was_promised_is_the_theory_of_channel_and_belief_at_each_snapshot(result: Result) -> None:
    scenario = Scenario.model_validate(SCENARIO)
    world = scenario.build_world()
    distances = {"quality": world.quality_distance, "privacy": world.privacy_distance}
    rows = []
    for part in result.run.parts():
        told = result.run.snapshots(part)
        for place, (lppm, user) in enumerate(zip(told["lppm"].tolist(), told["user"].tolist(), strict=True)):
            design = next(one for one in scenario.lppms if one.name == lppm).design.build(world)
            prior = told["profile"][place]
            own = theory(design(prior), prior, epsilon_in=euclidean(world.grid), **distances)
            assert own == pytest.approx([float(told[f"own_{name}"][place]) for name in own._fields])
            rows.append({"lppm": lppm, "user": user, **{f"own_{name}": x for name, x in own._asdict().items()}})
    frame = pd.DataFrame(rows)
    assert frame["lppm"].value_counts().to_dict() == {"SP-Exp": 6, "PEB-LH": 18, "identity": 6}
    plain = frame.groupby(["lppm", "user"]).mean().groupby("lppm").mean()
    found = result.metrics().set_index(["lppm", "attack"]).xs("markov", level="attack").sort_index()
    for name in ("own_quality_loss_km", "own_adversary_error_km", "own_entropy_bits", "own_worst_loss_km"):
        pd.testing.assert_series_equal(found[name], plain[name], check_names=False)
    row = row_of(result, "SP-Exp", "markov")
    assert row["own_adversary_error_km"] == pytest.approx(row["own_quality_loss_km"])
    assert row["adversary_error_km"] < row["own_adversary_error_km"]  # she knows more than the mechanism


def test_recorded_posteriors_are_bayes_by_hand(result: Result) -> None:
    """The sporadic adversary knows the shares of the user's cells, and every channel of SP-Exp is one and the same."""
    scenario = Scenario.model_validate(SCENARIO)
    world = scenario.build_world()
    part = result.run.parts()[0]
    told = result.run.snapshots(part)
    prior = told["profile"][told["lppm"].tolist().index("SP-Exp")]
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


def test_nothing_but_what_is_asked_for_changes(result: Result, tmp_path: Path) -> None:
    """Who records more finds the same users, reports and guesses."""
    bare = ran(tmp_path / "bare", record={"snapshots": []})
    more = [name for name in EVENTS.names if name.startswith("posterior") or name == "epsilon_per_km"]
    pd.testing.assert_frame_equal(bare.events().drop(columns=more), result.events().drop(columns=more))
    found = bare.metrics()
    shown = metrics.recorded_metrics(found)
    assert shown == ["quality_loss_km", "worst_quality_loss_km", "adversary_error_km", "hit_rate"]
    assert metrics.unrecorded_metrics(found, bare.manifest) == [
        "Set record.posterior for entropy bits, mass at truth.",
        "Set record.epsilon for epsilon per km, epsilon spent per km.",
        "Set record.snapshots for own Q-bar km, own worst loss km, own P_AE km, own entropy bits.",
    ]
    assert metrics.unrecorded_metrics(result.metrics(), result.manifest) == []


def test_of_a_summary_only_what_it_holds_is_told(tmp_path: Path) -> None:
    result = ran(tmp_path / "run", record={"log": "summary", "window": 5, "snapshots": [1]})
    found = result.metrics()
    assert metrics.recorded_metrics(found) == [
        "quality_loss_km",
        "own_quality_loss_km",
        "own_worst_loss_km",
        "adversary_error_km",
        "own_adversary_error_km",
        "own_entropy_bits",
    ]
    (said,) = metrics.unrecorded_metrics(found, result.manifest)
    assert "cannot be told: worst loss km, hit rate, entropy bits, mass at truth" in said
    assert "Set record.log to queries" in said


def test_users_are_known_by_name_and_past_queries_do_not_count(tmp_path: Path) -> None:
    """A log as an identification attack leaves it, with a guess about an earlier query between the others."""
    said = [("ann", 1, 1, "bob", 0), ("ann", 2, 2, "ann", 3), ("ann", 2, 1, None, 3), ("bob", 1, 1, "bob", 1)]
    rows = [
        dict.fromkeys(EVENTS.names)
        | {"event": "query", "point": 0, "replication": 0, "user": user, "index": index, "time_s": 0, "cell": 3}
        | {"lppm": "mine", "attack": "who", "estimated_index": about, "estimate": estimate, "identity": identity}
        | {"quality_loss_km": float(index), "adversary_error_km": 1.0}
        for user, index, about, identity, estimate in said
    ]
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest(a_manifest())
    run.write_part("odd", pa.Table.from_pylist(rows, schema=EVENTS))
    (found,) = metrics.metrics(run).to_dict("records")
    assert found["identified_share"] == 0.75
    assert found["hit_rate"] == 0.25
    assert found["worst_quality_loss_km"] == 2.0
    assert found["users"] == 2


def test_a_log_of_changes_alone_has_no_figures(tmp_path: Path) -> None:
    rows = [
        dict.fromkeys(EVENTS.names)
        | {"event": "shift", "shift": "move", "point": 0, "replication": 0, "user": "ann", "index": 1, "time_s": 0}
        | {"cell": 3, "lppm": "mine"}
    ]
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest(a_manifest())
    run.write_part("odd", pa.Table.from_pylist(rows, schema=EVENTS))
    assert metrics.metrics(run).empty


def test_folding_replications_as_they_come_changes_no_figure(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = metrics.metrics(result.run)
    monkeypatch.setattr(metrics, "_COMPACT_ROWS", 1)
    pd.testing.assert_frame_equal(metrics.metrics(result.run), at_once)


def test_a_run_leaves_its_table_and_summarize_prints_it(result: Result) -> None:
    written = result.run.file("metrics.csv").read_bytes()
    pd.testing.assert_frame_equal(result.run.read_csv("metrics.csv"), result.metrics(), check_dtype=False)
    result.run.file("metrics.csv").unlink()
    said = done("summarize", result.path, "--metrics")
    assert result.run.file("metrics.csv").read_bytes() == written
    row = row_of(result, "SP-Exp", "markov")
    events = result.events().query("lppm == 'SP-Exp' and attack == 'markov' and index == estimated_index")
    hits = events.assign(hit=events["cell"] == events["estimate"]).groupby(["user", "replication"])["hit"].mean()
    own = hits.groupby("user").mean()
    assert f"{row['hit_rate']:.3f} ({own.min():.3f} to {own.max():.3f})" in said
    assert "the range of the users' own values (fewer than 5: no intervals)" in said
    assert f"{row['own_quality_loss_km']:.3f}" in said
    assert "\u221e" in said
    assert "share of queries at which the estimate is the true cell" in said
    assert "identified" not in said


def test_the_page_has_a_table_of_what_there_is(result: Result) -> None:
    page = report.page([result])
    section = page.partition('<section id="figures">')[2].partition("</section>")[0]
    heads = re.findall(r'<th scope="col" data-type="number" title="([^"]*)"', section)
    assert heads == [METRICS[name].words.replace("'", "&#x27;") for name in metrics.recorded_metrics(result.metrics())]
    assert len(re.findall("<tr>", section)) == 7
    row = row_of(result, "PEB-LH", "sporadic")
    assert f'data-value="{row["own_entropy_bits"]:.6g}"' in section
    assert section.count('<td data-value="Infinity">∞</td>') == 4
    json.loads(page.partition('id="data">')[2].partition("</script>")[0])
