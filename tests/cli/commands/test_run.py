"""The command `run`: output, resuming, directories, settings, progress."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from click.testing import Result

import sim
from sim.execution.chunks import run_chunk
from tests.support import done, files, lppm_sim, refused


def test_run_prints_table_comparison_and_directory(finished: tuple[Path, Result]) -> None:
    folder, result = finished
    assert result.exit_code == 0
    assert result.stderr == ""
    rows = [line.split("│")[1].strip() for line in result.stdout.splitlines() if line.startswith("│")]
    assert rows == ["SP-Exp", "SP-Exp", "PEB-Exp", "PEB-Exp", "identity"]
    for attack in ("sporadic", "markov"):
        verdict = rf"^Against {attack}, at .* \d users are too few for a significance test: "
        assert re.search(verdict, result.stdout, re.MULTILINE)
    assert result.stdout.endswith(f"event log, summary.csv and metrics.csv are in {folder}\n")
    assert {name.split("/")[0] for name in files(folder)} == {
        "manifest.json",
        "summary.csv",
        "metrics.csv",
        "points.csv",
        "ro-crate-metadata.json",
        "events",
        "snapshots",
    }
    assert json.loads((folder / "manifest.json").read_text())["finished"]


def test_second_run_resumes_an_interrupted_one(
    small: Path, finished: tuple[Path, Result], monkeypatch: pytest.MonkeyPatch, interruptible: None
) -> None:
    """After Ctrl-C in the second of two chunks, the same command simulates only the second one."""
    simulated: list[str] = []

    def interrupt_second(chunk: Any, *rest: Any) -> Any:
        if simulated:
            signal.raise_signal(signal.SIGINT)
        simulated.append(chunk.id)
        return run_chunk(chunk, *rest)

    monkeypatch.setattr("sim.execution.pool.run_chunk", interrupt_second)
    stopped = lppm_sim("run", small, "-o", "run", "--no-figures")
    assert stopped.exit_code == 1
    assert stopped.stdout == ""
    assert stopped.stderr.startswith("\ninterrupted; 1 of 2 chunks ")
    assert stopped.stderr.endswith("\nresume with: lppm-sim run small.yaml -o run --no-figures\n")

    def record(chunk: Any, *rest: Any) -> Any:
        simulated.append(chunk.id)
        return run_chunk(chunk, *rest)

    monkeypatch.setattr("sim.execution.pool.run_chunk", record)
    out = done("run", small, "-o", "run", "--no-figures")
    assert out.endswith("event log, summary.csv and metrics.csv are in run\n")
    assert len(simulated) == len(set(simulated)) == 2
    assert done("run", small, "-o", "run", "--no-figures") == out
    assert len(simulated) == 2
    # Only the manifest contains the path of the scenario, and the metadata its checksum.
    of_path = {"manifest.json": b"", "ro-crate-metadata.json": b""}
    one, other = (files(folder) | of_path for folder in (Path("run"), finished[0]))
    assert one == other


def test_default_directory_has_name_and_digest(small: Path) -> None:
    study = sim.load(small)
    out = done("run", small, "--no-figures", "--set", "users.queries=3")
    digest = sim.load(small, settings=["users.queries=3"]).digest[:8]
    assert digest != study.digest[:8]
    assert out.endswith(f"are in outputs/small-{digest}\n")
    assert not Path("outputs", f"small-{digest}", "figures").exists()


def test_settings_and_seed_change_the_scenario(small: Path) -> None:
    options = ("--set", "users.queries=4", "--set", "lppms=[identity]", "--set", "sweep={}", "--seed", "77")
    done("run", small, "-o", "run", "--no-figures", *options)
    manifest = json.loads(Path("run/manifest.json").read_text())
    assert manifest["seed"] == manifest["scenario"]["seed"] == 77
    assert [lppm["name"] for lppm in manifest["scenario"]["lppms"]] == ["identity"]
    assert len(sim.Result.open("run").events()) == 3 * 4 * 2


def test_run_directory_of_another_scenario_is_rejected(small: Path, a_run: Path) -> None:
    before = files(a_run)
    message = refused("run", small, "-o", a_run, "--seed", "4")
    assert str(a_run) in message
    assert "scenario.seed: 3 " in message
    assert files(a_run) == before


def test_foreign_folder_is_rejected(small: Path) -> None:
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    message = refused("run", small, "-o", "mine")
    assert "found 'thesis.txt'" in message
    assert message.endswith("[folder-not-empty]\n")
    assert files(Path("mine")) == {"thesis.txt": b"years of work"}


def test_progress_is_plain_lines_on_stderr(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.execution.progress_bar.LINE_EVERY_S", 0.0)
    result = lppm_sim("run", small, "-o", "run", "--no-figures")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    form = r"small: (\d/2 chunks, \d+)/180 queries, [\d,]+ queries/s, (?:\d+ s left|finishing the last chunk)"
    counts = [match[1] for line in lines if (match := re.fullmatch(form, line))]
    assert counts == ["0/2 chunks, 100", "1/2 chunks, 100", "1/2 chunks, 180", "2/2 chunks, 180"]
    assert len(counts) == len(lines)
    assert "queries/s" not in result.stdout


def test_data_option_overrides_the_environment(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data").mkdir()
    monkeypatch.setenv("LPPM_SIM_DATA", str(Path("data").resolve()))
    table = pd.DataFrame({"user": list("ab" * 5), "time": range(10), "cell": range(10)})
    options = ("--set", "training={}", "--set", 'users={mobility: {kind: replay, file: "data:t.csv"}}')
    assert "'data:t.csv'" in refused("check", small, *options)
    Path("elsewhere").mkdir()
    table.to_csv("elsewhere/t.csv", index=False)
    assert "50 in 5 simulations" in done("check", small, *options, "--data", "elsewhere", "--no-time")


def test_run_draws_figures_unless_disabled(a_run: Path, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Path] = []
    monkeypatch.setattr("sim.plots.write_figures", lambda run, **_: drawn.append(run.path))
    done("run", small, "-o", a_run, "--no-figures")
    assert drawn == []
    done("run", small, "-o", a_run)
    assert drawn == [a_run]
