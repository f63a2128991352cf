"""Tables of the page."""

from __future__ import annotations

from collections.abc import Sequence

from sim.report.markup import Markup, escaped, tag


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Return a table whose first column names the rows."""
    head = tag("thead", tag("tr", *(tag("th", escaped(name), scope="col") for name in heads)))
    lines = [tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:])) for row in rows]
    return tag("div", tag("table", head, tag("tbody", *lines)), class_="wide")
