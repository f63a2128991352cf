"""Work that cannot be interrupted is ended from outside, and what it reported is there."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sim.errors import InputError
from sim.execution.cost.bounded import collect
from tests.support import ROOT


def numbers() -> Iterator[int]:
    yield from range(3)


def then_for_ever() -> Iterator[int]:
    yield 1
    while True:
        pass


def then_no_memory() -> Iterator[int]:
    yield 1
    raise MemoryError


def then_killed() -> Iterator[int]:
    yield 1
    os.kill(os.getpid(), signal.SIGKILL)
    yield 2


def then_wrong() -> Iterator[int]:
    yield 1
    raise InputError("users: nobody is left")


def collected(work: Callable[[], Iterator[int]], limit_s: float) -> list[Any]:
    """Return reports and ending of work that a fresh process collects.

    The process of the tests may have threads left over from others, and then does the work itself: a kill would end it.
    """
    script = (
        "import json; from sim.execution.cost.bounded import collect\n"
        f"from tests.execution.cost.test_bounded import {work.__name__} as work\n"
        f"done = collect(work, limit_s={limit_s}); print(json.dumps([done.reports, done.ending]))"
    )
    words = [sys.executable, "-c", script]
    printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert printed.returncode == 0, printed.stderr
    return list(json.loads(printed.stdout))


def test_all_reports_of_work_that_ends() -> None:
    assert collected(numbers, 150) == [[0, 1, 2], "finished"]


@pytest.mark.parametrize(("work", "ending"), [(then_no_memory, "memory"), (then_killed, "died")])
def test_what_was_reported_before_a_bad_end_is_kept(work: Callable[[], Iterator[int]], ending: str) -> None:
    assert collected(work, 150) == [[1], ending]


def test_endless_work_is_ended() -> None:
    reports, ending = collected(then_for_ever, 1)
    assert ending == "time"
    assert reports in ([], [1])  # on a busy machine it may not even have begun


def test_a_users_error_is_raised_here() -> None:
    with pytest.raises(InputError, match="nobody is left"):
        collect(then_wrong, limit_s=150)


def test_a_process_with_threads_does_the_work_itself() -> None:
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        parents: list[int] = collect(lambda: iter([os.getpid()]), limit_s=600).reports
        assert parents == [os.getpid()]
        assert collect(then_no_memory, limit_s=600).ending == "memory"
        assert collect(numbers, limit_s=-1).reports == [0]
    finally:
        stop.set()
        other.join()


def test_a_process_that_may_have_no_children_does_the_work_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert collect(lambda: iter([os.getpid()]), limit_s=600).reports == [os.getpid()]
