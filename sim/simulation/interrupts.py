"""Distinguish a real Ctrl-C from a `KeyboardInterrupt`, `SystemExit` or the like that component code raises.

Only SIGINT may stop a run. An exception of component code that would end the program is a failure of that component,
whatever its class. A signal handler that records each SIGINT distinguishes the two.
"""

from __future__ import annotations

import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, NoReturn

from sim.errors import InputError


class Interrupted(KeyboardInterrupt):
    """Ctrl-C, with a message that states which results are saved and which are lost."""


class ComponentExit(InputError):
    """Component code raised an exception that would have ended the program."""

    code = "component-exit"


class _Signals:
    """Whether SIGINT arrived since the outermost `recorded` block began, and the number of open blocks."""

    received = False
    depth = 0


def record(_signal: int = signal.SIGINT, _frame: FrameType | None = None) -> None:
    """Record that SIGINT arrived."""
    _Signals.received = True


def handle(_signal: int, _frame: FrameType | None) -> NoReturn:
    """Handle SIGINT as Python does, and record it."""
    record()
    raise KeyboardInterrupt


def interrupted() -> bool:
    """Return whether SIGINT arrived; always False outside the main thread, which SIGINT does not stop."""
    return _Signals.received and threading.current_thread() is threading.main_thread()


def is_default(handler: Any) -> bool:
    """Return whether a SIGINT handler is Python's default or `handle`."""
    return handler in (signal.default_int_handler, handle)


@contextmanager
def recorded() -> Iterator[None]:
    """Record SIGINT while the block runs. A custom handler is called as before; an ignored signal stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    if not _Signals.depth:
        _Signals.received = False
    _Signals.depth += 1
    try:
        with _recording_handler():
            yield
    finally:
        _Signals.depth -= 1


@contextmanager
def _recording_handler() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    if before is handle or not callable(before):
        yield
        return
    custom = None if is_default(before) else before

    def record_and_call(number: int, frame: FrameType | None) -> None:
        record()
        assert custom is not None
        custom(number, frame)

    signal.signal(signal.SIGINT, handle if custom is None else record_and_call)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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
    """Raise KeyboardInterrupt if SIGINT arrived, and any exception that `stop_run` marked.

    Component code may have replaced the KeyboardInterrupt with another exception.
    """
    if interrupted():
        raise error if isinstance(error, KeyboardInterrupt) else KeyboardInterrupt from error
    for candidate in (error, error.__cause__):  # SimPy raises a copy
        if candidate is not None and getattr(candidate, _STOPS, False):
            raise candidate


@contextmanager
def contained(doing: str) -> Iterator[None]:
    """Raise a `ComponentExit` for an exception in the block that would end the program without a Ctrl-C."""
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
def sigint_blocked() -> Iterator[None]:
    """Block SIGINT: processes and threads started in the block never receive it, this one receives it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Python 3.11 and 3.12 unblock SIGINT when multiprocessing starts this helper process, so it is started before.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
