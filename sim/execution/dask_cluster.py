"""Chunks on a Dask cluster: one on this machine, or whatever scheduler an address leads to.

A worker writes its parts itself, as everywhere; only words travel. It first makes sure that it is the same version with
the same kernels and the same files as the run's manifest says, since it may run on another machine or have joined late.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import itertools
import json
import logging
import os
import pickle
import queue
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sim.components.custom import refuse_stale, source_file
from sim.components.files import Place
from sim.errors import InputError, UserError
from sim.execution.chunks import Workshop
from sim.execution.local_pool import TRIES, Done, Failure, perform, to_stderr, told, usable_cores
from sim.execution.plan import Chunk
from sim.inference import kernels
from sim.scenario.models import Scenario
from sim.simulation import interrupts
from sim.simulation.recorder import Tick
from sim.storage.errors import RequestError, RunError
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

WINDOW = 2
"""How many chunks are under way for each thread of the cluster: one is simulated, the next one is there already."""

WAIT_S = 3600.0
"""How long a run waits, by default, while a cluster elsewhere has no worker: a batch system may start them late."""
LOCAL_WAIT_S = 120.0
"""How long it waits, by default, while a local cluster has none, before it starts the cluster again."""
MOST_LOSSES = 5
"""How often in a row a local cluster is started again without a chunk that ended in between."""

_REACH_S = 10.0
_ANSWER_S = 60.0
"""How long a scheduler may take to answer, and a worker to load lppm-sim when it is first asked is ten times that."""
_LOOK_EVERY_S = 1.0
_PATIENCE_S = 5.0
_REMIND_EVERY_S = 300.0
_MOST_TOLD = 5

Answer = tuple[str, int, tuple[Any, ...]]
"""What a task returns: `done`, `failed` or `user error`; how many queries were simulated; and the words to it."""


class Cluster:
    """A pool on Dask. Workers may come, go and die; a chunk whose workers keep dying is reported."""

    def __init__(
        self,
        address: str,
        workers: int | None = None,
        say: Callable[[str], None] = to_stderr,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Start `workers` processes for "local", else go to the scheduler at an address or in a scheduler file.

        `say` is told, in a line, what the run waits for. While the cluster has no worker it waits at most `timeout_s`
        in (0, inf) (default: `WAIT_S`, for "local" `LOCAL_WAIT_S`), then it ends the run with an error, or starts a
        local cluster again.
        """
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be in [1, inf), got {workers}")
        if timeout_s is not None and not 0 < timeout_s < float("inf"):
            raise RequestError(f"dask_timeout (--dask-timeout) must be in (0, inf) seconds, got {timeout_s}")
        dask = _dask()
        self._say = say
        self._token = uuid.uuid4().hex[:8]
        self._tries = itertools.count()
        self._threads = 0
        self._looked = -float("inf")
        self._busy = time.monotonic()
        self._reminded: float | None = None
        self._timeout_s = timeout_s or (LOCAL_WAIT_S if address == "local" else WAIT_S)
        self._losses = 0
        self._checked: RunDirectory | None = None
        self._quiet = ExitStack()
        self._quiet.enter_context(dask.utils.silence_logging_cmgr(logging.CRITICAL))
        self._own: Any = None
        self._client: Any = None
        try:
            if address == "local":
                # A worker may take longer than Dask's 15 s to start again; Dask would give its nanny up.
                self._quiet.enter_context(_dask("dask").config.set({_LOST_AFTER: f"{self._timeout_s} s"}))
                self._workers = workers or usable_cores()
                self._own = _local(self._workers)
                self.address = self._own.scheduler_address
            elif workers is not None:
                raise RequestError(f"the workers of {address} are its own: say how many with `local` alone")
            else:
                self.address = _from_file(Path(address)) if address.endswith(".json") else address
            self._client = _client(self.address, self._own)
        except BaseException:
            self.close()
            raise

    @property
    def in_process(self) -> bool:
        """Whether all workers are threads of this process, which see its memory."""
        return str(self.address).startswith("inproc://")

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Keep the cluster busy with a few chunks for each of its threads, until all are done."""
        if not directory.shared and not self.in_process:
            raise RequestError(f"{directory} is in the memory of this process: workers of a cluster cannot write there")
        work = iter(chunks)
        if (first := next(work, None)) is None:
            return
        self._refuse_strangers(first, directory)
        suspects: list[Chunk] = []
        for chunk, answer in self._answers(itertools.chain([first], work), directory, WINDOW):
            if isinstance(answer, _Killed):
                suspects.append(chunk)
            else:
                yield _ended(chunk, answer, tick)
        # Dask blames every chunk that a dead worker held. One at a time it is clear which of them kills.
        for suspect in suspects:
            yield self._alone(suspect, directory, tick)

    def _alone(self, suspect: Chunk, directory: RunDirectory, tick: Tick) -> Done | Failure:
        """Simulate a chunk while nothing else is under way; one that keeps killing its workers has failed."""
        deaths = 0
        while True:
            ((chunk, answer),) = self._answers(iter([suspect]), directory, None)
            if not isinstance(answer, _Killed):
                return _ended(chunk, answer, tick)
            deaths += answer.times
            if deaths >= TRIES:
                self._losses = 0
                return Failure(chunk, f"its worker died {deaths} times")

    def close(self) -> None:
        """Let go of the cluster: one's own ends at once, another one forgets what is not finished."""
        self._disconnect()
        self._quiet.close()

    def _disconnect(self) -> None:
        client, own = self._client, self._own
        self._client = self._own = None
        if client is not None:
            if own is None:
                with suppress(Exception):  # a courtesy: it may be gone
                    client.run(_forget_unwatched, self._token, wait=False, callback_timeout=_REACH_S)
            with suppress(Exception):
                client.close(timeout=_REACH_S)
        if own is not None:
            with suppress(Exception):
                _end(own)

    def _start_again(self) -> None:
        """Replace a local cluster that has lost its workers; end the run if that has not helped often enough."""
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise RunError(
                f"the local Dask cluster lost all its workers {self._losses} times without finishing a chunk: try "
                f"fewer --workers, more memory, or run without --dask. {_KEPT}"
            )
        self._say(
            f"the local Dask cluster has lost all its workers: starting it again ({self._losses} of at most "
            f"{MOST_LOSSES} times in a row)"
        )
        self._disconnect()
        try:
            self._own = _local(self._workers)
            self.address = self._own.scheduler_address
            self._client = _client(self.address, self._own)
        except (OSError, RuntimeError, RequestError) as error:
            raise RunError(f"the local Dask cluster cannot be started again ({error!r}). {_KEPT}") from error
        self._busy, self._looked, self._reminded = time.monotonic(), -float("inf"), None

    def _answers(
        self, chunks: Iterator[Chunk], directory: RunDirectory, window: int | None
    ) -> Iterator[tuple[Chunk, Answer | _Killed]]:
        """Submit chunks, so many for each thread or one at a time, and yield each with what became of it."""
        under_way: dict[str, tuple[Any, Chunk]] = {}
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            while True:
                try:
                    threads = max(self._look(), 1)
                except _WorkersLostError:
                    lost = [chunk for _, chunk in under_way.values()]
                    under_way.clear()
                    self._start_again()
                    yield from ((chunk, _Killed(1)) for chunk in lost)
                    continue
                limit = 1 if window is None else window * threads
                for chunk in itertools.islice(chunks, max(limit - len(under_way), 0)):
                    key = f"lppm_sim-{chunk.id}-{self._token}-{next(self._tries)}"
                    future = self._client.submit(_task, _packed(chunk, directory, self._token), key=key, pure=False)
                    under_way[key] = future, chunk
                    future.add_done_callback(ended.put)
                if not under_way:
                    return
                try:
                    future = ended.get(timeout=_LOOK_EVERY_S)
                except queue.Empty:
                    continue
                if future.key not in under_way:  # of a cluster that has been replaced
                    continue
                _, chunk = under_way[future.key]
                if (answer := self._answer(future, chunk)) is None:
                    future.add_done_callback(ended.put)
                    continue
                del under_way[future.key]
                if not isinstance(answer, _Killed):
                    self._losses = 0
                yield chunk, answer
        finally:
            if under_way:
                with suppress(Exception):
                    self._client.cancel([future for future, _ in under_way.values()], force=True)

    def _answer(self, future: Any, chunk: Chunk) -> Answer | _Killed | None:
        """Return what a task said, or that Dask gave it up; nothing yet if its worker died before it could say it."""
        try:
            answer: Answer = future.result(timeout=_REACH_S)
            return answer
        except TimeoutError:
            return None
        except _dask().KilledWorker as error:
            return _Killed(error.allowed_failures + 1)
        except CancelledError as error:
            raise RunError(f"the Dask scheduler at {self.address} has gone, or dropped its tasks. {_KEPT}") from error
        except ImportError as error:  # before a line of the task itself
            raise RunError(f"a worker of {self.address} cannot run lppm-sim ({error}): {_ALIKE}") from error
        except Exception as error:
            return "failed", 0, Failure.of(chunk, error).words

    def _look(self) -> int:
        """Return how many threads the cluster has now; say it when there has been none for a while.

        Raise _WorkersLostError when a local cluster has lost its workers for good, RunError when another cluster has
        had none for too long.
        """
        now = time.monotonic()
        if now - self._looked < _LOOK_EVERY_S:
            return self._threads
        try:
            self._threads = sum(self._client.nthreads(callback_timeout=_ANSWER_S).values())
        except OSError as error:
            raise RunError(f"the Dask scheduler at {self.address} does not answer any more. {_KEPT}") from error
        self._looked = now
        if self._threads:
            self._busy, self._reminded = now, None
        else:
            self._wait(now)
        return self._threads

    def _wait(self, now: float) -> None:
        """Go on waiting for workers and say so now and then, up to the time limit."""
        waited = now - self._busy
        if self._own is not None and (waited >= self._timeout_s or _given_up(self._own)):
            raise _WorkersLostError
        if waited >= self._timeout_s:
            raise RunError(
                f"the Dask scheduler at {self.address} has had no worker for {waited:,.0f} s (--dask-timeout): "
                f"start workers, or allow more time. {_KEPT}"
            )
        if waited > _PATIENCE_S and (self._reminded is None or now - self._reminded > _REMIND_EVERY_S):
            self._say(
                f"waiting for workers: the Dask scheduler at {self.address} has none; giving up in "
                f"{self._timeout_s - waited:,.0f} s (--dask-timeout; Ctrl-C stops)"
            )
            self._reminded = now

    def _has_workers(self) -> bool:
        """Return whether there is a worker; start a local cluster again that has lost all of them."""
        try:
            return self._look() > 0
        except _WorkersLostError:
            self._start_again()
            return False

    def _refuse_strangers(self, chunk: Chunk, directory: RunDirectory) -> None:
        """Wait for the first worker, then refuse the cluster if one of its workers cannot take part in this run."""
        if self._checked == directory:
            return
        while not self._has_workers():
            time.sleep(_LOOK_EVERY_S / 5)
        try:
            # The scheduler reads what it passes on.
            self._client.run_on_scheduler(_forget, self._token, callback_timeout=_ANSWER_S)
        except Exception as error:
            raise RequestError(f"the scheduler at {self.address} cannot run lppm-sim ({error!r}): {_ALIKE}") from error
        packed = _packed(chunk, directory, self._token)
        try:
            found = self._client.run(_fault, packed, on_error="return", callback_timeout=10 * _ANSWER_S)
        except TimeoutError as error:
            raise RunError(f"a worker of {self.address} does not answer. {_KEPT}") from error
        faults = {name: said for name, said in found.items() if said is not None and not isinstance(said, OSError)}
        if faults:
            words = {
                name: f"it cannot run lppm-sim ({said!r}): {_ALIKE}" if isinstance(said, Exception) else said
                for name, said in sorted(faults.items())[:_MOST_TOLD]
            }
            lines = [f"  {name}: {said}" for name, said in words.items()]
            more = [f"  and {len(faults) - _MOST_TOLD} more"] if len(faults) > _MOST_TOLD else []
            raise RequestError(
                "\n".join([f"{len(faults)} of {len(found)} workers of {self.address} cannot take part:", *lines, *more])
            )
        self._checked = directory


