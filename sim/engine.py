"""Run one simulation: users and adversaries in one SimPy environment, everybody carrying one kind of LPPM."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import simpy

from sim import agents
from sim.interfaces import LPPM, Attack, Generator
from sim.mobility.traces import Trace
from sim.recorder import SimulationLog
from sim.stream import Stream


def simulate(
    *,
    traces: Sequence[Trace],
    lppm_of: Callable[[str], LPPM],
    noise_of: Callable[[str], Generator],
    attacks: Mapping[str, Attack],
    log: SimulationLog,
) -> None:
    """Let every user live through her trace while every adversary listens; the log takes it all down.

    `lppm_of` gives each user the mechanism she carries, `noise_of` the randomness it draws from.
    """
    starts = [int(trace.times_s[0]) for trace in traces if len(trace)]
    environment = simpy.Environment(initial_time=min(starts, default=0))
    stream = Stream(environment)
    for name, attack in attacks.items():
        environment.process(agents.adversary(attack, stream.subscribe(), log.attack(name)))
    for trace in traces:
        lppm, noise = lppm_of(trace.user), noise_of(trace.user)
        environment.process(agents.user(environment, trace, lppm, stream, log.user(trace.user), noise))
    environment.run()
