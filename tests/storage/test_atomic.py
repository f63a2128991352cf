"""Writes are all or nothing: killed writers, full disks, folders without permission."""

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
from tests.support import a_manifest

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


def test_an_exception_leaves_no_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic_file(tmp_path / "x.json") as file:
            file.write(json.dumps({}).encode())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == []
