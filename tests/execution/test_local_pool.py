"""Worker processes: the same bytes whatever their number, and nothing lost when they die or are stopped."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.components.permission import CodeAccess
from sim.execution.failures import FailedChunks
from tests.support import INTERRUPTIBLE, ROOT, MakeScenario, done, ending, files, lppm_sim, until

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

FAULTY = '''
import os, signal
from pathlib import Path
from sim.lppm.designs.identity import Identity


class Faulty(Identity):
    """Fails as it is told, in one replication of the user with the first trace, as long as there are orders."""

    uses_prior = True

    def __init__(self, *, world, how, folder):
        super().__init__(n_cells=world.grid.n_cells)
        self.how, self.orders = how, Path(folder)

    def __call__(self, prior):
        for order in sorted(self.orders.glob("order-*")):
            try:
                order.unlink()  # one worker alone gets it
            except FileNotFoundError:
                continue
            if self.how == "raise":
                raise RuntimeError("something went <wrong>")
            if self.how == "die writing":
                from sim.storage.atomic import atomic_file
                with atomic_file(self.orders / "died" / "events" / "half.parquet") as file:
                    file.write(b"half a file")
                    file.flush()
                    os.kill(os.getpid(), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(prior)
'''


@pytest.fixture
def faulty(make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that makes a scenario which fails so often, in some way."""
    (tmp_path / "faulty_design.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.delitem(sys.modules, "faulty_design", raising=False)

    def make(how: str, times: int, *, replications: int = 3) -> Any:
        for number in range(times):
            (tmp_path / f"order-{number}").touch()
        design = {"kind": "faulty_design:Faulty", "how": how, "folder": str(tmp_path)}
        faulty = {"name": "faulty", "belief": "fixed_profile", "design": design}
        return make_scenario(lppms=["SP-Exp", faulty], replications=replications).at(
            tmp_path, None, CodeAccess(allowed=True, beside=tmp_path)
        )

    return make


def test_any_number_of_workers_leaves_the_same_bytes(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        lppms=["SP-Exp", "PEB-LH"], replications=3, sweep={"lppms.*.design.epsilon_per_km": [0.5, 2]}
    )
    for workers in (1, 2, 3):
        sim.run(scenario, out=tmp_path / str(workers), figures=False, chunk_queries=1, workers=workers)
    assert files(tmp_path / "1") == files(tmp_path / "2") == files(tmp_path / "3")


def test_rounds_are_the_same_with_workers(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications={"until_half_width_km": 0.3, "at_most": 12})
    for workers in (1, 2):
        sim.run(scenario, out=tmp_path / str(workers), figures=False, chunk_queries=1, workers=workers)
    assert files(tmp_path / "1") == files(tmp_path / "2")


def test_progress_counts_every_query(make_scenario: MakeScenario, tmp_path: Path) -> None:
    class Count:
        total = done = 0

        def start(self, queries: int, *, chunks: int, skipped: int) -> None:
            self.total += queries

        def advance(self, queries: int) -> None:
            self.done += queries

        def end_chunk(self) -> None: ...

    counted = Count()
    sim.run(make_scenario(replications=2), out=tmp_path, figures=False, chunk_queries=1, workers=2, progress=counted)
    assert counted.done == counted.total == 2 * 2 * 3 * 25


def test_a_worker_that_dies_is_replaced_and_nothing_is_lost(faulty: Any, tmp_path: Path) -> None:
    sim.run(faulty("die", 2), out=tmp_path / "died", figures=False, chunk_queries=1, workers=2)
    assert not list(tmp_path.glob("order-*"))
    sim.run(faulty("die", 0), out=tmp_path / "lived", figures=False, chunk_queries=1)
    assert files(tmp_path / "died") == files(tmp_path / "lived")


def test_temporary_files_of_killed_workers_are_removed_at_the_end(faulty: Any, tmp_path: Path) -> None:
    sim.run(faulty("die writing", 2), out=tmp_path / "died", figures=False, chunk_queries=1, workers=2)
    assert not list(tmp_path.glob("order-*"))
    assert [path.name for path in (tmp_path / "died" / "events").iterdir() if path.suffix != ".parquet"] == []


def test_a_chunk_that_kills_every_worker_is_reported_and_the_rest_finishes(faulty: Any, tmp_path: Path) -> None:
    """Five orders: of two chunks one dies three times, and the other meets the rest."""
    with pytest.raises(FailedChunks, match=r"(?s)1 of 2 chunks failed; all others are in .*its worker died 3 times"):
        sim.run(faulty("die", 5, replications=2), out=tmp_path / "run", figures=False, chunk_queries=1, workers=2)
    assert not list(tmp_path.glob("order-*"))
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert not manifest["finished"]
    assert manifest["failures"][0]["error"] == "its worker died 3 times (killed by SIGKILL)"
    assert len(sim.Result.open(tmp_path / "run").run.parts()) == 1
    for name in ("run", "whole"):
        sim.run(faulty("die", 0, replications=2), out=tmp_path / name, figures=False, chunk_queries=1)
    assert files(tmp_path / "run") == files(tmp_path / "whole")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_simulation_that_raises_is_reported_with_the_command_that_repeats_it(
    workers: int, faulty: Any, tmp_path: Path
) -> None:
    with pytest.raises(FailedChunks) as caught:
        sim.run(faulty("raise", 1), out=tmp_path / "run", figures=False, chunk_queries=1, workers=workers)
    (failure,) = caught.value.failures
    assert failure["error"] == "RuntimeError: something went <wrong>"
    assert "faulty_design.py" in failure["traceback"]
    assert f"point 0, replication {failure['replications'][0]}, faulty: RuntimeError" in str(caught.value)
    assert len(sim.Result.open(tmp_path / "run").events()) == 2 * 2 * 2 * 3 * 25, "the other two chunks are there"
    told = done("status", tmp_path / "run")
    assert f"failed  point 0, replication {failure['replications'][0]}, faulty: RuntimeError" in told
    assert f"alone: {failure['command']}" in told
    faulty("raise", 1)
    command = shlex.split(failure["command"])
    assert command[0] == "lppm-sim"
    alone = [sys.executable, "-m", "sim.cli", *command[1:]]
    again = subprocess.run(alone, capture_output=True, text=True, check=False, timeout=120)
    assert again.returncode == 1
    assert "RuntimeError: something went <wrong>" in again.stderr
    assert "faulty_design.py" in again.stderr, "one's own line is in the traceback"
    done(*command[1:])  # no order is left: now it works
    assert len(sim.Result.open(tmp_path / "run").events()) == 3 * 2 * 2 * 3 * 25


@pytest.mark.parametrize("workers", [1, 2])
def test_in_a_joined_chunk_the_simulation_to_blame_is_named_and_repeated_alone(
    workers: int, faulty: Any, tmp_path: Path
) -> None:
    """The first order is met in the first replication; alone it is repeated, and the rest follows around it."""
    with pytest.raises(FailedChunks, match="1 of 1 chunks failed") as caught:
        sim.run(faulty("raise", 1), out=tmp_path / "run", figures=False, workers=workers)
    (failure,) = caught.value.failures
    assert (failure["replications"], failure["lppms"]) == ([0, 0], ["faulty"])
    assert failure["chunk"].startswith("0000-0000-0002-")
    lppm_sim(*shlex.split(failure["command"])[1:])
    assert [part[:14] for part in sim.Result.open(tmp_path / "run").run.parts()] == ["0000-0000-0000"]
    sim.run(faulty("raise", 0), out=tmp_path / "run", figures=False, workers=workers)
    result = sim.Result.open(tmp_path / "run")
    assert [part[:14] for part in result.run.parts()] == ["0000-0000-0000", "0000-0001-0002"]
    sim.run(faulty("raise", 0), out=tmp_path / "whole", figures=False)
    keys = ["lppm", "replication", "user", "index", "attack"]
    mended, whole = (sim.Result.open(tmp_path / name).events() for name in ("run", "whole"))
    pd.testing.assert_frame_equal(
        mended.sort_values(keys, ignore_index=True), whole.sort_values(keys, ignore_index=True)
    )


def test_a_chunk_that_is_none_is_refused(small: Path) -> None:
    result = lppm_sim("run", small, "--chunk", "0000-0000-nothing")
    assert result.exit_code == 2
    assert "0000-0000-nothing is no chunk of this run: its chunks are 0000-0000-0000-" in result.stderr


LONG = """
name: long
replications: 12
world: {grid: {kind: rectangle, rows: 6, cols: 6, width_km: 6, height_km: 6}}
users: {count: 4, queries: 90, mobility: favourites}
lppms: [PEB-Exp]
"""


@pytest.fixture(scope="module")
def whole(plain_kernels: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Return what the long scenario leaves when nothing comes between."""
    folder = tmp_path_factory.mktemp("long")
    (folder / "long.yaml").write_text(LONG)
    sim.run(sim.load(folder / "long.yaml"), out=folder / "whole", figures=False, chunk_queries=1)
    return left_in(folder, "whole")


def left_in(folder: Path, run: str) -> dict[str, bytes]:
    """Return the files of a run, without the folder of its scenario, which the manifest names, and its checksum."""
    left = {name: content.replace(bytes(folder.resolve()), b"") for name, content in files(folder / run).items()}
    return left | {"manifest.json": re.sub(rb'"checksum": "[^"]*"', b"", left["manifest.json"])}


RUN_LONG = ("run", "long.yaml", "-o", "run", "--no-figures", "--chunk-queries", "1")


def start(folder: Path) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", INTERRUPTIBLE, *RUN_LONG, "--workers", "2"]
    return subprocess.Popen(words, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def children(pid: int) -> list[int]:
    words = ["ps", "-o", "pid=", "--ppid", str(pid)]
    listed = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return [int(word) for word in listed.stdout.split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_is_stopped_goes_on_to_the_same_bytes(
    how: signal.Signals, whole: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    with ending(start(tmp_path)) as driver:
        until(lambda: list((tmp_path / "run" / "events").glob("*.parquet")))
        workers = children(driver.pid)
        driver.send_signal(how)
        _, said = driver.communicate(timeout=60)
    if how is signal.SIGINT:
        assert driver.returncode == 1
        assert re.search(r"interrupted; \d+ of 12 chunks are finished and kept in run; .* start again", said)
        assert "resume with: lppm-sim run long.yaml -o run" in said
        assert "Traceback" not in said
    until(lambda: not any(alive(pid) for pid in workers))
    unfinished = len(list((tmp_path / "run" / "events").glob("*.parquet")))
    assert 0 < unfinished < 12, "it was stopped in the middle"
    monkeypatch.chdir(tmp_path)
    done(*RUN_LONG)
    assert left_in(tmp_path, "run") == whole


@pytest.mark.slow
def test_two_runs_at_once_in_one_folder_leave_the_bytes_of_one(whole: dict[str, bytes], tmp_path: Path) -> None:
    """Each simulates what it finds undone when it begins, so most chunks are written twice."""
    (tmp_path / "long.yaml").write_text(LONG)
    with ending(start(tmp_path)) as one, ending(start(tmp_path)) as other:
        said = [driver.communicate(timeout=120)[1] for driver in (one, other)]
    assert (one.returncode, other.returncode) == (0, 0), said
    assert left_in(tmp_path, "run") == whole


ON_A_FULL_DISK = """
import json, shutil, subprocess, sys
from pathlib import Path
disk, scenario, copy = map(Path, sys.argv[1:])
words = [sys.executable, "-m", "sim.cli", "run", scenario, "-o", disk / "run", "--no-figures"]
words += ["--chunk-queries", "1"]
(disk / "ballast").write_bytes(bytes(400_000))
full = subprocess.run([*words, "--workers", "2"], capture_output=True, text=True, timeout=120)
there = len(list(disk.glob("run/events/*.parquet")))
(disk / "ballast").unlink()
again = subprocess.run(words, capture_output=True, text=True, timeout=120)
shutil.copytree(disk / "run", copy)
print(json.dumps([full.returncode, full.stderr, there, again.returncode]))
"""


@pytest.mark.slow
def test_a_disk_that_runs_full_stops_the_run_which_goes_on_when_there_is_room(
    whole: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "long.yaml").write_text(LONG)
    disk = tmp_path / "disk"
    disk.mkdir()
    apart = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=512k tmpfs "$0"'
    if shutil.which("unshare") is None or subprocess.run([*apart, mount, disk], check=False, timeout=60).returncode:
        pytest.skip("this machine lets nobody mount a tiny disk")
    places: list[str | Path] = [disk, sys.executable, ON_A_FULL_DISK, tmp_path / "long.yaml", tmp_path / "run"]
    command: list[str | Path] = [*apart, f'{mount} && "$1" -c "$2" "$0" "$3" "$4"', *places]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=280)
    code, said, there, code_again = json.loads(told.stdout)
    assert code == 1
    assert "No space left on device. Free some space and run again" in said
    assert "Traceback" not in said
    assert 0 < there < 12, "it ran full in the middle"
    assert code_again == 0
    assert left_in(tmp_path, "run") == whole
