"""Replace lines `% generated: NAME` of a page by Markdown that is derived from the code when the site is built."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import api_listing
import tables
from sphinx.application import Sphinx
from sphinx.util import logging

from sim.scenario import reference

MARKER = re.compile(r"^% generated: (?P<name>[\w-]+)(?: (?P<argument>.+))?$", re.MULTILINE)

CONTENT: dict[str, Callable[[str], str]] = {
    "scenario-keys": lambda _: reference.sections_markdown(),
    "short-names": lambda _: tables.short_names(),
    "event-columns": lambda _: tables.event_columns(),
    "capabilities": lambda _: tables.capabilities(),
    "metrics": lambda _: tables.metrics(),
    "table-columns": tables.table_columns,
    "benchmark": tables.benchmark,
    "benchmark-comparison": lambda _: tables.benchmark_comparison(),
    "benchmark-machine": lambda _: tables.benchmark_machine(),
    "api": api_listing.section,
}
"""Content by name. The argument is the rest of the marker's line."""

_log = logging.getLogger(__name__)


def _replace(app: Sphinx, page: str, source: list[str]) -> None:
    def content(match: re.Match[str]) -> str:
        if (make := CONTENT.get(match["name"])) is None:
            _log.warning("unknown generated content %r, one of %s", match["name"], ", ".join(CONTENT), location=page)
            return ""
        # A page that shows generated content is read again in every build: the code is not one of its files.
        app.env.note_reread()
        return make(match["argument"] or "")

    source[0] = MARKER.sub(content, source[0])


def _note_benchmark(app: Sphinx) -> None:
    tables.BENCHMARK = Path(app.srcdir) / "benchmark.json"


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("builder-inited", _note_benchmark)
    app.connect("source-read", _replace)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
