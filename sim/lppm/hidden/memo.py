"""Memoisation: the answer for each cell is drawn once from another channel, and repeated."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from sim.errors import InvalidValue
from sim.events import Report
from sim.inference.transitions import Transitions
from sim.interfaces import (
    Channel,
    ChannelCapabilities,
    FloatArray,
    Generator,
    IntArray,
    OutputSpace,
    OwnOutputs,
)

MOST_TABLES = 64
"""Default number of tables of answers that a tracker keeps."""
_UNKNOWN = -1


class MemoisedChannel:
    """Another channel whose answers are repeated: f(z | x) is that of a cell that was not answered before."""

    def __init__(self, inner: Channel, hidden_state: Memo) -> None:
        self.inner = inner
        self.hidden_state = hidden_state
        self.n_outputs = inner.n_outputs
        self.countless = bool(ChannelCapabilities.countless.of(inner))

    @property
    def space(self) -> OutputSpace | None:
        """Meaning of the outputs; None: they are the cells."""
        return ChannelCapabilities.space.of(self.inner)

    def sample(self, cell: int, rng: Generator) -> int:
        """Draw a new answer."""
        return self.inner.sample(cell, rng)

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .) of new answers."""
        return self.inner.likelihood(output)

    def row(self, cell: int) -> FloatArray:
        """Return f(. | x) of new answers."""
        return self.inner.row(cell)

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Return the possible outputs, and f(z | .) of each."""
        return self.inner.likelihoods()

    def matrix(self) -> FloatArray:
        """Return f of new answers."""
        return self.inner.matrix()

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return the loss in km of an output that is not a cell."""
        return cast(OwnOutputs, self.inner).loss_of_km(cell, output)

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the expected loss in km of a new answer that is not a cell."""
        return cast(OwnOutputs, self.inner).expected_loss_of_km(cell)


class Memo:
    """The answers of a user's mechanism so far, by cell.

    Given the cells, the answers of different cells are independent. The reports alone make them dependent, so
    adversaries track a mixture of tables of answers, each with the weights of the user's cell. `most_tables` (in
    [1, inf)) limits their number.
    """

    def __init__(self, most_tables: int = MOST_TABLES) -> None:
        if most_tables < 1:
            raise ValueError(f"most_tables must be in [1, inf), got {most_tables}")
        self.most_tables = most_tables

    @property
    def approximation(self) -> str:
        """The approximation of trackers."""
        return (
            f"keeps the {self.most_tables:,} most probable tables of answers by cell for each user, and forgets all "
            "answers with the probability of the others"
        )

    def wrap(self, inner: Channel) -> MemoisedChannel:
        """Return the channel that repeats the answers of another one."""
        if ChannelCapabilities.hidden_state.of(inner) is not None:
            raise InvalidValue(
                "answers of a mechanism with a secret of its own cannot be memoised: choose another inner design",
                code="secret-in-secret",
            )
        return MemoisedChannel(inner, self)

    def draw(self, secret: Any, channel: Channel, time_s: int, cell: int, rng: Generator) -> tuple[int, Any]:  # noqa: ARG002
        """Return the answer of a cell, which is drawn the first time, with the answers so far."""
        answers: dict[int, int] = secret or {}
        if cell in answers:
            return answers[cell], answers
        output = channel.sample(cell, rng)
        return output, answers | {cell: output}

    def tracker(self) -> MemoTracker:
        """Return a new tracker."""
        return MemoTracker(self.most_tables)


class _Tables(NamedTuple):
    """Tables of answers with the weights of the user's cell."""

    answers: NDArray[np.int32]
    """Number of the answer of each cell, -1 if unknown, shape (n_tables, n_cells)."""
    keys: NDArray[np.uint64]
    """Key that identifies each table, shape (n_tables,): the same answers have the same key."""
    weights: FloatArray
    """Joint probability of table and cell, shape (n_tables, n_cells)."""


