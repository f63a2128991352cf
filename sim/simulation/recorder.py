"""The truth side of one simulation: joins queries and guesses and turns them into rows of the event log."""

from __future__ import annotations

import operator
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim.events import Guess, Query, Shift
from sim.inference.bayes import entropy
from sim.interfaces import LPPM, BeliefCapabilities, Channel, ChannelCapabilities, FloatArray, IntArray, OwnOutputs
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.lppm.theory import Theory, theory
from sim.mobility.traces import Trace
from sim.storage.event_schema import EVENTS
from sim.world import World
from sim.world.distance import Distance

Tick = Callable[[int], None]

_space_of = ChannelCapabilities.space.of


@dataclass(slots=True)
class Snapshot:
    """What a mechanism believed about a user before one query, and what its channel promised if that was true."""

    user: str
    index: int
    profile: FloatArray
    own: Theory


@dataclass
class SimulationLog:
    """Collects outputs and guesses of one simulation in arrays; distances are looked up at the end, all at once.

    Users and adversaries each write through a handle of their own, `user` and `attack`. The expected figures are sums
    over z of f(z | z^{r-1}, x^r) times the distance: given the past reports and the true cell, only the mechanism's
    current noise is averaged out.
    """

    world: World
    traces: Sequence[Trace]
    attacks: Sequence[str]
    expected: bool = True
    window: int | None = None
    """How many queries of a user make a row, with the means of their figures; each has rows of its own unless said."""
    shifts: Sequence[Shift] = ()
    """Where the users' lives change: a row each, before those of the query."""
    snapshot_at: frozenset[int] = frozenset()
    pseudonyms: Mapping[str, str] | None = None
    """What adversaries call each user, where names are hidden."""
    epsilon_in: Distance | None = None
    """The distance in which the promise of each channel, its exact epsilon, is taken down; none unless said."""
    tick: Tick | None = None
    snapshots: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._users = {trace.user: UserLog(self, trace) for trace in self.traces}
        called = self.pseudonyms or {user: user for user in self._users}
        public = {called[user]: log for user, log in self._users.items()}
        self._attacks = {name: AttackLog(name, public, self.world) for name in self.attacks}
        self._last_kept: tuple[Channel, dict[int, float]] | None = None
        self._last_promise: tuple[Channel, float] | None = None
        self._last_theory: tuple[Channel, FloatArray, Theory] | None = None
        self.nothing: int | None = None
        """The output that stands for no report at all, if there is one."""

    def user(self, name: str) -> UserLog:
        """Return the handle that takes down what a user sends."""
        return self._users[name]

    def attack(self, name: str) -> AttackLog:
        """Return the handle that takes down what an adversary answers."""
        return self._attacks[name]

    def losses_of(self, channel: Channel) -> dict[int, float]:
        """Return where to keep the expected losses of a channel that stays, by cell; users may share one channel."""
        if self._last_kept is None or self._last_kept[0] is not channel:
            self._last_kept = (channel, {})
        return self._last_kept[1]

    def epsilon_of(self, channel: Channel) -> float:
        """Return the exact epsilon of a channel, worked out once while it stays."""
        assert self.epsilon_in is not None
        if self._last_promise is None or self._last_promise[0] is not channel:
            self._last_promise = (channel, exact_epsilon_per_km(channel, self.epsilon_in))
        return self._last_promise[1]

    def theory_of(self, channel: Channel, prior: FloatArray) -> Theory:
        """Return the figures of a channel under a prior, worked out once where users share both."""
        last = self._last_theory
        if last is None or last[0] is not channel or last[1] is not prior:
            world = self.world
            found = theory(channel, prior, quality=world.quality_distance, privacy=world.privacy_distance)
            if self.epsilon_in is not None:
                found = found._replace(epsilon_per_km=self.epsilon_of(channel))
            last = self._last_theory = (channel, prior, found)
        return last[2]

    def table(self, *, point: int, lppm: str, replication: int) -> pa.Table:
        """Return one row per query and attack, or per window of queries and attack, by user, query and attack.

        The row of a shift stands before those of the query, or of the window, that is the first after it.
        """
        lengths = np.array([len(trace) for trace in self.traces], dtype=np.int64)
        if not lengths.sum():
            return EVENTS.empty_table()
        output: IntArray = _joined([user.output for user in self._users.values()])
        self._require_answers(output, lppm)
        attacks = max(len(self.attacks), 1)
        windows = None if self.window is None else _Windows(lengths, self.window)
        own = lengths if windows is None else windows.of_user
        rows = int(own.sum()) * attacks

        def per_row(values: NDArray[Any]) -> NDArray[Any]:
            return np.repeat(values if windows is None else values[windows.last], attacks)

        def measured(values: FloatArray) -> FloatArray:
            by_attack = values.reshape(len(output), -1)
            if windows is not None:
                by_attack = windows.means(by_attack)
            return np.broadcast_to(by_attack, (len(by_attack), attacks)).ravel()

        def constant(value: str | int) -> pa.Array[Any]:
            return pa.repeat(pa.scalar(value), rows)

        cells = _joined([trace.cells for trace in self.traces])
        index = per_row(_joined([np.arange(1, length + 1) for length in lengths]))
        expected_loss_km = _joined([user.expected_loss_km for user in self._users.values()])
        columns: dict[str, Any] = {
            "event": constant("query" if windows is None else "summary"),
            "point": constant(point),
            "replication": constant(replication),
            "user": pa.array(list(self._users)).take(np.repeat(np.arange(len(own)), own * attacks)),
            "index": index,
            "time_s": per_row(_joined([trace.times_s for trace in self.traces])),
            "cell": per_row(cells) if windows is None else constant(-1),
            "lppm": constant(lppm),
            "quality_loss_km": measured(self._losses_km(cells, output)),
            "expected_quality_loss_km": _or_null(measured(expected_loss_km)),
        }
        if windows is None:
            columns["output"] = pa.array(per_row(output), mask=per_row(output == self.nothing))
            if self.epsilon_in is not None:
                columns["epsilon_per_km"] = per_row(_joined([user.epsilon_per_km for user in self._users.values()]))
        if self.attacks:
            estimate = np.column_stack([attack.estimate for attack in self._attacks.values()])
            expected_error_km = np.column_stack([attack.expected_error_km for attack in self._attacks.values()])
            columns |= {
                "attack": pa.array(self.attacks).take(np.tile(np.arange(attacks), rows // attacks)),
                "adversary_error_km": measured(self.world.privacy_distance.matrix_km[cells[:, None], estimate]),
                "expected_adversary_error_km": _or_null(measured(expected_error_km)),
            }
            if windows is None:
                columns |= {"estimated_index": index, "estimate": estimate.ravel(), **self._beliefs()}
        table = _events(columns, rows)
        if windows is None and (revised := self._revised_rows(point=point, lppm=lppm, replication=replication)):
            # After all rows of queries, whose places the shifts are counted by.
            return pa.concat_tables([self._with_shifts(table, own, attacks, point, lppm, replication), revised])
        return self._with_shifts(table, own, attacks, point, lppm, replication)

    def _losses_km(self, cells: IntArray, output: IntArray) -> FloatArray:
        """Return d_Q between each cell and what was sent: looked up, but where outputs are no cells taken down."""
        own = [user.loss_km for user in self._users.values()]
        if not any(losses is not None for losses in own):
            return self.world.quality_distance.matrix_km[cells, output]
        return _joined(losses for losses in own if losses is not None)

    def _beliefs(self) -> dict[str, Any]:
        """Return the columns that tell what the adversaries believe, of those who do."""
        said: dict[str, Any] = {}
        for name in ("posterior_entropy_bits", "posterior_at_truth"):
            figures = np.column_stack([getattr(attack, name) for attack in self._attacks.values()])
            said[name] = _or_null(figures.ravel())
        taken = [attack.identity for attack in self._attacks.values()]
        if any(who is not None for attack in taken for who in attack):
            said["identity"] = pa.array([who for whos in zip(*taken, strict=True) for who in whos], pa.string())
        return said

    def _revised_rows(self, *, point: int, lppm: str, replication: int) -> pa.Table | None:
        """Return a row for each past query that was estimated once more; its cell is where the user was then."""
        traces = {trace.user: trace for trace in self.traces}
        found = [(*said, name) for name, attack in self._attacks.items() for said in attack.revised]
        if not found:
            return None
        users, index, past, estimate, attacks = zip(*found, strict=True)
        cells = np.array([traces[user].cells[about - 1] for user, about in zip(users, past, strict=True)])
        columns = {
            "event": pa.repeat(pa.scalar("query"), len(found)),
            "point": pa.repeat(pa.scalar(point), len(found)),
            "replication": pa.repeat(pa.scalar(replication), len(found)),
            "user": list(users),
            "index": list(index),
            "time_s": [int(traces[user].times_s[at - 1]) for user, at in zip(users, index, strict=True)],
            "cell": cells,
            "lppm": pa.repeat(pa.scalar(lppm), len(found)),
            "attack": list(attacks),
            "estimated_index": list(past),
            "estimate": list(estimate),
            "adversary_error_km": self.world.privacy_distance.matrix_km[cells, list(estimate)],
        }
        return _events(columns, len(found))

    def _with_shifts(
        self, table: pa.Table, own: IntArray, attacks: int, point: int, lppm: str, replication: int
    ) -> pa.Table:
        """Return the rows with those of shifts among them."""
        if not self.shifts:
            return table
        rows = table.num_rows
        ends = np.cumsum(own) * attacks
        first = dict(zip(self._users, ends - own * attacks, strict=True))
        step = self.window or 1
        before = [int(first[shift.user]) + (shift.index - 1) // step * attacks for shift in self.shifts]
        both = pa.concat_tables([table, self._shift_rows(point=point, lppm=lppm, replication=replication)])
        return both.take(np.insert(np.arange(rows), before, rows + np.arange(len(before))))

    def _shift_rows(self, *, point: int, lppm: str, replication: int) -> pa.Table:
        trace_of = {trace.user: trace for trace in self.traces}
        columns = {
            "event": ["shift_end" if shift.ends else "shift" for shift in self.shifts],
            "shift": [shift.name for shift in self.shifts],
            "point": [point] * len(self.shifts),
            "replication": [replication] * len(self.shifts),
            "user": [shift.user for shift in self.shifts],
            "index": [shift.index for shift in self.shifts],
            "time_s": [int(trace_of[shift.user].times_s[shift.index - 1]) for shift in self.shifts],
            "cell": [int(trace_of[shift.user].cells[shift.index - 1]) for shift in self.shifts],
            "lppm": [lppm] * len(self.shifts),
        }
        return _events(columns, len(self.shifts))

    def _require_answers(self, output: IntArray, lppm: str) -> None:
        for values in (output, *(attack.estimate for attack in self._attacks.values())):
            if values.min() < 0:
                users = np.repeat(list(self._users), [len(trace) for trace in self.traces])
                raise RuntimeError(
                    f"not every query of {users[values.argmin()]} was answered by every attack, with {lppm}"
                )


class UserLog:
    """Takes down what one user sends."""

    __slots__ = (
        "_log",
        "_losses_km",
        "_own",
        "_quality_km",
        "_row",
        "_tick",
        "cell",
        "cells",
        "channel",
        "epsilon_per_km",
        "expected",
        "expected_loss_km",
        "index",
        "loss_km",
        "name",
        "output",
        "snapshot_at",
    )

    def __init__(self, log: SimulationLog, trace: Trace) -> None:
        self.snapshot_at = log.snapshot_at
        self.name, self.cells = trace.user, trace.cells
        self.output, self.expected_loss_km = _nothing_yet(len(trace))
        self.epsilon_per_km = array("d", [np.nan]) * (0 if log.epsilon_in is None else len(trace))
        self.loss_km: array[float] | None = None
        """The losses of outputs that are no cells."""
        self._own: Channel | None = None
        """The last channel with outputs of its own."""
        self._log = log
        self.expected, self._tick = log.expected, log.tick
        self._quality_km = log.world.quality_distance.matrix_km
        self.index = 0
        """The number of the last query, from 1."""
        self.cell = -1
        self.channel: Channel | None = None
        self._row: FloatArray | None = None
        self._losses_km: dict[int, float] | None = None
        """The expected losses of the channel by cell, once it has been there for two queries."""

    @property
    def stays(self) -> bool:
        """Whether the channel of the last query was that of the one before."""
        return self._losses_km is not None

    @property
    def row(self) -> FloatArray:
        """The probabilities f(. | x) of the last query's outputs."""
        if self._row is None:
            assert self.channel is not None
            self._row = self.channel.row(self.cell)
        return self._row

    def query(self, query: Query, output: int, channel: Channel) -> None:
        """Take down what was sent, and by which channel."""
        place = query.index - 1
        self.output[place] = output
        if channel is not self._own and (space := _space_of(channel)) is not None:
            self._own, self._log.nothing = channel, space.nothing
            self.loss_km = self.loss_km or array("d", [np.nan]) * len(self.output)
        if self.loss_km is not None:
            self.loss_km[place] = cast(OwnOutputs, channel).loss_of_km(query.cell, output)
        if len(self.epsilon_per_km):
            self.epsilon_per_km[place] = self._log.epsilon_of(channel)
        if self.expected:
            self._expect(query, channel)
        if self._tick is not None:
            self._tick(1)

    def _expect(self, query: Query, channel: Channel) -> None:
        """Take down the expected loss. That of a channel that stays depends on the cell alone."""
        if channel is not self.channel:
            self.channel, self._losses_km = channel, None
        elif self._losses_km is None:
            self._losses_km = self._log.losses_of(channel)
        self.index, self.cell, self._row = query.index, query.cell, None
        loss_km = None if self._losses_km is None else self._losses_km.get(query.cell)
        if loss_km is None:
            if self.loss_km is not None:
                loss_km = cast(OwnOutputs, channel).expected_loss_of_km(query.cell)
            else:
                loss_km = float(self.row @ self._quality_km[query.cell])
            if self._losses_km is not None:
                self._losses_km[query.cell] = loss_km
        self.expected_loss_km[query.index - 1] = loss_km

    def snapshot(self, query: Query, lppm: LPPM, channel: Channel) -> None:
        """Keep what a mechanism believes before this query; of one that never learns, only the first is kept."""
        belief = lppm.belief
        if belief is not None and (query.index == min(self.snapshot_at) or not BeliefCapabilities.fixed.of(belief)):
            prior = belief.prior(query.time_s)
            own = self._log.theory_of(channel, prior)
            self._log.snapshots.append(Snapshot(query.user, query.index, prior.copy(), own))


class AttackLog:
    """Takes down what one adversary answers."""

    def __init__(self, name: str, users: Mapping[str, UserLog], world: World) -> None:
        self._name = name
        self._answers = {user: _Answers(log) for user, log in users.items()}
        self._n_cells = world.grid.n_cells
        self._privacy_km = world.privacy_distance.matrix_km
        self.revised: list[tuple[str, int, int, int]] = []
        """Past queries that were estimated once more: user, index of the report, index of the past query, estimate."""

    @property
    def estimate(self) -> IntArray:
        """The estimates of all queries, user by user; -1 where there is none."""
        return _joined([answers.estimate for answers in self._answers.values()])

    @property
    def expected_error_km(self) -> FloatArray:
        """The expected errors of all queries, user by user; NaN where there is none."""
        return _joined([answers.expected_error_km for answers in self._answers.values()])

    @property
    def posterior_entropy_bits(self) -> FloatArray:
        """The entropies of what she believed after all queries, user by user; NaN where she did not tell."""
        return _joined([answers.entropy_bits for answers in self._answers.values()])

    @property
    def posterior_at_truth(self) -> FloatArray:
        """The mass that she gave to the true cells, user by user; NaN where she did not tell."""
        return _joined([answers.at_truth for answers in self._answers.values()])

    @property
    def identity(self) -> list[str | None]:
        """Whom she took each user for at all queries, user by user."""
        return [who for answers in self._answers.values() for who in answers.identity]

    def guess(self, guess: Guess) -> None:
        """Take down what the adversary made of a report."""
        name, index, estimate, by_output, posterior, identity, revised = guess
        answers = self._of(name, index, estimate)
        answers.estimate[index - 1] = estimate
        if posterior is not None:
            answers.entropy_bits[index - 1] = entropy(posterior)
            answers.at_truth[index - 1] = posterior[answers.user.cells[index - 1]]
        if identity is not None:
            answers.identity[index - 1] = identity
        if revised:
            self._revise(name, index, revised)
        if answers.expected and by_output is not None:
            if answers.user.index != index:
                raise RuntimeError(f"{self._name} answered query {index} of {name} after {answers.user.index}")
            answers.expected_error_km[index - 1] = self._error_km(answers, by_output)

    def conclude(self, guess: Guess) -> None:
        """Take down what the adversary made of a user's past in the end."""
        self._of(guess.user, guess.index, guess.estimate)
        self._revise(guess.user, guess.index, guess.revised)

    def _of(self, name: str, index: int, estimate: int) -> _Answers:
        """Return where the answers about a user are, if this can be one."""
        try:
            answers = self._answers[name]
            if not 0 <= operator.index(estimate) < self._n_cells or index < 1 or answers.output[index - 1] < 0:
                raise ValueError("no such cell, or nothing was sent")
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise RuntimeError(f"{self._name} answered cell {estimate} for query {index} of {name}") from error
        return answers

    def _revise(self, name: str, index: int, revised: Sequence[tuple[int, int]]) -> None:
        for past, estimate in revised:
            answers = self._of(name, past, estimate)
            if past >= index:
                raise RuntimeError(f"{self._name} revised query {past} of {name} at query {index}: only earlier ones")
            self.revised.append((answers.user.name, index, past, estimate))

    def _error_km(self, answers: _Answers, by_output: IntArray) -> float:
        """Return the expected error. While channel and answers stay the same it depends on the cell alone."""
        user = answers.user
        known = answers.channel is user.channel and answers.by_output is by_output
        error_km = answers.errors_km.get(user.cell) if known else None
        if error_km is None:
            error_km = float(user.row @ self._privacy_km[user.cell, by_output])
            if not known and user.stays and not by_output.flags.writeable:
                answers.channel, answers.by_output, answers.errors_km, known = user.channel, by_output, {}, True
            if known:
                answers.errors_km[user.cell] = error_km
        return error_km


class _Answers:
    """What one adversary made of one user, by query, and the errors to expect as long as nothing changes."""

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
    )

    def __init__(self, user: UserLog) -> None:
        self.user, self.output, self.expected = user, user.output, user.expected
        self.estimate, self.expected_error_km = _nothing_yet(len(user.output))
        self.entropy_bits, self.at_truth = (array("d", [np.nan]) * len(user.output) for _ in range(2))
        self.identity: list[str | None] = [None] * len(user.output)
        self.channel: Channel | None = None
        self.by_output: IntArray | None = None
        self.errors_km: dict[int, float] = {}


class _Windows:
    """The queries of all users, one user after another, in windows of so many; a user's last one may be shorter."""

    def __init__(self, lengths: IntArray, size: int) -> None:
        self.of_user: IntArray = -(-lengths // size)
        """How many windows each user has."""
        ends = np.cumsum(lengths)
        self._starts = _joined([np.arange(end - length, end, size) for end, length in zip(ends, lengths, strict=True)])
        self._sizes = np.diff(self._starts, append=ends[-1])
        self.last: IntArray = self._starts + self._sizes - 1
        """The place of each window's last query."""

    def means(self, values: FloatArray) -> FloatArray:
        """Return the means of the columns over each window; NaN where no query of it has a figure."""
        known = np.add.reduceat(~np.isnan(values), self._starts, axis=0, dtype=np.int64)
        if ((known > 0) & (known < self._sizes[:, None])).any():
            raise RuntimeError(
                "an attack foresaw its answers to some queries and not to others, and a summary cannot tell to how "
                "many: foresee all or none, or set record.log to queries"
            )
        sums: FloatArray = np.add.reduceat(values, self._starts, axis=0)
        return sums / self._sizes[:, None]


def _events(columns: Mapping[str, Any], rows: int) -> pa.Table:
    """Return a table of the event log; columns that are not given are empty."""
    nothing: pa.Array[Any] = pa.nulls(rows)
    arrays = [pa.array(columns.get(name, nothing)).cast(EVENTS.field(name).type) for name in EVENTS.names]
    return pa.table(arrays, schema=EVENTS)


def _nothing_yet(queries: int) -> tuple[array[int], array[float]]:
    """Return a cell and a figure for each query; single numbers are written in half the time it takes numpy."""
    return array("q", [-1]) * queries, array("d", [np.nan]) * queries


def _joined(parts: Iterable[Any]) -> NDArray[Any]:
    """Return the numbers of all users one after another."""
    return np.concatenate([np.asarray(part) for part in parts])


def _or_null(values: FloatArray) -> pa.Array[Any]:
    """Turn figures that were switched off (NaN) into nulls."""
    return pa.array(values, mask=np.isnan(values))
