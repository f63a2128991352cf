"""Agents as SimPy processes: users move and query, adversaries observe reports and estimate locations."""

from __future__ import annotations

from collections.abc import Generator as ProcessGenerator
from typing import Any

import simpy

from sim.events import Query, Report
from sim.interfaces import LPPM, Attack, Generator, LPPMCapabilities
from sim.mobility.traces import Trace
from sim.simulation.attack_log import AttackLog
from sim.simulation.stream import Inbox, Stream
from sim.simulation.user_log import UserLog

Process = ProcessGenerator[simpy.Event, Any, None]


def user(
    environment: simpy.Environment,
    trace: Trace,
    lppm: LPPM,
    stream: Stream,
    log: UserLog,
    rng: Generator,
    done: int = 0,
) -> Process:
    """Replay a trace: at each query obfuscate the true cell, publish the report and update the mechanism with it.

    A mechanism with `learns_from_cells` also receives the true cell; the report of one of the full type (`full`)
    carries no channel. The first `done` queries belong to the past of a simulation that continues.
    """
    name, snapshot_at = trace.user, log.snapshot_at
    remember = LPPMCapabilities.remember.of(lppm) if LPPMCapabilities.learns_from_cells.of(lppm) else None
    draw, full = LPPMCapabilities.draw.of(lppm), LPPMCapabilities.full.of(lppm)
    now_s = environment.now
    visits = zip(trace.times_s[done:].tolist(), trace.cells[done:].tolist(), strict=True)
    for index, (time_s, cell) in enumerate(visits, start=done + 1):
        yield environment.timeout(time_s - now_s)
        now_s = time_s
        channel = lppm.channel(time_s)
        query = Query(name, index, time_s, cell)
        output = channel.sample(cell, rng) if draw is None else draw(query, channel, rng)
        report = Report(name, index, time_s, output, None if full else channel)
        log.query(query, output, channel)
        if index in snapshot_at:
            log.snapshot(query, lppm, channel)
        stream.publish(report)
        lppm.observe(report)
        if remember is not None:
            remember(query)


def adversary(attack: Attack, inbox: Inbox, log: AttackLog) -> Process:
    """Observe the reports in an inbox and record the guess for each. This process has no access to true locations."""
    while True:
        yield inbox.arrival()
        for report in inbox.take():
            log.guess(attack.observe(report))
