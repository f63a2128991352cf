"""The report's page of a run in progress, made again when there is more to show."""

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
"""Time between two pages, as a multiple of the time that the last one took."""


class LivePages:
    """The current page: made on request, if there is more to show and the pause is over."""

    def __init__(self, place: str | Path, progress: LiveProgress) -> None:
        self._place, self._progress = place, progress
        self._result: Result | None = None
        self._lock = threading.Lock()
        self._made = 0
        self._page: str | None = None
        self._not_before_s = 0.0
        self._closed = False
        self.trouble = ""
        """Why the last page could not be made, in one line."""

    @property
    def version(self) -> str:
        """The name of the page that is available now; empty while there is none."""
        return str(self._progress.changes) if self._due() else str(self._made) if self._page is not None else ""

    def get(self) -> str | None:
        """Return the page, or None while nothing is finished. Wait if another thread is making it."""
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
        """Make no more pages; wait for the one being made."""
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
            # While the run goes on, no part may be finished yet, or a damaged one is being simulated again.
            if self._progress.ended and isinstance(error, DamagedRun):
                self.trouble = str(error).splitlines()[0]
            return None
        except Exception as error:  # whatever is wrong with a page, the simulation goes on
            self.trouble = f"{type(error).__name__}: {error}".splitlines()[0]
            return None
