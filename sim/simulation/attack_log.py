"""Log of one attack: its estimates, posterior metrics and revised estimates, by user and query."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from sim.events import Guess
from sim.inference.bayes import entropy
from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.estimates import expected_distance_km
from sim.simulation.posterior_mass import RADII_KM, PosteriorMass
from sim.simulation.user_log import UserLog, missing_cells, missing_values
from sim.world import World


class Revision(NamedTuple):
    """A revised estimate of a past query."""

    user: str
    index: int  # type: ignore[assignment]
    """Index of the report that caused the revision."""
    past: int
    """Index of the revised query."""
    estimate: int


class AttackLog:
    """Record of the guesses of one adversary."""

    def __init__(self, name: str, users: Mapping[str, UserLog], world: World) -> None:
        self._name = name
        self._answers = {user: _Answers(log) for user, log in users.items()}
        self._n_cells = world.n_cells
        self._privacy = world.privacy_distance
        self._mass = PosteriorMass(world.locations)
        self.revisions: list[Revision] = []

    @property
    def estimate(self) -> IntArray:
        """The estimated cells of all queries, user by user; -1 if missing."""
        return _cells(answers.estimate for answers in self._answers.values())

    @property
    def expected_error_km(self) -> FloatArray:
        """The expected errors of all queries in km, user by user; NaN if missing."""
        return _values(answers.expected_error_km for answers in self._answers.values())

    @property
    def posterior_entropy_bits(self) -> FloatArray:
        """The entropies of the posteriors of all queries in bits, user by user; NaN if missing."""
        return _values(answers.entropy_bits for answers in self._answers.values())

    @property
    def posterior_at_truth(self) -> FloatArray:
        """The posterior probabilities of the true cells of all queries, user by user; NaN if missing."""
        return _values(answers.at_truth for answers in self._answers.values())

    @property
    def posterior_within(self) -> FloatArray | None:
        """The posterior masses within some radii of the true cells of all queries, shape (n_queries, n_radii).

        User by user; NaN if missing, None if no guess had a posterior.
        """
        recorded = [answers.within for answers in self._answers.values()]
        if all(masses is None for masses in recorded):
            return None
        return np.concatenate([answers.masses() for answers in self._answers.values()])

    @property
    def identity(self) -> list[str | None]:
        """The user name that the attack attributes to each query, user by user; None if missing."""
        return [identity for answers in self._answers.values() for identity in answers.identity]

    def guess(self, guess: Guess) -> None:
        """Record the guess for a report."""
        name, index, estimate, by_output, posterior, identity, revised = guess
        answers = self._of(name, index, estimate)
        answers.estimate[index - 1] = estimate
        if posterior is not None:
            answers.entropy_bits[index - 1] = entropy(posterior)
            cell = answers.user.cells[index - 1]
            answers.at_truth[index - 1] = posterior[cell]
            answers.masses()[index - 1] = self._mass.around(posterior, cell)
        if identity is not None:
            answers.identity[index - 1] = identity
        if revised:
            self._revise(name, index, revised)
        if answers.expected and by_output is not None:
            if answers.user.index != index:
                raise RuntimeError(
                    f"attack {self._name} gave estimates by output for query {index} of {name} after query "
                    f"{answers.user.index}: allowed only for the current query"
                )
            answers.expected_error_km[index - 1] = self._error_km(answers, by_output)

    def conclude(self, guess: Guess) -> None:
        """Record the revised estimates that an attack yields after the simulation."""
        self._of(guess.user, guess.index, guess.estimate)
        self._revise(guess.user, guess.index, guess.revised)

    def _of(self, name: str, index: int, estimate: int) -> _Answers:
        """Return the answers about a user; raise RuntimeError if the cell or the query does not exist."""
        try:
            answers = self._answers[name]
            if not 0 <= operator.index(estimate) < self._n_cells or index < 1 or answers.output[index - 1] < 0:
                raise ValueError("unknown cell, or a query without a report")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise RuntimeError(
                f"attack {self._name} answered cell {estimate} for query {index} of {name}: unknown cell, user or query"
            ) from error
        return answers

    def _revise(self, name: str, index: int, revised: Sequence[tuple[int, int]]) -> None:
        for past, estimate in revised:
            answers = self._of(name, past, estimate)
            if past >= index:
                raise RuntimeError(
                    f"attack {self._name} revised query {past} of {name} at query {index}: only earlier queries can be "
                    "revised"
                )
            self.revisions.append(Revision(answers.user.name, index, past, estimate))

    def _error_km(self, answers: _Answers, by_output: IntArray) -> float:
        """Return the expected error in km; cached by cell while channel and estimates by output stay the same."""
        user = answers.user
        cached = answers.channel is user.channel and answers.by_output is by_output
        error_km = answers.errors_km.get(user.cell) if cached else None
        if error_km is None:
            error_km = expected_distance_km(user.row, by_output, self._privacy.row_km(user.cell))
            if not cached and user.stays and not by_output.flags.writeable:
                answers.channel, answers.by_output, answers.errors_km, cached = user.channel, by_output, {}, True
            if cached:
                answers.errors_km[user.cell] = error_km
        return error_km


class _Answers:
    """Answers of one adversary about one user, by query, and a cache of expected errors by cell."""

    __slots__ = (
        "at_truth",
        "by_output",
        "channel",
        "entropy_bits",
        "errors_km",
        "estimate",
        "expected",
        "expected_error_km",
        "identity",
        "output",
        "user",
        "within",
    )

    def __init__(self, user: UserLog) -> None:
        queries = len(user.output)
        self.user, self.output, self.expected = user, user.output, user.expected
        self.estimate, self.expected_error_km = missing_cells(queries), missing_values(queries)
        self.entropy_bits, self.at_truth = missing_values(queries), missing_values(queries)
        self.within: FloatArray | None = None
        """Posterior masses within `RADII_KM`, shape (n_queries, n_radii); None before the first posterior."""
        self.identity: list[str | None] = [None] * queries
        self.channel: Channel | None = None
        self.by_output: IntArray | None = None
        self.errors_km: dict[int, float] = {}

    def masses(self) -> FloatArray:
        """Return the posterior masses to write to, NaN at first."""
        if self.within is None:
            self.within = np.full((len(self.output), len(RADII_KM)), np.nan)
        return self.within


def _cells(arrays: Iterable[array[int]]) -> IntArray:
    return np.concatenate([np.asarray(cells) for cells in arrays])


def _values(arrays: Iterable[array[float]]) -> FloatArray:
    return np.concatenate([np.asarray(values) for values in arrays])
