"""Progress of a run, readable from any thread."""

from __future__ import annotations

import time
from dataclasses import dataclass

from sim.simulation.progress import Progress


@dataclass(frozen=True, slots=True)
class ProgressState:
    """Progress of a run, excluding parts that already existed when it started."""

    done: int
    """Number of simulated queries."""
    total: int
    """Number of queries to simulate."""
    chunks_done: int
    chunks: int
    queries_per_s: float | None
    left_s: float | None
    finished: bool
    """Whether the run has ended, with or without an error."""
    error: str
    """Why the run ended without all of its results, in one line."""


class LiveProgress:
    """Progress callback that counts, forwards to another callback, and answers other threads."""

    def __init__(self, other: Progress) -> None:
        self._other = other
        self._done = self._total = self._chunks_done = self._chunks = 0
        self._began_s = 0.0
        self._ended: str | None = None
        self._more = 0

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Add queries and chunks to be simulated."""
        if not self._total:
            self._began_s = time.monotonic()
        self._total += queries
        self._chunks += chunks
        self._more += skipped > 0
        self._other.start(queries, chunks=chunks, skipped=skipped)

    def advance(self, queries: int) -> None:
        """Count queries."""
        self._done += queries
        self._other.advance(queries)

    def end_chunk(self) -> None:
        """Count a chunk."""
        self._chunks_done += 1
        self._more += 1
        self._other.end_chunk()

    def end(self, error: str = "") -> None:
        """Record that the run has ended, with the error if it lacks results."""
        self._ended = error

    @property
    def changes(self) -> int:
        """A count that increases whenever there may be more to show, and for the last time at the end."""
        return self._more + self.ended

    @property
    def ended(self) -> bool:
        """Whether nothing more will change."""
        return self._ended is not None

    def state(self) -> ProgressState:
        """Return the current state."""
        rate = self._done / max(time.monotonic() - self._began_s, 1e-9)
        left_s = max(self._total - self._done, 0) / rate if rate and not self.ended else None
        counted = (self._done, self._total, self._chunks_done, self._chunks)
        return ProgressState(*counted, rate or None, left_s, self.ended, self._ended or "")
