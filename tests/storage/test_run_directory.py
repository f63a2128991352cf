from __future__ import annotations

import io
import pickle
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
from tests.support import a_manifest


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
        (events().drop_columns(["cell"]), r"differ in \['cell'\]"),
        (events(adversary_error_km=[1.0, float("nan"), 1.0]), "adversary_error_km must be finite or null, got nan"),
        (events(quality_loss_km=[1.0, float("inf"), None]), "quality_loss_km must be finite or null, got inf"),
        (events(user=["ann", None, "bob"]), "user"),
    ],
)
def test_broken_tables_are_refused(run: RunDirectory, table: pa.Table, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run.write_part("a", table)
    assert listed(run) == []


@pytest.mark.parametrize("part_id", ["../a", "", ".hidden", "a/b", "a\n", "x" * 300])
def test_part_ids_stay_in_their_folder(local: RunDirectory, part_id: str) -> None:
    with pytest.raises(ValueError, match="file name"):
        local.write_part(part_id, events())


def test_same_content_same_bytes_wherever_it_is(home: str, tmp_path: Path) -> None:
    def write(place: str | Path, keys: list[str]) -> dict[str, bytes]:
        run = RunDirectory.create(place)
        run.write_manifest(a_manifest(versions=dict.fromkeys(keys, "1")))
        run.write_part("p", events(100), snapshots={key: np.arange(5.0) for key in keys})
        run.write_csv("points.csv", pd.DataFrame({"point": [0, 1], "x": [0.1, 1 / 3]}))
        run.write_figure("f.png", b"PNG")
        found = [f"{folder}/{name}".strip("/") for folder in ("", *listed(run, "")) for name in listed(run, folder)]
        return {name: run.file(name).read_bytes() for name in found if storage_at(place).kind(name) == "file"}

    first, second = write(tmp_path / "a", ["u", "v"]), write(f"{home}/b", ["v", "u"])
    assert first == second
    assert sorted(first) == ["events/p.parquet", "figures/f.png", "manifest.json", "points.csv", "snapshots/p.npz"]


def test_snapshots_round_trip(run: RunDirectory) -> None:
    arrays = {"ann/SP-LH": np.array([0.25, 0.75]), "cells": np.arange(6).reshape(2, 3)}
    run.write_part("p", events(), snapshots=arrays)
    found = run.snapshots("p")
    assert sorted(found) == sorted(arrays)
    for name, array in arrays.items():
        np.testing.assert_array_equal(found[name], array)
    run.write_part("none", events())
    assert run.snapshots("none") == {}
    with pytest.raises(ValueError, match=r"[Oo]bject"):
        run.write_part("q", events(), snapshots={"bad": np.array([{}], dtype=object)})
    for torn in (b"PK torn", b""):
        run.file("snapshots/p.npz").write_bytes(torn)
        with pytest.raises(RunError, match=r"p.npz cannot be read"):
            run.snapshots("p")


def test_snapshots_belong_to_their_part(run: RunDirectory) -> None:
    for part in ("a", "b"):
        run.write_part(part, events(), snapshots={"part": np.array([part])})
    run.write_part("c", events())
    own, other = (run.file(f"snapshots/{part}.npz") for part in ("a", "b"))
    content = own.read_bytes()
    own.write_bytes(other.read_bytes())
    with pytest.raises(RunError, match=r"a.npz cannot be read: it does not belong to its part"):
        run.snapshots("a")
    own.unlink()
    with pytest.raises(RunError, match=r"a.npz cannot be read: it does not exist"):
        run.snapshots("a")
    assert [found.part for found in run.survey() if found.fault] == ["a"]
    run.file("snapshots/c.npz").write_bytes(content)
    assert run.snapshots("c") == {}, "the part wrote none"
    own.write_bytes(content)
    assert run.snapshots("a")["part"].tolist() == ["a"]


def test_a_finished_run_that_lost_a_part_is_refused(run: RunDirectory) -> None:
    for part in ("a", "b"):
        run.write_part(part, events())
    run.write_manifest(a_manifest(parts=["a", "b"], finished=True))
    assert RunDirectory.open(run.place).parts() == ["a", "b"]
    run.part_path("b").unlink()
    with pytest.raises(RunError, match=r"has lost 1 of the 2 parts .*b\.parquet.* simulates them again"):
        RunDirectory.open(run.place)
    run.write_manifest(a_manifest(parts=["a", "b"], finished=False))
    assert RunDirectory.open(run.place).parts() == ["a"], "a run that goes on lacks parts"


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
    alien = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), alien)
    run.part_path("alien").write_bytes(alien.getvalue())
    for thorough in (True, False):
        faults = dict(run.check_parts(thorough=thorough))
        assert sorted(faults) == ["alien", "empty", "torn"]
        assert "columns of schema version 3" in faults["alien"]
    with pytest.raises(RunError, match=r"torn.parquet cannot be read.*`lppm-sim run SCENARIO -o .*/run` simulates it"):
        run.read_part("torn")
    with pytest.raises(RunError, match=r"alien.parquet"):
        list(run.tables())


