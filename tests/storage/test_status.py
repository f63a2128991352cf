from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.manifest_file import encode
from sim.storage.run_directory import RunDirectory
from sim.storage.status import RECENT, Status, status
from tests.support import done, lppm_sim, manifest_content, refused

BEGUN_S = 1_000_000
PLANNED = [f"part{i}" for i in range(10)]
FAILURE = {
    "chunk": "part9",
    "point": 4,
    "replications": [7, 7],
    "lppms": ["SP"],
    "error": "ValueError: no [mass]",
    "command": "lppm-sim run small.yaml --chunk part9",
}


def a_run(path: Path, came: Mapping[str, float], **manifest: Any) -> RunDirectory:
    """Write a run begun at a moment; parts have 2, 3, ... rows and came so many seconds after that."""
    run = RunDirectory.create(path)
    known: dict[str, Any] = {"parts": PLANNED, "finished": False}
    run.file("manifest.json").write_bytes(encode(manifest_content(**known | manifest)))
    row: dict[str, Any] = dict.fromkeys(EVENTS.names, 0) | {
        "event": "query",
        "shift": None,
        "identity": None,
        "user": "u",
        "lppm": "l",
        "attack": "a",
    }
    row |= dict.fromkeys(MEASURES, 1.0)
    for number, (part, after_s) in enumerate(came.items()):
        run.write_part(part, pa.Table.from_pylist([row] * (number + 2), schema=EVENTS))
        written(path / "events" / f"{part}.parquet", after_s)
    written(path / "manifest.json", 0)
    return run


def written(path: Path, after_s: float) -> None:
    os.utime(path, (BEGUN_S + after_s,) * 2)


def look(path: Path, after_s: float = 100) -> Status:
    return status(path, now_s=BEGUN_S + after_s)


def test_a_run_that_goes_on(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10, "part3": 20, "part1": 30, "part2": 40})
    found = look(tmp_path, 45)
    assert (found.finished, found.done, found.planned, found.rows) == (False, 4, 10, 2 + 3 + 4 + 5)
    assert (found.last_part_at_s, found.last_part_age_s) == (BEGUN_S + 40, 5)
    assert (found.chunks_per_s, found.rows_per_s, found.left_s) == (0.1, 14 / 40, 60)
    assert not found.more_may_follow
    assert (found.torn, found.failed, found.faults) == ([], [], [])


def test_time_in_which_nothing_ran_does_not_count(tmp_path: Path) -> None:
    """Parts of an earlier run came long before this one was begun."""
    a_run(tmp_path, {"part0": -90_000, "part1": -80_000, "part2": 5})
    found = look(tmp_path)
    assert (found.done, found.chunks_per_s, found.rows_per_s, found.left_s) == (3, 0.2, 4 / 5, 35)


def test_nothing_is_guessed_before_the_first_part(tmp_path: Path) -> None:
    a_run(tmp_path / "new", {})
    a_run(tmp_path / "resumed", {"part0": -5})
    for name, parts in (("new", 0), ("resumed", 1)):
        found = look(tmp_path / name)
        assert (found.done, found.chunks_per_s, found.rows_per_s, found.left_s) == (parts, None, None, None)
    assert look(tmp_path / "new").last_part_at_s is None
    assert "time left" not in done("status", tmp_path / "new")


def test_the_rate_is_that_of_the_last_parts(tmp_path: Path) -> None:
    parts = [f"p{i:03d}" for i in range(RECENT + 30)]
    slow = {part: 100 * (i + 1) for i, part in enumerate(parts[:30])}
    fast = {part: 3000 + 2 * (i + 1) for i, part in enumerate(parts[30:])}
    a_run(tmp_path, slow | fast, parts=[*parts, "missing"])
    assert look(tmp_path).chunks_per_s == 0.5
    assert look(tmp_path).left_s == 2


def test_a_finished_run(tmp_path: Path) -> None:
    a_run(tmp_path, dict.fromkeys(PLANNED, -3.0), finished=True)
    found = look(tmp_path)
    assert (found.finished, found.done, found.left_s) == (True, 10, 0)
    said = done("status", tmp_path)
    assert "finished: 10 of 10 chunks" in said
    assert "not finished" not in said
    assert "resume" not in said
    (tmp_path / "events" / "part4.parquet").unlink()
    assert not look(tmp_path).finished


def test_parts_of_no_plan_do_not_count(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 1, "stranger": 2})
    assert look(tmp_path).done == 1


def test_a_search_for_replications_may_need_more(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 1}, scenario={"replications": {"until_half_width_km": 0.1}})
    assert look(tmp_path).more_may_follow
    said = done("status", tmp_path)
    assert "1 of 10 chunks planned so far" in said
    assert "about 9 s, or more" in said


