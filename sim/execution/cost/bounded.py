"""Do work for a limited time, with limited memory, in a child process; collect what it reports.

A linear program, a compiled kernel or the reading of a file cannot be interrupted from Python: a process can.
"""

from __future__ import annotations

import multiprocessing
import os
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
"""A child process may take half of the memory that is free, but this much in any case."""


@dataclass(slots=True)
class Collected(Generic[Report]):
    """What was reported until the work ended, and why it ended."""

    reports: list[Report] = field(default_factory=list)
    ending: Ending = "died"


@dataclass(frozen=True, slots=True)
class _Ended:
    ending: Ending
    error: BaseException | None = None


def collect(work: Callable[[], Iterable[Report]], *, limit_s: float) -> Collected[Report]:
    """Collect what `work` yields until it ends or `limit_s` seconds have passed. An error in it is raised here.

    The work is done in a child process, which is killed at the limit. Where there is no fork, where this process has
    several threads, which a fork would not copy, or may have no children (daemonic), it is done here: then the limit is
    checked after each report.
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
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads outside Python, as of BLAS
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
                raise report.error
            collected.ending = report.ending
            return
        collected.reports.append(report)


def _report(work: Callable[[], Iterable[Report]], sender: Connection, limit_s: float) -> None:
    """Send each report, then how the work ended; the body of the child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the parent, and the parent ends this process
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
        ended = _Ended("died", error)
    try:
        sender.send(ended)
    except OSError:  # the parent process has ended
        pass
    except Exception:  # an error that cannot be pickled
        sender.send(_Ended("died", RuntimeError(f"{type(ended.error).__name__}: {ended.error}")))


def _limit(limit_s: float) -> None:
    """Limit the memory of this process, and its CPU time in case the parent process dies."""
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
    """Return how much memory is available, None where the system does not tell."""
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
