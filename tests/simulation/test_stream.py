"""Stream of reports: every inbox gets all reports in order, and its adversary wakes once per instant."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from sim.events import Report
from sim.lppm.channels.hiding import identity
from sim.simulation.stream import Inbox, Stream


def test_an_adversary_wakes_once_per_instant_and_gets_every_report() -> None:
    environment = simpy.Environment()
    stream = Stream(environment)
    woken: list[tuple[int, list[str]]] = []

    def listener(inbox: Inbox) -> Generator[simpy.Event, Any, None]:
        while True:
            yield inbox.arrival()
            woken.append((int(environment.now), [report.user for report in inbox.take()]))

    def sender(user: str, times_s: list[int]) -> Generator[simpy.Event, Any, None]:
        for index, time_s in enumerate(times_s, start=1):
            yield environment.timeout(time_s - environment.now)
            stream.publish(Report(user, index, time_s, 0, identity(2)))

    for _ in range(2):
        environment.process(listener(stream.subscribe()))
    for user, times_s in {"ann": [1, 5, 7], "bob": [5], "cy": [5, 9]}.items():
        environment.process(sender(user, times_s))
    environment.run()
    once = [(1, ["ann"]), (5, ["bob", "cy", "ann"]), (7, ["ann"]), (9, ["cy"])]
    assert woken == [wake for wake in once for _ in range(2)]
