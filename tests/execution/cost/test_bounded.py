"""Work in a child process is stopped at its limits, and its reports are collected."""

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
from tests.support import ROOT, raises_code


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
    raise InputError("users: no user to simulate", code="no-users")


WORK = (numbers, then_no_memory, then_killed, then_for_ever)


@pytest.fixture(scope="module")
def collected() -> dict[str, list[Any]]:
    """Return reports and ending of each work, collected by a fresh process.

    The process of the tests may have threads of other tests, and then does the work itself.
    """
    script = (
        "import json; from sim.execution.cost.bounded import collect\n"
        "from tests.execution.cost.test_bounded import WORK\n"
        "limits_s = {'then_for_ever': 1}\n"
        "done = {work.__name__: collect(work, limit_s=limits_s.get(work.__name__, 150)) for work in WORK}\n"
        "print(json.dumps({name: [each.reports, each.ending] for name, each in done.items()}))"
    )
    words = [sys.executable, "-c", script]
    printed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200)
    assert printed.returncode == 0, printed.stderr
    return dict(json.loads(printed.stdout))


@pytest.mark.parametrize(
    ("work", "outcome"),
    [
        (numbers, [[0, 1, 2], "finished"]),
        (then_no_memory, [[1], "memory"]),
        (then_killed, [[1], "died"]),
    ],
)
def test_reports_before_the_end_are_collected(
    work: Callable[[], Iterator[int]], outcome: list[Any], collected: dict[str, list[Any]]
) -> None:
    assert collected[work.__name__] == outcome


def test_endless_work_is_stopped(collected: dict[str, list[Any]]) -> None:
    reports, ending = collected["then_for_ever"]
    assert ending == "time"
    assert reports in ([], [1])  # on a busy machine it may not have started


def test_an_error_of_the_work_is_raised() -> None:
    with raises_code(InputError, "no-users"):
        collect(then_wrong, limit_s=150)


def test_a_process_with_threads_runs_the_work() -> None:
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


def test_a_daemonic_process_runs_the_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(multiprocessing.current_process()._config, "daemon", True)  # type: ignore[attr-defined]
    assert collect(lambda: iter([os.getpid()]), limit_s=600).reports == [os.getpid()]
