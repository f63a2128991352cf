"""The protected queries of one user: answers given, and the mechanism that they determine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from sim.events import Report
from sim.interfaces import BeliefCapabilities, Channel, DesignCapabilities
from sim.lppm.mechanism import Mechanism
from sim.protection.journal import Record
from sim.protection.noise import generator

_DIGITS = 16


class Drawn(NamedTuple):
    """Output that was drawn but not yet stored or learned."""

    number: int
    """Number of the report of the user, from 1."""
    output: int
    channel: Channel
    check: str | None
    """Digest of f(z | .) of the output; None for a channel that never changes."""


class ProtectedUser:
    """The answers to one user, and the mechanism after them, which is built at the first new query.

    A belief that learns is restored by repeating the calls of the past in their order, with the stored outputs. The
    result has the same bits if the same versions run on the same kind of machine; `changed_at` is the number of the
    first report for which it has not.
    """

    def __init__(self, name: str, make: Callable[[], Mechanism], history: Sequence[Record]) -> None:
        self.name = name
        self.answers = {record["key"]: record["output"] for record in history}
        """Output of each answered query, None outside the region."""
        self.last_s: int | None = max((record["time_s"] for record in history), default=None)
        """Time of the latest answered query."""
        self.changed_at: int | None = None
        self._make = make
        self._history = history
        self._mechanism: Mechanism | None = None
        self._reports = 0
        self._learns = False

    def draw(self, time_s: int, cell: int, seed: int | None) -> Drawn:
        """Draw the output of a new query."""
        mechanism = self._restored()
        index = self._reports + 1
        channel = mechanism.channel(time_s)
        output = int(channel.sample(cell, generator(seed, self.name, index)))
        return Drawn(index, output, channel, _digest(channel, output) if self._learns else None)

    def learn(self, time_s: int, drawn: Drawn) -> None:
        """Update the mechanism with a stored output."""
        self._reports = drawn.number
        self._restored().observe(Report(self.name, drawn.number, time_s, drawn.output, drawn.channel))

    def answered(self, record: Record) -> None:
        """Remember a stored answer."""
        self.answers[record["key"]] = record["output"]
        self.last_s = record["time_s"]

    def _restored(self) -> Mechanism:
        if self._mechanism is None:
            self._mechanism = self._make()
            self._learns = learns(self._mechanism)
            for record in self._history:
                if record["output"] is not None:
                    self._repeat(record)
        return self._mechanism

    def _repeat(self, record: Record) -> None:
        """Repeat a report of the past."""
        time_s, output = record["time_s"], record["output"]
        index = self._reports + 1
        if self._learns:
            channel = self._restored().channel(time_s)
            if self.changed_at is None and record["check"] != _digest(channel, output):
                self.changed_at = index
            self.learn(time_s, Drawn(index, output, channel, None))
        self._reports = index


def learns(mechanism: Mechanism) -> bool:
    """Return whether the channel of a mechanism may change."""
    uses_prior = DesignCapabilities.uses_prior.of(mechanism.design)
    return uses_prior and not BeliefCapabilities.fixed.of(mechanism.belief)


def _digest(channel: Channel, output: int) -> str:
    return hashlib.sha256(channel.likelihood(output).tobytes()).hexdigest()[:_DIGITS]
