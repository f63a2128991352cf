"""Local worker processes: results do not depend on their number, and no work is lost when they die or are stopped."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import sim
from sim.components.permission import CodeAccess
from sim.execution.failures import FailedChunks
from sim.execution.local_pool import Workers
from sim.execution.pool import Done
from sim.simulation.progress import Silent
from sim.storage.errors import RequestError
from sim.storage.run_directory import RunDirectory
from tests.command_server import CommandServer
from tests.execution.gated import CHUNKS, Gate, Gated, run
from tests.support import ROOT, MakeScenario, done, files, lppm_sim, plan, raises_code, refused, until

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")

FAULTY = '''
import os, signal
from pathlib import Path
from sim.lppm.designs.identity import Identity


class Faulty(Identity):
    """Identity that fails in the given way once for each order, a file in a folder."""

    uses_prior = True

    def __init__(self, *, world, how, folder):
        super().__init__(n_cells=world.n_cells)
        self.how, self.orders = how, Path(folder)

    def __call__(self, prior):
        for order in sorted(self.orders.glob("order-*")):
            try:
                order.unlink()  # only one worker succeeds
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
    """Return a function that makes a scenario with a design that fails a number of times, in some way."""
    (tmp_path / "faulty_design.py").write_text(FAULTY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{ROOT}")
    monkeypatch.delitem(sys.modules, "faulty_design", raising=False)

    def make(how: str, times: int, *, replications: int = 3) -> Any:
        for number in range(times):
            (tmp_path / f"order-{number}").touch()
        design = {"kind": "faulty_design:Faulty", "how": how, "folder": str(tmp_path)}
        faulty = {"name": "faulty", "belief": "fixed_profile", "design": design}
        return make_scenario(**SMALL, lppms=["SP-Exp", faulty], replications=replications).at(
            tmp_path, None, CodeAccess(allowed=True, beside=tmp_path)
        )

    return make


SMALL: dict[str, Any] = {"users": {"count": 2, "queries": 8, "mobility": "favourites"}}


@pytest.mark.parametrize("times", [0, 1])
def test_an_ended_chunk_has_the_number_of_its_simulated_queries(times: int, faulty: Any, tmp_path: Path) -> None:
    """Including those of a worker that died, which were reported before: an interrupt must not count them as lost."""
    scenario = faulty("die", times)
    ticks: list[int] = []
    with closing(Workers(2, notify=lambda _line: None)) as workers:
        ended = list(workers.run(plan(scenario), RunDirectory.create(tmp_path / "run"), ticks.append))
    assert all(isinstance(end, Done) for end in ended)
    assert sum(end.queries or 0 for end in ended) == sum(ticks) > 0


def test_results_do_not_depend_on_the_number_of_workers(make_scenario: MakeScenario, tmp_path: Path) -> None:
    sweep = {"lppms.*.design.epsilon_per_km": [0.5, 2]}
    scenario = make_scenario(**SMALL, lppms=["SP-Exp", "PEB-LH"], replications=3, sweep=sweep)
    for workers in (1, 2, 3):
        run(scenario, tmp_path / str(workers), workers=workers)
    assert files(tmp_path / "1") == files(tmp_path / "2") == files(tmp_path / "3")


def test_the_stopping_rule_does_not_depend_on_workers(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(**SMALL, replications={"until_half_width_km": 0.3, "at_most": 12})
    counted = Count()
    for workers in (1, 2):
        run(scenario, tmp_path / str(workers), workers=workers, progress=counted if workers == 2 else None)
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert counted.rounds > 1
    assert counted.done == counted.total


class Count(Silent):
    """Counts the queries that are announced and those that are simulated."""

    total = done = rounds = 0

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        self.total += queries
        self.rounds += 1

    def advance(self, queries: int) -> None:
        self.done += queries


def test_a_run_in_memory_needs_one_worker(make_scenario: MakeScenario) -> None:
    with raises_code(RequestError, "directory-not-shared") as error:
        run(make_scenario(**SMALL), "memory://pool", workers=2)
    assert "memory://pool" in str(error.value)


def test_a_dead_worker_is_replaced_and_its_temporary_files_are_removed(faulty: Any, tmp_path: Path) -> None:
    run(faulty("die writing", 2), tmp_path / "died", workers=2)
    assert not list(tmp_path.glob("order-*"))
    run(faulty("die writing", 0), tmp_path / "lived")
    assert files(tmp_path / "died") == files(tmp_path / "lived")


def test_a_chunk_that_kills_every_worker_fails_and_the_rest_finishes(faulty: Any, tmp_path: Path) -> None:
    """Of five orders one chunk executes three, and the other one the rest."""
    with raises_code(FailedChunks, "chunks-failed") as caught:
        run(faulty("die", 5, replications=2), tmp_path / "run", workers=2)
    assert str(caught.value).startswith("1 of 2 chunks failed")
    assert not list(tmp_path.glob("order-*"))
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert not manifest["finished"]
    assert manifest["failures"][0]["error"] == "its worker died 3 times (killed by SIGKILL)"
    assert len(sim.Result.open(tmp_path / "run").run.parts()) == 1
    for name in ("run", "whole"):
        run(faulty("die", 0, replications=2), tmp_path / name)
    assert files(tmp_path / "run") == files(tmp_path / "whole")


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failed_simulation_is_reported_with_the_command_that_repeats_it(
    workers: int, faulty: Any, tmp_path: Path, commands: CommandServer
) -> None:
    with pytest.raises(FailedChunks) as caught:
        run(faulty("raise", 1), tmp_path / "run", workers=workers)
    (failure,) = caught.value.failures
    assert failure["error"] == "RuntimeError: something went <wrong>"
    assert "faulty_design.py" in failure["traceback"]
    assert f"point 0, replication {failure['replications'][0]}, faulty: RuntimeError" in str(caught.value)
    assert len(sim.Result.open(tmp_path / "run").events()) == 2 * 2 * 2 * 2 * 8, "the other two chunks are written"
    status = done("status", tmp_path / "run")
    assert f"failed  point 0, replication {failure['replications'][0]}, faulty: RuntimeError" in status
    assert failure["command"] in status
    faulty("raise", 1)
    program, *words = shlex.split(failure["command"])
    assert program == "lppm-sim"
    with commands.running(*words, folder=tmp_path) as alone:
        errors = alone.wait()
    assert alone.returncode == 1
    assert "RuntimeError: something went <wrong>" in errors
    assert "faulty_design.py" in errors, "the traceback contains the line of the component"
    done(*words)  # no order is left
    assert len(sim.Result.open(tmp_path / "run").events()) == 3 * 2 * 2 * 2 * 8


def test_a_failure_in_a_joined_chunk_names_the_simulation_and_repeats_it_alone(faulty: Any, tmp_path: Path) -> None:
    """The first replication fails. It is repeated alone, and a chunk with the other replications follows."""
    with pytest.raises(FailedChunks) as caught:
        sim.run(faulty("raise", 1), out=tmp_path / "run", figures=False, workers=2)
    (failure,) = caught.value.failures
    assert (failure["replications"], failure["lppms"]) == ([0, 0], ["faulty"])
    assert failure["chunk"].startswith("0000-0000-0002-")
    lppm_sim(*shlex.split(failure["command"])[1:])
    assert [part[:14] for part in sim.Result.open(tmp_path / "run").run.parts()] == ["0000-0000-0000"]
    sim.run(faulty("raise", 0), out=tmp_path / "run", figures=False, workers=2)
    result = sim.Result.open(tmp_path / "run")
    assert [part[:14] for part in result.run.parts()] == ["0000-0000-0000", "0000-0001-0002"]
    sim.run(faulty("raise", 0), out=tmp_path / "whole", figures=False)
    keys = ["lppm", "replication", "user", "index", "attack"]
    repaired, whole = (sim.Result.open(tmp_path / name).events() for name in ("run", "whole"))
    pd.testing.assert_frame_equal(
        repaired.sort_values(keys, ignore_index=True), whole.sort_values(keys, ignore_index=True)
    )


def test_an_unknown_chunk_is_refused_with_examples(small: Path) -> None:
    message = refused("run", small, "--chunk", "0000-0000-nothing")
    assert "0000-0000-nothing" in message
    assert "0000-0000-0000-" in message


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
@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_leaves_no_workers_and_resumes_to_the_same_bytes(
    number: signal.Signals, gated: Gated, commands: CommandServer, tmp_path: Path
) -> None:
    events, gate = tmp_path / "run" / "events", Gate(tmp_path / "gate", tmp_path / "run")
    with commands.running(*gated.command, "--workers", "2", folder=tmp_path, environment=gate.environment) as driver:
        until(lambda: gate.waiting() == 2)
        workers = children(driver.pid)
        os.kill(driver.pid, number)
        errors = driver.wait()
        gate.open()
        until(lambda: not any(alive(pid) for pid in workers))
    if number is signal.SIGINT:
        assert driver.returncode == 1
        assert re.search(rf"interrupted; \d+ of {CHUNKS} chunks are finished and kept in run; ", errors)
        assert f"resume with: lppm-sim {shlex.join(gated.command)} --workers 2\n" in errors
        assert "Traceback" not in errors
    assert 0 < len(list(events.glob("*.parquet"))) < CHUNKS, "stopped in the middle"
    run(gated.scenario, tmp_path / "run")
    assert files(tmp_path / "run") == files(gated.whole)


@pytest.mark.slow
def test_two_simultaneous_runs_in_one_folder_leave_the_bytes_of_one(
    gated: Gated, commands: CommandServer, tmp_path: Path
) -> None:
    """Both wait at the second chunk, so they simulate the other chunks twice."""
    gate = Gate(tmp_path / "gate", tmp_path / "run")
    running = {"folder": tmp_path, "environment": gate.environment}
    with commands.running(*gated.command, **running) as one:  # type: ignore[arg-type]
        until(lambda: gate.waiting() == 1)
        with commands.running(*gated.command, **running) as other:  # type: ignore[arg-type]
            until(lambda: gate.waiting() == 2)
            gate.open()
            errors = one.wait() + other.wait()
    assert (one.returncode, other.returncode) == (0, 0), errors
    assert files(tmp_path / "run") == files(gated.whole)


ON_A_FULL_DISK = """
import json, shutil, sys
from pathlib import Path
import sim
from sim.components.permission import CodeAccess
from sim.errors import UserError
from tests.fork_server import forked_workers

