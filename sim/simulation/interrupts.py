"""Distinguish a real Ctrl-C from a `KeyboardInterrupt`, `SystemExit` or the like that component code raises.

Only SIGINT, and SIGTERM, which batch systems send, may stop a run. An exception of component code that would end the
program is a failure of that component, whatever its class. A handler that records each signal distinguishes the two.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, NoReturn

from sim.errors import InputError

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that stop a run: Ctrl-C, and the request of a batch system to end."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or SIGTERM, with a message that states which results are saved and which are lost."""


class ComponentExit(InputError):
    """Component code raised an exception that would have ended the program."""

    code = "component-exit"


class _Signals:
    """The last signal since the outermost `recorded` block began, if any, and the number of open blocks."""

    received: int | None = None
    depth = 0


def record(number: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
    """Record that a signal arrived."""
    _Signals.received = number


def handle(number: int, _frame: FrameType | None) -> NoReturn:
    """Handle a signal as Python handles SIGINT, and record it."""
    record(number)
    raise KeyboardInterrupt


def interrupted() -> bool:
    """Return whether a signal arrived; always False outside the main thread, which signals do not stop."""
    return _Signals.received is not None and threading.current_thread() is threading.main_thread()


def exit_code() -> int:
    """Return the exit code of an interrupted command: 1 after Ctrl-C, 143 (128 + 15) after SIGTERM."""
    return 128 + signal.SIGTERM if _Signals.received == signal.SIGTERM else 1


def is_default(handler: Any) -> bool:
    """Return whether a signal handler is Python's default for SIGINT or `handle`."""
    return handler in (signal.default_int_handler, handle)


@contextmanager
def recorded() -> Iterator[None]:
    """Record SIGINT and SIGTERM while the block runs, and raise KeyboardInterrupt for both.

    A custom handler of SIGINT is called as before, one of SIGTERM is left alone; an ignored signal stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _Signals.depth:
        _Signals.received = None
    _Signals.depth += 1
    try:
        with _recording_sigint(), _recording_sigterm():
            yield
    finally:
        _Signals.depth -= 1


@contextmanager
def _recording_sigint() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    if before is handle or not callable(before):
        yield
        return
    custom = None if is_default(before) else before

    def record_and_call(number: int, frame: FrameType | None) -> None:
        record(number)
        assert custom is not None
        custom(number, frame)

    with handled(signal.SIGINT, handle if custom is None else record_and_call):
        yield


@contextmanager
def _recording_sigterm() -> Iterator[None]:
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    with handled(signal.SIGTERM, handle):
        yield


@contextmanager
def handled(number: signal.Signals, handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Handle a signal with `handler` while the block runs."""
    before = signal.signal(number, handler)
    try:
        yield
    finally:
        signal.signal(number, before)


@contextmanager
def explained(message: str) -> Iterator[None]:
    """Convert an interrupt of the block into `Interrupted` with this message."""
    try:
        yield
    except Interrupted:
        raise
    except KeyboardInterrupt as error:
        raise Interrupted(message) from error


_STOPS = "_lppm_sim_stops_the_run"


def stop_run(error: BaseException) -> None:
    """Mark an exception of the caller, such as one of a progress callback, so that it ends the run."""
    setattr(error, _STOPS, True)


def reraise_interrupt(error: BaseException) -> None:
    """Raise KeyboardInterrupt if a signal arrived, and any exception that `stop_run` marked.

    Component code may have replaced the KeyboardInterrupt with another exception.
    """
    if interrupted():
        raise error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt from error
    for candidate in (error, error.__cause__):  # SimPy raises a copy
        if candidate is not None and getattr(candidate, _STOPS, False):
            raise candidate


@contextmanager
def contained(doing: str) -> Iterator[None]:
    """Raise a `ComponentExit` for an exception in the block that would end the program without a signal."""
    try:
        yield
    except Exception:
        raise
    except BaseException as error:
        reraise_interrupt(error)
        if isinstance(error.__context__, BrokenPipeError):  # rich exits when its output pipe is closed
            raise
        raise ComponentExit(f"{doing}: {described(error)}") from error


def described(error: BaseException) -> str:
    """Return the exception, the place where it was raised, and which exceptions to raise instead."""
    return (
        f"{raised_at(error)} raised {error!r}, which would end the program: raise a ValueError or RuntimeError instead"
    )


def raised_at(error: BaseException) -> str:
    """Return file, line and function that raised an exception."""
    while type(error.__cause__) is type(error):  # SimPy raises a copy
        error = error.__cause__
    *_, frame = traceback.extract_tb(error.__traceback__)
    return f"{frame.filename!r}, line {frame.lineno}, in {frame.name}"


@contextmanager
def signals_delayed() -> Iterator[None]:
    """Delay SIGINT and SIGTERM until the end of the block.

    Processes and threads started in the block never receive SIGINT, since they inherit the mask. They receive SIGTERM,
    with which multiprocessing and Dask end them.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python 3.11 and 3.12 unblock SIGINT when multiprocessing starts this helper process, so it is started before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _sigterm_delayed():
            yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _sigterm_delayed() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGTERM) is not handle:
        yield
        return
    arrived: list[int] = []
    with handled(signal.SIGTERM, lambda number, _frame: arrived.append(number)):
        yield
    if arrived:
        handle(arrived[0], None)