def test_torn_and_half_written_files_break_nothing(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10, "part1": 20})
    events = tmp_path / "events"
    (events / "part2.parquet").write_bytes(b"PAR1 torn")
    (events / "part3.parquet").write_bytes(b"")
    (events / ".part4.parquet.host~1~0.tmp").write_bytes(b"PAR1")
    found = look(tmp_path)
    assert (found.done, found.torn, found.left_s) == (2, ["part2", "part3"], 80)
    assert found.failed == []
    assert found.faults == []
    said = done("status", tmp_path)
    assert "damaged  part2: " in said


@pytest.mark.parametrize("text", ['{"parts"', "[]"])
def test_a_torn_manifest_leaves_the_parts_to_count(text: str, tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10, "part1": 20})
    (tmp_path / "manifest.json").write_text(text)
    found = look(tmp_path)
    assert (found.done, found.planned, found.finished, found.left_s) == (2, None, False, None)
    assert "manifest.json" in found.faults[0]
    assert "2 of ? chunks" in done("status", tmp_path)


def test_failed_chunks_are_told_with_the_command_that_repeats_them(tmp_path: Path) -> None:
    again = FAILURE | {"chunk": "part0"}
    told = [FAILURE, again]
    a_run(tmp_path, {"part0": 10}, failures=told)
    found = look(tmp_path)
    assert found.failed == [FAILURE]  # the other one is there now
    assert found.left_s == 80  # 9 are missing, and one of them does not come
    said = done("status", tmp_path)
    assert "failed  point 4, replication 7, SP: ValueError: no [mass]" in said
    assert f": {FAILURE['command']}" in said


@pytest.mark.parametrize("content", ["{}", "null", "3", "[1, null]"])
def test_strange_failures_are_a_fault_of_the_manifest(content: str, tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10}, failures=json.loads(content))
    assert "1 of ? chunks" in done("status", tmp_path)
    assert re.search(r"`failures(\.0)?` must be", look(tmp_path).faults[0])


def test_strange_entries_of_a_failure_break_nothing(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10}, failures=[{"chunk": [1], "lppms": 3}])
    assert "1 of 10 chunks" in done("status", tmp_path)


def test_many_failures_are_not_all_listed(tmp_path: Path) -> None:
    a_run(tmp_path, {}, failures=[FAILURE | {"chunk": f"part{i}"} for i in range(9)])
    said = done("status", tmp_path)
    assert said.count("to repeat it: ") == 5
    assert "and 4 more: see --json" in said


def test_looking_changes_nothing(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10})
    (tmp_path / "events" / ".part1.parquet.host~1~0.tmp").write_bytes(b"PAR1")

    def state() -> dict[Path, Any]:
        return {path: (path.stat().st_mtime_ns, path.is_file() and path.read_bytes()) for path in tmp_path.rglob("*")}

    before = state()
    look(tmp_path)
    done("status", tmp_path)
    assert state() == before


def test_json_has_all_of_it(tmp_path: Path) -> None:
    a_run(tmp_path, {"part0": 10})
    found = json.loads(done("status", tmp_path, "--json"))
    assert set(found) == set(Status.__slots__)
    assert (found["run"], found["done"], found["planned"], found["rows"]) == (str(tmp_path), 1, 10, 2)


def test_a_real_run_is_followed_to_its_end(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Look after each part, as another shell does, and when all is over."""
    seen: list[Status] = []
    write_part = RunDirectory.write_part

    def write_and_look(run: RunDirectory, *args: Any, **named: Any) -> Any:
        path = write_part(run, *args, **named)
        seen.append(status("run"))
        return path

    monkeypatch.setattr(RunDirectory, "write_part", write_and_look)
    assert lppm_sim("run", small, "-o", "run", "--no-figures").exit_code == 0
    assert [found.done for found in seen] == list(range(1, len(seen) + 1))
    assert {found.planned for found in seen} == {len(seen)}
    assert not any(found.finished for found in seen)
    end = status("run")
    assert end.finished
    assert end.rows == sum(table.num_rows for table in RunDirectory.open("run").tables([]))
    assert re.search(rf"finished: {len(seen)} of {len(seen)} chunks\n +log +{end.rows:,} rows\n", done("status", "run"))


def test_what_is_no_run_is_refused(small: Path) -> None:
    Path("empty").mkdir()
    assert "nowhere does not exist. A run directory is what `lppm-sim run` makes" in refused("status", "nowhere")
    assert "small.yaml is a file, not a run directory" in refused("status", small)
    assert "empty is no run directory: it has no manifest.json and no events" in refused("status", "empty", "--json")
