"""Progress of a run as read from its directory."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.manifest_file import encode
from sim.storage.run_directory import RunDirectory
from sim.storage.status import RECENT, Status, status
from tests.support import done, lppm_sim, manifest_content, refused

STARTED_S = 1_000_000
PLANNED = [f"part{i}" for i in range(10)]
FAILURE = {
    "chunk": "part9",
    "point": 4,
    "replications": [7, 7],
    "lppms": ["SP"],
    "error": "ValueError: no [mass]",
    "command": "lppm-sim run small.yaml --chunk part9",
}


def a_run(path: Path, ages_s: Mapping[str, float], **manifest: Any) -> RunDirectory:
    """Write a run started at `STARTED_S`; parts have 2, 3, ... rows and were written the given seconds later."""
    run = RunDirectory.create(path)
    defaults: dict[str, Any] = {"parts": PLANNED, "finished": False}
    run.file("manifest.json").write_bytes(encode(manifest_content(**defaults | manifest)))
    row: dict[str, Any] = dict.fromkeys(EVENTS.names, 0) | {
        "event": "query",
        "shift": None,
        "identity": None,
        "user": "u",
        "lppm": "l",
        "attack": "a",
    }
    row |= dict.fromkeys(MEASURES, 1.0)
    for number, (part, after_s) in enumerate(ages_s.items()):
        run.write_part(part, pa.Table.from_pylist([row] * (number + 2), schema=EVENTS))
        written(path / "events" / f"{part}.parquet", after_s)
    written(path / "manifest.json", 0)
    return run


def written(path: Path, after_s: float) -> None:
    """Set the modification time of a file, in seconds after the start."""
    os.utime(path, (STARTED_S + after_s,) * 2)


def look(path: Path, after_s: float = 100) -> Status:
    """Return the progress of a run, in seconds after the start."""
    return status(path, now_s=STARTED_S + after_s)


def test_a_run_in_progress(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10, "part3": 20, "part1": 30, "part2": 40})
    progress = look(tmp_path, 45)
    assert (progress.finished, progress.done, progress.planned, progress.rows) == (False, 4, 10, 2 + 3 + 4 + 5)
    assert (progress.last_part_at_s, progress.last_part_age_s) == (STARTED_S + 40, 5)
    assert (progress.chunks_per_s, progress.rows_per_s, progress.left_s) == (0.1, 14 / 40, 60)
    assert not progress.more_may_follow
    assert (progress.torn, progress.failed, progress.faults) == ([], [], [])


def test_idle_time_is_excluded_from_the_rate(tmp_path: Path) -> None:
    """Parts of an earlier session were written long before this one started."""
    a_run(tmp_path, {"part0": -90_000, "part1": -80_000, "part2": 5})
    progress = look(tmp_path)
    assert (progress.done, progress.chunks_per_s, progress.rows_per_s, progress.left_s) == (3, 0.2, 4 / 5, 35)


def test_the_rate_is_unknown_before_the_first_part(tmp_path: Path) -> None:
    a_run(tmp_path / "new", {})
    a_run(tmp_path / "resumed", {"part0": -5})
    for name, parts in (("new", 0), ("resumed", 1)):
        progress = look(tmp_path / name)
        assert (progress.done, progress.chunks_per_s, progress.rows_per_s, progress.left_s) == (parts, None, None, None)
    assert look(tmp_path / "new").last_part_at_s is None
    assert "time left" not in done("status", tmp_path / "new")


def test_a_run_without_new_parts_for_long_has_probably_stopped(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 30, "part1": 60, "part2": 70})
    assert [look(tmp_path, 70 + age_s).stalled for age_s in (5, 61, 90, 91)] == [False, False, False, True]
    a_run(tmp_path / "fast", {"part0": 1, "part1": 2})
    assert [look(tmp_path / "fast", 2 + age_s).stalled for age_s in (60, 61)] == [False, True]
    assert not look(tmp_path / "fast", 2).stalled


def test_a_stopped_run_has_neither_rate_nor_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_run(tmp_path, {"part0": 10, "part1": 20})
    monkeypatch.setattr("sim.storage.status.time", SimpleNamespace(time=lambda: STARTED_S + 100))
    output = done("status", tmp_path)
    assert "time left" not in output
    assert "chunks/s" not in output
    assert "the run has probably stopped" in output
    monkeypatch.setattr("sim.storage.status.time", SimpleNamespace(time=lambda: STARTED_S + 30))
    output = done("status", tmp_path)
    assert "if the run is in progress" in output
    assert "probably stopped" not in output


def test_the_rate_is_computed_from_the_last_parts(tmp_path: Path) -> None:
    parts = [f"p{i:03d}" for i in range(RECENT + 30)]
    slow = {part: 100 * (i + 1) for i, part in enumerate(parts[:30])}
    fast = {part: 3000 + 2 * (i + 1) for i, part in enumerate(parts[30:])}
    a_run(tmp_path, slow | fast, parts=[*parts, "missing"])
    assert look(tmp_path).chunks_per_s == 0.5
    assert look(tmp_path).left_s == 2


def test_a_finished_run(tmp_path: Path) -> None:
    a_run(tmp_path, dict.fromkeys(PLANNED, -3.0), finished=True)
    progress = look(tmp_path)
    assert (progress.finished, progress.done, progress.left_s) == (True, 10, 0)
    output = done("status", tmp_path)
    assert "finished: 10 of 10 chunks" in output
    assert "not finished" not in output
    assert "resume" not in output
    (tmp_path / "events" / "part4.parquet").unlink()
    assert not look(tmp_path).finished


def test_unplanned_parts_do_not_count(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 1, "stranger": 2})
    assert look(tmp_path).done == 1


def test_an_adaptive_number_of_replications_may_need_more_chunks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.storage.status.time", SimpleNamespace(time=lambda: STARTED_S + 30))
    a_run(tmp_path, {"part0": 1}, scenario={"replications": {"until_half_width_km": 0.1}})
    assert look(tmp_path).more_may_follow
    output = done("status", tmp_path)
    assert "1 of 10 chunks planned so far" in output
    assert "about 9 s, or more" in output


def test_damaged_and_incomplete_files_are_tolerated(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10, "part1": 20})
    events = tmp_path / "events"
    (events / "part2.parquet").write_bytes(b"PAR1 torn")
    (events / "part3.parquet").write_bytes(b"")
    (events / ".part4.parquet.host~1~0.tmp").write_bytes(b"PAR1")
    progress = look(tmp_path)
    assert (progress.done, progress.torn, progress.left_s) == (2, ["part2", "part3"], 80)
    assert progress.failed == []
    assert progress.faults == []
    output = done("status", tmp_path)
    assert "damaged  part2: " in output


@pytest.mark.parametrize("text", ['{"parts"', "[]"])
def test_parts_are_counted_with_a_damaged_manifest(text: str, tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10, "part1": 20})
    (tmp_path / "manifest.json").write_text(text)
    progress = look(tmp_path)
    assert (progress.done, progress.planned, progress.finished, progress.left_s) == (2, None, False, None)
    assert "manifest.json" in progress.faults[0]
    assert "2 of ? chunks" in done("status", tmp_path)


def test_failed_chunks_are_listed_with_the_command_that_repeats_them(tmp_path: Path) -> None:
    repeated = FAILURE | {"chunk": "part0"}
    a_run(tmp_path, {"part0": 10}, failures=[FAILURE, repeated])
    progress = look(tmp_path)
    assert progress.failed == [FAILURE]  # the other one has been repeated
    assert progress.left_s == 80  # 9 are missing, of which one failed
    output = done("status", tmp_path)
    assert "failed  point 4, replication 7, SP: ValueError: no [mass]" in output
    assert f": {FAILURE['command']}" in output


@pytest.mark.parametrize("content", ["{}", "null", "3", "[1, null]"])
def test_invalid_failures_are_a_fault_of_the_manifest(content: str, tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10}, failures=json.loads(content))
    assert "1 of ? chunks" in done("status", tmp_path)
    assert re.search(r"`failures(\.0)?` must be", look(tmp_path).faults[0])


def test_invalid_entries_of_a_failure_are_tolerated(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10}, failures=[{"chunk": [1], "lppms": 3}])
    assert "1 of 10 chunks" in done("status", tmp_path)


def test_many_failures_are_not_all_listed(tmp_path: Path) -> None:
    a_run(tmp_path, {}, failures=[FAILURE | {"chunk": f"part{i}"} for i in range(9)])
    output = done("status", tmp_path)
    assert output.count("to repeat it: ") == 5
    assert "and 4 more: see --json" in output


def test_status_changes_no_file(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10})
    (tmp_path / "events" / ".part1.parquet.host~1~0.tmp").write_bytes(b"PAR1")

    def state() -> dict[Path, Any]:
        return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in tmp_path.rglob("*")}

    before = state()
    look(tmp_path)
    done("status", tmp_path)
    assert state() == before


def test_json_contains_all_fields(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10})
    progress = json.loads(done("status", tmp_path, "--json"))
    assert set(progress) == set(Status.__slots__)
    assert (progress["run"], progress["done"], progress["planned"], progress["rows"]) == (str(tmp_path), 1, 10, 2)


def test_the_progress_of_a_real_run(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read the status after each part and at the end, like another shell."""
    seen: list[Status] = []
    write_part = RunDirectory.write_part

    def write_and_look(run: RunDirectory, *args: Any, **named: Any) -> Any:
        path = write_part(run, *args, **named)
        seen.append(status("run"))
        return path

    monkeypatch.setattr(RunDirectory, "write_part", write_and_look)
    assert lppm_sim("run", small, "-o", "run", "--no-figures").exit_code == 0
    assert [progress.done for progress in seen] == list(range(1, len(seen) + 1))
    assert {progress.planned for progress in seen} == {len(seen)}
    assert not any(progress.finished for progress in seen)
    end = status("run")
    assert end.finished
    assert end.rows == sum(table.num_rows for table in RunDirectory.open("run").tables([]))
    assert re.search(rf"finished: {len(seen)} of {len(seen)} chunks\n +log +{end.rows:,} rows\n", done("status", "run"))


def test_other_folders_are_refused(small: Path) -> None:
    Path("empty").mkdir()
    assert refused("status", "nowhere").endswith("[run-not-found]\n")
    assert refused("status", small).endswith("[not-a-run]\n")
    message = refused("status", "empty", "--json")
    assert message.endswith("[not-a-run]\n")
    assert "no manifest.json and no events" in message