def test_flipped_bit_is_found(run: RunDirectory) -> None:
    path = run.write_part("a", events(1000, expected_quality_loss_km=np.random.default_rng(0).random(1000)))
    content = bytearray(path.read_bytes())
    content[len(content) * 2 // 3] ^= 1  # among the random numbers; headers of pages have no checksum
    path.write_bytes(bytes(content))
    assert [part for part, _ in run.check_parts()] == ["a"]
    assert run.check_parts(thorough=False) == []


def test_open_says_what_is_missing(home: str, run: RunDirectory) -> None:
    assert RunDirectory.open(run.place).parts() == []
    with pytest.raises(RequestError, match=r"nowhere does not exist.*lppm-sim run"):
        RunDirectory.open(f"{home}/nowhere")
    with pytest.raises(RequestError, match=r"is no run directory: it has no manifest.json"):
        RunDirectory.open(home)
    with pytest.raises(RequestError, match="is a file"):
        RunDirectory.open(f"{run.place}/manifest.json")
    run.file("manifest.json").write_bytes(b'{"schema_version": 99}')
    with pytest.raises(RequestError, match="schema_version must be 3, got 99"):
        RunDirectory.open(run.place)
    run.file("manifest.json").write_bytes(b"{torn")
    with pytest.raises(RunError, match=r"manifest.json is damaged: it is not JSON .*`lppm-sim run SCENARIO -o .*run`"):
        RunDirectory.open(run.place)


def test_open_misses_the_folder_of_events(local: RunDirectory) -> None:
    (local.path / "events").rmdir()
    with pytest.raises(RequestError, match="it has no events"):
        RunDirectory.open(local.path)


def test_create_refuses_other_peoples_folders(home: str) -> None:
    storage_at(home).write("mine/thesis.tex", b"mine")
    with pytest.raises(RequestError, match=r"not empty and is no run directory.*thesis.tex"):
        RunDirectory.create(f"{home}/mine")
    assert storage_at(home).names("mine") == ["thesis.tex"]


def test_create_refuses_the_place_of_a_file(home: str) -> None:
    storage_at(home).write("thesis.tex", b"mine")
    with pytest.raises(RequestError, match=r"thesis.tex is a file, but a run needs a folder"):
        RunDirectory.create(f"{home}/thesis.tex")
    assert storage_at(home).read("thesis.tex") == b"mine"


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
    run.file("notes.txt").write_bytes(b"people put notes beside a run")
    assert RunDirectory.create(run.place).parts() == ["a"]


def test_a_run_says_where_it_is(home: str, run: RunDirectory) -> None:
    assert str(run) == f"{home}/run"
    assert str(run.part_path("a")) == run.describe("events/a.parquet") == f"{home}/run/events/a.parquet"
    assert not run.has("figures")
    run.write_figure("f.png", b"PNG")
    assert run.has("figures")
    written, missing = (run.file(name).written_s() for name in ("figures/f.png", "figures/g.png"))
    assert missing is None
    assert written is not None
    assert written == pytest.approx(run.file("manifest.json").written_s(), abs=600)
    with pytest.raises(ValueError, match="file name"):
        run.file("../thesis.tex")
    assert pickle.loads(pickle.dumps(run)) == run
    if run.in_folder:
        assert run.path == Path(home) / "run"
    else:
        with pytest.raises(RequestError, match="/run is no folder of this machine"):
            _ = run.path


def test_what_others_write_is_seen(run: RunDirectory) -> None:
    """A listing that a driver keeps would hide the parts of other workers."""
    run.part_path("b").write_bytes(b"x")
    assert run.parts() == ["b"]
    assert not run.part_path("a").exists()
    script = (
        "from sim.storage.run_directory import RunDirectory; "
        f"RunDirectory({run.place!r}).part_path('a').write_bytes(b'x')"
    )
    assert run.shared is not str(run).startswith("memory:")
    if str(run).startswith(("memory:", "shelf:")):  # another process has another memory, and knows no shelf
        run.part_path("a").write_bytes(b"x")
    else:
        subprocess.run([sys.executable, "-c", script], check=True, timeout=120)
    assert run.parts() == ["a", "b"]
    assert run.part_path("a").exists()
    run.part_path("a").unlink()
    assert run.parts() == ["b"]


def test_two_writers_of_a_part_leave_a_whole_one(run: RunDirectory) -> None:
    """A worker that was thought dead writes its part beside the one that took its place."""
    tables = [events(2000 + i, user=[f"u{i}"] * (2000 + i)) for i in range(4)]

    def write(table: pa.Table) -> None:
        for _ in range(5):
            run.write_part("p", table)
            assert run.read_part("p") in tables

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, tables))
    assert listed(run) == ["p.parquet"]
    assert run.check_parts() == []


def test_errors_of_an_object_store_are_named(object_store: str) -> None:
    run = RunDirectory.create("s3://no-such-bucket/run")
    with pytest.raises(RunError, match=r"cannot write s3://no-such-bucket/run/manifest.json: .*bucket does not exist"):
        run.write_manifest(a_manifest())
    with pytest.raises(RequestError, match=r"s3://no-such-bucket/run does not exist"):
        RunDirectory.open("s3://no-such-bucket/run")
    with pytest.raises(RunError, match=r"cannot read s3://studies/nothing/events/a.parquet: "):
        RunDirectory(f"{object_store}/nothing").read_part("a")
