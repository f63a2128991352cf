"""Synthetic replacements of the paper's data sets: deterministic, reused if intact, suitable for all ten studies."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.datasets import trace_file
from sim.datasets.describing import describe, load
from sim.interfaces import FloatArray, IntArray
from sim.mobility.recorded.days import PACIFIC_DAYLIGHT_H, good_days
from sim.paper import synthetic
from sim.paper.studies import DATASETS, STUDIES, Study
from sim.paper.synthetic import write_traces
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from sim.world.grid import Grid

CHECKINS = ["brightkite", "gowalla"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("synthetic")
    return {dataset: write_traces(dataset, folder) for dataset in DATASETS}


def cells_of(study: Study, file: Path) -> list[IntArray]:
    """Return the cells of each test user."""
    return [trace.cells for trace in Population(Setting(study.scenario(file)), 0).traces]


def histogram(cells: IntArray) -> IntArray:
    return np.bincount(cells, minlength=250)


def apart(some: IntArray, others: IntArray | FloatArray) -> float:
    """Return the total variation between the profiles of two histograms."""
    return float(np.abs(some / some.sum() - others / others.sum()).sum() / 2)


def staying(cells: IntArray) -> float:
    """Return the excess frequency of consecutive visits in the same cell over that of random pairs of visits."""
    share = histogram(cells) / cells.size
    return float((cells[1:] == cells[:-1]).mean() - (share**2).sum())


def test_another_process_writes_the_same_bytes(files: dict[str, Path], tmp_path: Path) -> None:
    script = """if True:
        import sys
        from pathlib import Path
        from sim.paper.synthetic import write_traces
        for dataset in sys.argv[2:]:
            write_traces(dataset, Path(sys.argv[1]))
    """
    subprocess.run(
        [sys.executable, "-c", script, tmp_path, *reversed(DATASETS)],
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "7"},
        timeout=240,
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names[0] for names in DATASETS.values())
    for path in files.values():
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("dataset", DATASETS)
def test_intact_file_is_not_changed(
    dataset: str, files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copy(files[dataset], tmp_path))
    before = path.stat()

    def refuse(*_: object) -> None:
        raise AssertionError("an intact file was written again")

    monkeypatch.setattr(synthetic, "_people", refuse)
    assert write_traces(dataset, tmp_path) == path
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_truncated_file_is_written_again(files: dict[str, Path], tmp_path: Path) -> None:
    whole = files["taxicab"].read_bytes()
    path = tmp_path / files["taxicab"].name
    path.write_bytes(whole[: len(whole) // 2])
    assert write_traces("taxicab", tmp_path).read_bytes() == whole


@pytest.mark.parametrize("changed", ["cell", "user", "moment", "notes"])
def test_modified_file_is_written_again(changed: str, files: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / files["taxicab"].name
    traces = trace_file.read(files["taxicab"])
    match changed:
        case "cell":
            traces.lat[5] += 0.01
        case "user":
            traces.user[traces.user.searchsorted(1)] -= 1
        case "moment":
            traces.when[-1] += 1
        case "notes":
            assert isinstance(traces.notes, dict)
            traces.notes["lppm_sim"] = "0.0.0"
    with path.open("wb") as file:
        trace_file.write(file, traces)
    assert path.read_bytes() != files["taxicab"].read_bytes()
    assert write_traces("taxicab", tmp_path).read_bytes() == files["taxicab"].read_bytes()


def test_changed_recipe_replaces_the_file(
    files: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = Path(shutil.copy(files["taxicab"], tmp_path))
    recipe = synthetic._RECIPES["taxicab"]
    other = replace(recipe, scenario={**recipe.scenario, "seed": 99})
    monkeypatch.setitem(synthetic._RECIPES, "taxicab", other)
    write_traces("taxicab", tmp_path)
    assert path.read_bytes() != files["taxicab"].read_bytes()
    assert trace_file.read(path).notes["recipe"]["scenario"]["seed"] == 99


def test_unknown_data_set_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^dataset\b.*gowalla.*'geolife'$"):
        write_traces("geolife", tmp_path)


@pytest.mark.parametrize("dataset", DATASETS)
def test_metadata_states_that_the_file_is_synthetic(dataset: str, files: dict[str, Path]) -> None:
    description = describe(load(files[dataset]))
    assert description.source == f"synthetic, in place of {dataset}"
    assert trace_file.read(files[dataset]).notes["synthetic"] is True


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_every_study_finds_its_users(study: Study, files: dict[str, Path]) -> None:
    file = files[study.dataset]
    setting = Setting(study.scenario(file))
    lives = Population(setting, 0).lives
    if study.dataset == "taxicab":
        assert len(lives) == 10
        assert {(len(life.past), len(life.test)) for life in lives.values()} == {(7 * 288, 3 * 288)}
        return
    assert len(lives) == 5
    assert {(len(life.past), len(life.test)) for life in lives.values()} == {(0, 300)}
    assert setting.others("scarce").n_visits == 15 * 300
    assert 30_000 < setting.others("rich").n_visits < 60_000
    everybody = setting.readings()
    assert everybody["users"]["rows_outside"] == 0
    assert everybody["training.rich"]["users"] == everybody["users"]["users_in_region"] - 20


@pytest.mark.parametrize("dataset", CHECKINS)
def test_other_users_visit_other_cells(dataset: str, files: dict[str, Path]) -> None:
    setting = Setting(Study("mk", dataset, "exp").scenario(files[dataset]))
    rich = setting.others("rich").profile
    assert min(apart(histogram(trace.cells), rich) for trace in Population(setting, 0).traces) > 0.4


@pytest.mark.parametrize("dataset", CHECKINS)
def test_checkins_are_correlated_in_time_and_shuffled_ones_are_not(dataset: str, files: dict[str, Path]) -> None:
    stays = {
        experiment: np.mean([staying(cells) for cells in cells_of(Study(experiment, dataset, "exp"), files[dataset])])
        for experiment in ("mk", "sp")
    }
    assert stays["mk"] > 0.2
    assert abs(stays["sp"]) < 0.05


def test_only_gowalla_has_users_with_a_behaviour_shift(files: dict[str, Path]) -> None:
    changes = {}
    for dataset in CHECKINS:
        people = cells_of(Study("mk", dataset, "exp"), files[dataset])
        changes[dataset] = [apart(histogram(cells[:150]), histogram(cells[150:])) for cells in people]
    assert max(changes["brightkite"]) < 0.5
    assert min(changes["gowalla"]) < 0.5
    assert max(changes["gowalla"]) > 0.7


def test_checkins_are_heavy_tailed_and_the_two_sets_differ(files: dict[str, Path]) -> None:
    traces_of = {dataset: trace_file.read(files[dataset]) for dataset in CHECKINS}
    for traces in traces_of.values():
        counts = np.sort(np.bincount(traces.user))
        assert (counts >= 300).sum() >= 25
        assert np.median(counts) < 10
        assert counts[-30:].sum() > 0.25 * counts.sum()
    grid = Grid.san_francisco()
    assert apart(*(histogram(grid.cell_of(traces.lat, traces.lon)) for traces in traces_of.values())) > 0.2


def test_cabs_drive_from_cell_to_cell_and_wait(files: dict[str, Path]) -> None:
    grid = Grid.san_francisco()
    for cells in cells_of(Study("mk", "taxicab", "lh"), files["taxicab"]):
        step_km = np.hypot(np.diff(grid.x_km[cells]), np.diff(grid.y_km[cells]))
        assert (step_km < 4).mean() > 0.95  # in five minutes
        assert staying(cells) > 0.3


def test_cabs_report_often_on_local_days(files: dict[str, Path]) -> None:
    traces = trace_file.read(files["taxicab"])
    assert len(traces.users) == 12
    for number in range(12):
        times_s = traces.when[traces.user == number]
        assert np.diff(times_s).max() <= 300
        assert good_days(times_s, utc_offset_s=PACIFIC_DAYLIGHT_H * 3600).size == 11
