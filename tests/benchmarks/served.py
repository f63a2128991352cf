"""Preloaded by a command server: its processes fork their workers from one server, which the command server starts."""

from __future__ import annotations

import os
from multiprocessing import forkserver

from tests.fork_server import forked_workers

_workers = forked_workers()
_workers.__enter__()
forkserver.ensure_running()


def _use_running_server() -> None:
    forkserver._forkserver.ensure_running = lambda: None  # type: ignore[method-assign]


os.register_at_fork(after_in_child=_use_running_server)
