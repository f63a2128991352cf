"""Run a generator in a child process with limited time and memory, and collect its items.

A linear program, a compiled kernel or the reading of a file cannot be interrupted from Python, but a process can be
killed.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Generic, Literal, TypeVar

from sim.simulation.interrupts import contained

Report = TypeVar("Report")
Ending = Literal["finished", "time", "memory", "died"]

LEAST_BYTES = 500_000_000
"""Minimum memory limit of a child process, which may use half of the free memory."""


@dataclass(slots=True)
class Collected(Generic[Report]):
    """Items that the work reported, and the reason why it ended."""

    reports: list[Report] = field(default_factory=list)
    ending: Ending = "died"


@dataclass(frozen=True, slots=True)
class _Ended:
    ending: Ending
    error: bytes | None = None
    """Pickled error; the parent process may be unable to import its class, which a component may define."""
    text: str = ""
    """Type and message of the error."""

    @classmethod
    def failed(cls, error: Exception) -> _Ended:
        """Describe an error, which need not be picklable.

        Its causes are dropped, because tblib, which Dask imports, would pickle them as well.
        """
        error = error.with_traceback(None)
        error.__cause__ = error.__context__ = None
        try:
            pickled = pickle.dumps(error)
        except Exception:
            pickled = b""
        return cls("died", pickled, f"{type(error).__name__}: {error}")

    def exception(self) -> BaseException:
        """Return the error, or a `RuntimeError` with its text if it cannot be unpickled here."""
        try:
            error = pickle.loads(self.error or b"")
        except Exception:
            error = RuntimeError(self.text)
        return error if isinstance(error, BaseException) else RuntimeError(self.text)


def collect(work: Callable[[], Iterable[Report]], *, limit_s: float) -> Collected[Report]:
    """Collect the items that `work` yields until it ends or `limit_s` seconds have passed; re-raise an error in it.

    The work runs in a child process, which is killed at the limit. It runs in this process if the platform cannot fork,
    if this process has several threads (a fork would not copy them), or if it is daemonic and may have no children.
    Then the limit is checked after each item.
    """
    can_fork = hasattr(os, "fork") and sys.platform != "darwin"
    if not can_fork or threading.active_count() > 1 or multiprocessing.current_process().daemon:
        return _collect_here(work, limit_s)
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_report, args=(work, sender, limit_s), daemon=True)
    collected: Collected[Report] = Collected()
    deadline_s = time.monotonic() + limit_s
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about threads outside Python, such as those of BLAS
            process.start()
        sender.close()
        _receive(receiver, collected, deadline_s)
    finally:
        if process.pid is not None:
            process.kill()
            process.join()
        receiver.close()
    return collected


def _receive(receiver: Connection, collected: Collected[Report], deadline_s: float) -> None:
    while True:
        remaining_s = deadline_s - time.monotonic()
        if remaining_s <= 0 or not receiver.poll(min(remaining_s, 1e6)):
            collected.ending = "time"
            return
        try:
            report = receiver.recv()
        except EOFError:  # killed by the system
            return
        if isinstance(report, _Ended):
            if report.error is not None:
                raise report.exception()
            collected.ending = report.ending
            return
        collected.reports.append(report)


def _report(work: Callable[[], Iterable[Report]], sender: Connection, limit_s: float) -> None:
    """Send each item, then the reason for the end; the main function of the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, which kills this process
    _limit(limit_s)
    ended = _Ended("finished")
    try:
        with contained("a component"):
            for report in work():
                sender.send(report)
    except MemoryError:
        ended = _Ended("memory")
    except Exception as error:
        with suppress(Exception):
            error.add_note("".join(traceback.format_exception(error)))
        ended = _Ended.failed(error)
    with suppress(OSError):  # the parent process has ended
        sender.send(ended)


def _limit(limit_s: float) -> None:
    """Limit the memory of this process, and its CPU time in case the parent process dies first."""
    import resource

    if (free := _free_bytes()) is not None:
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        most = pages * os.sysconf("SC_PAGE_SIZE") + max(LEAST_BYTES, free // 2)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
    if limit_s < 1e6:
        seconds = int(limit_s) + 5
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _free_bytes() -> int | None:
    """Return the available memory in bytes; None if the system does not report it."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = [int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")]
    return sizes[0] if sizes else None


def _collect_here(work: Callable[[], Iterable[Report]], limit_s: float) -> Collected[Report]:
    collected: Collected[Report] = Collected(ending="finished")
    deadline_s = time.monotonic() + limit_s
    try:
        for report in work():
            collected.reports.append(report)
            if time.monotonic() > deadline_s:
                collected.ending = "time"
                break
    except MemoryError:
        collected.ending = "memory"
    return collected
