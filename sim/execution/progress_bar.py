"""A progress bar of a run: a bar on a terminal, plain lines elsewhere; both on stderr."""

from __future__ import annotations

import math
import sys
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from sim.escaping import escape, visible

LINE_EVERY_S = 10.0


class _Rate(ProgressColumn):
    """Queries per second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} queries/s" if speed else "", style="progress.data.speed")


class Bar:
    """Progress callback of a run: a bar on a terminal, a plain line every ten seconds elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = visible(label)
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._done = self._total = self._pending = 0
        self._chunks_done = self._chunks = 0
        self._began_s = self._printed_s = 0.0

    def __enter__(self) -> Bar:
        return self

    def start(self, queries: int, *, chunks: int = 0, skipped: int = 0) -> None:
        """Add queries and chunks to be simulated; mention parts that an earlier run has finished."""
        self._total += queries
        self._chunks += chunks
        if skipped:
            rest = "simulating the rest" if queries else "nothing left to simulate"
            skipped_parts = "1 part exists" if skipped == 1 else f"{skipped:,} parts exist"
            print(f"{self._label}: {skipped_parts}, {rest}", file=sys.stderr, flush=True)
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], total=self._total, chunks=self._counted_chunks())
        if self._total > queries:
            return
        self._began_s = self._printed_s = time.monotonic()
        if self._console.is_terminal and queries:
            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.fields[chunks]}"),
                MofNCompleteColumn(),
                _Rate(),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=self._console)
            self._bar.add_task(escape(self._label), total=queries, chunks=self._counted_chunks())
            self._bar.start()

    def advance(self, queries: int) -> None:
        """Count queries; update the display every hundred."""
        self._pending += queries
        if self._pending >= 100 or self._done + self._pending >= self._total:
            self._done += self._pending
            if self._bar is not None:
                self._bar.advance(self._bar.task_ids[0], self._pending)
            elif time.monotonic() - self._printed_s >= LINE_EVERY_S:
                self._line()
            self._pending = 0

    def end_chunk(self) -> None:
        """Count a chunk."""
        self._chunks_done += 1
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], chunks=self._counted_chunks())
        elif time.monotonic() - self._printed_s >= LINE_EVERY_S:
            self._line()

    def _counted_chunks(self) -> str:
        return f"{self._chunks_done:,}/{self._chunks:,} chunks"

    def _line(self) -> None:
        self._printed_s = time.monotonic()
        rate = self._done / max(self._printed_s - self._began_s, 1e-9)
        counted = f"{self._counted_chunks()}, {self._done:,}/{self._total:,} queries"
        line = f"{self._label}: {counted}, {rate:,.0f} queries/s, {self._left(rate)}"
        print(line, file=sys.stderr, flush=True)

    def _left(self, rate: float) -> str:
        """Return the remaining time; the number of queries is approximate, so chunks may remain after the last one."""
        if self._done < self._total and rate:
            return f"{math.ceil((self._total - self._done) / rate):,} s left"
        remaining = self._chunks - self._chunks_done
        chunks = "the last chunk" if remaining == 1 else f"the last {remaining:,} chunks"
        return f"finishing {chunks}" if remaining > 0 else "0 s left"

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
