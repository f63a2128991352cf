"""The command `paper` on small studies: real runs, all panels, all claims."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.analysis.windows import read_halves
from sim.paper import reproduce
from sim.paper.panels import AT_KM, COLUMNS, PANELS, series_of, table
from sim.paper.studies import DATASETS, STUDIES, Study, found_in, scenario_folder
from sim.paper.synthetic import write_traces
from sim.scenario.models import Scenario
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.support import done, files, refused

FULL = Study.scenario
VALUES = {"exp": [0.2, 3], "lh": [0.3, 0.8]}


def small(self: Study, file: Path, *, quick: bool = False, log: str = "queries") -> Scenario:
    """Return a study with two points, 16 queries and two replications, which takes seconds instead of minutes."""
    full = FULL(self, file, quick=quick, log=log)
    data: dict[str, Any] = full.model_dump(mode="json", exclude_unset=True)
    (path,) = data["sweep"]
    data["sweep"] = {path: VALUES[self.base]}
    data["replications"] = 1 if quick else 2
    data["users"]["queries"] = 16
    if log == "summary":
        data["record"]["window"] = 8
    place = full.place
    return Scenario.model_validate(data, context={"folder": place.folder, "data": place.data}).at(*place)


@contextmanager
def small_studies(folder: Path) -> Iterator[pytest.MonkeyPatch]:
    """Make the command simulate small studies of synthetic populations in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Study, "scenario", small)
        patch.chdir(folder)
        patch.delenv("LPPM_SIM_DATA", raising=False)
        yield patch