disk, scenario, copy = map(Path, sys.argv[1:])
scenario = sim.load(scenario).at(scenario.parent, None, CodeAccess(allowed=True, beside=scenario.parent))
(disk / "ballast").write_bytes(bytes(400_000))
with forked_workers():
    try:
        sim.run(scenario, out=disk / "run", figures=False, chunk_queries=1, workers=2)
        message, code = "", ""
    except UserError as error:
        message, code = str(error), error.code
finished = len(list(disk.glob("run/events/*.parquet")))
(disk / "ballast").unlink()
sim.run(scenario, out=disk / "run", figures=False, chunk_queries=1)
shutil.copytree(disk / "run", copy)
print(json.dumps([message, code, finished]))
"""


@pytest.mark.slow
def test_a_full_disk_stops_the_run_which_resumes_when_space_is_free(gated: Gated, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    apart = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mount = 'mount -t tmpfs -o size=512k tmpfs "$0"'
    if shutil.which("unshare") is None or subprocess.run([*apart, mount, disk], check=False, timeout=60).returncode:
        pytest.skip("mounting a small disk is not permitted")
    places: list[str | Path] = [disk, sys.executable, ON_A_FULL_DISK, gated.file, tmp_path / "run"]
    command: list[str | Path] = [*apart, f'{mount} && "$1" -c "$2" "$0" "$3" "$4"', *places]
    printed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=280).stdout
    message, code, finished = json.loads(printed)
    assert code == "disk-full"
    assert "No space left on device" in message
    assert 0 < finished < CHUNKS, "the disk was full in the middle"
    assert files(tmp_path / "run") == files(gated.whole)
