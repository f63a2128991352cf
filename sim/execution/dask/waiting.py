"""Wait for workers of a Dask scheduler: notify the user from time to time, and give up at a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sim.execution.dask.connection import has_lost_nannies
from sim.storage.errors import RunError

LOOK_EVERY_S = 1.0
"""Time between two requests for the number of workers."""
RESUMES = "What is finished is kept, and the same command goes on from there."
_ANSWER_S = 60.0
_PATIENCE_S = 5.0
_REMIND_EVERY_S = 300.0


class WorkersLostError(Exception):
    """A local cluster has no worker and will not start one."""


class Watch:
    """Counts the threads of a cluster, and limits the time that it may have none."""

    def __init__(self, timeout_s: float, notify: Callable[[str], None]) -> None:
        self.timeout_s = timeout_s
        self._notify = notify
        self.restart()

    def restart(self) -> None:
        """Begin anew, with a new cluster."""
        self._threads = 0
        self._counted_at_s = -float("inf")
        self._busy_at_s = time.monotonic()
        self._reminded_at_s: float | None = None

    def threads(self, client: Any, address: str, local: Any) -> int:
        """Return how many threads the cluster has, as of a second ago; notify the user while it has none.

        Raise WorkersLostError when a local cluster has lost its workers for good, RunError when another cluster has
        had none for too long.
        """
        now_s = time.monotonic()
        if now_s - self._counted_at_s < LOOK_EVERY_S:
            return self._threads
        try:
            self._threads = sum(client.nthreads(callback_timeout=_ANSWER_S).values())
        except OSError as error:
            raise RunError(f"the Dask scheduler at {address} does not answer any more. {RESUMES}") from error
        self._counted_at_s = now_s
        if self._threads:
            self._busy_at_s, self._reminded_at_s = now_s, None
        else:
            self._check_limit(now_s, address, local)
        return self._threads

    def _check_limit(self, now_s: float, address: str, local: Any) -> None:
        waited_s = now_s - self._busy_at_s
        if local is not None and (waited_s >= self.timeout_s or has_lost_nannies(local)):
            raise WorkersLostError
        if waited_s >= self.timeout_s:
            raise RunError(
                f"the Dask scheduler at {address} has had no worker for {waited_s:,.0f} s (--dask-timeout): "
                f"start workers, or allow more time. {RESUMES}"
            )
        reminded_at_s = self._reminded_at_s
        if waited_s > _PATIENCE_S and (reminded_at_s is None or now_s - reminded_at_s > _REMIND_EVERY_S):
            self._notify(
                f"waiting for workers: the Dask scheduler at {address} has none; giving up in "
                f"{self.timeout_s - waited_s:,.0f} s (--dask-timeout; Ctrl-C stops)"
            )
            self._reminded_at_s = now_s
