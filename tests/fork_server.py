"""Worker processes forked from one server, which has imported the package.

This module imports little, because every worker imports it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

PRELOADED = ["sim.execution.local_pool", "sim.execution.dask.worker", "scipy.optimize", "distributed"]
"""Modules that the server imports; it ignores those that are not installed."""


class _Environment:
    """Environment of the process that starts a worker; the server has that of its own start."""

    def __reduce__(self) -> Any:
        return _set_environment, (dict(os.environ),)


def _set_environment(variables: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(variables)


class _Process(ForkServerProcess):
    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._environment = _Environment()


class _Context(ForkServerContext):
    Process = _Process


@contextmanager
def forked_workers() -> Iterator[None]:
    """Fork every process that `multiprocessing` starts in the block from one server, which other blocks use as well."""
    context = _Context()
    context.set_forkserver_preload(PRELOADED)
    original = multiprocessing.get_context
    multiprocessing.get_context = lambda _method=None: context  # type: ignore[assignment]
    try:
        yield
    finally:
        multiprocessing.get_context = original


def stop_server() -> None:
    """Stop the server, if it runs."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]
