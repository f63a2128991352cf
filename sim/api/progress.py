"""Progress of a run in Python: a bar in a terminal or a notebook, a callback, or nothing."""

from __future__ import annotations

import html
import importlib
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

from sim.escaping import visible
from sim.simulation.progress import Progress, Silent

ProgressCallback = Callable[[int, int], None]
"""Function called with the number of queries simulated so far and the total number, which is approximate."""
ProgressOption = bool | Progress | ProgressCallback | None

_UPDATE_EVERY_S = 0.2


def notebook_shell() -> Any | None:
    """Return the IPython shell if this is a Jupyter kernel, else None."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


@contextmanager
def chosen_progress(progress: ProgressOption, label: str) -> Iterator[Progress]:
    """Open the progress display that `progress` asks for; None and True choose by where the code runs."""
    if progress is False:
        yield Silent()
    elif progress is None or progress is True:
        if notebook_shell() is not None:
            with NotebookBar(label) as notebook_bar:
                yield notebook_bar
        elif progress or sys.stderr.isatty():
            from sim.execution.progress_bar import Bar

            with Bar(label) as bar:
                yield bar
        else:
            yield Silent()
    elif hasattr(progress, "advance"):
        yield cast(Progress, progress)
    else:
        yield _Counting(progress)


class _Counting:
    """Passes the number of simulated queries and their total on to a callback."""

    def __init__(self, callback: ProgressCallback) -> None:
        self._callback = callback
        self._done = self._total = 0

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:  # noqa: ARG002
        """Add to the total."""
        self._total += queries
        self._callback(self._done, self._total)

    def advance(self, queries: int) -> None:
        """Count simulated queries."""
        self._done += queries
        self._callback(self._done, self._total)

    def end_chunk(self) -> None:
        """Do nothing."""


class NotebookBar:
    """Progress bar in the output of a notebook cell, plain HTML: no widgets are needed, and a saved notebook shows it.

    After the run one line remains: queries, chunks and seconds.
    """

    def __init__(self, label: str) -> None:
        self._label = visible(label)
        self._done = self._total = self._chunks_done = self._chunks = self._skipped = 0
        self._began_s = self._shown_s = time.monotonic()
        self._handle: Any = None
        self._outcome = ""

    def __enter__(self) -> NotebookBar:
        return self

    def start(self, queries: int, *, chunks: int, skipped: int) -> None:
        """Add queries and chunks to be simulated."""
        self._total += queries
        self._chunks += chunks
        self._skipped += skipped
        self._show()

    def advance(self, queries: int) -> None:
        """Count simulated queries; update the display a few times per second."""
        self._done += queries
        if time.monotonic() - self._shown_s >= _UPDATE_EVERY_S:
            self._show()

    def end_chunk(self) -> None:
        """Count a chunk."""
        self._chunks_done += 1

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._handle is None:
            return
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        self._outcome = "finished" if kind is None else "interrupted" if interrupted else "failed"
        self._show()

    def _show(self) -> None:
        self._shown_s = time.monotonic()
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(self, display_id=True)
        else:
            self._handle.update(self)

    def __repr__(self) -> str:
        seconds = self._shown_s - self._began_s
        parts = [
            f"{self._label}: {self._done:,}/{self._total:,} queries",
            f"{self._chunks_done:,}/{self._chunks:,} chunks",
        ]
        if self._skipped:
            parts.append(f"{self._skipped:,} chunks exist from an earlier run")
        if self._outcome:
            return f"{', '.join(parts)}, {self._outcome} after {seconds:,.1f} s"
        rate = self._done / seconds if seconds > 0 else 0.0
        left = f", about {(self._total - self._done) / rate:,.0f} s left" if rate else ""
        return f"{', '.join(parts)}{left}"

    def _repr_html_(self) -> str:
        text = html.escape(repr(self))
        if self._outcome:
            return f"<div>{text}</div>"
        bar = f'<progress value="{min(self._done, self._total)}" max="{max(self._total, 1)}"></progress>'
        return f"<div><label>{bar} {text}</label></div>"
