"""Report page of a run in progress, rendered again when there are newer results."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from sim import report
from sim.analysis.result import Result
from sim.errors import UserError
from sim.report.live.progress import LiveProgress
from sim.storage.errors import DamagedRun

PAUSE = 3.0
"""Minimum time between two pages, as a multiple of the rendering time of the last one."""


class LivePages:
    """The current page, rendered on request if there are newer results and the pause is over."""

    def __init__(self, place: str | Path, progress: LiveProgress) -> None:
        self._place, self._progress = place, progress
        self._result: Result | None = None
        self._lock = threading.Lock()
        self._made = 0
        self._page: str | None = None
        self._not_before_s = 0.0
        self._closed = False
        self.trouble = ""
        """Why the last page could not be rendered, in one line."""

    @property
    def version(self) -> str:
        """The version of the available page; empty if there is none."""
        return str(self._progress.changes) if self._due() else str(self._made) if self._page is not None else ""

    def get(self) -> str | None:
        """Return the page, or None before the first results. Wait if another thread is rendering it."""
        with self._lock:
            if self._due() and not self._closed:
                changes, began_s = self._progress.changes, time.monotonic()
                self._page = self._make() or self._page
                ended_s = time.monotonic()
                self._not_before_s = ended_s + PAUSE * (ended_s - began_s)
                self._made = changes
            return self._page

    @property
    def is_final(self) -> bool:
        """Whether the page shows the end of the run."""
        return self._progress.ended and self._made == self._progress.changes

    def close(self) -> None:
        """Render no more pages; wait for the one in progress."""
        self._closed = True
        with self._lock:
            pass

    def _due(self) -> bool:
        return self._progress.changes > self._made and (self._progress.ended or time.monotonic() >= self._not_before_s)

    def _make(self) -> str | None:
        self.trouble = ""
        try:
            self._result = self._result or Result.open(self._place)
            return report.page([self._result], live=True)
        except UserError as error:
            # During the run, there may be no finished part yet, or a damaged part is being simulated again.
            if self._progress.ended and isinstance(error, DamagedRun):
                self.trouble = str(error).splitlines()[0]
            return None
        except Exception as error:  # an error in a page must not stop the simulation
            self.trouble = f"{type(error).__name__}: {error}".splitlines()[0]
            return None