class _WorkersLostError(Exception):
    """A local cluster has no worker, and none will come."""


@dataclass(frozen=True, slots=True)
class _Killed:
    """A chunk was given up after so many workers died with it."""

    times: int


def _ended(chunk: Chunk, answer: Answer, tick: Tick) -> Done | Failure:
    kind, queries, words = answer
    tick(queries)
    if kind == "user error":
        raise told(*words)
    return Done(chunk) if kind == "done" else Failure(chunk, *words)


def _dask(module: str = "distributed") -> Any:
    """Import what the extra `dask` brings: heavy, not always there, and half typed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise RequestError(f"Dask is not there ({error}): pip install 'lppm-sim[dask]'") from error


_LOST_AFTER = "distributed.deploy.lost-worker-timeout"


def _local(workers: int) -> Any:
    """Start a scheduler in this process, and worker processes that end with it; Dask gives each one BLAS thread.

    A worker that takes longer than `LOCAL_WAIT_S` to start is given up.
    """
    _dask("cryptography")
    with interrupts.sigint_blocked():
        return _dask().LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            dashboard_address="127.0.0.1:0",
            death_timeout=LOCAL_WAIT_S,
            memory_limit=0,  # the operating system's; Dask would kill what uses more than its share
            silence_logs=logging.CRITICAL,
            security=True,  # else whoever is on this machine could have code run here
            protocol="tls://",
            scheduler_kwargs={"allowed_failures": TRIES - 1, "dashboard": False},
        )


def _given_up(own: Any) -> bool:
    """Return whether no nanny of a local cluster will start a worker again."""
    over = {"closing", "closing_gracefully", "closed", "failed", "stopping", "stopped"}
    return all(nanny.status.name in over for nanny in list(own.workers.values()))


def _end(own: Any) -> None:
    """End a cluster of one's own whatever it is doing: a part is written whole or not at all."""
    for nanny in list(own.workers.values()):
        with suppress(ProcessLookupError, TypeError):
            os.kill(nanny.pid, signal.SIGKILL)
    own.close(timeout=_REACH_S)


