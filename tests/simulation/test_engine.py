"""The engine can be interrupted at any time, and continue from any instant."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.estimated_profile import EstimatedProfile, EstimatedProfileParameters
from sim.belief.fixed_profile import FixedProfile
from sim.events import Guess, Report
from sim.interfaces import Channel
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.mechanism import Mechanism
from sim.mobility.traces import Trace
from sim.simulation import engine
from sim.simulation.engine import SimulationState, proceed, simulate
from sim.simulation.progress import Tick
from sim.simulation.recorder import SimulationLog
from sim.world import World
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import ROOT

GRID = Grid.rectangle(rows=20, cols=20, width_km=20, height_km=20)
WORLD = World(locations=GRID, roads=None, privacy_distance=manhattan(GRID), quality_distance=manhattan(GRID))
PROFILE = np.full(GRID.n_cells, 1 / GRID.n_cells)


def long_simulation(queries: int, tick: Tick | None = None) -> SimulationLog:
    cells = np.random.default_rng(0).integers(0, GRID.n_cells, queries)
    traces = [Trace("ann", np.arange(queries), cells)]
    log = SimulationLog(world=WORLD, traces=traces, attacks=["sporadic"], tick=tick)
    design = Exponential(ExponentialParameters(epsilon_per_km=1.0), distance=WORLD.quality_distance)
    attack = OptimalAttack(
        belief_of=lambda _: FixedProfile(profile=PROFILE), distance=WORLD.privacy_distance, all_outputs=True
    )
    simulate(
        traces=traces,
        lppm_of=lambda _: Mechanism(
            belief=EstimatedProfile(EstimatedProfileParameters(), initial_profile=PROFILE), design=design
        ),
        noise_of=lambda _: np.random.default_rng(1),
        attacks={"sporadic": attack},
        log=log,
    )
    return log


def interrupt_repeatedly() -> None:
    """Interrupt simulations, most of them in compiled kernels, and print the types of the exceptions."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    long_simulation(2)
    for attempt in range(5):
        begun, left = threading.Event(), iter(range(20 + attempt, -1, -1))

        def interrupt(begun: threading.Event = begun) -> None:
            begun.wait(60)
            os.kill(os.getpid(), signal.SIGINT)

        def tick(_: int, begun: threading.Event = begun, left: Iterator[int] = left) -> None:
            if next(left, 1) == 0:
                begun.set()

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            long_simulation(20_000, tick)
        except BaseException as error:
            print(type(error).__name__)
        thread.join(60)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
def test_an_interrupt_is_never_lost() -> None:
    """With two BLAS threads, with which most interrupts would be lost without the signal handler."""
    script = "import tests.simulation.test_engine as engine; engine.interrupt_repeatedly()"
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "2"},
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    assert done.stdout.split() == ["KeyboardInterrupt"] * 5


def test_a_custom_signal_handler_stays() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _frame: seen.append(number))
    try:
        os.kill(os.getpid(), signal.SIGINT)
        log = long_simulation(3)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]
    assert log.table(point=0, lppm="a", replication=0).num_rows == 3


class Order:
    """An adversary that records the users of the reports, in order."""

    def __init__(self) -> None:
        self.users: list[str] = []

    def observe(self, report: Report) -> Guess:
        self.users.append(report.user)
        return Guess(report.user, report.index, 0)


class AtInstants:
    """Stops a simulation at an instant, as if it were saved there."""

    def __init__(self, now_s: int) -> None:
        self.now_s = now_s

    def is_due(self) -> bool:
        return True

    def save(self, state: SimulationState) -> None:
        if state.now_s == self.now_s:
            raise KeyboardInterrupt


@pytest.mark.parametrize("now_s", [0, 5, 10])
def test_simultaneous_reports_keep_their_order_after_a_checkpoint(now_s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_STEPS", 1)
    times = {"ann": [0, 10, 20], "bob": [5, 10, 20], "cal": [0, 20, 20]}
    traces = [Trace(user, np.array(own), np.zeros(3, dtype=np.int64)) for user, own in times.items()]

    def begun() -> tuple[Order, SimulationState]:
        order = Order()
        log = SimulationLog(world=WORLD, traces=traces, attacks=["order"], expected=False)
        design = Exponential(ExponentialParameters(epsilon_per_km=1.0), distance=WORLD.quality_distance)
        lppms = {user: Mechanism(belief=FixedProfile(profile=PROFILE), design=design) for user in times}
        noise = {user: np.random.default_rng(1) for user in times}
        return order, SimulationState(dict(lppms), noise, {"order": order}, log)

    whole, state = begun()
    proceed(traces, state)
    assert whole.users == ["ann", "cal", "bob", "ann", "bob", "cal", "ann", "bob", "cal"]
    parted, state = begun()
    with pytest.raises(KeyboardInterrupt):
        proceed(traces, state, AtInstants(now_s))
    proceed(traces, state)
    assert parted.users == whole.users


class Needy(ValueError):
    """An error that cannot be copied from its arguments."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


@pytest.mark.parametrize("saver", [None, AtInstants(-1)], ids=["whole", "saved"])
def test_errors_of_agents_arrive_as_they_are(saver: AtInstants | None) -> None:
    """SimPy raises a copy of an error, `type(error)(*error.args)`, which would lose the code or raise a TypeError."""
    original = Needy("too large", code="matrix-too-large")

    class Failing(Mechanism):
        def channel(self, time_s: int) -> Channel:
            raise original

    traces = [Trace("ann", np.arange(3), np.zeros(3, dtype=np.int64))]
    design = Exponential(ExponentialParameters(epsilon_per_km=1.0), distance=WORLD.quality_distance)
    lppm = Failing(belief=FixedProfile(profile=PROFILE), design=design)
    log = SimulationLog(world=WORLD, traces=traces, attacks=[])
    state = SimulationState({"ann": lppm}, {"ann": np.random.default_rng(1)}, {}, log)
    with pytest.raises(Needy) as caught:
        proceed(traces, state, saver)
    assert caught.value is original
    assert caught.value.__context__ is None
