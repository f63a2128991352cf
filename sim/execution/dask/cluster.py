"""Pool on a Dask cluster: submit chunks to its workers, and retry those whose worker dies."""

from __future__ import annotations

import itertools
import logging
import queue
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.execution.dask import connection, worker
from sim.execution.dask.connection import dask_module
from sim.execution.dask.waiting import LOOK_EVERY_S, RESUMES, Watch, WorkersLostError
from sim.execution.dask.worker import SAME_ENVIRONMENT
from sim.execution.plan import Chunk
from sim.execution.pool import TRIES, Answer, Done, Failure, to_stderr, usable_cores
from sim.simulation.progress import Tick
from sim.storage.errors import RequestError, RunError
from sim.storage.run_directory import RunDirectory

WINDOW = 2
"""Number of submitted chunks for each thread of the cluster: one is simulated, the next waits at the worker."""
WAIT_S = 3600.0
"""Default time that a run waits while a remote cluster has no worker: a batch system may start them late."""
MOST_LOSSES = 5
"""Maximum number of restarts of a local cluster in a row without a finished chunk."""

_ANSWER_S = 60.0
"""Maximum time of a scheduler to answer. A worker that imports lppm-sim first may take ten times as long."""
_MOST_LISTED = 5


class Cluster:
    """Pool on a Dask cluster. Workers may join, leave and die; a chunk whose workers repeatedly die has failed."""

    def __init__(
        self,
        address: str,
        workers: int | None = None,
        notify: Callable[[str], None] = to_stderr,
        *,
        timeout_s: float | None = None,
    ) -> None:
        """Start `workers` processes for "local", or connect to the scheduler at an address or in a scheduler file.

        `notify` receives a message when the run waits. While the cluster has no worker the run waits at most
        `timeout_s` in (0, inf) (default: `WAIT_S`, for "local" `LOCAL_WAIT_S`); then it ends with an error, or
        restarts a local cluster.
        """
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be in [1, inf), got {workers}")
        if timeout_s is not None and not 0 < timeout_s < float("inf"):
            raise RequestError(
                f"dask_timeout (--dask-timeout) must be in (0, inf) seconds, got {timeout_s}", code="invalid-value"
            )
        distributed = dask_module()
        self._notify = notify
        self._watch = Watch(timeout_s or (connection.LOCAL_WAIT_S if address == "local" else WAIT_S), notify)
        self._token = uuid.uuid4().hex[:8]
        self._submissions = itertools.count()
        self._losses = 0
        self._verified: RunDirectory | None = None
        self._settings = ExitStack()
        self._settings.enter_context(distributed.utils.silence_logging_cmgr(logging.CRITICAL))
        self.address = address
        self._local: Any = None
        self._client: Any = None
        try:
            self._open(address, workers)
        except BaseException:
            self.close()
            raise

    def _open(self, address: str, workers: int | None) -> None:
        if address == "local":
            # Tasks of a killed cluster report lost connections, with tracebacks, even after it is closed.
            logging.getLogger("distributed").setLevel(logging.CRITICAL)
            # A worker may take longer to restart than Dask's default of 15 s, after which Dask drops its nanny.
            lost_after = {connection.LOST_WORKER_TIMEOUT: f"{self._watch.timeout_s} s"}
            self._settings.enter_context(dask_module("dask").config.set(lost_after | connection.SILENT_WORKERS))
            self._workers = workers or usable_cores()
            self._start_local()
        elif workers is not None:
            raise RequestError(
                f"workers (--workers) sets the size of a `local` Dask cluster: omit it with the scheduler at {address}",
                code="exclusive-options",
            )
        else:
            self.address = connection.address_in(Path(address)) if address.endswith(".json") else address
            self._client = connection.connect(self.address)

    def _start_local(self) -> None:
        self._local = connection.start_local(self._workers)
        self.address = self._local.scheduler_address
        self._client = connection.connect(self.address, self._local)

    @property
    def in_process(self) -> bool:
        """Whether all workers are threads of this process and so share its memory."""
        return str(self.address).startswith("inproc://")

    def run(self, chunks: Iterable[Chunk], directory: RunDirectory, tick: Tick) -> Iterator[Done | Failure]:
        """Keep a few chunks submitted for each thread of the cluster until all have ended."""
        if not directory.shared and not self.in_process:
            raise RequestError(
                f"{directory} is in the memory of this process: workers of a cluster cannot write there; use a shared "
                "folder",
                code="directory-not-shared",
            )
        remaining = iter(chunks)
        if (first := next(remaining, None)) is None:
            return
        self._refuse_unfit_workers(first, directory)
        suspects: list[Chunk] = []
        for chunk, answer in self._answers(itertools.chain([first], remaining), directory, tick, window=WINDOW):
            if isinstance(answer, _Killed):
                suspects.append(chunk)
            else:
                yield answer.ended(chunk)
        # Dask blames every chunk that a dead worker held. Running them one at a time shows which one kills workers.
        for suspect in suspects:
            yield self._run_alone(suspect, directory, tick)

    def _run_alone(self, suspect: Chunk, directory: RunDirectory, tick: Tick) -> Done | Failure:
        """Simulate a chunk while no other is submitted; it has failed if its workers die repeatedly."""
        deaths = 0
        while True:
            ((chunk, answer),) = self._answers(iter([suspect]), directory, tick, window=None)
            if not isinstance(answer, _Killed):
                return answer.ended(chunk)
            deaths += answer.times
            if deaths >= TRIES:
                self._losses = 0
                return Failure(chunk, f"its worker died {deaths} times")

    def close(self) -> None:
        """Kill a local cluster; release unfinished chunks on a remote one."""
        self._disconnect()
        self._settings.close()

    def _disconnect(self) -> None:
        client, local = self._client, self._local
        self._client = self._local = None
        if client is not None:
            if local is None:
                with suppress(Exception):  # workers may have left
                    client.run(worker.release_later, self._token, wait=False, callback_timeout=connection.REACH_S)
            with suppress(Exception):
                client.close(timeout=connection.REACH_S)
        if local is not None:
            with suppress(Exception):
                connection.kill_local(local)

    def _restart_local(self) -> None:
        """Restart a local cluster that has lost its workers; raise RunError after too many restarts."""
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise RunError(
                f"the local Dask cluster lost all its workers {self._losses} times without finishing a chunk: use "
                f"fewer --workers or more memory, or run without --dask. {RESUMES}",
                code="workers-lost",
            )
        self._notify(
            f"the local Dask cluster has lost all its workers: restarting it ({self._losses} of at most {MOST_LOSSES} "
            "times in a row)"
        )
        self._disconnect()
        try:
            self._start_local()
        except (OSError, RuntimeError, RequestError) as error:
            raise RunError(
                f"the local Dask cluster cannot be restarted ({error!r}). {RESUMES}", code="workers-lost"
            ) from error
        self._watch.restart()

    def _answers(
        self, chunks: Iterator[Chunk], directory: RunDirectory, tick: Tick, *, window: int | None
    ) -> Iterator[tuple[Chunk, Answer | _Killed]]:
        """Submit chunks, `window` for each thread or one at a time (None), and yield each with its answer."""
        submitted: dict[str, tuple[Any, Chunk]] = {}
        ended: queue.SimpleQueue[Any] = queue.SimpleQueue()
        try:
            while True:
                try:
                    threads = max(self._watch.threads(self._client, self.address, self._local), 1)
                except WorkersLostError:
                    lost = [chunk for _, chunk in submitted.values()]
                    submitted.clear()
                    self._restart_local()
                    yield from ((chunk, _Killed(1)) for chunk in lost)
                    continue
                limit = 1 if window is None else window * threads
                for chunk in itertools.islice(chunks, max(limit - len(submitted), 0)):
                    future = self._submit(chunk, directory)
                    submitted[future.key] = future, chunk
                    future.add_done_callback(ended.put)
                if not submitted:
                    return
                try:
                    future = ended.get(timeout=LOOK_EVERY_S)
                except queue.Empty:
                    continue
                if future.key not in submitted:  # submitted to a cluster that has been replaced
                    continue
                _, chunk = submitted[future.key]
                if (answer := self._answer(future, chunk, tick)) is None:
                    future.add_done_callback(ended.put)
                    continue
                del submitted[future.key]
                if not isinstance(answer, _Killed):
                    self._losses = 0
                yield chunk, answer
        finally:
            if submitted:
                with suppress(Exception):
                    self._client.cancel([future for future, _ in submitted.values()], force=True)

    def _submit(self, chunk: Chunk, directory: RunDirectory) -> Any:
        key = f"lppm_sim-{chunk.id}-{self._token}-{next(self._submissions)}"
        return self._client.submit(worker.simulate, worker.pack(chunk, directory, self._token), key=key, pure=False)

    def _answer(self, future: Any, chunk: Chunk, tick: Tick) -> Answer | _Killed | None:
        """Return the answer of a task, or `_Killed` if its workers died; None if the worker died before answering."""
        try:
            answer, queries = future.result(timeout=connection.REACH_S)
        except TimeoutError:
            return None
        except dask_module().KilledWorker as error:
            return _Killed(error.allowed_failures + 1)
        except CancelledError as error:
            raise RunError(
                f"the Dask scheduler at {self.address} has ended or dropped its tasks. {RESUMES}", code="scheduler-lost"
            ) from error
        except ImportError as error:  # raised before the first line of the task
            raise RunError(
                f"a worker of {self.address} cannot run lppm-sim ({error}): {SAME_ENVIRONMENT}", code="unfit-worker"
            ) from error
        except Exception as error:
            return Answer.of(chunk, error)
        tick(queries)
        return Answer(*answer)._replace(queries=queries)

    def _has_workers(self) -> bool:
        """Return whether the cluster has a worker; restart a local cluster that has lost all of them."""
        try:
            return self._watch.threads(self._client, self.address, self._local) > 0
        except WorkersLostError:
            self._restart_local()
            return False

    def _refuse_unfit_workers(self, chunk: Chunk, directory: RunDirectory) -> None:
        """Wait for the first worker, then raise RequestError if a worker cannot take part in this run."""
        if self._verified == directory:
            return
        self._token = uuid.uuid4().hex[:8]  # workers drop the manifest and the populations of another run
        while not self._has_workers():
            time.sleep(LOOK_EVERY_S / 5)
        try:
            # The scheduler unpickles tasks, so it needs lppm-sim too.
            self._client.run_on_scheduler(worker.release, self._token, callback_timeout=_ANSWER_S)
        except Exception as error:
            raise RequestError(
                f"the scheduler at {self.address} cannot run lppm-sim ({error!r}): {SAME_ENVIRONMENT}",
                code="unfit-worker",
            ) from error
        order = worker.pack(chunk, directory, self._token)
        try:
            answers = self._client.run(
                worker.fault_of_worker, order, on_error="return", callback_timeout=10 * _ANSWER_S
            )
        except TimeoutError as error:
            raise RunError(f"a worker of {self.address} does not answer. {RESUMES}", code="worker-timeout") from error
        # An unreachable worker (OSError) is about to leave the cluster.
        faults = {
            name: fault for name, fault in answers.items() if fault is not None and not isinstance(fault, OSError)
        }
        if faults:
            raise RequestError(_listed_faults(faults, len(answers), self.address), code="unfit-worker")
        self._verified = directory


@dataclass(frozen=True, slots=True)
class _Killed:
    """Outcome of a chunk that Dask dropped because its workers died."""

    times: int
    """Number of workers that died."""


def _listed_faults(faults: dict[str, str | Exception], workers: int, address: str) -> str:
    """Return the message about workers that cannot take part; `faults` are by worker name."""
    lines = [f"{len(faults)} of {workers} workers of {address} cannot take part:"]
    for name, fault in sorted(faults.items())[:_MOST_LISTED]:
        reason = f"it cannot run lppm-sim ({fault!r}): {SAME_ENVIRONMENT}" if isinstance(fault, Exception) else fault
        lines.append(f"  {name}: {reason}")
    if len(faults) > _MOST_LISTED:
        lines.append(f"  and {len(faults) - _MOST_LISTED} more")
    return "\n".join(lines)
