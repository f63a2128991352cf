"""Progress of a run, and the message of an interrupted run: which chunks are saved and which work is lost."""

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
        """Announce work.

        `queries` is the approximate number of queries to simulate, in `chunks` chunks. `skipped` further chunks were
        finished by an earlier run; neither `queries` nor `end_chunk` counts them. Called again, with the additional
        work only, if metrics need more replications to be precise.
        """
        ...

    def advance(self, queries: int) -> None:
        """Count simulated queries."""
        ...

    def end_chunk(self) -> None:
        """Count a chunk that was written or has failed."""
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
    """Progress callback that forwards to another one and counts finished work."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._place: str | None = None
        self._planned = self._kept = 0
        self._simulated = self._finished = self._ended = 0
        self._began_s: float | None = None

    def plan(self, place: object, *, chunks: int, kept: int) -> None:
        """Record where the run is written, its number of chunks so far, and how many of them are finished."""
        self._place, self._planned, self._kept = str(place), chunks, kept

    def keep(self, queries: int) -> None:
        """Count a finished chunk with its number of simulated queries."""
        self._kept += 1
        self.give_up(queries)

    def give_up(self, queries: int) -> None:
        """Count a failed chunk with its number of simulated queries, which an interrupt does not lose."""
        self._ended += 1
        self._finished += queries

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Forward the announced work."""
        self._began_s = self._began_s or time.monotonic()
        self._progress.start(queries, chunks=chunks, skipped=skipped)

    def advance(self, queries: int) -> None:
        """Count simulated queries."""
        self._simulated += queries
        try:
            self._progress.advance(queries)
        except BaseException as error:
            stop_run(error)  # raised within component code, but not a failure of the component
            raise

    def end_chunk(self) -> None:
        """Forward the end of a chunk."""
        self._progress.end_chunk()

    def interrupted(self) -> str:
        """Return the message for an interrupt now: which chunks are saved and which work is lost."""
        if self._place is None:
            return "interrupted during preparation; no chunk was simulated or changed"
        left = self._planned - self._kept
        kept = f"interrupted; {self._kept} of {self._planned} chunks are finished and kept in {self._place}"
        if not left:
            return f"{kept}; its tables, figures and report may be missing or outdated until the run is resumed"
        again = "the other starts" if left == 1 else f"the other {left} start"
        return f"{kept}; {again} again from the beginning or from a checkpoint: {self._lost()}"

    def _lost(self) -> str:
        lost = self._simulated - self._finished
        if lost > 0 and self._began_s is not None:
            taken_s = (time.monotonic() - self._began_s) * lost / self._simulated
            return f"at most about {lost:,} simulated queries are lost, {taken_s:,.0f} s of work"
        if not self._ended:
            return "no query was reported as simulated"
        # A Dask cluster reports the queries of whole chunks, other workers those of the last moments later.
        return (
            "what each worker has simulated of its current chunk is lost, at most about "
            f"{-(-self._finished // self._ended):,} queries for each worker, the mean of the finished chunks"
        )


@contextmanager
def explained_interrupt(tally: Tally) -> Iterator[None]:
    """Convert Ctrl-C in a run into `Interrupted`, which states what is saved and what is lost."""
    try:
        yield
    except KeyboardInterrupt as error:
        raise Interrupted(tally.interrupted()) from error
