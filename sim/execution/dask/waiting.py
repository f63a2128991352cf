"""Wait for workers of a Dask scheduler: notify the user at intervals, and raise an error at a time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sim.execution.dask.connection import has_lost_nannies
from sim.storage.errors import RunError

LOOK_EVERY_S = 1.0
"""Time between two requests for the number of workers."""
RESUMES = "Finished chunks are saved; run the same command again to resume."
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
        """Reset the state for a new cluster."""
        self._threads = 0
        self._counted_at_s = -float("inf")
        self._busy_at_s = time.monotonic()
        self._reminded_at_s: float | None = None

    def threads(self, client: Any, address: str, local: Any) -> int:
        """Return the number of threads of the cluster, at most a second old; notify the user while it has none.

        Raise WorkersLostError if a local cluster has lost its workers permanently, RunError if another cluster has had
        none for longer than the time limit.
        """
        now_s = time.monotonic()
        if now_s - self._counted_at_s < LOOK_EVERY_S:
            return self._threads
        try:
            self._threads = sum(client.nthreads(callback_timeout=_ANSWER_S).values())
        except OSError as error:
            raise RunError(
                f"the Dask scheduler at {address} no longer answers. {RESUMES}", code="scheduler-lost"
            ) from error
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
                f"start workers, or increase the limit. {RESUMES}",
                code="no-workers",
            )
        reminded_at_s = self._reminded_at_s
        if waited_s > _PATIENCE_S and (reminded_at_s is None or now_s - reminded_at_s > _REMIND_EVERY_S):
            self._notify(
                f"waiting for workers: the Dask scheduler at {address} has none; the run ends in "
                f"{self.timeout_s - waited_s:,.0f} s (--dask-timeout; Ctrl-C stops it now)"
            )
            self._reminded_at_s = now_s
