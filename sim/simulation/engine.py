"""Run one simulation: users and adversaries in one SimPy environment, all users with the same LPPM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any, Protocol

import simpy

from sim.interfaces import LPPM, Attack, AttackCapabilities, Generator
from sim.mobility.traces import Trace
from sim.simulation import agents, interrupts
from sim.simulation.recorder import SimulationLog
from sim.simulation.stream import Stream

_STEPS = 256
"""Number of SimPy events between two checks whether the state is to be saved."""
_NEVER = -(2**63)
"""Time before all others."""


@dataclass(slots=True)
class SimulationState:
    """Everything that changes in a simulation. Between two instants it is complete: the simulation can continue."""

    lppms: dict[str, LPPM]
    """The mechanism of each user."""
    noise: dict[str, Generator]
    """The random generator of each user's mechanism."""
    attacks: Mapping[str, Attack]
    log: SimulationLog
    now_s: int | None = None
    """Time of the last instant in seconds; None: the simulation has not begun."""


class Saver(Protocol):
    """Callback that saves the state of a long simulation now and then."""

    def is_due(self) -> bool:
        """Return whether to save the state at the end of this instant."""
        ...

    def save(self, state: SimulationState) -> None:
        """Save the state."""
        ...


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
    lppms = {trace.user: lppm_of(trace.user) for trace in traces}
    noise = {trace.user: noise_of(trace.user) for trace in traces}
    proceed(traces, SimulationState(lppms, noise, attacks, log))


def proceed(traces: Sequence[Trace], state: SimulationState, saver: Saver | None = None) -> None:
    """Simulate from a state to the end: see `simulate`. A simulation that continues has the results of a whole one."""
    log = state.log
    starts = [int(trace.times_s[0]) for trace in traces if len(trace)]
    now_s = min(starts, default=0) if state.now_s is None else state.now_s
    environment = simpy.Environment(initial_time=now_s)
    stream = Stream(environment, log.pseudonyms)
    for name, attack in state.attacks.items():
        environment.process(_carrying_errors(agents.adversary(attack, stream.subscribe(), log.attack(name))))
    for trace, done in _in_order(traces, log):
        lppm, noise = state.lppms[trace.user], state.noise[trace.user]
        agent = agents.user(environment, trace, lppm, stream, log.user(trace.user), noise, done)
        environment.process(_carrying_errors(agent))
    with _interrupted_between_events(environment):
        error = _run(environment, state, saver)
    if error is not None:
        raise error
    for name, attack in state.attacks.items():
        for guess in AttackCapabilities.conclude.of(attack)():
            log.attack(name).conclude(guess)


class _Carrier(Exception):
    """Carry an error of an agent through SimPy, which raises a copy: `type(error)(*error.args)` may lose or fail."""


def _carrying_errors(agent: agents.Process) -> agents.Process:
    """Run an agent; raise its errors in a carrier."""
    try:
        yield from agent
    except Exception as error:
        raise _Carrier(error) from error


def _run(environment: simpy.Environment, state: SimulationState, saver: Saver | None) -> Exception | None:
    """Process all events; return the error of an agent, if there is one."""
    try:
        if saver is None:
            environment.run()
        else:
            _run_saved(environment, state, saver)
    except _Carrier as carrier:
        error: Exception = carrier.args[0]
        return error
    return None


def _in_order(traces: Sequence[Trace], log: SimulationLog) -> list[tuple[Trace, int]]:
    """Return the traces and the numbers of their queries in the log, in the order of simultaneous next queries.

    SimPy orders simultaneous events by the time at which they were scheduled: a query is scheduled at the query before.
    """
    pseudonyms = log.pseudonyms
    ordered = list(traces) if pseudonyms is None else sorted(traces, key=lambda trace: pseudonyms[trace.user])
    done = [log.user(trace.user).n_recorded for trace in ordered]
    past = [trace.times_s[:count].tolist()[::-1] for trace, count in zip(ordered, done, strict=True)]
    places = sorted(range(len(ordered)), key=lambda place: (*past[place], _NEVER, place))
    return [(ordered[place], done[place]) for place in places]


def _run_saved(environment: simpy.Environment, state: SimulationState, saver: Saver) -> None:
    """Process all events; save the state between two instants whenever it is due."""
    try:
        while True:
            for _ in range(_STEPS):
                environment.step()
            if saver.is_due():
                state.now_s = int(environment.now)
                while environment.peek() == state.now_s:
                    environment.step()
                saver.save(state)
    except simpy.core.EmptySchedule:
        return


@contextmanager
def _interrupted_between_events(environment: simpy.Environment) -> Iterator[None]:
    """Delay Ctrl-C and SIGTERM until the current event ends: a compiled kernel may lose or replace an exception."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with ExitStack() as stack:
        for number in interrupts.SIGNALS:
            if interrupts.is_default(before := signal.getsignal(number)):
                stack.enter_context(interrupts.handled(number, partial(_stop_after_event, environment, before)))
        yield


def _stop_after_event(environment: simpy.Environment, before: Any, number: int, _frame: FrameType | None) -> None:
    interrupts.record(number)
    signal.signal(number, before)  # a second signal is not delayed
    event = environment.event()
    event.callbacks.append(_interrupt)
    event.succeed()


def _interrupt(_event: simpy.Event) -> None:
    raise KeyboardInterrupt
