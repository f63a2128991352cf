"""Ctrl-C or SIGTERM stops a command, which states which results are saved."""

from __future__ import annotations

import shlex
import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import sim
from sim.cli import main
from sim.cli.group import AFTER_INTERRUPT
from sim.simulation import interrupts
from sim.simulation.interrupts import ComponentExit, Interrupted
from tests.command_server import CommandServer
from tests.execution.gated import Gate, Gated
from tests.support import SMALL, MakeScenario, lppm_sim, until

pytestmark = pytest.mark.usefixtures("plain_kernels", "fork_server")


class InterruptedAt:
    """Progress callback that sends a signal to this process after a number of queries."""

    def __init__(self, queries: int, number: signal.Signals = signal.SIGINT) -> None:
        self.left = queries
        self.number = number

    def start(self, queries: int, *, chunks: int, skipped: int) -> None: ...

    def advance(self, queries: int) -> None:
        self.left -= queries
        if self.left <= 0:
            self.left = 10**9
            signal.raise_signal(self.number)

    def end_chunk(self) -> None: ...


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", interrupts.SIGNALS)
def test_an_interrupted_run_states_what_is_saved_and_what_is_lost(
    number: signal.Signals, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    scenario = make_scenario(replications=4, lppms=["SP-Exp"])
    with pytest.raises(Interrupted) as caught:
        sim.run(scenario, out=tmp_path, figures=False, chunk_queries=1, progress=InterruptedAt(75 + 75 + 50, number))
    assert str(caught.value).startswith(
        f"interrupted; 2 of 4 chunks are finished and kept in {tmp_path}; "
        "the other 2 start again from the beginning or from a checkpoint: at most about 50 simulated queries are lost, "
    )
    with pytest.raises(Interrupted) as joined:
        sim.run(scenario, out=tmp_path / "one", figures=False, progress=InterruptedAt(200, number))
    assert str(joined.value).startswith("interrupted; 0 of 1 chunks")
    assert "about 200 simulated queries are lost" in str(joined.value)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
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
        "        super().__init__(n_cells=world.n_cells)\n"
        "    def __call__(self, prior):\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        raise SystemExit(0)\n"
    )
    monkeypatch.chdir(tmp_path)
    greedy = {"name": "greedy", "belief": "fixed_profile", "design": {"kind": "greedy:Greedy"}}
    with pytest.raises(Interrupted):
        sim.run(make_scenario(lppms=[greedy]).at(tmp_path, None), out=tmp_path / "run", figures=False, allow_code=True)


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
                assert interrupts.interrupted(), "an inner block does not reset the state"
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


def test_a_custom_handler_of_sigterm_is_left_alone() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    try:
        with interrupts.recorded():
            signal.raise_signal(signal.SIGTERM)
            assert not interrupts.interrupted()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert seen == [signal.SIGTERM]


def send_delayed(number: signal.Signals, reached: list[int]) -> None:
    with interrupts.signals_delayed():
        signal.pthread_kill(threading.get_ident(), number)  # another thread could receive a signal to the process
        reached.append(number)


@pytest.mark.usefixtures("interruptible")
def test_signals_arrive_after_the_block_that_delays_them() -> None:
    for number in interrupts.SIGNALS:
        reached: list[int] = []
        with interrupts.recorded():
            with pytest.raises(KeyboardInterrupt):
                send_delayed(number, reached)
            assert reached == [number]
            assert interrupts.exit_code() == {signal.SIGINT: 1, signal.SIGTERM: 143}[number]


def test_a_keyboard_interrupt_in_another_thread_is_a_component_exit() -> None:
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


NOTHING = "interrupted; nothing was written\n"


@pytest.fixture(scope="module")
def finished(plain_kernels: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a small scenario and a finished run of it."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "small.yaml").write_text(SMALL)
    sim.run(sim.load(folder / "small.yaml"), out=folder / "run", figures=False)
    return folder


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    ("words", "function", "message"),
    [
        ("check small.yaml --no-time", "sim.execution.cost.search.estimate_with_search", NOTHING),
        ("list", "sim.scenario.reference.listing", NOTHING),
        ("run small.yaml", "sim.storage.load.load", NOTHING),
        ("traces small.yaml -o x.csv", "sim.mobility.recorded.replay.write_csv", "the file may be incomplete"),
        ("summarize run", "sim.analysis.result.Result.summary", "the event log is unchanged"),
        ("report run", "sim.report.write", "the event log and the last complete report are unchanged\n"),
        ("export run", "sim.storage.export.export", NOTHING),
        ("run small.yaml -o run", "sim.cli.output.result.print_result", "the simulation is complete"),
        ("run small.yaml -o run", "sim.execution.finish.write_results", "2 of 2 chunks are finished"),
        ("run small.yaml -o 'a b'", "sim.execution.study.points", "no chunk was simulated or changed\nresume with: "),
    ],
)
def test_every_interrupted_command_states_its_effect(
    words: str, function: str, message: str, finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(function, interrupt)
    result = lppm_sim(*shlex.split(words), *["--no-figures"] * words.startswith("run"))
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    resume = f"resume with: lppm-sim {words}"
    assert (resume in result.stderr) == (words.startswith("run") and message != NOTHING)


def test_messages_after_an_interrupt_belong_to_existing_commands() -> None:
    assert AFTER_INTERRUPT.keys() <= main.commands.keys()


# Workers that are starting -------------------------------------------------------------------------------------------


def others(leader: int) -> list[int]:
    """Return the running processes of a group, without its leader."""
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
    """Return whether a process has loaded a library."""
    try:
        return library in Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return False


def receives_sigint(pid: int) -> bool:
    """Return whether a process neither blocks nor ignores SIGINT."""
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


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("moment", "dask"),
    [(moment, ()) for moment in MOMENTS]
    + [(moment, ("--dask", "local")) for moment in ("two children", "a worker imports")],
)
def test_ctrl_c_while_workers_start_prints_no_traceback_and_leaves_no_process(
    moment: str, dask: tuple[str, ...], gated: Gated, commands: CommandServer, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate", tmp_path / "run")  # so that the run does not finish before
    words = [*gated.command, "--workers", "2", *dask]
    with commands.running(*words, folder=tmp_path, environment=gate.environment) as driver:
        until(lambda: MOMENTS[moment](driver.pid))
        assert not any(receives_sigint(pid) for pid in others(driver.pid))
        driver.kill_group(signal.SIGINT)  # a terminal sends it to all processes of the group
        errors = driver.wait()
        until(lambda: not others(driver.pid))
    assert driver.returncode == 1
    assert "Traceback" not in errors
    assert "KeyboardInterrupt" not in errors
    assert "interrupted" in errors
    assert f"resume with: lppm-sim {shlex.join(words)}\n" in errors


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.parametrize("moment", ["two children", "all workers import"])
def test_sigterm_while_workers_start_leaves_no_process(
    moment: str, gated: Gated, commands: CommandServer, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate", tmp_path / "run")
    words = [*gated.command, "--workers", "2"]
    with commands.running(*words, folder=tmp_path, environment=gate.environment) as driver:
        until(lambda: MOMENTS[moment](driver.pid))
        driver.kill_group(signal.SIGTERM)  # scancel sends it to all processes of a job step
        errors = driver.wait()
        until(lambda: not others(driver.pid))
    assert driver.returncode == 143
    assert "Traceback" not in errors
    assert f"resume with: lppm-sim {shlex.join(words)}\n" in errors
