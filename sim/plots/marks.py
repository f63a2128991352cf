"""Marks of behaviour shifts in figures over the query index."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes

from sim.analysis.quantiles import counted_quantile
from sim.plots.labels import literal
from sim.plots.style import MARK

MOST_ROWS = 4
"""Maximum number of panel rows for swept values, and of rows of names above a panel."""
MOST_LETTERS = 20
_LETTER_IN, ROW_IN = 0.05, 0.11
"""Width of a letter and height of a row of names above a panel, in inches."""


@dataclass(frozen=True, slots=True)
class Mark:
    """Mark of a behaviour shift in a figure over the query index."""

    name: str
    at: float
    """Median query index over users."""
    low: float
    """5 % quantile of the query index over users."""
    high: float
    """95 % quantile of the query index over users."""
    ends: bool
    """Whether the mark is the end of the shift."""
    row: int | None = None
    """Row of the name above the panel, counted from the panel; None if the name is not shown."""
    left: bool = False
    """Whether the name is to the left of the line."""


def marks_of(shifts: pd.DataFrame) -> list[Mark]:
    """Return the median and the central 90 % range over users of the start and end of each shift.

    `shifts` has a row per user, or the column `count` with the number of users of a row.
    """
    shifts = shifts.assign(count=shifts.get("count", 1))
    marks = []
    for (name, event), own in shifts.groupby(["shift", "event"], sort=False):
        indices = own["index"].to_numpy(float)
        at, low, high = (counted_quantile(indices, own["count"], q) for q in (0.5, 0.05, 0.95))
        marks.append(Mark(str(name), at, low, high, event == "shift_end"))
    return sorted(marks, key=lambda mark: mark.at)


def placed(marks: list[Mark], span: tuple[float, float], width_in: float) -> list[Mark]:
    """Assign rows above a panel to the names of starting shifts so that no names overlap.

    `span` is the range of the x axis, `width_in` the width of the panel in inches.
    """
    low, high = span
    ends: list[float] = []
    placed = []
    for mark in marks:
        if mark.ends:
            placed.append(mark)
            continue
        start = (mark.at - low) / (high - low) * width_in
        length = _LETTER_IN * (len(literal(mark.name, MOST_LETTERS)) + 1)
        left = start + length > width_in
        first, last = (start - length, start) if left else (start, start + length)
        row = next((row for row, end in enumerate(ends) if end <= first), len(ends))
        ends[row : row + 1] = [last]
        placed.append(replace(mark, row=row if row < MOST_ROWS else None, left=left))
    return placed


def rows_above(marks: list[Mark]) -> int:
    """Return the number of rows of names above a panel."""
    return max((mark.row + 1 for mark in marks if mark.row is not None), default=0)


def draw_marks(panel: Axes, marks: list[Mark], *, labelled: bool) -> None:
    """Draw the marks into a panel, optionally with their names above it."""
    for mark in marks:
        if mark.high > mark.low:
            panel.axvspan(mark.low, mark.high, color=MARK, alpha=0.08, linewidth=0, zorder=0.5)
        style = {"linewidth": 0.7, "linestyle": (0, (4, 3)), "alpha": 0.6} if mark.ends else {"linewidth": 0.9}
        panel.axvline(mark.at, color=MARK, zorder=1.5, **style)
        if labelled and mark.row is not None:
            panel.annotate(
                literal(mark.name, MOST_LETTERS),
                (mark.at, 1),
                xycoords=panel.get_xaxis_transform(),
                xytext=(-1 if mark.left else 1, 2 + 72 * ROW_IN * mark.row),
                textcoords="offset points",
                horizontalalignment="right" if mark.left else "left",
                fontsize=6.5,
                color=MARK,
            )
