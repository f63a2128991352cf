"""One thread for linear algebra, also in programs that do not set OPENBLAS_NUM_THREADS before numpy is imported.

The matrices of an estimate are small, and threads that wait for each other take longer than the arithmetic: on a busy
machine, one product can wait for several time slices of the scheduler. The number of threads also changes the order of
sums, and with it the last bits.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
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

    def __enter__(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._before = [(library, library.num_threads) for library in _threaded()]
                for library, _ in self._before:
                    library.set_num_threads(1)
            self._blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                for library, count in self._before:
                    library.set_num_threads(count)


_LIMIT = _Limit()
_NO_LIMIT = nullcontext()


def one_blas_thread() -> AbstractContextManager[None]:
    """Limit linear algebra to one thread in a ``with`` block; this affects the whole process meanwhile.

    Blocks may be nested and may overlap in several Python threads: the last one to end restores the previous numbers.
    If linear algebra has one thread at the first call, as in the command line and its workers, blocks cost nothing.
    """
    return _LIMIT if _threaded() else _NO_LIMIT


@cache
def _threaded() -> tuple[Any, ...]:
    """Return the libraries of linear algebra with several threads: one of numpy and one of scipy, or none."""
    import scipy.linalg  # noqa: F401  its library is also that of the kernels

    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    return tuple(library for library in libraries if (library.num_threads or 1) > 1)
