"""Run directories in every back end: parts, snapshots, tables, and the refusal of other folders."""

from __future__ import annotations

import io
import pickle
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.storage.backends import storage_at
from sim.storage.errors import RequestError, RunError
from sim.storage.event_schema import EVENTS
from sim.storage.run_directory import RunDirectory
from tests.storage.helpers import events, listed
from tests.support import a_manifest, raises_code


def test_part_round_trip_and_order(run: RunDirectory) -> None:
    first, second = events(3), events(2, attack=[None, None], output=[None, 1])
    run.write_part("b", second)
    run.write_part("a", first)
    assert run.parts() == ["a", "b"]
    assert run.read_part("a").equals(first)
    assert [table.num_rows for table in run.tables()] == [3, 2]
    assert run.read_part("b", ["output", "attack"]).to_pylist()[0] == {"output": None, "attack": None}


def test_notes_are_stored_with_their_part(run: RunDirectory) -> None:
    run.write_part("a", events(), {"SP-LH": {"remap_fallbacks": 3}})
    run.write_part("b", events())
    assert run.notes("a") == {"SP-LH": {"remap_fallbacks": 3}}
    assert run.notes("b") == {}
    assert pa.concat_tables(run.tables()).num_rows == 6


def test_pandas_reads_plain_types(run: RunDirectory) -> None:
    path = io.BytesIO(run.write_part("a", events()).read_bytes())
    frame = pd.read_parquet(path)
    assert list(frame.columns) == EVENTS.names
    assert frame["user"].tolist() == ["ann"] * 3
    assert not isinstance(frame["user"].dtype, pd.CategoricalDtype)
    assert not pa.types.is_dictionary(pq.read_schema(path).field("lppm").type)


