"""Count how far a run is, so that an interrupted one says what is kept, what is lost and how to resume."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from sim.simulation.interrupts import Interrupted, stop_run

Tick = Callable[[int], None]
"""Callback of one simulation, called with the number of queries simulated since the last call."""


class Progress(Protocol):
    """Progress callback of a run."""

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Announce an approximate number of queries in a number of chunks; `skipped` chunks exist already.

        Called again with the additional work when metrics turn out to need more replications.
        """
        ...

    def advance(self, queries: int) -> None:
        """Count simulated queries."""
        ...

    def end_chunk(self) -> None:
        """Count a chunk that was written or given up."""
        ...


class Silent:
    """Progress callback that shows nothing."""

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Do nothing."""

    def advance(self, queries: int) -> None:
        """Do nothing."""

    def end_chunk(self) -> None:
        """Do nothing."""


class Tally:
    """Passes progress on, and knows which part of the work is finished."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._place: str | None = None
        self._planned = self._kept = 0
        self._simulated = self._finished = 0
        self._began_s: float | None = None

    def plan(self, place: object, *, chunks: int, kept: int) -> None:
        """Note where the run is written, how many chunks it has so far, and how many of them are finished."""
        self._place, self._planned, self._kept = str(place), chunks, kept

    def keep(self, queries: int) -> None:
        """Count a finished chunk with an approximate number of queries."""
        self._kept += 1
        self._finished += queries

    def give_up(self, queries: int) -> None:
        """Count a failed chunk with an approximate number of queries: no interrupt loses them."""
        self._finished += queries

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Pass on what is to be simulated."""
        self._began_s = self._began_s or time.monotonic()
        self._progress.start(queries, chunks=chunks, skipped=skipped)

    def advance(self, queries: int) -> None:
        """Count simulated queries."""
        self._simulated += queries
        try:
            self._progress.advance(queries)
        except BaseException as error:
            stop_run(error)  # it is raised amid component code, whose failure it is not
            raise

    def end_chunk(self) -> None:
        """Pass on that a chunk has ended."""
        self._progress.end_chunk()

    def interrupted(self) -> str:
        """Return what an interrupt keeps and loses now."""
        if self._place is None:
            return "interrupted while the run was prepared; no chunk was simulated or changed"
        left = self._planned - self._kept
        kept = f"interrupted; {self._kept} of {self._planned} chunks are finished and kept in {self._place}"
        if not left:
            return f"{kept}; its tables, figures and report may be missing or old until the run is resumed"
        again = "the other starts" if left == 1 else f"the other {left} start"
        return f"{kept}; {again} again from the beginning: {self._lost()}"

    def _lost(self) -> str:
        lost = self._simulated - self._finished
        if lost <= 0 or self._began_s is None:  # a Dask cluster reports the queries of whole chunks
            return "what was simulated of unfinished chunks is lost"
        taken_s = (time.monotonic() - self._began_s) * lost / self._simulated
        return f"about {lost:,} simulated queries are lost, {taken_s:,.0f} s of work"


@contextmanager
def explained_interrupt(tally: Tally) -> Iterator[None]:
    """Let Ctrl-C in a run say what is kept and what is lost."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(tally.interrupted()) from error
