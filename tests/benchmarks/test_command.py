"""The command prints rows when they are measured, writes JSON, and exits with 1 if a target is missed."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from benchmarks import measuring, rows, scale
from benchmarks.measuring import Outcome
from benchmarks.output import TargetTable
from benchmarks.scale import Scale
from benchmarks.targets import Measurement, Row
from tests.benchmarks.support import NAMES, TINY, bench, refused

CHEAP = ("mk", "remap")


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the work of the command to a minimum."""
    monkeypatch.setattr(scale, "QUICK", TINY)
    monkeypatch.setattr(scale, "FULL", replace(TINY, rounds=1))


def aim(monkeypatch: pytest.MonkeyPatch, **targets: float) -> None:
    """Set other targets for the same metrics."""
    changed = [replace(row, target=targets.get(row.name, row.target)) for row in rows.ROWS]
    monkeypatch.setattr(rows, "ROWS", tuple(changed))


@pytest.mark.usefixtures("tiny")
def test_the_exit_code_is_0_for_met_and_1_for_missed_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    aim(monkeypatch, mk=1e9, remap=1e-9)
    result = bench("--quick", *CHEAP)
    assert result.exit_code == 0
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["measuring mk", "measuring remap"]
    for changed in ({"mk": 1e-9, "remap": 1e-9}, {"mk": 1e9, "remap": 1e9}):
        aim(monkeypatch, **changed)
        assert bench("--quick", *CHEAP).exit_code == 1


@pytest.mark.usefixtures("tiny")
def test_a_skipped_row_is_reported_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "qif", None)
    assert "skipped: qif is not installed (pip install qif)" in bench("--quick", "qif").stdout


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("quick", [True, False])
def test_the_json_holds_the_table_the_machine_and_the_samples(quick: bool, tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    bench(*(["--quick"] if quick else []), "-o", out, *CHEAP)
    content = json.loads(out.read_text())
    assert content.keys() == {"schema_version", "machine", "quick", "rows"}
    assert content["quick"] is quick
    assert content["machine"]["numpy"] == np.__version__
    assert all(content["machine"].values())
    assert [row["name"] for row in content["rows"]] == list(CHEAP)
    for row in content["rows"]:
        assert {"what", "measured", "limit", "unit", "ratio", "target", "direction", "met", "note"} < row.keys()
        assert row["met"] is (row["ratio"] <= 12 if row["direction"] == "at_most" else row["ratio"] >= 30)
        low, high = row["ratio_range"]
        assert 0 < low <= high
        for samples in row["samples"].values():
            assert len(samples["measured"]) == len(samples["limit"]) == (2 if quick else 1)


@pytest.mark.usefixtures("tiny")
def test_a_file_is_not_overwritten_by_default(tmp_path: Path) -> None:
    out = tmp_path / "bench.json"
    out.write_text("mine")
    assert f"{out} exists" in refused("--quick", "-o", out, "mk")
    assert out.read_text() == "mine"
    bench("--quick", "-o", out, "--overwrite", "mk")
    assert json.loads(out.read_text())["rows"]
    assert str(tmp_path / "no") in refused("--quick", "-o", tmp_path / "no" / "x.json", "mk")


def test_an_unknown_row_suggests_the_nearest_row() -> None:
    message = refused("peb-lagre")
    assert "'peb-lagre'" in message
    assert "'peb-large'" in message
    assert ", ".join(NAMES) in message


def test_rows_are_printed_when_they_are_measured(capsys: pytest.CaptureFixture[str]) -> None:
    def measured(_scale: Scale) -> Measurement:
        printed.append(capsys.readouterr().out)
        return Measurement(1.0, 1.0)

    printed: list[str] = []
    chosen = [Row(name, "what", "limit", "at_most", 1, "s", measured) for name in ("first", "second", "third")]
    table = TargetTable(chosen)
    for outcome in measuring.measure(chosen, TINY):
        table.add(outcome)
    assert [[line.split()[0] for line in text.splitlines()] for text in printed] == [["row"], ["first"], ["second"]]
    assert capsys.readouterr().out.startswith("third ")


def test_the_table_is_readable(capsys: pytest.CaptureFixture[str]) -> None:
    a = Outcome("a", "what", "limit [of it]", "s", "at_most", 12, 3.36e-4, 2.8e-5, 12.0, True, "a note")
    b = replace(a, name="b", direction="at_least", target=30, measured=0.0015, limit=2.0, ratio=1333.3, met=False)
    c = replace(a, name="c", unit="bytes", target=1.2, measured=7.2e8, limit=6e8, ratio=1.2, note="")
    d = Outcome("d", "what", "limit", "s", "at_least", 50, note="skipped: not installed")
    table = TargetTable([Row("peb-large", "what", "limit", "at_most", 1, "s", lambda _scale: Measurement(1, 1))])
    for outcome in (a, b, c, d):
        table.add(outcome)
    table.end(measuring.machine())
    header, *lines, machine = capsys.readouterr().out.splitlines()
    ends = [header.index(name) + len(name) for name in ("row      ", "measured", "limit", "ratio", "target")]
    cells = [
        [line[start:end].strip() for start, end in pairwise([0, *ends])] + line[ends[-1] :].split(maxsplit=1)
        for line in lines
    ]
    assert cells == [
        ["a", "336 us", "28 us", "12x", "<= 12x", "yes", "what; limit [of it]; a note"],
        ["b", "1.5 ms", "2 s", "1,333x", ">= 30x", "no", "what; limit [of it]; a note"],
        ["c", "720 MB", "600 MB", "1.2x", "<= 1.2x", "yes", "what; limit [of it]"],
        ["d", "", "", "", ">= 50x", "skipped", "what; limit; skipped: not installed"],
    ]
    assert f"numpy {np.__version__}" in machine


def test_several_threads_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "8")
    assert "OPENBLAS_NUM_THREADS=8" in refused("--quick", "mk")
