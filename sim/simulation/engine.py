"""Run one simulation: users and adversaries in one SimPy environment, all users with the same LPPM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import FrameType

import simpy

from sim.interfaces import LPPM, Attack, AttackCapabilities, Generator
from sim.mobility.traces import Trace
from sim.simulation import agents, interrupts
from sim.simulation.recorder import SimulationLog
from sim.simulation.stream import Stream


def simulate(
    *,
    traces: Sequence[Trace],
    lppm_of: Callable[[str], LPPM],
    noise_of: Callable[[str], Generator],
    attacks: Mapping[str, Attack],
    log: SimulationLog,
) -> None:
    """Replay the traces of all users while every adversary observes the reports; the log records both.

    `lppm_of` returns the mechanism of each user, `noise_of` its random generator. If the log has pseudonyms, the stream
    uses them, and simultaneous queries are ordered by pseudonym, because the order of users would reveal their names.
    After the last report each attack with `conclude` revises its estimates.
    """
    starts = [int(trace.times_s[0]) for trace in traces if len(trace)]
    environment = simpy.Environment(initial_time=min(starts, default=0))
    stream = Stream(environment, log.pseudonyms)
    for name, attack in attacks.items():
        environment.process(agents.adversary(attack, stream.subscribe(), log.attack(name)))
    pseudonyms = log.pseudonyms
    for trace in traces if pseudonyms is None else sorted(traces, key=lambda trace: pseudonyms[trace.user]):
        lppm, noise = lppm_of(trace.user), noise_of(trace.user)
        environment.process(agents.user(environment, trace, lppm, stream, log.user(trace.user), noise))
    with _interrupted_between_events(environment):
        environment.run()
    for name, attack in attacks.items():
        for guess in AttackCapabilities.conclude.of(attack)():
            log.attack(name).conclude(guess)


@contextmanager
def _interrupted_between_events(environment: simpy.Environment) -> Iterator[None]:
    """Delay Ctrl-C until the current event ends: a compiled kernel may lose or replace an exception."""
    before = signal.getsignal(signal.SIGINT)
    if not interrupts.is_default(before) or threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_signal: int, _frame: FrameType | None) -> None:
        interrupts.record()
        signal.signal(signal.SIGINT, before)  # a second Ctrl-C is not delayed
        event = environment.event()
        event.callbacks.append(_interrupt)
        event.succeed()

    signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interrupt(_event: simpy.Event) -> None:
    raise KeyboardInterrupt
