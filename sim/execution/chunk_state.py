"""State of a chunk: the results of its simulations so far, joined at its end, and the state of the current one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim.execution.checkpoints import Checkpoint
from sim.execution.notes import Notes, merge_notes
from sim.lppm.theory import Theory
from sim.simulation.engine import SimulationState
from sim.simulation.user_log import Snapshot


@dataclass(frozen=True, slots=True)
class SimulatedChunk:
    """Rows of the event log, snapshots and notes of a chunk."""

    table: pa.Table
    snapshots: dict[str, NDArray[Any]]
    notes: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Finished:
    """The results of one simulation."""

    table: pa.Table
    snapshots: Sequence[Snapshot]
    notes: Notes
    queries: int


@dataclass
class ChunkState:
    """Everything that a chunk needs to continue."""

    finished: dict[tuple[int, str], Finished] = field(default_factory=dict)
    """Results by replication and LPPM."""
    current: SimulationState | None = None
    """State of the next simulation; None if it has not begun."""

    @property
    def queries(self) -> int:
        """The number of simulated queries."""
        log = None if self.current is None else self.current.log
        now = 0 if log is None else sum(log.user(trace.user).n_recorded for trace in log.traces)
        return now + sum(one.queries for one in self.finished.values())

    def joined(self) -> SimulatedChunk:
        """Return the results of all simulations together."""
        notes: dict[str, Notes] = {}
        for (_, lppm), one in self.finished.items():
            notes[lppm] = merge_notes(notes[lppm], one.notes) if lppm in notes else one.notes
        table = pa.concat_tables([one.table for one in self.finished.values()])
        return SimulatedChunk(table, self._snapshots(), notes)

    def _snapshots(self) -> dict[str, NDArray[Any]]:
        """Return all snapshots, one array per column; unknown metrics are NaN."""
        rows = [(*key, snapshot) for key, one in self.finished.items() for snapshot in one.snapshots]
        metrics = np.array([snapshot.own for *_, snapshot in rows], dtype=np.float64).reshape(-1, len(Theory._fields))
        return {
            "lppm": np.array([lppm for _, lppm, _ in rows], dtype=np.str_),
            "replication": np.array([replication for replication, _, _ in rows], dtype=np.int64),
            "user": np.array([snapshot.user for *_, snapshot in rows], dtype=np.str_),
            "index": np.array([snapshot.index for *_, snapshot in rows], dtype=np.int64),
            "profile": np.array([snapshot.profile for *_, snapshot in rows], dtype=np.float64),
            **{f"own_{name}": metrics[:, place] for place, name in enumerate(Theory._fields)},
        }


@dataclass(frozen=True, slots=True)
class ChunkSaver:
    """Saves the state of a chunk when its checkpoint is due."""

    checkpoint: Checkpoint
    chunk: ChunkState
    built: Mapping[str, object]
    """See `Checkpoint.save`."""

    def is_due(self) -> bool:
        """Return whether to save the state at the end of this instant."""
        return self.checkpoint.is_due()

    def save(self, state: SimulationState) -> None:
        """Save the state."""
        self.chunk.current = state
        self.checkpoint.save(self.chunk, self.built)
