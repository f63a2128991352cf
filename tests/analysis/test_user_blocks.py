"""Logs that are cut into blocks of users: results agree with those of the whole log in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim import report
from sim.analysis import result as result_module
from sim.analysis import user_blocks
from sim.analysis.narrative import comparisons
from sim.analysis.ranking import EqualLoss
from sim.analysis.result import Result
from sim.analysis.user_blocks import aligned_blocks
from sim.report.study import Study
from sim.scenario.models import Scenario
from sim.storage import sampling
from sim.storage.errors import RequestError
from sim.storage.part_ids import part_id
from tests.analysis.blocks import cut
from tests.support import raises_code

SCENARIO: dict[str, Any] = {
    "name": "blocks",
    "seed": 7,
    "replications": 2,
    "world": {"grid": {"kind": "rectangle", "rows": 3, "cols": 4, "width_km": 4.0, "height_km": 3.0}},
    "users": {"count": 12, "queries": 60, "mobility": {"kind": "favourites", "places": 4}},
    "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
    "lppms": ["SP-Exp", "PEB-Exp", "SP-LH"],
    "attacks": ["sporadic", "markov", "smoothing"],
    "sweep": {"lppms.*.design.epsilon_per_km": [0.5, 2.0, 8.0]},
    "shifts": [{"kind": "new_places", "at_query": 31}],
    "record": {"snapshots": [1, 20, 40], "epsilon": "euclidean"},
}
OPTIONS: dict[str, Any] = {"window": 10, "before": 20, "recovered": 0.8}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("whole") / "run"
    return Result.open(sim.run(Scenario.model_validate(SCENARIO), out=folder, figures=False).path)


@pytest.fixture
def streamed(whole: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Result:
    result = cut(whole, tmp_path / "cut", [0, 1, 5, 9])
    monkeypatch.setattr(user_blocks, "MOST_ROWS", 1)
    monkeypatch.setattr(user_blocks, "BLOCK_ROWS", 1)
    assert len(result._first_pass().blocks) == 4
    return result


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(one, other, check_exact=False, rtol=1e-12, atol=1e-12, check_dtype=False)


@pytest.mark.parametrize("table", ["summary", "metrics", "hindsight", "over_time", "shifts", "tournament"])
def test_tables_agree_with_those_in_memory(whole: Result, streamed: Result, table: str) -> None:
    assert_same(getattr(streamed, table)(), getattr(whole, table)())


@pytest.mark.parametrize("table", ["shown_summary", "shown_metrics", "shown_hindsight", "efficiency"])
def test_shown_tables_agree_with_those_in_memory(whole: Result, streamed: Result, table: str) -> None:
    assert_same(getattr(streamed, table)(), getattr(whole, table)())


def test_comparisons_agree_with_those_in_memory(whole: Result, streamed: Result) -> None:
    losses = [0.3, 0.5]
    assert_same(streamed.at_loss(losses, against="SP-Exp"), whole.at_loss(losses, against="SP-Exp"))
    table = whole.tournament()
    ours, theirs = (result.tournament_leads(table) for result in (streamed, whole))
    assert ours[1] == theirs[1] == 12
    np.testing.assert_allclose([*ours[0].values()], [*theirs[0].values()], rtol=1e-12, atol=1e-12)


def test_rankings_agree_with_those_in_memory(whole: Result, streamed: Result) -> None:
    ours, theirs = (EqualLoss(result.comparable_users()) for result in (streamed, whole))
    assert list(ours.remarks()) == list(theirs.remarks())
    for one, other in zip(ours.rankings(), theirs.rankings(), strict=True):
        assert (one.attack, one.quality_loss_km, one.users, one.of_users) == (
            other.attack,
            other.quality_loss_km,
            other.users,
            other.of_users,
        )
        assert one.errors_km == pytest.approx(other.errors_km, rel=1e-12)
        assert list(one.leads_km) == list(other.leads_km)
        np.testing.assert_allclose([*one.leads_km.values()], [*other.leads_km.values()], rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("at_km", [None, 0.6])
def test_adaptation_agrees_with_that_in_memory(whole: Result, streamed: Result, at_km: float | None) -> None:
    ours, theirs = (result.adaptation(**OPTIONS, at_km=at_km) for result in (streamed, whole))
    assert ours.summary["users"].max() > 4
    for table in ("summary", "time_series", "user_time_series"):
        assert_same(getattr(ours, table), getattr(theirs, table))
    keys = ["point", "lppm", "attack", "user"]
    assert_same(ours.users.sort_values(keys, ignore_index=True), theirs.users.sort_values(keys, ignore_index=True))
    order = ["point", "attack", "lppm"]
    one, other = (table.compare("SP-Exp").sort_values(order, ignore_index=True) for table in (ours, theirs))
    assert_same(one, other[one.columns])


def test_beliefs_agree_with_those_in_memory(whole: Result, streamed: Result) -> None:
    assert_same(streamed.mean_belief_distances(), whole.mean_belief_distances())


def test_results_do_not_depend_on_the_blocks(whole: Result, streamed: Result, tmp_path: Path) -> None:
    other = cut(whole, tmp_path / "other", [0, 3, 4, 10, 11])
    assert_same(other.summary(), streamed.summary())
    assert_same(other.over_time(), streamed.over_time())
    pd.testing.assert_frame_equal(other.totals().users, streamed.totals().users)


def test_a_small_run_in_blocks_has_the_bits_of_the_whole_run(whole: Result, tmp_path: Path) -> None:
    result = cut(whole, tmp_path / "cut", [0, 4, 7])
    assert len(result._first_pass().blocks) == 1
    for table in ("summary", "metrics", "hindsight", "over_time", "efficiency"):
        pd.testing.assert_frame_equal(getattr(result, table)(), getattr(whole, table)(), check_exact=True)


def test_individual_rows_are_those_of_a_sample_keyed_by_the_name(
    whole: Result, streamed: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = sampling.UserSample.__init__
    monkeypatch.setattr(sampling.UserSample, "__init__", lambda self, most=5: sample(self, min(most, 5)))
    streamed = Result.open(streamed.path)
    users = sampling.sampled(whole.totals().users["user"].unique(), 5)
    assert len(users) == 5
    totals = streamed.totals()
    expected = whole.totals().users[whole.totals().users["user"].isin(users)].reset_index(drop=True)
    pd.testing.assert_frame_equal(totals.users, expected)
    assert totals.n_users == 12
    assert set(streamed.user_series()["user"]) == set(users) == set(streamed.belief_distances()["user"])
    assert streamed.sample_note() == "sample of 5 of 12 users"
    assert_same(streamed.summary(), whole.summary())


def test_groups_end_only_where_no_part_continues() -> None:
    parts = [part_id(0, range(1), "0123456789", range(a, b)) for a, b in ((0, 50_000), (50_000, 120_000))]
    other = [part_id(1, range(1), "0123456789", range(a, b)) for a, b in ((0, 40_000), (40_000, 50_000))]
    (first, second) = aligned_blocks([[*parts, *other]], [1])
    assert first == (sorted([parts[0], *other]),)
    assert second == ([parts[1]],)
    assert len(aligned_blocks([parts, other], [1, 1])) == 2
    assert len(aligned_blocks([[*parts, "0000-0000-0000-0123456789"]], [1])) == 1


def test_a_log_that_does_not_fit_into_memory_is_rejected(whole: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = sum(len(table) for table in whole.iter_events())
    monkeypatch.setattr(result_module, "memory_bytes", lambda: 2 * rows * result_module._BYTES_PER_ROW)
    assert len(whole.events()) == rows
    monkeypatch.setattr(result_module, "memory_bytes", lambda: 2 * rows * result_module._BYTES_PER_ROW - 1)
    for read in (whole.events, whole.per_user):
        with raises_code(RequestError, "log-too-large") as error:
            read()
        assert f"{rows:,} rows" in str(error.value)


def test_page_of_a_log_in_blocks_names_the_sample(streamed: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    sample = sampling.UserSample.__init__
    monkeypatch.setattr(sampling.UserSample, "__init__", lambda self, most=5: sample(self, min(most, 5)))
    page = report.page([Result.open(streamed.path)])
    assert "single users and the replay are from a sample of 5 of 12 users" in page
    assert "Shows a sample of 5 of 12 users, chosen by a hash of their names" in page
    assert "sample of 5 of 12 users, chosen by a hash" in page
    data = json.loads(page.split('<script type="application/json"')[1].split(">", 1)[1].split("</script>")[0])
    assert len(data["replay"][0]["users"]) == 5


def test_runs_cut_at_different_users_are_compared_user_by_user(
    whole: Result, streamed: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = [cut(whole, tmp_path / "one", [0, 3, 9]).path, cut(whole, tmp_path / "two", [0, 5, 9]).path]

    def sentences(blocks: int) -> list[str]:
        study = Study([Result.open(folder) for folder in folders])
        compared = study.compared_users(["one", "two"])
        assert compared.n_blocks == blocks
        assert sum(block["user"].nunique() for block in compared) == 12
        return list(comparisons(compared))

    streamed_sentences = sentences(2)
    assert any("protects best" in line or "not significant" in line for line in streamed_sentences)
    monkeypatch.setattr(user_blocks, "MOST_ROWS", 10**9)
    assert sentences(1) == streamed_sentences
