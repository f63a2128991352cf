from __future__ import annotations

import errno
import io
import json
import os
import pickle
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.storage.atomic import atomic_file
from sim.storage.backends import storage_at
from sim.storage.errors import RequestError, RunError
from sim.storage.event_schema import EVENTS, MEASURES, SCHEMA_VERSION
from sim.storage.run_directory import RunDirectory
from tests.support import a_manifest

SELDOM = EVENTS.names[EVENTS.names.index(MEASURES[-1]) + 1 :]
"""Columns that are empty unless a scenario asks for them."""


def events(n: int = 3, **changes: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "event": ["query"] * n,
        "shift": pa.nulls(n, pa.string()),
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
        **{name: pa.nulls(n, EVENTS.field(name).type) for name in SELDOM},
    }
    return pa.table({**columns, **changes}, schema=EVENTS)


@pytest.fixture(scope="session")
def object_store() -> Iterator[str]:
    """Serve an object store on this machine and return a bucket of it."""
    server = pytest.importorskip("moto.server", reason="no object store to try: pip install 'moto[server]' s3fs")
    pytest.importorskip("s3fs", reason="no driver of object stores to try: pip install s3fs")
    import fsspec  # type: ignore[import-untyped]

    service = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    service.start()
    host, port = service.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        # Not `mkdir`: where a slow answer is asked for again, the bucket is there already.
        fsspec.filesystem("s3").makedirs("studies", exist_ok=True)
        yield "s3://studies"
    fsspec.filesystem("s3").clear_instance_cache()
    service.stop()


@pytest.fixture
def shelf(tmp_path: Path) -> str:
    """Return the URL of a file system that shows half-written files and renames, as sftp:// does."""
    import fsspec
    from fsspec.implementations.local import LocalFileSystem  # type: ignore[import-untyped]

    class Shelf(LocalFileSystem):  # type: ignore[misc]
        protocol = "shelf"

        @classmethod
        def _strip_protocol(cls, path: Any) -> str:
            return str(LocalFileSystem._strip_protocol(str(path).removeprefix("shelf://")))

    fsspec.register_implementation("shelf", Shelf, clobber=True)
    return f"shelf://{tmp_path}"


