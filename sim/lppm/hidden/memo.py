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
MOST_DROPPED = 0.9
"""Probability of dropped tables above which a tracker begins again without answers."""
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
            f"keeps the {self.most_tables:,} most probable tables of answers by cell for each user, takes each report "
            "as one with a new answer with the probability of the others, and forgets all answers when that exceeds "
            f"{MOST_DROPPED:.0%}"
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
    """Joint probability of table and cell, shape (n_tables + 1, n_cells); the last row is that of dropped tables."""


class MemoTracker:
    """The filter of (cell, table of answers) of one user, given the reports.

    A table has the answers of the cells that the user has visited. A report z at cell x either repeats the answer of x,
    or is a new one with probability f(z | x) of the channel in force, which extends the table.

    The tables with least weight are dropped if there are more than `most_tables`. The others have the exact posterior
    given that no dropped table is true. Under dropped tables, each report is taken as one with a new secret. Their
    probability cannot be computed any longer. It is kept constant: the probability of an event given the reports so far
    is a martingale. If it exceeds `MOST_DROPPED`, the answers so far are forgotten.
    """

    def __init__(self, most_tables: int) -> None:
        self._most_tables = most_tables
        self._numbers: dict[int, int] = {}
        """Number of each answer seen so far."""
        self._tables: _Tables | None = None
        self._chances: FloatArray | None = None
        """p(table, z | x, z^{r-1}), shape (n_tables + 1, n_cells)."""
        self._number = _UNKNOWN
        self._forgot = False
        self._reports = 0
        self._sum_of_dropped = 0.0

    @property
    def dropped(self) -> float:
        """Probability of the tables dropped or forgotten so far, mean over reports; 0: the tracker is exact."""
        return self._sum_of_dropped / max(self._reports, 1)

    def likelihood(self, report: Report, prior: FloatArray, link: Transitions | None) -> FloatArray:
        """Return p(z^r | x^r, z^{r-1})."""
        assert report.channel is not None
        new = report.channel.likelihood(report.output)
        self._number = self._numbers.setdefault(report.output, len(self._numbers))
        tables = self._tables if self._tables is not None else _empty(prior)
        if tables.weights[-1].sum() > MOST_DROPPED:
            self._forgot, tables = True, _empty(tables.weights.sum(axis=0))
        chances = _chances(tables, self._number, new, prior, link)
        if not chances.any():  # the tables contradict the report: the answers are unknown again
            self._forgot |= bool(tables.weights[-1].any())
            likely = new if new.any() else np.ones(prior.size)  # else it repeats an answer of another channel
            tables, chances = _empty(prior), np.stack([likely, np.zeros(prior.size)])
        self._tables, self._chances = tables, chances
        return np.asarray(chances.sum(axis=0))

    def condition(self, posterior: FloatArray) -> None:
        """Continue from p(x^r | z^r)."""
        assert self._tables is not None
        assert self._chances is not None
        likelihood = self._chances.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            weights = self._chances * np.where(likelihood > 0, posterior / likelihood, 0.0)
        self._chances = None
        if weights.any():
            self._tables = self._merged(self._tables, weights / weights.sum())
        self._reports += 1
        self._sum_of_dropped += 1.0 if self._forgot else float(self._tables.weights[-1].sum())

    def _merged(self, tables: _Tables, weights: FloatArray) -> _Tables:
        """Return the most probable tables after a report, each once; a new answer extends a table."""
        rows, cells = np.nonzero(weights[:-1])
        if not rows.size:  # only dropped tables explain the report
            return _Tables(tables.answers, tables.keys, weights)
        masses = weights[rows, cells]
        extends = tables.answers[rows, cells] == _UNKNOWN
        keys = np.where(extends, tables.keys[rows] ^ _key(cells, self._number), tables.keys[rows])
        unique, first, group = np.unique(keys, return_index=True, return_inverse=True)
        best = np.argsort(-np.bincount(group, weights=masses), kind="stable")[: self._most_tables]
        place = np.full(unique.size, best.size)
        place[best] = np.arange(best.size)
        joint: FloatArray = np.zeros((best.size + 1, weights.shape[1]))
        joint[-1] = weights[-1]
        np.add.at(joint, (place[group], cells), masses)
        answers = tables.answers[rows[first[best]]]
        new = np.flatnonzero(extends[first[best]])
        answers[new, cells[first[best][new]]] = self._number
        return _Tables(answers, unique[best], joint)


def _empty(weights: FloatArray) -> _Tables:
    """Return the table without any answer, with the weights of the user's cell."""
    answers = np.full((1, weights.size), _UNKNOWN, np.int32)
    return _Tables(answers, np.zeros(1, np.uint64), np.stack([weights, np.zeros(weights.size)]))


def _chances(tables: _Tables, number: int, new: FloatArray, prior: FloatArray, link: Transitions | None) -> FloatArray:
    """Return p(table, z | x, z^{r-1}), shape (n_tables + 1, n_cells), for an answer with f(z | x) if it is `new`.

    The last row is scaled so that the report does not change the probability of dropped tables.
    """
    given = _given_cell(tables.weights, link)
    repeated, unknown = tables.answers == number, tables.answers == _UNKNOWN
    kept, rest = given[:-1] * (repeated + unknown * new), given[-1] * new
    dropped = float(tables.weights[-1].sum())
    evidence = float(kept.sum(axis=0) @ prior)
    if dropped == 0 or evidence == 0:
        return np.vstack([kept, rest])
    if not rest @ prior > 0:  # a repeated answer that is now impossible as a new one
        rest = kept.sum(axis=0)
    return np.vstack([kept, rest * (dropped / (1 - dropped) * evidence / float(rest @ prior))])


def _given_cell(weights: FloatArray, link: Transitions | None) -> FloatArray:
    """Return p(table | x, z^{r-1}); cells without mass have the p(table | z^{r-1}) of all."""
    alone = weights.sum(axis=1, keepdims=True)
    if link is None:
        return np.broadcast_to(alone / alone.sum(), weights.shape)
    sources = np.flatnonzero(weights.any(axis=0))
    onward = weights[:, sources] @ link.block(sources, np.arange(weights.shape[1]))
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
