"""Worker processes that evaluate cases; a worker that dies or hangs fails its case and is replaced."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from tests.fuzz.harness import Outcome, make_case, run_case, wall_limit, warm_up
from tests.fuzz.targets import TARGETS

WALL_LIMIT_S = 300.0
"""Wall-clock limit of a case that waits without using CPU time; longer than CPU_LIMIT_S takes on a busy machine."""
MOST_BYTES = 3 * 10**9
"""Memory limit of a worker: a case that needs more fails with a MemoryError."""


class _Worker:
    """A process that evaluates one case at a time."""

    def __init__(self, seed: int, assets: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.dump = Path(tempfile.mkstemp(dir=assets, prefix="stacks-")[1])
        process = context.Process(target=_work, args=(other, seed, assets, self.dump), daemon=True)
        self.process: BaseProcess = process
        process.start()
        other.close()
        self.case: tuple[str, int] | None = None
        self.since = 0.0

    def give(self, case: tuple[str, int]) -> None:
        self.case, self.since = case, time.monotonic()
        self.connection.send(case)

    def post_mortem(self) -> Outcome:
        """Return the outcome of a case whose process died, with the stacks that it wrote."""
        self.process.kill()
        self.process.join()
        target, number = self.case or ("?", 0)
        stacks = self.dump.read_text(errors="replace")
        cause = "hang (wall-clock limit)" if "Timeout" in stacks else f"worker died (exit code {self.process.exitcode})"
        return Outcome(target, number, "failed", time.monotonic() - self.since, cause, stacks[-4000:])

    def end(self) -> None:
        self.connection.close()
        self.process.join(timeout=5)
        self.process.kill()


def judged(cases: list[tuple[str, int]], seed: int, workers: int, assets: Path) -> Iterator[Outcome]:
    """Yield the outcome of every case, in order of completion."""
    remaining = iter(cases)
    pool = [_Worker(seed, assets) for _ in range(workers)]
    try:
        for worker in pool:
            _give_next(worker, remaining)
        while busy := {worker.connection: worker for worker in pool if worker.case is not None}:
            for connection in wait(list(busy), timeout=WALL_LIMIT_S):
                worker = busy[connection]  # type: ignore[index]
                try:
                    outcome: Outcome = worker.connection.recv()
                except (EOFError, OSError):
                    outcome = worker.post_mortem()
                    pool[pool.index(worker)] = worker = _Worker(seed, assets)
                yield outcome
                _give_next(worker, remaining)
    finally:
        for worker in pool:
            worker.end()


def _give_next(worker: _Worker, remaining: Iterator[tuple[str, int]]) -> None:
    worker.case = None
    if (case := next(remaining, None)) is not None:
        worker.give(case)


def _work(connection: Connection, seed: int, assets: Path, dump: Path) -> None:
    """Evaluate cases until the connection is closed; stdout and stderr are those of the driver."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_BYTES, MOST_BYTES))
    warm_up()
    targets = {name: make(assets) for name, make in TARGETS.items()}
    work = Path(tempfile.mkdtemp(dir=assets, prefix="work-"))
    with dump.open("w") as stacks:
        faulthandler.enable(stacks)
        while True:
            try:
                name, number = connection.recv()
            except EOFError:
                break
            with wall_limit(WALL_LIMIT_S, stacks.fileno()):
                outcome = run_case(targets[name], seed, number, work)
            connection.send(outcome)
    shutil.rmtree(work, ignore_errors=True)


def store(outcome: Outcome, seed: int, assets: Path, folder: Path) -> Path:
    """Write the input of a failed case and its problem into a new folder."""
    case_folder = folder / f"{outcome.target}-{seed}-{outcome.number}"
    make_case(TARGETS[outcome.target](assets), seed, outcome.number, case_folder)
    (case_folder / "problem.txt").write_text(f"{outcome.cause}\n\n{outcome.details}\n")
    return case_folder


def prepared(assets: Path) -> Path:
    """Create the files that all cases share."""
    os.environ.setdefault("LPPM_SIM_CACHE", "off")
    warm_up()
    for make in TARGETS.values():
        make(assets)
    return assets
