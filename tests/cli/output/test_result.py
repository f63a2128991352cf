"""The output at the end of a run: table, conclusions, notes, files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import sim
from sim.cli.output.result import print_result
from tests.cli.printed import table
from tests.support import MakeScenario

Capture = pytest.CaptureFixture[str]


def test_result_is_printed_with_notes_and_directory(
    make_scenario: MakeScenario, tmp_path: Path, capsys: Capture
) -> None:
    peb = {"kind": "PEB-LH", "belief": {"solver": "em", "max_iterations": 1}}
    scenario = make_scenario(lppms=["SP-Exp", peb], sweep={"lppms.*.design.quality_budget_km": [0.3, 1.5]})
    folder = tmp_path / "[red]run"
    result = sim.run(scenario, out=folder, figures=False)
    print_result(result)
    out = capsys.readouterr().out
    assert [row[:2] for row in table(out)[1:]] == [
        ["SP-Exp", "0.3"],
        ["SP-Exp", "1.5"],
        ["PEB-LH", "0.3"],
        ["PEB-LH", "1.5"],
    ]
    for attack in ("sporadic", "markov"):
        verdict = rf"^Against {attack}, at \d\.\d km of quality loss, \d users are too few for a significance test: "
        assert re.search(verdict, out, re.MULTILINE)
    assert re.search(
        r"^note: PEB-LH: its estimates reached an optimality gap of \S+ \(target: 1e-06\)$", out, re.MULTILINE
    )
    assert out.endswith(f"\nevent log, summary.csv and metrics.csv are in {folder}\n")
    (folder / "figures").mkdir()
    print_result(result)
    assert capsys.readouterr().out.endswith(f"\nevent log, summary.csv, metrics.csv and figures are in {folder}\n")
    (folder / "report.html").touch()
    print_result(result)
    assert capsys.readouterr().out.endswith(
        f"\nevent log, summary.csv, metrics.csv, figures and report.html are in {folder}\n"
    )
    print_result(result, redrawn=False)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(f"event log, summary.csv and metrics.csv are in {folder}; figures and report.html ")
