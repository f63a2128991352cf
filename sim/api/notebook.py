"""HTML representations for notebooks.

Colours are inherited, so that they fit light and dark themes. Tables have the class of pandas frames, which notebooks
and documentation themes style.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from sim.report import NAME
from sim.report.markup import Markup, tag
from sim.report.study import Study
from sim.report.tables import html_table, table
from sim.storage.errors import RunError

if TYPE_CHECKING:
    from sim.analysis.result import Result
    from sim.choice.choose import Choice

_STYLE = "overflow-x: auto"
"""Wide tables scroll in their own box."""


def result_html(result: Result) -> str:
    """Return a run as HTML: its name, the table of loss and error with intervals, and a link to the report."""
    try:
        study = Study([result.frozen()])
        content = Markup(table(study).replace('class="sortable"', 'class="dataframe"', 1))
    except RunError as error:  # an unfinished run may have nothing to show
        content = tag("p", str(error))
    heading = tag("p", tag("b", result.manifest.scenario.name), Markup(" &middot; "), tag("code", str(result.run)))
    return tag("div", heading, content, _link(result), style=_STYLE)


def choice_html(choice: Choice) -> str:
    """Return a choice as HTML: its warnings, the conclusion, the ranking, and a link to the page."""
    from sim.choice.ranking import sentences
    from sim.choice.table import ranking_table
    from sim.choice.write import PAGE

    lines = [f"Warning: {text}" for text in choice.warnings] + list(sentences(choice.ranking, choice.request))
    content = Markup(
        html_table(ranking_table(choice.ranking, choice.request)).replace('class="sortable"', 'class="dataframe"', 1)
    )
    address = _address(choice.folder / PAGE)
    link = tag("a", PAGE, href=address, target="_blank", rel="noopener", style="color: inherit")
    return tag("div", *(tag("p", line) for line in lines), content, tag("p", "Page: ", link), style=_STYLE)


def _link(result: Result) -> Markup:
    file = result.run.file(NAME)
    if not file.exists():
        return tag("p", "No report yet: ", tag("code", "result.report()"), " writes it.")
    if not result.run.in_folder:
        return tag("p", "Report: ", tag("code", str(file)))
    link = tag(
        "a", str(file), href=_address(result.path / NAME), target="_blank", rel="noopener", style="color: inherit"
    )
    return tag("p", "Report: ", link)


def _address(path: Path) -> str:
    """Return the address of a file: relative below the current folder, as notebook servers need it, else absolute."""
    try:
        return quote(path.resolve().relative_to(Path.cwd().resolve()).as_posix())
    except ValueError:
        return path.resolve().as_uri()
