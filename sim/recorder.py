"""The truth side of one simulation: joins queries and guesses and turns them into rows of the event log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim.events import Guess, Query, Report
from sim.interfaces import LPPM, Belief, FloatArray, IntArray
from sim.mobility.traces import Trace
from sim.rundir import EVENTS
from sim.world import World

Tick = Callable[[int], None]


@dataclass(slots=True)
class _UserLog:
    """What happened to one user, by query: filled in as it happens, -1 or NaN until then."""

    trace: Trace
    output: IntArray
    expected_loss_km: FloatArray
    estimate: IntArray
    expected_error_km: FloatArray
    expected_row: FloatArray | None = None
    row_index: int = 0


@dataclass(slots=True)
class Snapshot:
    """What a mechanism believed about a user before one query."""

    user: str
    index: int
    profile: FloatArray


@dataclass
class SimulationLog:
    """Collects outputs and guesses of one simulation in arrays; distances are looked up at the end, all at once.

    The expected figures are sums over z of f(z | z^{r-1}, x^r) times the distance: given the past reports and the
    true cell, only the mechanism's current noise is averaged out.
    """

    world: World
    traces: Sequence[Trace]
    attacks: Sequence[str]
    expected: bool = True
    snapshot_at: frozenset[int] = frozenset()
    tick: Tick | None = None
    snapshots: list[Snapshot] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._attack_row = {name: i for i, name in enumerate(self.attacks)}
        self._users = {trace.user: self._empty(trace) for trace in self.traces}

    def _empty(self, trace: Trace) -> _UserLog:
        queries, attacks = len(trace), len(self.attacks)
        return _UserLog(
            trace=trace,
            output=np.full(queries, -1, dtype=np.int64),
            expected_loss_km=np.full(queries, np.nan),
            estimate=np.full((attacks, queries), -1, dtype=np.int64),
            expected_error_km=np.full((attacks, queries), np.nan),
        )

    def query(self, query: Query, report: Report) -> None:
        """Take down what was sent."""
        log = self._users[query.user]
        log.output[query.index - 1] = report.output
        if self.expected:
            row = report.channel.row(query.cell)
            log.expected_loss_km[query.index - 1] = row @ self.world.quality_distance.matrix_km[query.cell]
            log.expected_row, log.row_index = row, query.index
        if self.tick is not None:
            self.tick(1)

    def snapshot(self, query: Query, lppm: LPPM) -> None:
        """Keep what a mechanism believes before this query; of one that never learns, only the first is kept."""
        belief: Belief | None = getattr(lppm, "belief", None)
        if belief is not None and (query.index == min(self.snapshot_at) or not getattr(belief, "fixed", False)):
            self.snapshots.append(Snapshot(query.user, query.index, belief.prior(query.time_s).copy()))

    def guess(self, attack: str, guess: Guess) -> None:
        """Take down what an adversary made of it."""
        log = self._users[guess.user]
        i = self._attack_row[attack]
        if not 0 <= guess.estimate < self.world.grid.n_cells or log.output[guess.index - 1] < 0:
            raise RuntimeError(f"{attack} answered cell {guess.estimate} for query {guess.index} of {guess.user}")
        log.estimate[i, guess.index - 1] = guess.estimate
        if self.expected and guess.estimate_by_output is not None:
            if log.expected_row is None or log.row_index != guess.index:
                raise RuntimeError(f"{attack} answered query {guess.index} of {guess.user} after {log.row_index}")
            cell = log.trace.cells[guess.index - 1]
            errors = self.world.privacy_distance.matrix_km[cell, guess.estimate_by_output]
            log.expected_error_km[i, guess.index - 1] = log.expected_row @ errors

    def table(self, *, point: int, lppm: str, replication: int) -> pa.Table:
        """Return one row per query and attack, in order of user, query and attack."""
        parts = [self._rows(log, point=point, lppm=lppm, replication=replication) for log in self._users.values()]
        return pa.concat_tables(parts) if parts else EVENTS.empty_table()

    def _rows(self, log: _UserLog, *, point: int, lppm: str, replication: int) -> pa.Table:
        queries, attacks = len(log.trace), max(len(self.attacks), 1)
        rows = queries * attacks
        if (log.output < 0).any() or (log.estimate < 0).any():
            raise RuntimeError(f"not every query of {log.trace.user} was answered by every attack, with {lppm}")

        def per_query(values: NDArray[Any]) -> NDArray[Any]:
            return np.repeat(values, attacks)

        cells = log.trace.cells
        quality = self.world.quality_distance.matrix_km[cells, log.output]
        error = self.world.privacy_distance.matrix_km[cells, log.estimate]
        nothing: pa.Array[Any] = pa.nulls(rows)
        columns: dict[str, Any] = {
            "event": _repeated("query", rows),
            "point": np.full(rows, point),
            "replication": np.full(rows, replication),
            "user": _repeated(log.trace.user, rows),
            "index": per_query(np.arange(1, queries + 1)),
            "time_s": per_query(log.trace.times_s),
            "cell": per_query(cells),
            "output": per_query(log.output),
            "lppm": _repeated(lppm, rows),
            "attack": pa.array(list(self.attacks) * queries) if self.attacks else nothing,
            "estimated_index": per_query(np.arange(1, queries + 1)) if self.attacks else nothing,
            "estimate": log.estimate.T.ravel() if self.attacks else nothing,
            "quality_loss_km": per_query(quality),
            "adversary_error_km": error.T.ravel() if self.attacks else nothing,
            "expected_quality_loss_km": _or_null(per_query(log.expected_loss_km)),
            "expected_adversary_error_km": _or_null(log.expected_error_km.T.ravel()) if self.attacks else nothing,
        }
        return pa.table([pa.array(columns[name]).cast(EVENTS.field(name).type) for name in EVENTS.names], schema=EVENTS)


def _repeated(text: str, times: int) -> pa.Array[Any]:
    return pa.repeat(pa.scalar(text), times)


def _or_null(values: FloatArray) -> pa.Array[Any]:
    """Turn figures that were switched off (NaN) into nulls."""
    return pa.array(values, mask=np.isnan(values))