def _client(address: str, own: Any) -> Any:
    try:
        return _dask().Client(own or address, timeout=_REACH_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise RequestError(
            f"no Dask scheduler can be reached at {address!r} ({str(error) or type(error).__name__}): an address looks "
            "like tcp://host:8786 and is what `dask scheduler` prints; `local` starts a cluster on this machine"
        ) from error


def _from_file(path: Path) -> str:
    """Return the address in a scheduler file, which a scheduler that is just starting may still have to write."""
    for _ in range(int(_REACH_S / 0.1)):
        if path.exists():
            break
        time.sleep(0.1)
    try:
        return str(json.loads(path.read_bytes())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RequestError(
            f"{path} is no scheduler file ({error!r}): `dask scheduler --scheduler-file {path}` writes it"
        ) from error


_KEPT = "What is finished is kept, and the same command goes on from there."
_ALIKE = "the driver, the scheduler and all workers need the same environment"


@dataclass(frozen=True, slots=True)
class _Order:
    """A chunk, and what a worker anywhere needs to know to simulate it; paths in it are absolute."""

    chunk: Chunk
    directory: RunDirectory
    place: Place
    token: str


def _packed(chunk: Chunk, directory: RunDirectory, token: str) -> bytes:
    """Return an order as bytes, which a scheduler passes on unread."""
    there = replace(directory, place=directory.path.absolute()) if directory.in_folder else directory
    order = _Order(chunk, there, chunk.point.scenario.place.absolute(), token)
    return pickle.dumps(order, protocol=pickle.HIGHEST_PROTOCOL)


def _unpacked(packed: bytes) -> _Order:
    order: _Order = pickle.loads(packed)
    order.chunk.point.scenario.at(*order.place)
    return order


@dataclass
class _Desk:
    """What a thread of a worker keeps between the chunks of one run."""

    token: str
    workshop: Workshop = field(default_factory=Workshop)
    checked: set[str] = field(default_factory=set)
    manifest: RunManifest | None = None


_desks: dict[int, _Desk] = {}


def _desk(token: str) -> _Desk:
    """Return this thread's desk for a run. What belongs to another run is let go: files may have changed since."""
    thread = threading.get_ident()
    if thread not in _desks or _desks[thread].token != token:
        _desks[thread] = _Desk(token)
    return _desks[thread]


def _forget(token: str) -> None:
    """Let go of what a run has left in this worker's memory."""
    for thread, desk in list(_desks.items()):
        if desk.token == token:
            _desks.pop(thread, None)


async def _forget_unwatched(token: str) -> None:
    """Do the same where nobody waits for it, which Dask allows coroutines alone."""
    _forget(token)


def _task(packed: bytes) -> Answer:
    """Simulate a chunk on a worker and write its part."""
    order = _unpacked(packed)
    desk = _desk(order.token)
    queries = 0

    def tick(count: int) -> None:
        nonlocal queries
        queries += count

    try:
        if (fault := _first_fault(order, desk)) is not None:
            raise RequestError(f"{_dask().get_worker().address}, a worker, cannot take part: {fault}")
        perform(order.chunk, order.directory, desk.workshop, tick)
    except UserError as error:
        return "user error", queries, (str(error), error.exit_code)
    except BaseException as error:  # no signal reaches a worker's threads: component code has raised it
        return "failed", queries, Failure.of(order.chunk, error).words
    return "done", queries, ()


def _fault(packed: bytes) -> str | None:
    """Return why a worker cannot take part in a run, if so."""
    order = _unpacked(packed)
    try:
        with interrupts.contained("it cannot load the scenario's components"):
            return _first_fault(order, _Desk(order.token))
    except UserError as error:
        return str(error)


def _first_fault(order: _Order, desk: _Desk) -> str | None:
    """Compare what this worker has with what the manifest says: all of it once, each file when it is first needed."""
    if desk.manifest is None:
        if not order.directory.has("manifest.json"):
            return f"it does not see {order.directory}: not a shared folder"
        manifest = order.directory.manifest()
        version = importlib.metadata.version("lppm-sim")
        if manifest.lppm_sim != version:
            return f"it has version {version} of lppm-sim, the run is made by {manifest.lppm_sim}: {_ALIKE}"
        kind = kernels.describe()
        if manifest.kernels.split()[0] != kind.split()[0]:
            return f"its kernels are {kind}, the run is made with {manifest.kernels}: see {kernels.VARIABLE}"
        desk.manifest = manifest
    return _other_file(order.chunk.point.scenario, desk.manifest.files, desk.checked)


def _other_file(scenario: Scenario, expected: Mapping[str, str], checked: set[str]) -> str | None:
    """Return which file that a scenario reads, or which component of one's own, is another one here, if any."""
    own, access = scenario.own_components(), scenario.place.code
    for name in {*scenario.files(), *own} - checked:
        try:
            if name in own:
                refuse_stale(name, access)
            path = source_file(name, access) if name in own else scenario.locate(name)
            found = hashlib.sha256(path.read_bytes()).hexdigest()
        except (OSError, ValueError, InputError) as error:
            return str(error)
        if found != expected.get(name):
            return f"{name}: {path} is another one than where the run was started"
        checked.add(name)
    return None
