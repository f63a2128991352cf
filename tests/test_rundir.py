from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.rundir import EVENTS, MEASURES, SCHEMA_VERSION, RequestError, RunDirectory, RunError, atomic_file


def events(n: int = 3, **changes: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "event": ["query"] * n,
        "point": [0] * n,
        "replication": [0] * n,
        "user": ["ann"] * n,
        "index": list(range(1, n + 1)),
        "time_s": [10 * i for i in range(n)],
        "cell": [4] * n,
        "output": [5] * n,
        "lppm": ["SP-LH"] * n,
        "attack": ["markov"] * n,
        "estimated_index": list(range(1, n + 1)),
        "estimate": [4] * n,
        **dict.fromkeys(MEASURES, [1.5] * n),
    }
    return pa.table({**columns, **changes}, schema=EVENTS)


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest({"name": "test"})
    return run


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_part_round_trip_and_order(run: RunDirectory) -> None:
    first, second = events(3), events(2, attack=[None, None], output=[None, 1])
    run.write_part("b", second)
    run.write_part("a", first)
    assert run.parts() == ["a", "b"]
    assert run.read_part("a").equals(first)
    assert [table.num_rows for table in run.tables()] == [3, 2]
    assert run.read_part("b", ["output", "attack"]).to_pylist()[0] == {"output": None, "attack": None}


def test_notes_stay_with_their_part(run: RunDirectory) -> None:
    run.write_part("a", events(), {"SP-LH": {"remap_fallbacks": 3}})
    run.write_part("b", events())
    assert run.notes("a") == {"SP-LH": {"remap_fallbacks": 3}}
    assert run.notes("b") == {}
    assert pa.concat_tables(run.tables()).num_rows == 6


def test_other_readers_see_plain_types(run: RunDirectory) -> None:
    path = run.write_part("a", events())
    frame = pd.read_parquet(path)
    assert list(frame.columns) == EVENTS.names
    assert frame["user"].tolist() == ["ann"] * 3
    assert not isinstance(frame["user"].dtype, pd.CategoricalDtype)
    assert not pa.types.is_dictionary(pq.read_schema(path).field("lppm").type)


