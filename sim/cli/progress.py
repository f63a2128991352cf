"""Progress of reading raw files, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from sim.escaping import escape, visible

LINE_EVERY_S = 10.0


class BytesBar:
    """Progress callback of reading raw files: a bar on a terminal, otherwise a line of text every ten seconds."""

    def __init__(self, label: str) -> None:
        self._label = visible(label)
        self._console = Console(stderr=True)
        self._bar: Progress | None = None
        self._began_s = self._printed_s = time.monotonic()

    def __enter__(self) -> BytesBar:
        return self

    def __call__(self, done: int, total: int) -> None:
        """Show the number of bytes read."""
        if self._console.is_terminal:
            if self._bar is None:
                columns = (
                    TextColumn("{task.description}"),
                    BarColumn(),
                    DownloadColumn(),
                    TransferSpeedColumn(),
                    TimeRemainingColumn(),
                )
                self._bar = Progress(*columns, console=self._console)
                self._bar.add_task(escape(self._label), total=total)
                self._bar.start()
            self._bar.update(self._bar.task_ids[0], completed=done)
        elif (now := time.monotonic()) - self._printed_s >= LINE_EVERY_S:
            self._printed_s = now
            rate = done / (now - self._began_s)
            left = (total - done) / rate if rate else 0
            counted = f"{done / 1e6:,.0f}/{total / 1e6:,.0f} MB, {rate / 1e6:,.0f} MB/s, {left:,.0f} s left"
            print(f"{self._label}: {counted}", file=sys.stderr, flush=True)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
