"""Pool of worker processes on this machine; a worker that dies is replaced."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from sim.execution.plan import Chunk, People
from sim.execution.pool import TRIES, Answer, Done, Failure, perform, to_stderr
from sim.execution.population_cache import PopulationCache
from sim.simulation import interrupts
from sim.simulation.progress import Tick
from sim.storage.errors import RequestError
from sim.storage.run_directory import RunDirectory

_TICK_EVERY_S = 0.2
_KILL_S = 10.0
"""Time to wait for a killed process: one that waits for an unreachable network disk may never end."""
_BLAS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class Workers:
    """Pool of worker processes on this machine. A worker that dies is replaced, and its chunk is retried."""

    def __init__(self, count: int, notify: Callable[[str], None] = to_stderr) -> None:
        if count < 1:
            raise ValueError(f"count must be in [1, inf), got {count}")
        self._count = count
        self._notify = notify
        self._workers: list[_Worker] = []

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Give each worker one chunk at a time, preferably with the same population as its last one."""
        if not directory.shared:
            raise RequestError(
                f"{directory} is in the memory of this process: other processes cannot write there; use a folder, or "
                "one worker",
                code="directory-not-shared",
            )
        pending = _Queue(chunks)
        deaths: dict[str, int] = {}
        simulated: dict[str, int] = {}
        for _ in range(min(self._count, len(pending)) - len(self._workers)):
            self._start()
        while pending or any(worker.chunk for worker in self._workers):
            for worker in self._workers:
                if worker.chunk is None and pending:
                    worker.give(pending.pop(worker.last), directory)
            for worker in _ready([worker for worker in self._workers if worker.chunk is not None]):
                chunk = worker.chunk
                assert chunk is not None
                try:
                    message = worker.receive()
                except (EOFError, OSError):
                    code = self._replace(worker)
                    deaths[chunk.id] = deaths.get(chunk.id, 0) + 1
                    if deaths[chunk.id] < TRIES:
                        self._notify(f"a worker died ({_exit(code)}): a new worker retries chunk {chunk.id}")
                        pending.put(chunk)
                    else:
                        lost = simulated.pop(chunk.id, 0)
                        yield Failure(chunk, f"its worker died {TRIES} times ({_exit(code)})", queries=lost)
                    continue
                if isinstance(message, int):
                    simulated[chunk.id] = simulated.get(chunk.id, 0) + message
                    tick(message)
                    continue
                worker.chunk = None
                yield message._replace(queries=simulated.pop(chunk.id, 0)).ended(chunk)

    def _start(self) -> None:
        """Start one more worker; Ctrl-C and SIGTERM are delayed until `close` can kill it."""
        with interrupts.signals_delayed():
            self._workers.append(_Worker())

    def _replace(self, worker: _Worker) -> int | None:
        """Replace a worker that is dying; return its exit code."""
        code = worker.end(wait_s=1.0)
        self._workers.remove(worker)
        self._start()
        return code

    def close(self) -> None:
        """Kill the workers; this is safe because parts are written atomically."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()


class _Queue:
    """Queue of chunks in their order, except that a worker first gets chunks of the population it has in memory."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        self._untouched: dict[People, deque[Chunk]] = {}
        self._begun: dict[People, deque[Chunk]] = {}
        self._count = 0
        for chunk in chunks:
            self.put(chunk)

    def __len__(self) -> int:
        return self._count

    def pop(self, last: Chunk | None) -> Chunk:
        """Return the next chunk for a worker whose last chunk is `last`.

        It has the population of the last chunk, else one that no worker has, else the one with most chunks left.
        """
        people = None if last is None else last.people
        if people is None or people not in self._begun:
            if self._untouched:
                people = next(iter(self._untouched))
                self._begun[people] = self._untouched.pop(people)
            else:
                people = max(self._begun, key=lambda key: len(self._begun[key]))
        self._count -= 1
        chunk = self._begun[people].popleft()
        if not self._begun[people]:
            del self._begun[people]
        return chunk

    def put(self, chunk: Chunk) -> None:
        """Add a chunk after the others of its population."""
        self._count += 1
        groups = self._begun if chunk.people in self._begun else self._untouched
        groups.setdefault(chunk.people, deque()).append(chunk)


class _Worker:
    """Worker process, the connection to it, and its current and last chunk."""

    def __init__(self) -> None:
        for name in _BLAS:  # one thread each, set before the child imports numpy
            os.environ.setdefault(name, "1")
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process: BaseProcess = context.Process(target=_serve, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()
        self.chunk: Chunk | None = None
        self.last: Chunk | None = None

    def give(self, chunk: Chunk, directory: RunDirectory) -> None:
        """Send a chunk; if the worker is dead, `receive` reports it."""
        self.chunk = self.last = chunk
        try:
            self._connection.send((chunk, directory))
        except OSError:
            return

    @property
    def events(self) -> tuple[Connection, int]:
        """Objects to wait for: the connection (a message) and the process (its death).

        The connection alone does not suffice: children of a dead worker may keep it open.
        """
        return self._connection, self._process.sentinel

    def receive(self) -> int | Answer:
        """Return a number of simulated queries or the answer about the chunk; raise EOFError if the worker died."""
        if not self._connection.poll():
            raise EOFError
        message: int | Answer = self._connection.recv()
        return message

    def end(self, *, wait_s: float = 0.0) -> int | None:
        """Kill the process if it does not end within `wait_s` seconds, and return its exit code."""
        self._connection.close()
        self._process.join(wait_s)
        self._process.kill()
        self._process.join(_KILL_S)
        return self._process.exitcode


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Wait until a worker sends a message or dies, and return all such workers."""
    ready = set(wait([event for worker in workers for event in worker.events]))
    return [worker for worker in workers if not ready.isdisjoint(worker.events)]


def _serve(connection: Connection) -> None:
    """Simulate chunks from the connection until it is closed; the main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver handles Ctrl-C, see `signals_delayed`
    populations = PopulationCache()
    while True:
        try:
            chunk, directory = connection.recv()
        except (EOFError, OSError):
            return
        ticker = _Ticker(connection)
        try:
            perform(chunk, directory, populations, ticker)
            answer = Answer("done")
        except BaseException as error:
            answer = Answer.of(chunk, error)
        ticker.flush()
        _send(connection, answer)


def _send(connection: Connection, message: int | Answer) -> None:
    """Send a message; exit this process if the driver has ended."""
    try:
        connection.send(message)
    except OSError:
        raise SystemExit(1) from None


class _Ticker:
    """Callback that sends the number of simulated queries at intervals."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls = itertools.count(1)
        self._unsent = 0
        self._sent_at_s = time.monotonic()

    def __call__(self, queries: int) -> None:
        self._unsent += queries
        if next(self._calls) % 64 == 0 and time.monotonic() - self._sent_at_s > _TICK_EVERY_S:
            self.flush()

    def flush(self) -> None:
        """Send the number of queries since the last message."""
        if self._unsent:
            _send(self._connection, self._unsent)
        self._unsent = 0
        self._sent_at_s = time.monotonic()


def _exit(code: int | None) -> str:
    """Describe the exit of a process."""
    if code is None or code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
