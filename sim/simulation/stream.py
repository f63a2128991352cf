"""The stream of reports: all that an adversary ever receives."""

from __future__ import annotations

from collections.abc import Mapping

import simpy

from sim.events import Report


class Inbox:
    """One adversary's end of the stream. She wakes once per instant, however many users report in it."""

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
        """Return the event to wait for: there is something to take."""
        return self._arrival

    def take(self) -> list[Report]:
        """Return what has arrived, in the order it was sent, and start afresh."""
        reports, self._reports = self._reports, []
        self._arrival = self._environment.event()
        return reports


class Stream:
    """Hands every published report to every inbox, under the user's name or under a pseudonym."""

    def __init__(self, environment: simpy.Environment, pseudonyms: Mapping[str, str] | None = None) -> None:
        self._environment = environment
        self._pseudonyms = pseudonyms
        self._inboxes: list[Inbox] = []

    def subscribe(self) -> Inbox:
        """Return a new inbox that gets all reports from now on."""
        inbox = Inbox(self._environment)
        self._inboxes.append(inbox)
        return inbox

    def publish(self, report: Report) -> None:
        """Send a report to everybody who listens."""
        if self._pseudonyms is not None:
            report = report._replace(user=self._pseudonyms[report.user])
        for inbox in self._inboxes:
            inbox.put(report)