def test_log_is_small(local: RunDirectory) -> None:
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
    assert len(local.write_part("a", table).read_bytes()) / n < 23


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (events().drop_columns(["cell"]), r"^table\b.*\['cell'\]"),
        (events(adversary_error_km=[1.0, float("nan"), 1.0]), r"^adversary_error_km\b.*got nan"),
        (events(quality_loss_km=[1.0, float("inf"), None]), r"^quality_loss_km\b.*got inf"),
        (events(user=["ann", None, "bob"]), "user"),
    ],
)
def test_invalid_tables_are_refused(run: RunDirectory, table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run.write_part("a", table)
    assert listed(run) == []


@pytest.mark.parametrize("part_id", ["../a", "", ".hidden", "a/b", "a\n", "x" * 300])
def test_part_ids_must_be_plain_file_names(local: RunDirectory, part_id: str) -> None:
    with pytest.raises(ValueError, match=r"^name\b"):
        local.write_part(part_id, events())


def test_equal_content_gives_equal_bytes_in_every_back_end(home: str, tmp_path: Path) -> None:
    def write(place: str | Path, keys: list[str]) -> dict[str, bytes]:
        run = RunDirectory.create(place)
        run.write_manifest(a_manifest(versions=dict.fromkeys(keys, "1")))
        run.write_part("p", events(100), snapshots={key: np.arange(5.0) for key in keys})
        run.write_csv("points.csv", pd.DataFrame({"point": [0, 1], "x": [0.1, 1 / 3]}))
        run.write_figure("f.png", b"PNG")
        names = [f"{folder}/{name}".strip("/") for folder in ("", *listed(run, "")) for name in listed(run, folder)]
        return {name: run.file(name).read_bytes() for name in names if storage_at(place).kind(name) == "file"}

    first, second = write(tmp_path / "a", ["u", "v"]), write(f"{home}/b", ["v", "u"])
    assert first == second
    assert sorted(first) == ["events/p.parquet", "figures/f.png", "manifest.json", "points.csv", "snapshots/p.npz"]


def test_snapshots_round_trip(run: RunDirectory) -> None:
    arrays = {"ann/SP-LH": np.array([0.25, 0.75]), "cells": np.arange(6).reshape(2, 3)}
    run.write_part("p", events(), snapshots=arrays)
    snapshots = run.snapshots("p")
    assert sorted(snapshots) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(snapshots[name], array)
    run.write_part("none", events())
    assert run.snapshots("none") == {}
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        run.write_part("q", events(), snapshots={"bad": np.array([{}], dtype=object)})
    for torn in (b"PK torn", b""):
        run.file("snapshots/p.npz").write_bytes(torn)
        with raises_code(RunError, "damaged-snapshots") as error:
            run.snapshots("p")
        assert "p.npz" in str(error.value)


def test_snapshots_belong_to_their_part(run: RunDirectory) -> None:
    for part in ("a", "b"):
        run.write_part(part, events(), snapshots={"part": np.array([part])})
    run.write_part("c", events())
    own, other = (run.file(f"snapshots/{part}.npz") for part in ("a", "b"))
    content = own.read_bytes()
    own.write_bytes(other.read_bytes())
    with raises_code(RunError, "damaged-snapshots") as error:
        run.snapshots("a")
    assert "a.npz" in str(error.value)
    own.unlink()
    with raises_code(RunError, "damaged-snapshots") as error:
        run.snapshots("a")
    assert "a.npz" in str(error.value)
    assert [check.part for check in run.survey() if check.fault] == ["a"]
    run.file("snapshots/c.npz").write_bytes(content)
    assert run.snapshots("c") == {}, "the part has none"
    own.write_bytes(content)
    assert run.snapshots("a")["part"].tolist() == ["a"]


def test_a_finished_run_with_missing_parts_is_refused(run: RunDirectory) -> None:
    for part in ("a", "b"):
        run.write_part(part, events())
    run.write_manifest(a_manifest(parts=["a", "b"], finished=True))
    assert RunDirectory.open(run.place).parts() == ["a", "b"]
    run.part_path("b").unlink()
    with raises_code(RunError, "missing-parts") as error:
        RunDirectory.open(run.place)
    assert re.search(r"1 of its 2 parts .*b\.parquet\. `lppm-sim run SCENARIO -o ", str(error.value))
    run.write_manifest(a_manifest(parts=["a", "b"], finished=False))
    assert RunDirectory.open(run.place).parts() == ["a"], "a run in progress may lack parts"


def test_csv_round_trip_keeps_names_as_text(run: RunDirectory) -> None:
    frame = pd.DataFrame({"point": [0, 1], "lppm": ["NA", "007"], "attack": ["", "null"], "x": [0.1 + 0.2, np.nan]})
    path = run.write_csv("summary.csv", frame)
    assert path.read_bytes() == b"point,lppm,attack,x\n0,NA,,0.30000000000000004\n1,007,null,\n"
    pd.testing.assert_frame_equal(run.read_csv("summary.csv"), frame, check_dtype=False, check_exact=True)
    with raises_code(RunError, "file-error") as error:
        run.read_csv("points.csv")
    assert "points.csv" in str(error.value)


def test_a_damaged_part_is_reported_with_the_repair(run: RunDirectory) -> None:
    run.write_part("good", events())
    torn = run.write_part("torn", events())
    torn.write_bytes(torn.read_bytes()[:-20])
    run.part_path("empty").write_bytes(b"")
    alien = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), alien)
    run.part_path("alien").write_bytes(alien.getvalue())
    for thorough in (True, False):
        faults = dict(run.check_parts(thorough=thorough))
        assert sorted(faults) == ["alien", "empty", "torn"]
        assert "schema version 3" in faults["alien"]
    with raises_code(RunError, "damaged-part") as error:
        run.read_part("torn")
    assert re.search(r"torn\.parquet .*`lppm-sim run SCENARIO -o .*/run`", str(error.value))
    with raises_code(RunError, "damaged-part") as error:
        list(run.tables())
    assert "alien.parquet" in str(error.value)


def test_a_flipped_bit_is_detected(run: RunDirectory) -> None:
    path = run.write_part("a", events(1000, expected_quality_loss_km=np.random.default_rng(0).random(1000)))
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1  # among the random numbers
    path.write_bytes(bytes(content))
    assert [part for part, _ in run.check_parts()] == ["a"]
    assert run.check_parts(thorough=False) == []


def test_open_refuses_other_folders_and_damaged_manifests(home: str, run: RunDirectory) -> None:
    assert RunDirectory.open(run.place).parts() == []
    with raises_code(RequestError, "run-not-found") as error:
        RunDirectory.open(f"{home}/nowhere")
    assert f"{home}/nowhere" in str(error.value)
    with raises_code(RequestError, "not-a-run") as error:
        RunDirectory.open(home)
    assert "manifest.json" in str(error.value)
    with raises_code(RequestError, "not-a-run"):
        RunDirectory.open(f"{run.place}/manifest.json")
    run.file("manifest.json").write_bytes(b'{"schema_version": 99}')
    with raises_code(RequestError, "other-schema-version") as error:
        RunDirectory.open(run.place)
    assert "must be 3 or 4 or 5, got 99" in str(error.value)
    run.file("manifest.json").write_bytes(b"{torn")
    with raises_code(RunError, "damaged-manifest") as error:
        RunDirectory.open(run.place)
    assert re.search(r"manifest\.json .*JSON .*`lppm-sim run SCENARIO -o .*run`", str(error.value))