def test_log_is_small(run: RunDirectory) -> None:
    rng = np.random.default_rng(0)
    n, distances = 72_000, rng.random(500)  # 20 users x 300 queries x 6 LPPMs x 2 attacks
    table = events(
        n,
        user=[f"user{i // 3600}" for i in range(n)],
        index=[1 + i // 12 % 300 for i in range(n)],
        estimated_index=[1 + i // 12 % 300 for i in range(n)],
        time_s=np.repeat(np.sort(rng.integers(0, 30 * 86_400, n // 12)), 12),
        cell=np.repeat(rng.integers(0, 250, n // 12), 12),
        output=np.repeat(rng.integers(0, 250, n // 2), 2),
        estimate=rng.integers(0, 250, n),
        quality_loss_km=np.repeat(rng.choice(distances, n // 2), 2),
        adversary_error_km=rng.choice(distances, n),
        expected_quality_loss_km=np.repeat(rng.random(n // 2), 2),
        expected_adversary_error_km=rng.random(n),
    )
    assert run.write_part("a", table).stat().st_size / n < 23


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (events().drop_columns(["cell"]), r"differ in \['cell'\]"),
        (events(adversary_error_km=[1.0, float("nan"), 1.0]), "adversary_error_km must be finite or null, got nan"),
        (events(quality_loss_km=[1.0, float("inf"), None]), "quality_loss_km must be finite or null, got inf"),
        (events(user=["ann", None, "bob"]), "user"),
    ],
)
def test_broken_tables_are_refused(run: RunDirectory, table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run.write_part("a", table)
    assert names(run.path / "events") == []


@pytest.mark.parametrize("part_id", ["../a", "", ".hidden", "a/b", "a\n", "x" * 300])
def test_part_ids_stay_in_their_folder(run: RunDirectory, part_id: str) -> None:
    with pytest.raises(ValueError, match="file name"):
        run.write_part(part_id, events())


def test_same_content_same_bytes(tmp_path: Path) -> None:
    def write(folder: Path, keys: list[str]) -> dict[str, bytes]:
        run = RunDirectory.create(folder)
        run.write_manifest(dict.fromkeys(keys, 1))
        run.write_part("p", events(100))
        run.write_snapshots("p", {key: np.arange(5.0) for key in keys})
        run.write_csv("points.csv", pd.DataFrame({"point": [0, 1], "x": [0.1, 1 / 3]}))
        return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    first, second = write(tmp_path / "a", ["u", "v"]), write(tmp_path / "b", ["v", "u"])
    assert first == second
    assert len(first) == 4


def test_snapshots_round_trip(run: RunDirectory) -> None:
    arrays = {"ann/SP-LH": np.array([0.25, 0.75]), "cells": np.arange(6).reshape(2, 3)}
    run.write_snapshots("p", arrays)
    found = run.snapshots("p")
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    assert run.snapshots("none") == {}
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        run.write_snapshots("q", {"bad": np.array([{}], dtype=object)})
    (run.path / "snapshots" / "p.npz").write_bytes(b"PK torn")
    with pytest.raises(RunError, match=r"p.npz cannot be read"):
        run.snapshots("p")


def test_manifest(run: RunDirectory) -> None:
    path = run.write_manifest({"b": [1, 2.5], "a": "é"})
    assert run.manifest() == {"a": "é", "b": [1, 2.5], "schema_version": SCHEMA_VERSION}
    assert path.read_text().startswith('{\n  "a": "é",\n  "b"')
    before = path.read_bytes()
    with pytest.raises(ValueError, match="finite"):
        run.write_manifest({"a": float("nan")})
    assert path.read_bytes() == before


def test_csv_round_trip_keeps_names_as_text(run: RunDirectory) -> None:
    frame = pd.DataFrame({"point": [0, 1], "lppm": ["NA", "007"], "attack": ["", "null"], "x": [0.1 + 0.2, np.nan]})
    path = run.write_csv("summary.csv", frame)
    assert path.read_bytes() == b"point,lppm,attack,x\n0,NA,,0.30000000000000004\n1,007,null,\n"
    pd.testing.assert_frame_equal(run.read_csv("summary.csv"), frame, check_dtype=False, check_exact=True)
    with pytest.raises(RunError, match=r"cannot read .*points.csv"):
        run.read_csv("points.csv")


def test_torn_part_is_named(run: RunDirectory) -> None:
    run.write_part("good", events())
    torn = run.write_part("torn", events())
    torn.write_bytes(torn.read_bytes()[:-20])
    run.part_path("empty").write_bytes(b"")
    pq.write_table(pa.table({"x": [1]}), run.part_path("alien"))
    for thorough in (True, False):
        faults = dict(run.check_parts(thorough=thorough))
        assert sorted(faults) == ["alien", "empty", "torn"]
        assert "columns of schema version 1" in faults["alien"]
    with pytest.raises(RunError, match=r"torn.parquet cannot be read.*Delete it and run the scenario again"):
        run.read_part("torn")
    with pytest.raises(RunError, match=r"alien.parquet"):
        list(run.tables())


def test_flipped_bit_is_found(run: RunDirectory) -> None:
    path = run.write_part("a", events(1000, expected_quality_loss_km=np.random.default_rng(0).random(1000)))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    assert [part for part, _ in run.check_parts()] == ["a"]
    assert run.check_parts(thorough=False) == []


def test_open_says_what_is_missing(tmp_path: Path, run: RunDirectory) -> None:
    assert RunDirectory.open(run.path).parts() == []
    with pytest.raises(RequestError, match=r"nowhere does not exist.*lppm-sim run"):
        RunDirectory.open(tmp_path / "nowhere")
    with pytest.raises(RequestError, match=r"no manifest.json and no events"):
        RunDirectory.open(tmp_path)
    with pytest.raises(RequestError, match="is a file"):
        RunDirectory.open(run.path / "manifest.json")
    (run.path / "manifest.json").write_text('{"schema_version": 99}')
    with pytest.raises(RequestError, match="schema_version must be 1, got 99"):
        RunDirectory.open(run.path)
    (run.path / "manifest.json").write_text("{torn")
    with pytest.raises(RunError, match="is not JSON"):
        RunDirectory.open(run.path)


def test_create_refuses_other_peoples_folders(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(RequestError, match=r"not empty and is no run directory.*thesis.tex"):
        RunDirectory.create(tmp_path)
    assert names(tmp_path) == ["thesis.tex"]


@pytest.mark.parametrize("below", ["", "run", "deep/run"])
def test_create_refuses_a_file(tmp_path: Path, below: str) -> None:
    file = tmp_path / "thesis.tex"
    file.write_text("mine")
    with pytest.raises(RequestError) as caught:
        RunDirectory.create(file / below)
    assert str(caught.value) == f"{file} is a file, but a run needs a folder. Choose another place with -o."
    assert caught.value.exit_code == 2
    assert file.read_text() == "mine"


def test_create_takes_up_a_run(run: RunDirectory) -> None:
    run.write_part("a", events())
    (run.path / "notes.txt").write_text("people put notes beside a run")
    assert RunDirectory.create(run.path).parts() == ["a"]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from sim.rundir import atomic_file

    with atomic_file(Path(sys.argv[1])) as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_in_the_middle_of_a_write_loses_that_file_alone(run: RunDirectory) -> None:
    run.write_part("done", events())
    target = run.part_path("next")
    subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(target)], check=False)
    left = [name for name in names(run.path / "events") if name.endswith(".tmp")]
    assert len(left) == 1
    assert run.parts() == ["done"]
    assert run.check_parts() == []
    RunDirectory(run.path)  # looking does not clean
    assert left[0] in names(run.path / "events")
    RunDirectory.create(run.path)
    assert names(run.path / "events") == ["done.parquet"]


def test_create_leaves_living_writers_alone(run: RunDirectory) -> None:
    with atomic_file(run.part_path("a")) as file:
        file.write(b"at work")
        RunDirectory.create(run.path)
        assert len(names(run.path / "events")) == 1
    assert names(run.path / "events") == ["a.parquet"]


def test_leftovers_of_other_machines_go_when_old(run: RunDirectory) -> None:
    old, fresh = (run.path / "events" / f".{name}.parquet.elsewhere~1~0.tmp" for name in ("old", "fresh"))
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    RunDirectory.create(run.path)
    assert names(run.path / "events") == [fresh.name]


def test_full_disk(run: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    run.write_part("a", events())
    before = run.part_path("a").read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for part in ("a", "b"):
        with pytest.raises(RunError, match=f"cannot write .*{part}.parquet: No space left on device.*Free some"):
            run.write_part(part, events(2))
    assert names(run.path / "events") == ["a.parquet"]
    assert run.part_path("a").read_bytes() == before


def test_unwritable_folder(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser can write everywhere")
    (tmp_path / "locked").mkdir(mode=0o500)
    with pytest.raises(RunError, match=r"cannot use .*locked.*Permission denied"):
        RunDirectory.create(tmp_path / "locked" / "run")


def test_an_exception_leaves_no_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic_file(tmp_path / "x.json") as file:
            file.write(json.dumps({}).encode())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []
