"""Ctrl-C stops a command, which states what was written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sim
from sim.cli import main
from sim.cli.group import AFTER_INTERRUPT
from sim.simulation import interrupts
from sim.simulation.interrupts import ComponentExit, Interrupted
from tests.support import INTERRUPTIBLE, MakeScenario, lppm_sim, until

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")


class InterruptedAt:
    """A progress that sends this process SIGINT after so many queries."""

    def __init__(self, queries: int) -> None:
        self.left = queries

    def start(self, queries: int, *, chunks: int, skipped: int) -> None: ...

    def advance(self, queries: int) -> None:
        self.left -= queries
        if self.left <= 0:
            self.left = 10**9
            signal.raise_signal(signal.SIGINT)

    def end_chunk(self) -> None: ...


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_run_says_what_is_kept_and_what_is_lost(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(replications=4, lppms=["SP-Exp"])
    with pytest.raises(Interrupted) as caught:
        sim.run(scenario, out=tmp_path, figures=False, chunk_queries=1, progress=InterruptedAt(75 + 75 + 50))
    assert str(caught.value).startswith(
        f"interrupted; 2 of 4 chunks are finished and kept in {tmp_path}; "
        "the other 2 start again from the beginning: about 50 simulated queries are lost, "
    )
    with pytest.raises(
        Interrupted, match=r"^interrupted; 0 of 1 chunks are .*other starts again.* about 200 simulated"
    ):
        sim.run(scenario, out=tmp_path / "one", figures=False, progress=InterruptedAt(200))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    sim.run(scenario, out=tmp_path, figures=False, chunk_queries=1)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_that_component_code_swallows_still_stops_the_run(
    make_scenario: MakeScenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "greedy.py").write_text(
        "import signal\n"
        "from sim.lppm.designs.identity import Identity\n"
        "class Greedy(Identity):\n"
        "    uses_prior = True\n"
        "    def __init__(self, *, world):\n"
        "        super().__init__(n_cells=world.grid.n_cells)\n"
        "    def __call__(self, prior):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        raise SystemExit(0)\n"
    )
    monkeypatch.chdir(tmp_path)
    own = {"name": "greedy", "belief": "fixed_profile", "design": {"kind": "greedy:Greedy"}}
    with pytest.raises(Interrupted):
        sim.run(make_scenario(lppms=[own]).at(tmp_path, None), out=tmp_path / "run", figures=False, allow_code=True)


class Stop(BaseException):
    """Raised by a caller to end a run."""


@pytest.mark.parametrize("error", [Stop, SystemExit, RuntimeError])
@pytest.mark.parametrize("workers", [1, 2])
def test_an_exception_of_a_progress_callback_ends_the_run(
    workers: int, error: type[BaseException], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    class Stopping(InterruptedAt):
        def advance(self, queries: int) -> None:
            raise error

    with pytest.raises(error):
        sim.run(make_scenario(), out=tmp_path, figures=False, workers=workers, progress=Stopping(0))


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.default_int_handler])
def test_an_earlier_interrupt_does_not_stop_a_later_run(handler: Any) -> None:
    before = signal.signal(signal.SIGINT, handler)
    try:
        interrupts.record()
        with interrupts.recorded():
            assert not interrupts.interrupted()
            interrupts.record()
            with interrupts.recorded():
                assert interrupts.interrupted(), "an inner block forgets nothing"
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_custom_handler_is_called_and_restored() -> None:
    seen: list[int] = []

    def custom(number: int, _frame: FrameType | None) -> None:
        seen.append(number)

    before = signal.signal(signal.SIGINT, custom)
    try:
        with interrupts.recorded():
            assert not interrupts.interrupted()
            signal.raise_signal(signal.SIGINT)
            assert interrupts.interrupted()
        assert signal.getsignal(signal.SIGINT) is custom
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_no_interrupt_is_seen_in_other_threads() -> None:
    seen: list[BaseException] = []

    def work() -> None:
        try:
            with interrupts.recorded(), interrupts.contained("here"):
                raise KeyboardInterrupt
        except ComponentExit as error:
            seen.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    assert len(seen) == 1


def interrupt(*_: object, **__: object) -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("words", "function", "truth"),
    [
        ("check small.yaml --no-time", "sim.execution.cost.estimate.estimate", "interrupted; nothing was written\n"),
        ("list", "sim.scenario.reference.listing", "interrupted; nothing was written\n"),
        ("run small.yaml", "sim.storage.load.load", "interrupted; nothing was written\n"),
        (
            "traces small.yaml -o x.csv",
            "sim.mobility.recorded.replay.write_csv",
            "the file may be incomplete: repeat the",
        ),
        (
            "summarize run",
            "sim.analysis.result.Result.summary",
            "the event log is unchanged; repeat the command to write all",
        ),
        ("report run", "sim.report.write", "interrupted; the event log and the last complete report are unchanged\n"),
        ("export run", "sim.storage.export.export", "interrupted; nothing was written\n"),
        ("run small.yaml -o run", "sim.cli.output.result.print_result", "the simulation is complete and kept in run\n"),
        (
            "run small.yaml -o run",
            "sim.execution.finish.write_results",
            "2 of 2 chunks are finished and kept in run; its tables, figu",
        ),
        (
            "run small.yaml -o 'a b'",
            "sim.execution.study.points",
            "no chunk was simulated or changed\nresume with: lppm-sim run",
        ),
    ],
)
def test_every_command_says_what_is_true(
    words: str, function: str, truth: str, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import shlex

    lppm_sim("run", small, "-o", "run", "--no-figures")
    monkeypatch.setattr(function, interrupt)
    result = lppm_sim(*shlex.split(words))
    assert result.exit_code == 1
    assert truth in result.stderr
    assert "Traceback" not in result.stderr
    resume = f"resume with: lppm-sim {words}\n"
    assert (resume in result.stderr) == (words.startswith("run") and "nothing was written" not in truth)


def test_the_truth_is_told_of_commands_that_exist() -> None:
    assert AFTER_INTERRUPT.keys() <= main.commands.keys()


# Workers that are starting -------------------------------------------------------------------------------------------

LONG = """
name: long
replications: 40
world: {grid: {kind: rectangle, rows: 6, cols: 6, width_km: 6, height_km: 6}}
users: {count: 4, queries: 90, mobility: favourites}
lppms: [PEB-Exp]
"""


def others(leader: int) -> list[int]:
    """Return the processes of a group that are alive, but for its leader."""
    alive = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == leader:
            continue
        try:
            state, _, group = (entry / "stat").read_text().rpartition(")")[2].split()[:3]
        except OSError:
            continue
        if int(group) == leader and state != "Z":
            alive.append(int(entry.name))
    return alive


def loaded(pid: int, library: str) -> bool:
    """Return whether a process has a library in memory."""
    try:
        return library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def hears_sigint(pid: int) -> bool:
    """Return whether SIGINT reaches a process."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigBlk:", "SigIgn:"))]
    return not any(mask >> (signal.SIGINT - 1) & 1 for mask in masks)


MOMENTS: dict[str, Callable[[int], bool]] = {
    "one child": lambda leader: len(others(leader)) >= 1,
    "two children": lambda leader: len(others(leader)) >= 2,
    "three children": lambda leader: len(others(leader)) >= 3,
    "a worker imports": lambda leader: any(loaded(pid, "_multiarray_umath") for pid in others(leader)),
    "all workers import": lambda leader: sum(loaded(pid, "_multiarray_umath") for pid in others(leader)) >= 2,
}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts a long run in a process group of its own."""
    (tmp_path / "long.yaml").write_text(LONG)
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        command = ["run", "long.yaml", "-o", "run", "--no-figures", "--chunk-queries", "1", *words]
        process = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE, *command],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="no /proc to see processes in")
@pytest.mark.parametrize(
    ("moment", "dask"),
    [(moment, ()) for moment in MOMENTS]
    + [(moment, ("--dask", "local")) for moment in ("two children", "a worker imports")],
)
def test_ctrl_c_while_workers_start_prints_no_traceback_and_leaves_nobody(
    moment: str, dask: tuple[str, ...], driver: Callable[..., subprocess.Popen[str]]
) -> None:
    process = driver("--workers", "2", *dask)
    until(lambda: MOMENTS[moment](process.pid))
    assert not any(hears_sigint(pid) for pid in others(process.pid))
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to all of them
    _, said = process.communicate(timeout=120)
    assert process.returncode == 1
    assert "Traceback" not in said
    assert "KeyboardInterrupt" not in said
    assert "interrupted" in said
    assert (
        f"resume with: lppm-sim run long.yaml -o run --no-figures --chunk-queries 1 --workers 2{' ' if dask else ''}"
        in said
    )
    until(lambda: not others(process.pid))
