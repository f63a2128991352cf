"""The protected queries of one user: answers given, and the mechanism that they determine."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sim.events import Query, Report
from sim.interfaces import Belief, BeliefCapabilities, Channel, DesignCapabilities
from sim.lppm.mechanism import Mechanism
from sim.protection.encoding import decode, encode, pack_vector, unpack_vector
from sim.protection.journal import Record
from sim.protection.noise import generator
from sim.storage.errors import RunError

MOST_NUMBERS = 1_000_000
MOST_CHARACTERS = 8_192
"""Size of a solution above which it is computed again after a restart, so that states remain small."""
_DIGITS = 16


class Drawn(NamedTuple):
    """Output that was drawn but not yet stored or learned."""

    number: int
    """Number of the report of the user, from 1."""
    output: int
    channel: Channel
    stored: dict[str, Any]
    """Further fields of the record of the answer: `check`, the digest of f(z | .) if the channel may change;
    `solution`, the result of a costly computation of the belief before the draw; and `secret`, the secret of a
    mechanism with hidden state if it changed."""


class ProtectedUser:
    """The answers to one user, and the mechanism after them, which is built at the first new query.

    A mechanism that learns is restored by repeating the calls of the past in their order, with the stored outputs. The
    result has the same bits if the same versions run on the same kind of machine; `changed_at` is the number of the
    first report for which it has not. Secrets are not repeated but stored, and so are results of costly computations,
    if they are small.
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
        self._changes = False
        self._secret: Any = None
        """Encoded secret in the journal."""

    def draw(self, time_s: int, cell: int, seed: int | None) -> Drawn:
        """Draw the output of a new query."""
        mechanism = self._restored()
        number = self._reports + 1
        channel = mechanism.channel(time_s)
        rng = generator(seed, self.name, number)
        if mechanism.draw is None:
            output = int(channel.sample(cell, rng))
        else:
            output = int(mechanism.draw(Query(self.name, number, time_s, cell), channel, rng))
        stored: dict[str, Any] = {"check": _digest(channel, output)} if self._changes else {}
        if self._changes and (solution := packed_solution(mechanism.belief)) is not None:
            stored["solution"] = solution
        if mechanism.draw is not None and (secret := encode(mechanism.secret)) != self._secret:
            self._secret = stored["secret"] = secret
        return Drawn(number, output, channel, stored)

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
            self._changes = may_change(self._mechanism)
            for record in self._history:
                if record["output"] is not None:
                    self._repeat(self._mechanism, record)
            self._history = ()
        return self._mechanism

    def _repeat(self, mechanism: Mechanism, record: Record) -> None:
        """Repeat a report of the past."""
        time_s, output = record["time_s"], record["output"]
        number = self._reports + 1
        if "secret" in record:
            self._secret = record["secret"]
            mechanism.secret = decode(self._secret)
        if self._changes:
            if "solution" in record:
                self._resume(mechanism.belief, record["solution"], number)
            channel = mechanism.channel(time_s)
            if self.changed_at is None and record["check"] != _digest(channel, output):
                self.changed_at = number
            if self.changed_at is None or channel.likelihood(output).any():  # impossible: nothing to learn
                self.learn(time_s, Drawn(number, output, channel, {}))
        self._reports = number

    def _resume(self, belief: Belief, packed: str, number: int) -> None:
        """Give a belief the stored result of its computation before this report."""
        resume = BeliefCapabilities.resume.of(belief)
        if resume is None:
            return  # another version of the component, which repeats the computation
        try:
            resume(unpack_vector(packed, MOST_NUMBERS))
        except ValueError as error:
            raise RunError(
                f"the solution before report {number} of user {self.name!r} in the state is damaged: {error}. Restore "
                "the state from a copy that holds every answer given, or begin a new one under another name",
                code="damaged-state",
            ) from error


def packed_solution(belief: Belief) -> str | None:
    """Return the result of a belief's last computation as text, None if there is none or it is large."""
    solution_of = BeliefCapabilities.solution.of(belief)
    solution = None if solution_of is None else solution_of()
    if solution is None or solution.size > MOST_NUMBERS:
        return None
    packed = pack_vector(solution)
    return packed if len(packed) <= MOST_CHARACTERS else None


def may_change(mechanism: Mechanism) -> bool:
    """Return whether the channel of a mechanism depends on the time or on past reports."""
    if DesignCapabilities.channel_at.of(mechanism.design) is not None:
        return True
    uses_prior = DesignCapabilities.uses_prior.of(mechanism.design)
    return uses_prior and not BeliefCapabilities.fixed.of(mechanism.belief)


def _digest(channel: Channel, output: int) -> str:
    return hashlib.sha256(channel.likelihood(output).tobytes()).hexdigest()[:_DIGITS]
