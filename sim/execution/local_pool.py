"""Where chunks are simulated: in this process, or in worker processes that may die and are replaced.

A worker writes its part itself, so nothing but words goes back to the driver, and what is written is there whatever
happens next. Chunks come back in any order; what is in their parts does not depend on it.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from sim.errors import UserError
from sim.execution.chunks import FailedSimulation, Workshop, run_chunk
from sim.execution.plan import Chunk
from sim.simulation import interrupts
from sim.simulation.progress import Tick
from sim.storage.errors import RequestError
from sim.storage.run_directory import RunDirectory

TRIES = 3
"""How often a chunk is given to a worker that dies over it."""

_TICK_EVERY_S = 0.2
_KILL_S = 10.0
"""How long to wait for a process that was killed: one that waits for a dead network disk may take for ever."""
_BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class Failure:
    """A chunk that could not be simulated, and why."""

    chunk: Chunk
    error: str
    """In a line."""
    details: str = ""
    """The traceback, if there is one."""
    replication: int | None = None
    lppm: str | None = None
    """Which simulation it was, if one is to blame."""

    @classmethod
    def of(cls, chunk: Chunk, error: BaseException) -> Failure:
        """Return what an error in a chunk is told as."""
        blamed = (error.replication, error.lppm) if isinstance(error, FailedSimulation) else (None, None)
        cause = error.__cause__ if isinstance(error, FailedSimulation) and error.__cause__ else error
        line = f"{type(cause).__name__}: {cause}".splitlines()[0].removesuffix(": ")
        return cls(chunk, line, "".join(traceback.format_exception(cause)), *blamed)

    @property
    def words(self) -> tuple[Any, ...]:
        """All but the chunk, as a worker sends it."""
        return self.error, self.details, self.replication, self.lppm


@dataclass(frozen=True, slots=True)
class Done:
    """A chunk whose part is written."""

    chunk: Chunk


def to_stderr(line: str) -> None:
    """Tell the person at the terminal something."""
    print(line, file=sys.stderr, flush=True)


def usable_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Pool(Protocol):
    """Simulates chunks somewhere."""

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Simulate chunks and write their parts; yield each when it is done, in any order."""
        ...

    def close(self) -> None:
        """Let go of all workers, whatever they are doing."""
        ...


def perform(chunk: Chunk, directory: RunDirectory, workshop: Workshop, tick: Tick | None = None) -> None:
    """Simulate a chunk and write its part and snapshots."""
    outcome = run_chunk(chunk, workshop, tick)
    snapshots = outcome.snapshots if outcome.snapshots["index"].size else None
    directory.write_part(chunk.id, outcome.table, outcome.notes, snapshots=snapshots)


class Here:
    """One chunk after another in this process."""

    def __init__(self, workshop: Workshop | None = None) -> None:
        self._workshop = workshop or Workshop()

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Simulate in the order given."""
        for chunk in chunks:
            try:
                perform(chunk, directory, self._workshop, tick)
            except UserError:
                raise
            except BaseException as error:  # component code may raise anything; only a real Ctrl-C stops the run
                interrupts.reraise_interrupt(error)
                yield Failure.of(chunk, error)
            else:
                yield Done(chunk)

    def close(self) -> None:
        """There is nobody to let go."""


class Workers:
    """Worker processes on this machine. One that dies is replaced, and its chunk is tried again."""

    def __init__(self, count: int, say: Callable[[str], None] = to_stderr) -> None:
        if count < 1:
            raise ValueError(f"count must be in [1, inf), got {count}")
        self._count = count
        self._say = say
        self._workers: list[_Worker] = []

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Give each worker a chunk at a time, of the same people as its last one where there is any."""
        if not directory.shared:
            raise RequestError(f"{directory} is in the memory of this process: other workers cannot write there")
        left = _Queue(chunks)
        tries: dict[str, int] = {}
        for _ in range(min(self._count, len(left)) - len(self._workers)):
            self._start()
        while left or any(worker.chunk for worker in self._workers):
            for worker in self._workers:
                if worker.chunk is None and left:
                    worker.give(left.pop(worker.last), directory)
            for worker in _ready([worker for worker in self._workers if worker.chunk is not None]):
                chunk = worker.chunk
                assert chunk is not None
                try:
                    kind, said = worker.hear()
                except (EOFError, OSError):
                    code = worker.end(patience_s=1.0)  # it is dying: of what is worth a moment
                    self._workers.remove(worker)
                    self._start()
                    tries[chunk.id] = tries.get(chunk.id, 0) + 1
                    if tries[chunk.id] < TRIES:
                        self._say(f"a worker died ({_exit(code)}): another one takes its place and chunk {chunk.id}")
                        left.put(chunk)
                    else:
                        yield Failure(chunk, f"its worker died {TRIES} times ({_exit(code)})")
                    continue
                if kind == "tick":
                    tick(said)
                    continue
                worker.chunk = None
                if kind == "user error":
                    raise told(*said)
                yield Done(chunk) if kind == "done" else Failure(chunk, *said)

    def _start(self) -> None:
        """Start one more worker. Ctrl-C waits until it is known, so that `close` ends it."""
        with interrupts.sigint_blocked():
            self._workers.append(_Worker())

    def close(self) -> None:
        """End the workers at once: a part is written whole or not at all."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()


class _Queue:
    """Chunks in their order, but for a worker rather those that need the same people in memory as its last one."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._fresh: dict[tuple[str, range], deque[Chunk]] = {}
        self._begun: dict[tuple[str, range], deque[Chunk]] = {}
        self._count = 0
        for chunk in chunks:
            self.put(chunk)

    def __len__(self) -> int:
        return self._count

    def pop(self, last: Chunk | None) -> Chunk:
        """Return the next chunk: of the last one's people, else of new ones, else of those with the most left to do."""
        key = None if last is None else last.people
        if key is None or key not in self._begun:
            if self._fresh:
                key = next(iter(self._fresh))
                self._begun[key] = self._fresh.pop(key)
            else:
                key = max(self._begun, key=lambda people: len(self._begun[people]))
        self._count -= 1
        chunk = self._begun[key].popleft()
        if not self._begun[key]:
            del self._begun[key]
        return chunk

    def put(self, chunk: Chunk) -> None:
        """Take a chunk, a new one or one that was not finished; it comes after the others of its people."""
        self._count += 1
        groups = self._begun if chunk.people in self._begun else self._fresh
        groups.setdefault(chunk.people, deque()).append(chunk)


