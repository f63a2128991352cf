"""A report to look at: what a run found, a map to replay it on, and what was run; one file that asks nobody.

`study` joins the runs that are shown, `charts` and `replay` turn them into the numbers that the page draws, `text` into
what it says, and `page` puts all of it into one file with the style and the scripts of `assets`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sim.analysis.result import Result
from sim.report.page import assembled, waiting
from sim.report.study import Study
from sim.storage.run_file import RunFile

__all__ = ["page", "waiting", "write"]

NAME = "report.html"


def page(results: Sequence[Result], *, live: bool = False) -> str:
    """Return the page of a run, or of several side by side; a live one asks its server for what is new."""
    return assembled(Study([result.frozen() for result in results]), live=live)


def write(result: Result) -> RunFile:
    """Write `report.html` of a run from what is in its directory; return where it is."""
    file = result.run.file(NAME)
    file.write_bytes(page([result]).encode())
    return file
