"""The command line: every command, its exit code, and what goes to which stream. 0 done, 1 failed, 2 asked wrongly."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import Result

import sim
from sim.execution.chunks import run_chunk
from sim.storage.run_directory import RunDirectory
from tests.support import INTERRUPTIBLE, QUERIES, ROOT, SMALL, done, ending, lppm_sim, refused, until


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Return a run that the command line has made, and what it said."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(SMALL)
    return folder / "run", lppm_sim("run", folder / "small.yaml", "-o", folder / "run", "--no-figures")


@pytest.fixture
def a_run(finished: tuple[Path, Result], tmp_path: Path) -> Path:
    """Return a copy of a run, to do with as one likes."""
    return Path(shutil.copytree(finished[0], tmp_path / "run"))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# run -------------------------------------------------------------------------------------------------------------


def test_run_prints_the_table_the_ranking_and_the_place(finished: tuple[Path, Result]) -> None:
    folder, result = finished
    assert result.exit_code == 0
    assert result.stderr == ""
    rows = [line.split("│")[1].strip() for line in result.stdout.splitlines() if line.startswith("│")]
    assert rows == ["SP-Exp", "SP-Exp", "PEB-Exp", "PEB-Exp", "identity"]
    for attack in ("sporadic", "markov"):
        verdict = rf"^Against {attack}, at .* \d users are too few to tell which mechanism protects better: "
        assert re.search(verdict, result.stdout, re.MULTILINE)
    assert result.stdout.endswith(f"event log, summary.csv and metrics.csv are in {folder}\n")
    assert {name.split("/")[0] for name in files(folder)} == {
        "manifest.json",
        "summary.csv",
        "metrics.csv",
        "points.csv",
        "events",
        "snapshots",
    }
    assert json.loads((folder / "manifest.json").read_text())["finished"]


def test_a_second_run_goes_on_where_the_first_stopped(
    small: Path, finished: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    """Ctrl-C in the second of two chunks, then the same command again: nothing finished is simulated twice."""
    simulated: list[str] = []

    def until_the_second(chunk: Any, *rest: Any) -> Any:
        if simulated:
            signal.raise_signal(signal.SIGINT)
        simulated.append(chunk.id)
        return run_chunk(chunk, *rest)

    monkeypatch.setattr("sim.execution.pool.run_chunk", until_the_second)
    stopped = lppm_sim("run", small, "-o", "run", "--no-figures")
    assert stopped.exit_code == 1
    assert stopped.stdout == ""
    assert stopped.stderr == (
        "\ninterrupted; 1 of 2 chunks are finished and kept in run; the other starts again from the beginning: "
        "what was simulated of unfinished chunks is lost\n"
        "resume with: lppm-sim run small.yaml -o run --no-figures\n"
    )

    def what_is_left(chunk: Any, *rest: Any) -> Any:
        simulated.append(chunk.id)
        return run_chunk(chunk, *rest)

    monkeypatch.setattr("sim.execution.pool.run_chunk", what_is_left)
    out = done("run", small, "-o", "run", "--no-figures")
    assert out.endswith("event log, summary.csv and metrics.csv are in run\n")
    assert len(simulated) == len(set(simulated)) == 2
    assert done("run", small, "-o", "run", "--no-figures") == out
    assert len(simulated) == 2
    # The manifest alone says where the scenario's file lies.
    one, other = (dict(files(folder), **{"manifest.json": b""}) for folder in (Path("run"), finished[0]))
    assert one == other


def test_a_run_has_a_place_of_its_own_by_default(small: Path) -> None:
    study = sim.load(small)
    out = done("run", small, "--no-figures", "--set", "users.queries=3")
    digest = sim.load(small, settings=["users.queries=3"]).digest[:8]
    assert digest != study.digest[:8]
    assert out.endswith(f"are in outputs/small-{digest}\n")
    assert not Path("outputs", f"small-{digest}", "figures").exists()


def test_settings_and_seed_change_the_scenario(small: Path) -> None:
    words = ("--set", "users.queries=4", "--set", "lppms=[identity]", "--set", "sweep={}", "--seed", "77")
    done("run", small, "-o", "run", "--no-figures", *words)
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["seed"] == manifest["scenario"]["seed"] == 77
    assert [lppm["name"] for lppm in manifest["scenario"]["lppms"]] == ["identity"]
    assert len(sim.Result.open("run").events()) == 3 * 4 * 2


def test_another_scenario_in_the_same_folder_is_refused(small: Path, a_run: Path) -> None:
    before = files(a_run)
    said = refused("run", small, "-o", a_run, "--seed", "4")
    assert "holds a run of another scenario" in said
    assert "scenario.seed: 3 there, 4 now" in said
    assert files(a_run) == before


def test_somebody_elses_folder_is_refused(small: Path) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    assert "is not empty and is no run directory (found 'thesis.txt'" in refused("run", small, "-o", "mine")
    assert files(Path("mine")) == {"thesis.txt": b"years of work"}


def test_progress_is_plain_lines_on_stderr(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.cli.progress.LINE_EVERY_S", 0.0)
    result = lppm_sim("run", small, "-o", "run", "--no-figures")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    form = r"small: (\d/2 chunks, \d+)/180 queries, [\d,]+ queries/s, \d+ s left"
    told = [said[1] for line in lines if (said := re.fullmatch(form, line))]
    assert told == ["0/2 chunks, 100", "1/2 chunks, 100", "1/2 chunks, 180", "2/2 chunks, 180"]
    assert len(told) == len(lines)
    assert "queries/s" not in result.stdout


def test_data_files_lie_where_the_flag_says(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data").mkdir()
    monkeypatch.setenv("LPPM_SIM_DATA", str(Path("data").resolve()))
    table = pd.DataFrame({"user": list("ab" * 5), "time": range(10), "cell": range(10)})
    words = ("--set", "training={}", "--set", 'users={mobility: {kind: replay, file: "data:t.csv"}}')
    assert "file 'data:t.csv' does not exist (looked for " in refused("check", small, *words)
    Path("elsewhere").mkdir()
    table.to_csv("elsewhere/t.csv", index=False)
    assert "50 in 5 simulations" in done("check", small, *words, "--data", "elsewhere", "--no-time")


# What is done with a run -----------------------------------------------------------------------------------------


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "csv": pd.read_csv,
    "jsonl": lambda path: pd.read_json(path, lines=True),
    "parquet": pd.read_parquet,
}


@pytest.mark.parametrize("form", READERS)
def test_export(form: str, finished: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert done("export", finished[0], "--format", form) == f"wrote {2 * QUERIES} rows to run.{form}\n"
    events = sim.Result.open(finished[0]).events()
    pd.testing.assert_frame_equal(READERS[form](Path(f"run.{form}")), events, check_dtype=False, rtol=1e-12)
    before = Path(f"run.{form}").read_bytes()
    assert f"run.{form} exists" in refused("export", finished[0], "--format", form)
    done("export", finished[0], "--format", form, "--overwrite")
    done("export", finished[0], "--format", form, "-o", "another")
    assert Path("another").read_bytes() == Path(f"run.{form}").read_bytes() == before


def test_an_unknown_format_is_refused(finished: tuple[Path, Result]) -> None:
    assert "'xlsx' is not one of 'csv', 'jsonl', 'parquet'" in refused("export", finished[0], "--format", "xlsx")


def test_summarize_reads_the_log_again(a_run: Path, finished: tuple[Path, Result]) -> None:
    before = (a_run / "summary.csv").read_bytes()
    (a_run / "summary.csv").unlink()
    said = done("summarize", a_run)
    assert (a_run / "summary.csv").read_bytes() == before
    assert said.replace(str(a_run), "") == finished[1].stdout.replace(str(finished[0]), "")


def test_plot_draws_the_figures(a_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.plots.style.METADATA", {"svg": {"Date": None}})  # one format is enough here
    names = ["figures/tradeoff.svg", "figures/over_time.svg"]
    assert [str(Path(line).relative_to(a_run)) for line in done("plot", a_run).splitlines()] == names
    assert sorted(f"figures/{name}" for name in files(a_run / "figures")) == sorted(names)
    assert done("summarize", a_run).endswith(f"event log, summary.csv, metrics.csv and figures are in {a_run}\n")


def test_a_run_draws_its_figures_unless_told_not_to(a_run: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr("sim.plots.write_figures", lambda run, **_: drawn.append(run.path))
    done("run", small, "-o", a_run, "--no-figures")
    assert drawn == []
    done("run", small, "-o", a_run)
    assert drawn == [a_run]


@pytest.mark.parametrize("command", ["export", "summarize", "plot"])
def test_what_is_no_run_is_refused(command: str, small: Path) -> None:
    Path("empty").mkdir()
    assert "nowhere does not exist. A run directory is what `lppm-sim run` makes" in refused(command, "nowhere")
    assert "small.yaml is a file, not a run directory" in refused(command, small)
    assert "empty is no run directory: it has no manifest.json and no events" in refused(command, "empty")
    assert sorted(path.name for path in Path().rglob("*")) == ["empty", "small.yaml"]


@pytest.mark.parametrize("command", ["export", "summarize", "plot"])
def test_work_that_fails_ends_with_one(command: str, a_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(a_run.parent)
    part = next((a_run / "events").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    result = lppm_sim(command, a_run)
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"{part.name} cannot be read: " in result.stderr
    assert f"`lppm-sim run SCENARIO -o {a_run}` simulates it again, and nothing else." in result.stderr


def test_an_unfinished_run_can_be_looked_at(a_run: Path) -> None:
    max((a_run / "events").iterdir()).unlink()
    run = RunDirectory(a_run)
    manifest = run.manifest()
    del manifest["notes"]
    run.write_manifest(manifest | {"finished": False})
    assert "note: the run is not finished" in done("summarize", a_run)


def test_the_shipped_traces_are_what_their_scenario_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    comment = Path("scenarios/replay_csv.yaml").read_text()
    (command,) = re.findall(r"^# +lppm-sim (traces .+) -o FILE$", comment, re.MULTILINE)
    out = tmp_path / "checkins.csv"
    assert done(*command.split(), "-o", out) == f"wrote 1,200 queries of 12 users to {out}\n"
    assert out.read_bytes() == Path("scenarios/traces/checkins.csv").read_bytes()


def test_traces_can_be_replayed_and_compressed(small: Path) -> None:
    done("traces", small, "-o", "t.csv.gz")
    done("traces", small, "-o", "t.csv")
    pd.testing.assert_frame_equal(pd.read_csv("t.csv"), pd.read_csv("t.csv.gz"))
    replayed = ("--set", "training={}", "--set", "users={mobility: {kind: replay, file: t.csv}}")
    plainly = ("--no-figures", "--set", "lppms=[identity]", "--set", "sweep={}")
    done("run", small, "-o", "run", *plainly, *replayed)
    done("run", small, "-o", "lived", *plainly)
    columns = ["user", "index", "time_s", "cell"]
    one, other = (sim.Result.open(name).events()[columns] for name in ("run", "lived"))
    pd.testing.assert_frame_equal(one, other)
    assert "the traces cannot be written: " in refused("traces", small, "-o", "no/where.csv")
    before = Path("t.csv").read_bytes()
    assert "t.csv is there already" in refused("traces", small, "--seed", "9", "-o", "t.csv")
    assert Path("t.csv").read_bytes() == before
    done("traces", small, "--seed", "9", "-o", "t.csv", "--overwrite")
    assert Path("t.csv").read_bytes() != before


# As a process of its own -----------------------------------------------------------------------------------------


def process(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sim.cli", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_exit_codes_of_the_process(small: Path, a_run: Path) -> None:
    wrong = process("run", "gone.yaml")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("gone.yaml: there is no such file")
    next((a_run / "events").iterdir()).write_bytes(b"torn")
    failed = process("summarize", str(a_run))
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "Traceback" not in wrong.stderr + failed.stderr
    right = process("new", "right.yaml")
    assert (right.returncode, right.stdout, right.stderr) == (0, "wrote right.yaml; now: lppm-sim run right.yaml\n", "")


def test_ctrl_c_stops_a_run_and_keeps_what_is_finished(small: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTIBLE, "run", "small.yaml", "-o", "stopped", "--set", "replications=200"]
    with ending(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)) as running:
        until(lambda: list(Path("stopped").glob("events/*.parquet")))
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (1, "")
    assert re.search(r"\ninterrupted; \d+ of \d+ chunks are finished and kept in stopped; .* start again", err)
    assert err.endswith("resume with: lppm-sim run small.yaml -o stopped --set replications=200\n")
    assert "Traceback" not in err
    assert len(sim.Result.open("stopped").events()) >= 2 * 3 * 12 * 2


def test_summarize_reads_errors_off_at_equal_loss(small: Path) -> None:
    done("run", small, "-o", "run", "--no-figures")
    text = done("summarize", "run", "--at", "0.9", "--at", "1", "--against", "PEB-Exp")
    assert "minus PEB-Exp" in text
    table = sim.Result.open("run").at_loss([0.9, 1], against="PEB-Exp")
    assert table[["attack", "quality_loss_km", "lppm"]].values.tolist() == [
        [attack, loss, lppm]
        for attack in ("sporadic", "markov")
        for loss in (0.9, 1.0)
        for lppm in ("SP-Exp", "PEB-Exp")
    ]
    assert (table["of_users"] == 3).all()
    for row in table.dropna(subset="error_km").to_dict("records"):
        assert f"{row['error_km']:.3f}" in text
    assert table["error_km"].notna().any()
    assert "'identity' has a single quality loss" in refused("summarize", "run", "--at", "1", "--against", "identity")
    assert "--against needs a quality loss" in refused("summarize", "run", "--against", "PEB-Exp")
    assert "is not in the range" in refused("summarize", "run", "--at", "-1")
