"""Atomic writes: killed writers, full disks, folders without permission."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim.storage.atomic import atomic_file
from sim.storage.errors import RunError
from sim.storage.run_directory import RunDirectory
from tests.storage.helpers import events, names
from tests.support import a_manifest, raises_code

KILLED = """
    import os, signal, sys
    from pathlib import Path
    from sim.storage.atomic import atomic_file

    with atomic_file(Path(sys.argv[1])) as file:
        file.write(b"half")
        file.flush()
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_kill_during_a_write_loses_only_that_file(local: RunDirectory) -> None:
    local.write_part("done", events())
    target = local.path / "events" / "next.parquet"
    subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(target)], check=False, timeout=120)
    left = [name for name in names(local.path / "events") if name.endswith(".tmp")]
    assert len(left) == 1
    assert local.parts() == ["done"]
    assert local.check_parts() == []
    RunDirectory(local.path)  # the constructor does not clean
    assert left[0] in names(local.path / "events")
    RunDirectory.create(local.path)
    assert names(local.path / "events") == ["done.parquet"]


def test_create_keeps_files_of_active_writers(local: RunDirectory) -> None:
    with atomic_file(local.path / "events" / "a.parquet") as file:
        file.write(b"at work")
        RunDirectory.create(local.path)
        assert len(names(local.path / "events")) == 1
    assert names(local.path / "events") == ["a.parquet"]


def test_create_removes_old_temporary_files_of_other_machines(local: RunDirectory, shelf: str) -> None:
    old, fresh = (local.path / "events" / f".{name}.parquet.elsewhere~1~0.tmp" for name in ("old", "fresh"))
    for place in (local.path, f"{shelf}/run"):
        for path in (old, fresh):
            path.write_bytes(b"half")
        os.utime(old, (0, 0))
        RunDirectory.create(place)
        assert names(local.path / "events") == [fresh.name]


def test_create_removes_temporary_files_of_terminated_writers(local: RunDirectory, shelf: str) -> None:
    terminated = subprocess.Popen([sys.executable, "-c", ""])
    terminated.wait(60)
    host = re.sub(r"[^A-Za-z0-9-]", "-", socket.gethostname())
    left, at_work = (f".a.parquet.{host}~{pid}~0.tmp" for pid in (terminated.pid, os.getpid()))
    for place in (local.path, f"{shelf}/run"):
        for name in (left, at_work):
            (local.path / "events" / name).write_bytes(b"half")
        RunDirectory.create(place)
        assert names(local.path / "events") == [at_work]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the system does not provide process states")
def test_a_zombie_writer_counts_as_terminated(local: RunDirectory) -> None:
    """A killed worker of a killed driver is a zombie until init reaps it, which may never happen in a container."""
    zombie = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert zombie.stdout is not None
    zombie.stdout.read()  # returns when the process has ended; it is not reaped
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
        with raises_code(RunError, "disk-full") as error:
            local.write_part(part, events(2))
        assert f"{part}.parquet: No space left on device" in str(error.value)
    assert names(local.path / "events") == ["a.parquet"]
    assert local.part_path("a").read_bytes() == before


FILLED = """
    import json, os, sys
    from pathlib import Path
    from sim.errors import UserError
    from sim.storage.backends import storage_at

    place = Path(sys.argv[1])
    (place / "ballast").write_bytes(os.urandom(32 * 1024))
    disk, errors = storage_at(place / "run"), []
    for i in range(8):
        try:
            disk.write(f"events/{i}.parquet", os.urandom(10_000))
        except UserError as error:
            errors.append([error.code, str(error)])
    before = {name: len(disk.read(f"events/{name}")) for name in disk.names("events")}
    (place / "ballast").unlink()
    disk.write("events/next.parquet", os.urandom(10_000))
    print(json.dumps([errors, before, disk.names("events")]))
"""


def test_a_disk_without_space(tmp_path: Path) -> None:
    apart = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=64k tmpfs "$0"'
    if shutil.which("unshare") is None or subprocess.run([*apart, mount, tmp_path], check=False, timeout=60).returncode:
        pytest.skip("this machine does not allow mounting a tiny disk")
    command: list[str | Path] = [
        *apart,
        f'{mount} && "$1" -c "$2" "$0"',
        tmp_path,
        sys.executable,
        textwrap.dedent(FILLED),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=240)
    errors, before, after = json.loads(done.stdout)
    assert errors
    assert {code for code, _ in errors} == {"disk-full"}
    assert all(re.search(r"\.parquet: No space left on device\.", message) for _, message in errors)
    assert before
    assert set(before.values()) == {10_000}, "existing files are complete"
    assert after == sorted([*before, "next.parquet"]), "no temporary files remain, and writing continues"


@pytest.fixture
def readable_only() -> Iterator[Path]:
    """Return a folder without write permission for this process; root switches to another user."""
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
    with raises_code(RunError, "file-error") as error:
        RunDirectory.create(readable_only / "new")
    assert "new: Permission denied." in str(error.value)
    run = RunDirectory.create(readable_only / "run")
    with raises_code(RunError, "file-error") as error:
        run.write_part("a", events())
    assert "a.parquet: Permission denied." in str(error.value)
    assert RunDirectory.open(readable_only / "run").parts() == []


def test_an_exception_leaves_no_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic_file(tmp_path / "x.json") as file:
            file.write(json.dumps({}).encode())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []
