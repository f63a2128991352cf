"""Stream of reports: the only input of an adversary."""

from __future__ import annotations

from collections.abc import Mapping

import simpy

from sim.events import Report


class _Arrival:
    """The SimPy event of the next instant with a report, which wakes all adversaries."""

    __slots__ = ("_announced", "_environment", "_event")

    def __init__(self, environment: simpy.Environment) -> None:
        self._environment = environment
        self._event = environment.event()
        self._announced = False

    def announce(self) -> None:
        """Wake the adversaries after all events that are already scheduled for this instant."""
        if not self._announced:
            self._announced = True
            self._event.succeed()

    def event(self) -> simpy.Event:
        """Return the event to wait for."""
        if self._announced:
            self._announced = False
            self._event = self._environment.event()
        return self._event


class Inbox:
    """Inbox of one adversary, who wakes once per instant, whatever the number of reports in it."""

    def __init__(self, arrival: _Arrival) -> None:
        self._reports: list[Report] = []
        self.put = self._reports.append
        """Deliver a report."""
        self.arrival = arrival.event
        """Return the event that occurs when the inbox has a report."""

    def take(self) -> list[Report]:
        """Return the reports that have arrived, in the order of sending, and empty the inbox."""
        reports = self._reports.copy()
        self._reports.clear()
        return reports


class Stream:
    """Stream that delivers every published report to every inbox, under the user's name or a pseudonym."""

    def __init__(self, environment: simpy.Environment, pseudonyms: Mapping[str, str] | None = None) -> None:
        self._arrival = _Arrival(environment)
        self._pseudonyms = pseudonyms
        self._inboxes: list[Inbox] = []

    def subscribe(self) -> Inbox:
        """Return a new inbox that receives all reports from now on."""
        inbox = Inbox(self._arrival)
        self._inboxes.append(inbox)
        return inbox

    def publish(self, report: Report) -> None:
        """Send a report to all inboxes."""
        if self._pseudonyms is not None:
            report = report._replace(user=self._pseudonyms[report.user])
        for inbox in self._inboxes:
            inbox.put(report)
        self._arrival.announce()
