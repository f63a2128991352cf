"""Work that cannot be interrupted is ended from outside, and what it reported is there."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from sim.bounded import collect
from sim.errors import InputError


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


def test_all_reports_of_work_that_ends() -> None:
    collected = collect(numbers, limit_s=600)
    assert (collected.reports, collected.ending) == ([0, 1, 2], "finished")


@pytest.mark.parametrize(("work", "ending"), [(then_no_memory, "memory"), (then_killed, "died")])
def test_what_was_reported_before_a_bad_end_is_kept(work: Callable[[], Iterator[int]], ending: str) -> None:
    collected = collect(work, limit_s=600)
    assert (collected.reports, collected.ending) == ([1], ending)


def test_endless_work_is_ended() -> None:
    collected = collect(then_for_ever, limit_s=1)
    assert collected.ending == "time"
    assert collected.reports in ([], [1])  # on a busy machine it may not even have begun


def test_a_users_error_is_raised_here() -> None:
    with pytest.raises(InputError, match="nobody is left"):
        collect(then_wrong, limit_s=600)


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
