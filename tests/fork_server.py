"""Worker processes that are forked from one server, which has imported what they need.

Imports little: every worker imports this module.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

PRELOADED = ("sim.execution.local_pool", "distributed")


class _Environment:
    """The environment at the time a process is started: a server has that of its own start."""

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
    """Fork whatever is started by `multiprocessing`, and end the server afterwards."""
    context = _Context()
    context.set_forkserver_preload([name for name in PRELOADED if name in sys.modules])
    original = multiprocessing.get_context
    multiprocessing.get_context = lambda _method=None: context  # type: ignore[assignment]
    try:
        yield
    finally:
        multiprocessing.get_context = original
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
