"""Stream of reports: the only input of an adversary."""

from __future__ import annotations

from collections.abc import Mapping

import simpy

from sim.events import Report


class Inbox:
    """Inbox of one adversary, who wakes once per instant, whatever the number of reports in it."""

    def __init__(self, environment: simpy.Environment) -> None:
        self._environment = environment
        self._reports: list[Report] = []
        self._arrival = environment.event()

    def put(self, report: Report) -> None:
        """Deliver a report."""
        if not self._reports:
            self._arrival.succeed()
        self._reports.append(report)

    def arrival(self) -> simpy.Event:
        """Return the event that occurs when the inbox has a report."""
        return self._arrival

    def take(self) -> list[Report]:
        """Return the reports that have arrived, in the order of sending, and empty the inbox."""
        reports, self._reports = self._reports, []
        self._arrival = self._environment.event()
        return reports


class Stream:
    """Stream that delivers every published report to every inbox, under the user's name or a pseudonym."""

    def __init__(self, environment: simpy.Environment, pseudonyms: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._pseudonyms = pseudonyms
        self._inboxes: list[Inbox] = []

    def subscribe(self) -> Inbox:
        """Return a new inbox that receives all reports from now on."""
        inbox = Inbox(self._environment)
        self._inboxes.append(inbox)
        return inbox

    def publish(self, report: Report) -> None:
        """Send a report to all inboxes."""
        if self._pseudonyms is not None:
            report = report._replace(user=self._pseudonyms[report.user])
        for inbox in self._inboxes:
            inbox.put(report)
