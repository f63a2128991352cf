"""The command `summarize`: the same output from the event log, errors at equal loss."""

from __future__ import annotations

from pathlib import Path

from click.testing import Result

import sim
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory
from tests.support import done, refused


def test_summarize_recomputes_the_tables(a_run: Path, finished: tuple[Path, Result]) -> None:
    before = (a_run / "summary.csv").read_bytes()
    (a_run / "summary.csv").unlink()
    printed = done("summarize", a_run)
    assert (a_run / "summary.csv").read_bytes() == before
    assert printed.replace(str(a_run), "") == finished[1].stdout.replace(str(finished[0]), "")


def test_unfinished_run_can_be_summarized(a_run: Path) -> None:
    max((a_run / "events").iterdir()).unlink()
    run = RunDirectory(a_run)
    content = run.manifest().content
    del content["notes"]
    run.write_manifest(RunManifest.of(content | {"finished": False}))
    assert "note: the run is not finished" in done("summarize", a_run)


def test_summarize_prints_errors_at_equal_loss(small: Path) -> None:
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
    assert "'identity'" in refused("summarize", "run", "--at", "1", "--against", "identity")
    assert "[missing-option]" in refused("summarize", "run", "--against", "PEB-Exp")
    assert "'--at'" in refused("summarize", "run", "--at", "-1")


def test_latex_has_the_tables_that_are_printed(a_run: Path) -> None:
    before = (a_run / "summary.csv").read_bytes()
    text = done("summarize", a_run, "--format", "latex", "--metrics", "--at", "0.9")
    assert (a_run / "summary.csv").read_bytes() == before
    assert text.count(r"\begin{tabular}") == text.count(r"\end{table}") == 4  # summary, at equal loss, two of metrics
    for row in sim.Result.open(a_run).summary().to_dict("records"):
        assert f"{row['expected_quality_loss_km']:.3f}" in text
    lines = [line for line in text.splitlines() if line and not line.startswith(("\\", "%"))]
    assert all(line.endswith(r"\\") for line in lines)


def test_latex_of_a_shift_and_past_queries(tmp_path: Path, small: Path) -> None:
    shift = "shifts=[{kind: new_places, at_query: 6}]"
    done("run", small, "-o", "run", "--no-figures", "--set", shift, "--set", "attacks=[smoothing]")
    text = done("summarize", "run", "--format", "latex")
    assert "Adversary error of past queries" in text
    printed = done("summarize", "run")
    assert "Adversary error of past queries" in printed
