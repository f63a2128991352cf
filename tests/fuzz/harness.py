"""Make a case from a seed, feed it to the product in a sandbox under a time limit, and judge how it ended.

A case is a folder that holds its whole input. It passes if the product accepts it and every check of the target holds,
or refuses it with a `UserError` that is fit for a terminal. Everything else is a failure: any other exception, a
warning on standard error, a result that differs from the oracle, an escape from the folder, a hang.
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
"""CPU time of one case. The slowest legitimate ones take about 2 s, and `check` promises 5 s for any scenario."""

_INTERNALS = re.compile(r"Traceback \(most recent call last\)| object at 0x[0-9a-f]+|<class '")
_LONGEST_MESSAGE = 20_000
_LONGEST_TOLD = 400


class Target(Protocol):
    """A part of the product that reads what others wrote."""

    name: str

    def make(self, rng: Random, folder: Path) -> None:
        """Write the input of a case into an empty folder."""
        ...

    def drive(self, folder: Path) -> bool:
        """Feed the input to the product and return whether it was accepted; raise `Problem` if a property fails."""
        ...


class ProblemError(Exception):
    """A property does not hold; `cause` groups problems of one kind."""

    def __init__(self, cause: str, details: str) -> None:
        super().__init__(f"{cause}: {details}")
        self.cause = cause


class HangError(BaseException):
    """The time limit of a case is over; not an `Exception`, so that nobody catches it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a case ended."""

    target: str
    number: int
    verdict: Literal["accepted", "refused", "failed"]
    cpu_s: float
    cause: str = ""
    """What failures are grouped by: the exception and the innermost function of the product, or the property."""
    details: str = ""
    size: int = 0
    """Bytes of the input of a failure, to find the smallest one."""


def random_for(target: str, seed: int, number: int) -> Random:
    """Return the randomness of one case: it depends on nothing else."""
    return Random(f"{target}/{seed}/{number}")


def make_case(target: Target, seed: int, number: int, folder: Path) -> None:
    """Write the input of a case into a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    target.make(random_for(target.name, seed, number), folder)


def run_case(target: Target, seed: int, number: int, work: Path) -> Outcome:
    """Make and judge one case in a folder below `work`."""
    folder = work / "case"
    make_case(target, seed, number, folder)
    return judge(target, folder, number)


def judge(target: Target, folder: Path, number: int = 0) -> Outcome:
    """Feed a case that is there to the product and say how it ended."""
    began = time.process_time()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    verdict: Literal["accepted", "refused", "failed"] = "refused"
    cause = details = ""
    said = io.StringIO()
    with warnings.catch_warnings(record=True) as warned, redirect_stderr(said), redirect_stdout(said):
        warnings.simplefilter("always")
        try:
            with _elsewhere(folder), cpu_limit(CPU_LIMIT_S), sandbox(folder):
                verdict = "accepted" if target.drive(folder) else "refused"
        except (Exception, EscapeError, HangError) as error:
            cause, details = _failure(error)
    if warned and not cause:
        first = warned[0]
        place = f"{Path(first.filename).name}:{first.lineno}"
        cause, details = f"warning {first.category.__name__} at {place}", f"{place}: {first.message}"
    if said.getvalue() and not cause and (wrong := wrong_text(said.getvalue())):
        cause, details = f"output {wrong}", repr(said.getvalue()[:_LONGEST_TOLD])
    return Outcome(
        target.name, number, "failed" if cause else verdict, time.process_time() - began, cause, details, size
    )


def _failure(error: BaseException) -> tuple[str, str]:
    """Return what an exception is grouped by and its details; nothing for a refusal that is as it should be."""
    stack = "".join(traceback.format_exception(error))
    match error:
        case UserError():
            wrong = wrong_with(error)
            return (
                (f"message {wrong}", f"{type(error).__name__}: {str(error)[:_LONGEST_TOLD]!r}") if wrong else ("", "")
            )
        case ProblemError():
            return error.cause, str(error)
        case EscapeError():
            return f"escape: {re.sub(r'[:(].*', '', str(error)).strip()}", stack
        case HangError():
            return f"hang at {_innermost(error)}", stack
        case _:
            return f"{type(error).__name__} in {_innermost(error)}", stack


def wrong_with(error: UserError) -> str:
    """Return what makes the message of an error unfit for a terminal; empty if nothing does."""
    if isinstance(error, ScenarioError) and not all(fault.where for fault in error.faults):
        return "names no place"
    return wrong_text(_printed(error)) if str(error).strip() else "is empty"


def _printed(error: UserError) -> str:
    """Return what the command line prints of an error."""

    @click.group(cls=Group)
    def program() -> None: ...

    @program.command()
    def fail() -> None:
        raise error

    return CliRunner().invoke(program, ["fail"], color=True).output


def wrong_text(text: str) -> str:
    """Return what makes a text unfit for a terminal; empty if nothing does."""
    if not text.strip():
        return "is empty"
    if _INTERNALS.search(text):
        return "shows Python internals"
    if any(not (letter.isprintable() or letter == "\n") for letter in text):
        return "has control characters"
    return "is longer than 20,000 characters" if len(text) > _LONGEST_MESSAGE else ""


def command(*words: str | Path) -> tuple[bool, str]:
    """Run a command of `lppm-sim` in this process; return whether it succeeded, and all that it printed."""
    result = CliRunner().invoke(main, [str(word) for word in words], color=True)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    if result.exit_code not in (0, 1, 2):
        raise ProblemError("exit code", f"{words[0]} ended with {result.exit_code}")
    if (wrong := wrong_text(result.output)) and (result.output or result.exit_code):
        raise ProblemError(f"output of {words[0]} {wrong}", result.output[:_LONGEST_TOLD])
    return result.exit_code == 0, result.output


def _innermost(error: BaseException) -> str:
    """Return the function of the product nearest to where an exception was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}sim{os.sep}" in frame.filename] or list(frames[-1:])
    return f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "?"


@contextmanager
def _elsewhere(folder: Path) -> Iterator[None]:
    """Work in the case's own folder: whatever is written by default must land there."""
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
    """Raise `HangError` when this process has used so much CPU time, with the stacks of all threads on stderr.

    CPU time, so that a busy machine cannot fail a case. What waits without using any is ended by the worker's own
    limit on wall-clock time, or by that of the test.
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
    """End this process when so much time has passed, with the stacks of all threads written to a file descriptor."""
    faulthandler.dump_traceback_later(seconds, exit=True, file=dump)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def warm_up() -> None:
    """Import what commands import when they need it, so that no case pays for it or seems to write a cache."""
    from matplotlib.font_manager import findfont

    from sim.inference import kernels

    for package in ("sim.cli", "sim.datasets", "sim.execution.cost", "sim.plots", "sim.report", "sim.storage"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, prefix=f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    findfont("DejaVu Sans")
    kernels.compiled()