class _Worker:
    """A process, the line to it, and what it is doing."""

    def __init__(self) -> None:
        for name in _BLAS:  # one thread each, said before the child imports numpy
            os.environ.setdefault(name, "1")
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.chunk: Chunk | None = None
        self.last: Chunk | None = None

    def give(self, chunk: Chunk, directory: RunDirectory) -> None:
        """Send it a chunk. One that has died is found out about when its answer is awaited."""
        self.chunk = self.last = chunk
        try:
            self.connection.send((chunk, directory))
        except OSError:
            return

    @property
    def events(self) -> tuple[Connection, int]:
        """What becomes ready when it says something and when it dies: its children may keep the line open."""
        return self.connection, self._process.sentinel

    def hear(self) -> Any:
        """Return what it says; raise EOFError if it has died."""
        if not self.connection.poll():
            raise EOFError
        return self.connection.recv()

    def end(self, *, patience_s: float = 0.0) -> int | None:
        """End the process, if it does not end itself within some time, and return its exit code."""
        self.connection.close()
        self._process.join(patience_s)
        self._process.kill()
        self._process.join(_KILL_S)
        return self._process.exitcode


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Wait until a worker says something or dies, and return those that do."""
    ready = set(wait([event for worker in workers for event in worker.events]))
    return [worker for worker in workers if not ready.isdisjoint(worker.events)]


def _serve(connection: Connection) -> None:
    """Simulate what comes down the line until it is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the driver's business, see `sigint_blocked`
    workshop = Workshop()
    while True:
        try:
            chunk, directory = connection.recv()
        except (EOFError, OSError):
            return
        answer: tuple[str, Any] = ("done", None)
        ticker = _Ticker(connection)
        try:
            perform(chunk, directory, workshop, ticker)
        except UserError as error:
            answer = ("user error", (str(error), error.exit_code))
        except BaseException as error:  # no signal reaches this process: component code has raised it
            answer = ("failed", Failure.of(chunk, error).words)
        ticker.flush()
        _say(connection, answer)


def _say(connection: Connection, words: tuple[str, Any]) -> None:
    """Tell the driver something; end where there is no driver any more."""
    try:
        connection.send(words)
    except OSError:
        raise SystemExit(1) from None


class _Ticker:
    """Passes on how many queries were simulated, now and then."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._counts = itertools.count(1)
        self._pending = 0
        self._said = time.monotonic()

    def __call__(self, queries: int) -> None:
        self._pending += queries
        if next(self._counts) % 64 == 0 and time.monotonic() - self._said > _TICK_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Pass on what is left."""
        if self._pending:
            _say(self._connection, ("tick", self._pending))
        self._pending = 0
        self._said = time.monotonic()


def told(message: str, exit_code: int) -> UserError:
    """Return a user's error that a worker has met."""
    error = UserError(message)
    error.exit_code = exit_code
    return error


def _exit(code: int | None) -> str:
    """Say how a process ended."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