class MemoTracker:
    """The filter of (cell, table of answers) of one user, given the reports.

    A table has the answers of the cells that the user has visited. A report z at cell x either repeats the answer of x,
    or is a new one with probability f(z | x) of the channel in force, which extends the table. The tables with least
    weight are dropped if there are more than `most_tables`; their weight goes to the empty table. `dropped` is their
    total weight so far: while it is 0, the tracker is exact.
    """

    def __init__(self, most_tables: int) -> None:
        self._most_tables = most_tables
        self.dropped = 0.0
        self._numbers: dict[int, int] = {}
        """Number of each answer seen so far."""
        self._tables: _Tables | None = None
        self._given: FloatArray | None = None
        """p(table | x, z^{r-1}), shape (n_tables, n_cells)."""
        self._new: FloatArray | None = None
        """f(z | x) of a new answer."""
        self._number = _UNKNOWN
        self._likelihood: FloatArray | None = None

    def likelihood(self, report: Report, prior: FloatArray, link: Transitions | None) -> FloatArray:
        """Return p(z^r | x^r, z^{r-1})."""
        assert report.channel is not None
        self._new = report.channel.likelihood(report.output)
        self._number = self._numbers.setdefault(report.output, len(self._numbers))
        tables = self._tables if self._tables is not None else _empty(prior.size)
        self._given = _given_cell(tables, link)
        self._tables = tables
        likelihood = self._chances(tables).sum(axis=0)
        if not likelihood.any() and self._new.any():  # the tables contradict the report: the answers are unknown again
            self._tables = _empty(prior.size)
            self._given, likelihood = np.ones((1, prior.size)), self._new
        self._likelihood = likelihood
        return np.array(likelihood)

    def condition(self, posterior: FloatArray) -> None:
        """Continue from p(x^r | z^r)."""
        assert self._tables is not None
        assert self._likelihood is not None
        assert self._given is not None
        assert self._new is not None
        with np.errstate(divide="ignore", invalid="ignore"):
            scale = np.where(self._likelihood > 0, posterior / self._likelihood, 0.0)
        weights = self._chances(self._tables) * scale
        self._given = self._likelihood = None
        if weights.any():
            self._tables = self._merged(self._tables, weights)

    def _chances(self, tables: _Tables) -> FloatArray:
        """Return p(table, z | x, z^{r-1}), shape (n_tables, n_cells)."""
        repeated, unknown = tables.answers == self._number, tables.answers == _UNKNOWN
        return np.asarray(self._given * (repeated + unknown * self._new))

    def _merged(self, tables: _Tables, weights: FloatArray) -> _Tables:
        """Return the most probable tables after a report, each once; a new answer extends a table."""
        rows, cells = np.nonzero(weights)
        masses = weights[rows, cells]
        extends = tables.answers[rows, cells] == _UNKNOWN
        keys = np.where(extends, tables.keys[rows] ^ _key(cells, self._number), tables.keys[rows])
        unique, first, group = np.unique(keys, return_index=True, return_inverse=True)
        best = np.argsort(-np.bincount(group, weights=masses), kind="stable")[: self._most_tables]
        rank = np.full(unique.size, -1)
        rank[best] = np.arange(best.size)
        place = rank[group]
        kept, n_cells = place >= 0, weights.shape[1]
        joint: FloatArray = np.zeros((best.size, n_cells))
        np.add.at(joint, (place[kept], cells[kept]), masses[kept])
        answers = tables.answers[rows[first[best]]]
        new = np.flatnonzero(extends[first[best]])
        answers[new, cells[first[best][new]]] = self._number
        lost: FloatArray = np.zeros(n_cells)
        np.add.at(lost, cells[~kept], masses[~kept])
        return self._with_lost(_Tables(answers, unique[best], joint), lost)

    def _with_lost(self, tables: _Tables, lost: FloatArray) -> _Tables:
        """Return normalised tables in which the weight of the dropped ones belongs to the empty table."""
        answers, keys, weights = tables
        total = float(lost.sum())
        if total > 0:
            self.dropped += total / (total + float(weights.sum()))
            if 0 not in keys:
                nothing = _empty(lost.size)
                answers, keys = np.concatenate([answers, nothing.answers]), np.append(keys, nothing.keys)
                weights = np.concatenate([weights, np.zeros((1, lost.size))])
            weights[np.flatnonzero(keys == 0)[0]] += lost
        return _Tables(answers, keys, weights / weights.sum())


def _empty(n_cells: int) -> _Tables:
    """Return the table without any answer; its weights do not matter."""
    return _Tables(
        np.full((1, n_cells), _UNKNOWN, np.int32), np.zeros(1, np.uint64), np.full((1, n_cells), 1 / n_cells)
    )


def _given_cell(tables: _Tables, link: Transitions | None) -> FloatArray:
    """Return p(table | x, z^{r-1}); cells without mass have the p(table | z^{r-1}) of all."""
    alone = tables.weights.sum(axis=1, keepdims=True)
    if link is None:
        return np.broadcast_to(alone / alone.sum(), tables.weights.shape)
    sources = np.flatnonzero(tables.weights.any(axis=0))
    onward = tables.weights[:, sources] @ link.block(sources, np.arange(tables.weights.shape[1]))
    mass = onward.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(mass > 0, onward / mass, alone / alone.sum()))


def _key(cells: IntArray, number: int) -> NDArray[np.uint64]:
    """Return a random 64-bit key of each pair (cell, number of the answer): splitmix64 of a code of the pair."""
    mixed = (cells.astype(np.uint64) << np.uint64(32)) + np.uint64(number + 1)
    with np.errstate(over="ignore"):
        mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(0x632BE59BD9B4E019)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(mixed ^ (mixed >> np.uint64(31)))