@pytest.fixture(params=["folder", "memory", "shelf", "object store"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return a place for runs: a folder, and URLs of each sort."""
    if request.param == "memory":
        from fsspec.implementations.memory import MemoryFileSystem  # type: ignore[import-untyped]

        yield f"memory://{tmp_path.name}"
        MemoryFileSystem.store.clear()
        MemoryFileSystem.pseudo_dirs[:] = [""]
    elif request.param == "folder":
        yield str(tmp_path)
    elif request.param == "shelf":
        yield request.getfixturevalue("shelf")
    else:
        yield f"{request.getfixturevalue('object_store')}/{tmp_path.name}"


@pytest.fixture
def run(home: str) -> RunDirectory:
    run = RunDirectory.create(f"{home}/run")
    run.write_manifest(a_manifest())
    return run


@pytest.fixture
def local(tmp_path: Path) -> RunDirectory:
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest(a_manifest())
    return run


def listed(run: RunDirectory, folder: str = "events") -> list[str]:
    return storage_at(run.place).names(folder)


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


def test_manifest(run: RunDirectory) -> None:
    content = a_manifest(b=[1, 2.5], a="é")
    path = run.write_manifest(content)
    assert run.manifest() == content | {"schema_version": SCHEMA_VERSION}
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


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from sim.storage.atomic import atomic_file

    with atomic_file(Path(sys.argv[1])) as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_kill_in_the_middle_of_a_write_loses_that_file_alone(local: RunDirectory) -> None:
    local.write_part("done", events())
    target = local.path / "events" / "next.parquet"
    subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(target)], check=False, timeout=120)
    left = [name for name in names(local.path / "events") if name.endswith(".tmp")]
    assert len(left) == 1
    assert local.parts() == ["done"]
    assert local.check_parts() == []
    RunDirectory(local.path)  # looking does not clean
    assert left[0] in names(local.path / "events")
    RunDirectory.create(local.path)
    assert names(local.path / "events") == ["done.parquet"]


def test_create_leaves_living_writers_alone(local: RunDirectory) -> None:
    with atomic_file(local.path / "events" / "a.parquet") as file:
        file.write(b"at work")
        RunDirectory.create(local.path)
        assert len(names(local.path / "events")) == 1
    assert names(local.path / "events") == ["a.parquet"]


def test_leftovers_of_other_machines_go_when_old(local: RunDirectory, shelf: str) -> None:
    old, fresh = (local.path / "events" / f".{name}.parquet.elsewhere~1~0.tmp" for name in ("old", "fresh"))
    for place in (local.path, f"{shelf}/run"):
        for path in (old, fresh):
            path.write_bytes(b"half")
        os.utime(old, (0, 0))
        RunDirectory.create(place)
        assert names(local.path / "events") == [fresh.name]


def test_leftovers_of_dead_writers_go(local: RunDirectory, shelf: str) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(60)
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())
    left, at_work = (f".a.parquet.{host}~{pid}~0.tmp" for pid in (gone.pid, os.getpid()))
    for place in (local.path, f"{shelf}/run"):
        for name in (left, at_work):
            (local.path / "events" / name).write_bytes(b"half")
        RunDirectory.create(place)
        assert names(local.path / "events") == [at_work]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not tell the state of a process")
def test_a_writer_that_nobody_has_reaped_is_dead(local: RunDirectory) -> None:
    """A killed worker of a killed driver stays a zombie until init reaps it, which a container may never do."""
    zombie = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert zombie.stdout is not None
    zombie.stdout.read()  # until it has ended; it is not waited for
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())
    (local.path / "events" / f".a.parquet.{host}~{zombie.pid}~0.tmp").write_bytes(b"half")
    try:
        RunDirectory.create(local.path)
        assert names(local.path / "events") == []
    finally:
        zombie.stdout.close()
        zombie.wait(60)


def test_full_disk(local: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    local.write_part("a", events())
    before = local.part_path("a").read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for part in ("a", "b"):
        with pytest.raises(RunError, match=f"cannot write .*{part}.parquet: No space left on device.*Free some"):
            local.write_part(part, events(2))
    assert names(local.path / "events") == ["a.parquet"]
    assert local.part_path("a").read_bytes() == before


FILLED = """
    import json, os, sys
    from pathlib import Path
    from sim.errors import UserError
    from sim.storage.backends import storage_at

    place = Path(sys.argv[1])
    (place / "ballast").write_bytes(os.urandom(32 * 1024))
    disk, said = storage_at(place / "run"), []
    for i in range(8):
        try:
            disk.write(f"events/{i}.parquet", os.urandom(10_000))
        except UserError as error:
            said.append(str(error))
    before = {name: len(disk.read(f"events/{name}")) for name in disk.names("events")}
    (place / "ballast").unlink()
    disk.write("events/next.parquet", os.urandom(10_000))
    print(json.dumps([said, before, disk.names("events")]))
"""


def test_disk_that_is_really_full(tmp_path: Path) -> None:
    apart = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=64k tmpfs "$0"'
    if shutil.which("unshare") is None or subprocess.run([*apart, mount, tmp_path], check=False, timeout=60).returncode:
        pytest.skip("this machine lets nobody mount a tiny disk")
    command: list[str | Path] = [
        *apart,
        f'{mount} && "$1" -c "$2" "$0"',
        tmp_path,
        sys.executable,
        textwrap.dedent(FILLED),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    said, before, after = json.loads(done.stdout)
    assert said
    assert all(re.search(r"cannot write .*parquet: No space left on device\. Free some space", line) for line in said)
    assert before
    assert set(before.values()) == {10_000}, "what is there is whole"
    assert after == sorted([*before, "next.parquet"]), "nothing was left behind, and it goes on"


@pytest.fixture
def readable_only() -> Iterator[Path]:
    """Return a folder in which this process may not write; the superuser becomes somebody else for that."""
    with tempfile.TemporaryDirectory() as name:
        folder, user = Path(name), os.geteuid()
        (folder / "run" / "events").mkdir(parents=True)
        RunDirectory(folder / "run").write_manifest(a_manifest())
        for path in (folder, folder / "run", folder / "run" / "events"):
            path.chmod(0o555)
        if user == 0:
            os.seteuid(65534)
        yield folder
        os.seteuid(user)
        for path in (folder, folder / "run", folder / "run" / "events"):
            path.chmod(0o755)


def test_unwritable_folder(readable_only: Path) -> None:
    with pytest.raises(RunError, match=r"cannot use .*new: Permission denied\."):
        RunDirectory.create(readable_only / "new")
    run = RunDirectory.create(readable_only / "run")
    with pytest.raises(RunError, match=r"cannot write .*a.parquet: Permission denied\."):
        run.write_part("a", events())
    assert RunDirectory.open(readable_only / "run").parts() == []


def test_errors_of_an_object_store_are_named(object_store: str) -> None:
    run = RunDirectory.create("s3://no-such-bucket/run")
    with pytest.raises(RunError, match=r"cannot write s3://no-such-bucket/run/manifest.json: .*bucket does not exist"):
        run.write_manifest({})
    with pytest.raises(RequestError, match=r"s3://no-such-bucket/run does not exist"):
        RunDirectory.open("s3://no-such-bucket/run")
    with pytest.raises(RunError, match=r"cannot read s3://studies/nothing/events/a.parquet: "):
        RunDirectory(f"{object_store}/nothing").read_part("a")


def test_an_exception_leaves_no_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic_file(tmp_path / "x.json") as file:
            file.write(json.dumps({}).encode())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []
