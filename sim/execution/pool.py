"""Pools, which simulate chunks: their interface, the answers of their workers, and the pool of this process.

The process that simulates a chunk also writes its part; only short messages return to the driver. Chunks finish in any
order, which does not change their content.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from sim.errors import UserError, input_errors
from sim.execution.calibration.chunks import CalibrationChunk, calibrate
from sim.execution.checkpoints import Checkpoint
from sim.execution.chunks import FailedSimulation, run_chunk
from sim.execution.plan import Chunk
from sim.execution.population_cache import PopulationCache
from sim.execution.training_counts import CountingChunk, write_counts
from sim.simulation import interrupts
from sim.simulation.progress import Tick
from sim.storage.run_directory import RunDirectory

TRIES = 3
"""Number of workers that may die while they simulate a chunk before it counts as failed."""


@dataclass(frozen=True, slots=True)
class Done:
    """A chunk whose part is written."""

    chunk: Chunk
    queries: int | None = None
    """Number of queries that were simulated for it, with those of workers that died; None if unknown."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A chunk that failed, and the reason."""

    chunk: Chunk
    error: str
    """One line: type and message of the error."""
    details: str = ""
    """The traceback, if any."""
    replication: int | None = None
    lppm: str | None = None
    """Replication and LPPM of the simulation that raised the error, if one did."""
    queries: int | None = None
    """Number of queries that were simulated for it; None if unknown."""

    @classmethod
    def of(cls, chunk: Chunk, error: BaseException) -> Failure:
        """Return the failure of a chunk from the error raised in it."""
        blamed = (error.replication, error.lppm) if isinstance(error, FailedSimulation) else (None, None)
        cause = error.__cause__ if isinstance(error, FailedSimulation) and error.__cause__ else error
        line = f"{type(cause).__name__}: {cause}".splitlines()[0].removesuffix(": ")
        return cls(chunk, line, "".join(traceback.format_exception(cause)), *blamed)


class Counted:
    """Callback that counts the simulated queries of one chunk and forwards them."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self.queries = 0

    def __call__(self, queries: int) -> None:
        """Count simulated queries."""
        self.queries += queries
        self._tick(queries)


class Pool(Protocol):
    """Protocol of pools, which simulate chunks in this or in other processes."""

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Simulate chunks and write their parts; yield each when it ends, in any order."""
        ...

    def close(self) -> None:
        """Release all workers, whatever they are doing."""
        ...


class InProcess:
    """Pool that simulates one chunk after another in this process."""

    def __init__(self, populations: PopulationCache | None = None) -> None:
        self._populations = populations or PopulationCache()

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Simulate the chunks in their order."""
        for chunk in chunks:
            counted = Counted(tick)
            try:
                perform(chunk, directory, self._populations, counted)
            except UserError:
                raise
            except BaseException as error:  # component code may raise anything; only a real Ctrl-C stops the run
                interrupts.reraise_interrupt(error)
                yield replace(Failure.of(chunk, error), queries=counted.queries)
            else:
                yield Done(chunk, counted.queries)

    def close(self) -> None:
        """Do nothing: this pool has no workers."""


def perform(chunk: Chunk, directory: RunDirectory, populations: PopulationCache, tick: Tick | None = None) -> None:
    """Simulate a chunk and write its part and snapshots, count people of a training set, or calibrate an LPPM."""
    populations.use_counts_in(directory)
    if isinstance(chunk, CountingChunk):
        assert chunk.users is not None
        with input_errors(f"training.{chunk.training}"):
            counts = populations.setting(chunk.point).count_others(chunk.training, chunk.users)
        write_counts(directory, chunk.point.setting, chunk.training, counts, chunk.users)
        return
    if isinstance(chunk, CalibrationChunk):
        calibrate(chunk, directory, populations, tick)
        return
    checkpoint = Checkpoint(directory, chunk.id)
    simulated = run_chunk(chunk, populations, tick, checkpoint)
    snapshots = simulated.snapshots if simulated.snapshots["index"].size else None
    directory.write_part(chunk.id, simulated.table, simulated.notes, snapshots=snapshots)
    checkpoint.remove()


class Answer(NamedTuple):
    """Answer of a worker about a chunk, in plain values that any process can unpickle."""

    kind: Literal["done", "failed", "user error"]
    values: tuple[Any, ...] = ()
    """Fields of a `Failure` after the chunk; or message, code and exit code of a `UserError`."""
    queries: int | None = None
    """Number of queries that were simulated for the chunk; None if unknown."""

    @classmethod
    def of(cls, chunk: Chunk, error: BaseException) -> Answer:
        """Return the answer for an error in a worker; workers ignore SIGINT, so component code has raised it."""
        if isinstance(error, UserError):
            return cls("user error", (str(error), error.code, error.exit_code))
        failure = Failure.of(chunk, error)
        return cls("failed", (failure.error, failure.details, failure.replication, failure.lppm))

    def ended(self, chunk: Chunk) -> Done | Failure:
        """Return the outcome of the chunk; raise the worker's `UserError` in this process."""
        if self.kind == "user error":
            message, code, exit_code = self.values
            error = UserError(message, code=code)
            error.exit_code = exit_code
            raise error
        if self.kind == "done":
            return Done(chunk, self.queries)
        return replace(Failure(chunk, *self.values), queries=self.queries)


def to_stderr(line: str) -> None:
    """Print a line to stderr."""
    print(line, file=sys.stderr, flush=True)


def usable_cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