@pytest.fixture(scope="module")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the output of the command for synthetic populations."""
    folder = tmp_path_factory.mktemp("paper")
    with small_studies(folder):
        (folder / "stdout").write_text(done("paper", "--workers", "1"))
    return folder


def test_every_panel_is_written_in_three_formats(paper: Path) -> None:
    out = paper / "outputs" / "paper-synthetic"
    expected = {f"{panel.name}.{suffix}" for panel in PANELS for suffix in ("csv", "pdf", "png")}
    assert {path.name for path in (out / "panels").iterdir()} == expected
    for panel in PANELS:
        curves = pd.read_csv(out / "panels" / f"{panel.name}.csv")
        assert list(curves.columns) == COLUMNS
        assert list(dict.fromkeys(curves["series"])) == list(panel.series)
        assert len(curves) == len(AT_KM) * len(panel.series)
        assert curves["mean_km"].notna().any()
        known = curves.dropna()
        assert (known["min_km"] <= known["mean_km"] + 1e-12).all()
        assert (known["mean_km"] <= known["max_km"] + 1e-12).all()
    assert (out / "all-panels.png").stat().st_size > 50_000


def test_panels_come_from_the_logs_of_ordinary_runs(paper: Path) -> None:
    out = paper / "outputs" / "paper-synthetic"
    for panel in PANELS[::5]:
        result = sim.Result.open(out / "runs" / f"{panel.study.name}-synthetic")
        assert result.manifest.finished
        again = table(panel, series_of(read_halves(result.run)))
        pd.testing.assert_frame_equal(again, pd.read_csv(out / "panels" / f"{panel.name}.csv"), check_exact=False)


def test_halves_match_the_log(paper: Path) -> None:
    result = sim.Result.open(paper / "outputs" / "paper-synthetic" / "runs" / "mk-taxicab-exp-synthetic")
    events = result.events()
    halves = read_halves(result.run)
    keys = ["point", "lppm", "attack", "user", "replication"]
    by_hand = events.assign(half=(events["index"] > 8).map({False: "first", True: "last"}))
    means = by_hand.groupby([*keys, "half"], as_index=False)["adversary_error_km"].mean()
    both = halves.merge(means, on=[*keys, "half"], suffixes=("", "_by_hand"), validate="one_to_one")
    assert len(both) == len(halves) == len(means)
    assert both["adversary_error_km"].to_numpy() == pytest.approx(both["adversary_error_km_by_hand"].to_numpy())
    assert (halves["queries"] == 8).all()


def test_claims_state_that_the_populations_are_synthetic(paper: Path) -> None:
    out = paper / "outputs" / "paper-synthetic"
    page = (out / "claims.md").read_text()
    assert "Synthetic populations replace brightkite, gowalla, taxicab" in page
    assert page.count("\n## ") >= 20
    assert re.search(r"\| TaxiCab, LH \| peb-last - peb-first \| [+-]\d+\.\d ± \d+\.\d % \| \d+ \|", page)
    printed = " ".join((paper / "stdout").read_text().split())
    assert re.search(r"simulated [\d,]+ queries", printed)
    assert "claims.md, all-panels.png" in printed
    assert "outputs/paper-synthetic" in printed


def test_second_call_simulates_nothing(paper: Path) -> None:
    before = files(paper / "outputs")
    with small_studies(paper) as patch:
        patch.setattr(reproduce, "pictures", lambda *_: {})  # drawing is slow and tested elsewhere
        printed = done("paper", "--workers", "1")
    assert "simulated 0 queries" in " ".join(printed.split())
    assert files(paper / "outputs") == before


def test_quick_run_is_resumed_by_the_full_run(paper: Path, tmp_path: Path) -> None:
    """The replications of a quick run are the first ones of the full study."""
    source = write_traces("brightkite", tmp_path)
    study = STUDIES[0]
    sim.run(small(study, source, quick=True), out=tmp_path / "run", figures=False)
    sim.run(small(study, source), out=tmp_path / "run", figures=False)
    keys = ["point", "lppm", "replication", "user", "index"]
    grown = sim.Result.open(tmp_path / "run").events().sort_values(keys, ignore_index=True)
    whole = sim.Result.open(paper / "outputs" / "paper-synthetic" / "runs" / f"{study.name}-synthetic").events()
    pd.testing.assert_frame_equal(grown, whole.sort_values(keys, ignore_index=True))


@pytest.mark.parametrize("study", [STUDIES[0], STUDIES[-1]], ids=lambda study: study.name)
def test_summaries_give_the_same_curves(study: Study, paper: Path, tmp_path: Path) -> None:
    source = write_traces(study.dataset, tmp_path)
    summary = sim.run(small(study, source, log="summary"), out=tmp_path / "run", figures=False)
    queries = sim.Result.open(paper / "outputs" / "paper-synthetic" / "runs" / f"{study.name}-synthetic")
    assert len(summary.events()) * 8 == len(queries.events())
    ours, theirs = (series_of(read_halves(result.run)) for result in (summary, queries))
    pd.testing.assert_frame_equal(ours, theirs, rtol=1e-9)


# ------------------------------------------------------------------------------------------------------ the studies


def test_every_study_has_a_scenario() -> None:
    assert {path.stem for path in scenario_folder().glob("*.yaml")} == {study.name for study in STUDIES}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("traces")
    return {name: write_traces(name, folder) for name in DATASETS}


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_study_has_the_parameters_of_the_paper(study: Study, sources: dict[str, Path]) -> None:
    scenario = study.scenario(sources[study.dataset])
    assert scenario.replications == {"exp": 20, "lh": 40}[study.base]
    ((path, values),) = scenario.sweep.items()
    if study.base == "exp":
        assert path.endswith("epsilon_per_km")
        assert values == [0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8, 1, 1.5, 2, 3, 5, 8]
    else:
        assert path.endswith("reveal_probability")
        assert values == [number / 10 for number in range(11)]
    assert [attack.name for attack in scenario.attacks] == [{"sp": "sporadic", "mk": "markov"}[study.experiment]]
    world = json.loads(scenario.canonical())["world"]
    assert world["privacy_distance"]["kind"] == world["quality_distance"]["kind"] == "manhattan"
    learners = [lppm for lppm in scenario.lppms if lppm.name == "peb"]
    assert [vars(lppm.belief)["fading"] for lppm in learners] == [0.5]
    assert learners[0].training == ("scarce" if study.dataset == "taxicab" else "rich")
    assert scenario.markov_restart == ("daily" if study.dataset == "taxicab" else "never")
    assert getattr(scenario.users.mobility, "shuffle", None) == (study.experiment == "sp")
    quick = study.scenario(sources[study.dataset], quick=True, log="summary")
    assert quick.replications in (1, 2)
    length = len(Population(Setting(quick), 0).traces[0])
    assert (quick.record.log, 2 * quick.record.window) == ("summary", length), "one row per half"


def test_data_sets_are_found_by_either_name(tmp_path: Path) -> None:
    assert found_in(None) == {}
    assert found_in(tmp_path) == {}
    (tmp_path / "gowalla_sf_ccs17.csv.gz").touch()
    (tmp_path / "cabspotting.parquet").touch()
    assert found_in(tmp_path) == {
        "gowalla": tmp_path / "gowalla_sf_ccs17.csv.gz",
        "taxicab": tmp_path / "cabspotting.parquet",
    }
    (tmp_path / "gowalla.parquet").touch()
    assert found_in(tmp_path)["gowalla"] == tmp_path / "gowalla.parquet", "the imported file has precedence"


def test_empty_data_folder_and_url_are_rejected(tmp_path: Path) -> None:
    assert "nowhere" in refused("paper", "--data", "nowhere")
    message = " ".join(refused("paper", "--data", tmp_path).split())
    assert "brightkite.parquet, brightkite_sf_ccs17.csv.gz" in message
    assert "s3://bucket/x" in refused("paper", "-o", "s3://bucket/x")
    assert not list(tmp_path.iterdir())