def test_open_needs_the_folder_of_events(local: RunDirectory) -> None:
    (local.path / "events").rmdir()
    with raises_code(RequestError, "not-a-run") as error:
        RunDirectory.open(local.path)
    assert "no events" in str(error.value)


def test_create_refuses_a_folder_with_other_files(home: str) -> None:
    storage_at(home).write("mine/thesis.tex", b"mine")
    with raises_code(RequestError, "folder-not-empty") as error:
        RunDirectory.create(f"{home}/mine")
    assert "'thesis.tex'" in str(error.value)
    assert storage_at(home).names("mine") == ["thesis.tex"]


def test_create_refuses_the_place_of_a_file(home: str) -> None:
    storage_at(home).write("thesis.tex", b"mine")
    with raises_code(RequestError, "not-a-folder") as error:
        RunDirectory.create(f"{home}/thesis.tex")
    assert "thesis.tex" in str(error.value)
    assert storage_at(home).read("thesis.tex") == b"mine"


@pytest.mark.parametrize("below", ["", "run", "deep/run"])
def test_create_refuses_a_file(tmp_path: Path, below: str) -> None:
    file = tmp_path / "thesis.tex"
    file.write_text("mine")
    with raises_code(RequestError, "not-a-folder") as error:
        RunDirectory.create(file / below)
    assert str(error.value).startswith(f"{file} ")
    assert error.value.exit_code == 2
    assert file.read_text() == "mine"


def test_create_resumes_a_run(run: RunDirectory) -> None:
    run.write_part("a", events())
    run.file("notes.txt").write_bytes(b"notes of the user")
    assert RunDirectory.create(run.place).parts() == ["a"]


def test_paths_and_times_of_files(home: str, run: RunDirectory) -> None:
    assert str(run) == f"{home}/run"
    assert str(run.part_path("a")) == run.describe("events/a.parquet") == f"{home}/run/events/a.parquet"
    assert not run.has("figures")
    run.write_figure("f.png", b"PNG")
    assert run.has("figures")
    written, missing = (run.file(name).written_s() for name in ("figures/f.png", "figures/g.png"))
    assert missing is None
    assert written is not None
    assert written == pytest.approx(run.file("manifest.json").written_s(), abs=600)
    with pytest.raises(ValueError, match=r"^name\b"):
        run.file("../thesis.tex")
    assert pickle.loads(pickle.dumps(run)) == run
    if run.in_folder:
        assert run.path == Path(home) / "run"
    else:
        with raises_code(RequestError, "not-a-local-folder"):
            _ = run.path


def test_files_of_other_processes_are_seen(run: RunDirectory) -> None:
    """A cached listing of a driver would hide the parts of other workers."""
    run.part_path("b").write_bytes(b"x")
    assert run.parts() == ["b"]
    assert not run.part_path("a").exists()
    script = (
        "from sim.storage.run_directory import RunDirectory; "
        f"RunDirectory({run.place!r}).part_path('a').write_bytes(b'x')"
    )
    assert run.shared is not str(run).startswith("memory:")
    if str(run).startswith(("memory:", "shelf:")):  # not available in another process
        run.part_path("a").write_bytes(b"x")
    else:
        subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert run.parts() == ["a", "b"]
    assert run.part_path("a").exists()
    run.part_path("a").unlink()
    assert run.parts() == ["b"]


def test_concurrent_writers_of_a_part_leave_a_complete_one(run: RunDirectory) -> None:
    """A worker presumed dead may write its part at the same time as its replacement."""
    tables = [events(2000 + i, user=[f"u{i}"] * (2000 + i)) for i in range(4)]

    def write(table: pa.Table) -> None:
        for _ in range(5):
            run.write_part("p", table)
            assert run.read_part("p") in tables

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, tables))
    assert listed(run) == ["p.parquet"]
    assert run.check_parts() == []


def test_errors_of_an_object_store_name_the_file(object_store: str) -> None:
    run = RunDirectory.create("s3://no-such-bucket/run")
    with raises_code(RunError, "file-error") as error:
        run.write_manifest(a_manifest())
    assert re.search(r"s3://no-such-bucket/run/manifest\.json: .*bucket does not exist", str(error.value))
    with raises_code(RequestError, "run-not-found") as error:
        RunDirectory.open("s3://no-such-bucket/run")
    assert "s3://no-such-bucket/run" in str(error.value)
    with raises_code(RunError, "file-error") as error:
        RunDirectory(f"{object_store}/nothing").read_part("a")
    assert "s3://studies/nothing/events/a.parquet: " in str(error.value)
