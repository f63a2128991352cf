"""Means of users for comparisons at equal loss: prior errors of earlier logs, metrics beside the error, blocks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sim
from sim.analysis import user_batches, user_blocks
from sim.analysis.result import Result
from sim.scenario.models import Scenario
from sim.storage import event_schema
from sim.storage.manifest import RunManifest
from tests.analysis.blocks import cut

SCENARIO: dict[str, Any] = {
    "seed": 5,
    "replications": 3,
    "world": {"grid": {"kind": "rectangle", "rows": 3, "cols": 4, "width_km": 4.0, "height_km": 3.0}},
    "users": {"count": 9, "queries": 20, "mobility": {"kind": "favourites", "places": 3}},
    "training": {"others": {"kind": "others", "count": 5, "queries": 30}},
    "lppms": ["SP-Exp", "PEB-Exp", "SP-LH"],
    "attacks": ["sporadic", "sporadic-trained", "smoothing"],
    "sweep": {"lppms.*.design.epsilon_per_km": [0.3, 1.0, 4.0]},
    "record": {"posterior": True},
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("batches") / "run"
    return Result.open(sim.run(Scenario.model_validate(SCENARIO), out=folder, figures=False).path)


def earlier(result: Result, folder: Path, **scenario: Any) -> Result:
    """Return a copy of a run as an earlier version wrote it: without prior errors."""
    copy = cut(result, folder, [0])
    content = copy.manifest.content
    content |= {"schema_version": 3, "scenario": content["scenario"] | scenario}
    manifest = RunManifest.of(content)
    target = replace(copy.run, digest=manifest.identity.digest)
    for part in copy.run.parts():
        table, notes = copy.run.read_part(part), copy.run.notes(part)
        place = table.column_names.index("prior_error_km")
        target.write_part(part, table.set_column(place, "prior_error_km", pa.nulls(len(table), pa.float64())), notes)
    target.write_manifest(manifest)
    return Result.open(folder)


def plain_priors(result: Result, attack: str) -> pd.Series[float]:
    """Return P0 by user from the log: the mean over replications of what the mechanisms recorded."""
    rows = result.events()
    rows = rows[(rows["attack"] == attack) & (rows["estimated_index"] == rows["index"]) & (rows["lppm"] == "SP-LH")]
    return rows.groupby(["user", "replication"])["prior_error_km"].first().groupby("user").mean()


@pytest.mark.parametrize("attack", ["sporadic", "sporadic-trained"])
def test_compared_users_are_those_with_the_prior_error_of_the_log(run: Result, attack: str) -> None:
    priors = plain_priors(run, attack).to_numpy()
    losses = [0.01, *np.quantile(priors, [0.3, 0.8]), priors.max() + 0.01]
    table = run.at_loss(losses)
    own = table[table["attack"] == attack]
    expected = [int((priors >= loss - 1e-9).sum()) for loss in losses]
    for _, of_lppm in own.groupby("lppm"):
        assert of_lppm["users"].tolist() == expected
    assert (table["reached"] + table["at_largest"] + table["at_smallest"] == table["users"]).all()


def test_users_do_not_depend_on_the_mechanism_or_its_replications(run: Result, tmp_path: Path) -> None:
    changed = SCENARIO | {"lppms": ["SP-Exp", {"kind": "PEB-Exp", "name": "other", "design": {"remap": False}}]}
    other = sim.run(Scenario.model_validate(changed), out=tmp_path / "other", figures=False)
    columns = ["attack", "quality_loss_km", "users", "of_users"]
    one, two = (result.at_loss([0.4, 0.9])[columns].drop_duplicates(ignore_index=True) for result in (run, other))
    pd.testing.assert_frame_equal(one, two)


def test_metrics_beside_the_error_are_those_of_the_metric_tables(run: Result) -> None:
    """At the loss of a sweep point of a single user the value is that of the point."""
    totals = run.totals().users
    batches = next(iter(run.user_blocks()))
    point = batches[(batches["point"] == 1) & (batches["lppm"] == "SP-Exp") & (batches["attack"] == "smoothing")]
    entropy, hindsight = run.metrics(), run.hindsight()
    keys = (entropy["point"] == 1) & (entropy["lppm"] == "SP-Exp") & (entropy["attack"] == "smoothing")
    assert point["posterior_entropy_bits"].mean() == pytest.approx(entropy.loc[keys, "posterior_entropy_bits"].item())
    final = hindsight[(hindsight["lag"] == "final") & (hindsight["point"] == 1) & (hindsight["lppm"] == "SP-Exp")]
    assert point["smoothed_error_km"].mean() == pytest.approx(final["adversary_error_km"].item())
    table = run.at_loss([float(totals["expected_quality_loss_km"].median())])
    assert table.loc[table["attack"] == "smoothing", "smoothed_error_km"].notna().all()
    assert table.loc[table["attack"] == "sporadic", "smoothed_error_km"].isna().all()
    assert table["entropy_bits"].notna().all()


def test_prior_errors_of_an_earlier_log_are_computed_from_its_cells(run: Result, tmp_path: Path) -> None:
    old = earlier(run, tmp_path / "old")
    assert old.events()["prior_error_km"].isna().all()
    note = old.prior_error_note()
    assert "schema version 3" in note
    assert "computed from the users' test cells" in note
    assert run.prior_error_note() == ""
    ours, theirs = (result.at_loss([0.4, 0.9]) for result in (old, run))
    one, two = (table[table["attack"] != "sporadic-trained"].reset_index(drop=True) for table in (ours, theirs))
    alone = one.columns.difference(["p_holm"])  # its family contains the attack with other knowledge
    pd.testing.assert_frame_equal(one[alone], two[alone])
    assert set(ours["users"]) == set(one["users"]), "the same for an attack with other knowledge"


def test_prior_errors_that_cannot_be_computed_are_stated(
    run: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_manifest: object) -> None:
        raise sim.InputError("no roads", code="file-error")

    monkeypatch.setattr(user_batches, "_distances", unknown)
    old = earlier(run, tmp_path / "old")
    assert "(no roads): at equal loss all users are compared" in old.prior_error_note()
    assert set(old.at_loss([0.9])["users"]) == {9}
    summarized = earlier(run, tmp_path / "means", record={"log": "summary", "window": 5})
    assert "no cells to compute them from" in summarized.prior_error_note()


def test_comparisons_in_blocks_of_users_are_those_in_memory(
    run: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = [0.4, 0.9]
    whole = run.at_loss(losses), run.tournament(), *run.tournament_leads(run.tournament())
    streamed = cut(run, tmp_path / "cut", [0, 2, 7])
    monkeypatch.setattr(user_blocks, "MOST_ROWS", 1)
    monkeypatch.setattr(user_blocks, "BLOCK_ROWS", 1)
    assert streamed.user_blocks().n_blocks == 3
    blocks = streamed.at_loss(losses), streamed.tournament(), *streamed.tournament_leads(streamed.tournament())
    for one, other in zip(blocks[:2], whole[:2], strict=True):
        pd.testing.assert_frame_equal(one, other, rtol=1e-9, atol=1e-12)
    assert blocks[3] == whole[3]
    for name, lead in whole[2].items():
        assert blocks[2][name] == pytest.approx(lead, rel=1e-9)


def test_the_schema_version_that_introduced_the_prior_error() -> None:
    (column,) = (column for column in event_schema.COLUMNS if column.name == "prior_error_km")
    assert column.since == user_batches._SINCE
