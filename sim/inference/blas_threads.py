"""One thread for linear algebra, also in programs that do not set OPENBLAS_NUM_THREADS before numpy is imported.

The matrices of an estimate are small, and threads that wait for each other take longer than the arithmetic: on a busy
machine, one product can wait for several time slices of the scheduler. The number of threads also changes the order of
sums, and with it the last bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController  # type: ignore[import-untyped]


class _Limit:
    """The blocks in progress, and the numbers of threads to restore after the last one."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._blocks = 0
        self._before: list[tuple[Any, int]] = []

    def enter(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._before = [(each, count) for each in _libraries() if (count := each.num_threads or 1) > 1]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._blocks += 1

    def leave(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                for library, count in self._before:
                    library.set_num_threads(count)


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit linear algebra to one thread in the block; the libraries of the whole process are affected meanwhile.

    Blocks may be nested and may overlap in several Python threads: the last one to end restores the previous numbers.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


@cache
def _libraries() -> list[Any]:
    """Return the libraries of linear algebra that this process has loaded: one of numpy and one of scipy."""
    import scipy.linalg  # noqa: F401  its library is also that of the kernels

    controllers: list[Any] = ThreadpoolController().select(user_api="blas").lib_controllers
    return controllers
