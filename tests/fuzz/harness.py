"""Generate a case from a seed, run lppm-sim on it in a sandbox under a time limit, and evaluate the outcome.

A case is a folder with its whole input. It passes if lppm-sim accepts it and every check of the target holds, or
rejects it with a `UserError` whose message is suitable for a terminal. Everything else is a failure: any other
exception, a warning on standard error, a result that differs from the oracle, an escape from the folder, a hang.
"""

from __future__ import annotations

import faulthandler
import importlib
import io
import os
import pkgutil
import re
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType
from typing import Literal, Protocol

import click
from click.testing import CliRunner

from sim.cli import main
from sim.cli.group import Group
from sim.errors import UserError
from sim.scenario.reading.faults import ScenarioError
from tests.fuzz.sandbox import EscapeError, sandbox

CPU_LIMIT_S = 30.0
"""Limit on the CPU time of one case. The slowest valid ones take about 2 s; `check` takes at most 5 s by contract."""

_INTERNALS = re.compile(r"Traceback \(most recent call last\)| object at 0x[0-9a-f]+|<class '")
_LONGEST_MESSAGE = 20_000
_LONGEST_DETAILS = 400


class Target(Protocol):
    """A part of lppm-sim that reads untrusted input."""

    name: str

    def make(self, rng: Random, folder: Path) -> None:
        """Write the input of a case into an empty folder."""
        ...

    def drive(self, folder: Path) -> bool:
        """Run lppm-sim on the input; return whether it was accepted, raise `ProblemError` if a property fails."""
        ...


class ProblemError(Exception):
    """A violated property; `cause` groups problems of one kind."""

    def __init__(self, cause: str, details: str) -> None:
        super().__init__(f"{cause}: {details}")
        self.cause = cause


class HangError(BaseException):
    """An exceeded time limit; not an `Exception`, so that the code under test does not catch it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a case."""

    target: str
    number: int
    verdict: Literal["accepted", "rejected", "failed"]
    cpu_s: float
    cause: str = ""
    """Group of a failure: the exception and the innermost function of lppm-sim, or the violated property."""
    details: str = ""
    size: int = 0
    """Size of the input in bytes, to select the smallest one of a group."""


def random_for(target: str, seed: int, number: int) -> Random:
    """Return the random generator of one case, which depends only on these arguments."""
    return Random(f"{target}/{seed}/{number}")


def make_case(target: Target, seed: int, number: int, folder: Path) -> None:
    """Write the input of a case into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    target.make(random_for(target.name, seed, number), folder)


def run_case(target: Target, seed: int, number: int, work: Path) -> Outcome:
    """Generate and evaluate one case in a folder below `work`."""
    folder = work / "case"
    make_case(target, seed, number, folder)
    return judge(target, folder, number)


def judge(target: Target, folder: Path, number: int = 0) -> Outcome:
    """Run lppm-sim on an existing case and return the outcome."""
    began = time.process_time()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    verdict: Literal["accepted", "rejected", "failed"] = "rejected"
    cause = details = ""
    output = io.StringIO()
    with warnings.catch_warnings(record=True) as warned, redirect_stderr(output), redirect_stdout(output):
        warnings.simplefilter("always")
        try:
            with _current_folder(folder), cpu_limit(CPU_LIMIT_S), sandbox(folder):
                verdict = "accepted" if target.drive(folder) else "rejected"
        except (Exception, EscapeError, HangError) as error:
            cause, details = _failure(error)
    if warned and not cause:
        first = warned[0]
        place = f"{Path(first.filename).name}:{first.lineno}"
        cause, details = f"warning {first.category.__name__} at {place}", f"{place}: {first.message}"
    if output.getvalue() and not cause and (problem := text_problem(output.getvalue())):
        cause, details = f"output {problem}", repr(output.getvalue()[:_LONGEST_DETAILS])
    return Outcome(
        target.name, number, "failed" if cause else verdict, time.process_time() - began, cause, details, size
    )


def _failure(error: BaseException) -> tuple[str, str]:
    """Return cause and details of an exception; empty for a correct rejection."""
    stack = "".join(traceback.format_exception(error))
    match error:
        case UserError():
            problem = message_problem(error)
            details = f"{type(error).__name__}: {str(error)[:_LONGEST_DETAILS]!r}"
            return (f"message {problem}", details) if problem else ("", "")
        case ProblemError():
            return error.cause, str(error)
        case EscapeError():
            return f"escape: {re.sub(r'[:(].*', '', str(error)).strip()}", stack
        case HangError():
            return f"hang at {_innermost(error)}", stack
        case _:
            return f"{type(error).__name__} in {_innermost(error)}", stack


def message_problem(error: UserError) -> str:
    """Return the reason why an error message is not suitable for a terminal, or an empty string."""
    if isinstance(error, ScenarioError) and not all(fault.where for fault in error.faults):
        return "has no place"
    return text_problem(_printed(error)) if str(error).strip() else "is empty"


def _printed(error: UserError) -> str:
    """Return the output of the command line for an error."""

    @click.group(cls=Group)
    def program() -> None: ...

    @program.command()
    def fail() -> None:
        raise error

    return CliRunner().invoke(program, ["fail"], color=True).output


def text_problem(text: str) -> str:
    """Return the reason why a text is not suitable for a terminal, or an empty string."""
    if not text.strip():
        return "is empty"
    if _INTERNALS.search(text):
        return "shows Python internals"
    if any(not (letter.isprintable() or letter == "\n") for letter in text):
        return "has control characters"
    return "is longer than 20,000 characters" if len(text) > _LONGEST_MESSAGE else ""


def command(*arguments: str | Path) -> tuple[bool, str]:
    """Run a command of `lppm-sim` in this process; return whether it succeeded, and its output."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], color=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in (0, 1, 2):
        raise ProblemError("exit code", f"{arguments[0]} ended with {result.exit_code}")
    if (problem := text_problem(result.output)) and (result.output or result.exit_code):
        raise ProblemError(f"output of {arguments[0]} {problem}", result.output[:_LONGEST_DETAILS])
    return result.exit_code == 0, result.output


def _innermost(error: BaseException) -> str:
    """Return the innermost function of lppm-sim in the traceback of an exception."""
    frames = traceback.extract_tb(error.__traceback__)
    of_sim = [frame for frame in frames if f"{os.sep}sim{os.sep}" in frame.filename] or list(frames[-1:])
    return f"{Path(of_sim[-1].filename).name}:{of_sim[-1].name}" if of_sim else "?"


@contextmanager
def _current_folder(folder: Path) -> Iterator[None]:
    """Work in the folder of the case, also for temporary files: default outputs must be written there."""
    before = Path.cwd()
    os.chdir(folder)
    temporary, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        yield
    finally:
        os.chdir(before)
        tempfile.tempdir = temporary


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise `HangError` when this process has used this amount of CPU time.

    CPU time is used so that a busy machine does not fail a case. A case that waits without using CPU time is ended by
    the wall-clock limit of the worker or of the test.
    """

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise HangError(f"more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def wall_limit(seconds: float, dump: int) -> Iterator[None]:
    """End this process after this time and write the stacks of all threads to a file descriptor."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=dump)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def warm_up() -> None:
    """Import all modules that commands import lazily, so that no case is charged for it or seems to write a cache."""
    from matplotlib.font_manager import findfont

    from sim.inference import kernels

    for package in ("sim.cli", "sim.datasets", "sim.execution.cost", "sim.plots", "sim.report", "sim.storage"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, prefix=f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    findfont("DejaVu Sans")
    kernels.compiled()
