"""HTML report of a run: results, charts, a replay on a map, and the configuration, in one self-contained file.

`study` joins the runs of a page, `charts` and `replay` compute the data that the page draws, `text` and `tables` its
text and tables, and `page` assembles one file with the styles and scripts of `assets`.
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
    """Return the page of one run or of several compared runs; a live page polls its server for newer results."""
    return assembled(Study([result.frozen() for result in results]), live=live)


def write(result: Result) -> RunFile:
    """Write `report.html` of a run from its directory and return the file."""
    file = result.run.file(NAME)
    file.write_bytes(page([result]).encode())
    return file
