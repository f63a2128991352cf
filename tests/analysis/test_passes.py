"""Passes over a run: each part and its snapshots are read at most twice for all tables, figures and the report."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import sim
from sim.cli.output.result import print_result
from sim.storage.load import load
from sim.storage.run_directory import RunDirectory
from tests.support import SMALL

SCENARIO = (
    SMALL.replace("replications: 1", "replications: 2")
    .replace("queries: 12", "queries: 120")
    .replace("[sporadic, markov]", "[sporadic, smoothing]")
    + "shifts: [{kind: relocate, name: move, at_query: 41}]\n"
    + "record: {expected: true, snapshots: [1, 5, 9]}\n"
)


def test_each_part_is_read_at_most_twice_at_the_end_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts, archives = Counter[str](), Counter[str]()
    open_part, read_archive = RunDirectory._any_part, RunDirectory._archive

    def counted_part(run: RunDirectory, part: str) -> Any:
        parts[part] += 1
        return open_part(run, part)

    def counted_archive(run: RunDirectory, part: str, file: Any) -> Any:
        archives[part] += 1
        return read_archive(run, part, file)

    monkeypatch.setattr(RunDirectory, "_any_part", counted_part)
    monkeypatch.setattr(RunDirectory, "_archive", counted_archive)
    # Answers of a small run take two more passes; those of a large run are left to the command `answers`.
    monkeypatch.setattr("sim.report.answers.MOST_SIMULATED", 0)
    (tmp_path / "small.yaml").write_text(SCENARIO)
    result = sim.run(load(tmp_path / "small.yaml"), out=tmp_path / "run", chunk_queries=1)
    print_result(result)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert {"summary.csv", "metrics.csv", "hindsight.csv", "adaptation.csv", "figures", "report.html"} <= names
    assert len(result.run.parts()) == 4
    assert set(parts) == set(result.run.parts())
    assert max(parts.values()) == 2
    assert max(archives.values()) <= 2
