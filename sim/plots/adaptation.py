"""Efficiency before and after a shift."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.analysis.adaptation import Adaptation
from sim.analysis.event_log import SERIES
from sim.analysis.time_series import middle_points
from sim.plots import intervals, style
from sim.plots.labels import literal
from sim.plots.marks import MOST_LETTERS, MOST_ROWS
from sim.plots.style import EFFICIENCY_LABEL, MARK, STYLE, Look


def adaptation_figure(
    found: Adaptation, *, title: str = "", width: float | None = None, names: Mapping[str, Look] | None = None
) -> Figure:
    """Draw the efficiency against the queries since a shift, a column for each attack.

    Each mechanism is drawn at the middle one of its sweep points; what is swept outside of them, as the tables'
    column `circumstances` says, has a row for each value. A ring shows where all users together have recovered.
    Nothing is drawn within a window after the shift, which would hold queries of both sides. With a width, in inches,
    columns go on in further rows where it is too narrow for all.
    """
    course = found.course.dropna(subset="efficiency")
    if course.empty:
        return style.empty_figure(f"nobody has {found.window} queries from the shift to the next change: ask for less")
    course, summary = (
        table.assign(circumstances=table.get("circumstances", pd.Series("", index=table.index)))
        for table in (course, found.summary)
    )
    own_looks, attacks = style.own_looks(names, found.course["lppm"]), list(dict.fromkeys(course["attack"]))
    rows = list(dict.fromkeys(course["circumstances"]))
    rows = rows if len(rows) <= MOST_ROWS else [rows[(len(rows) - 1) // 2]]
    course = course[course["circumstances"].isin(rows)]
    full = style.usual_width(len(attacks)) if width is None else width
    columns = len(attacks) if width is None else style.columns(width, len(attacks))
    room = full / columns
    high = 2.3 if width is None else 1.2 * style.row_height(room)
    users = found.user_courses
    note = intervals.note_on(course, "bands", "efficiency", users=users)
    shown = dict.fromkeys(course["shift"])
    what = f" ({literal(next(iter(shown)), MOST_LETTERS)})" if len(shown) == 1 else ""
    with rc_context(STYLE):
        note = f"{note}; " if note else ""
        note += f"windows of the last {found.window} queries; rings: back at {100 * found.recovered:g} %"
        blocks = -(-len(attacks) // columns)
        figure = style.with_legend(full, blocks * (high * len(rows) + 0.5), own_looks, note, title=title)
        for (text, attack), panel in style.grid(figure, rows, attacks, columns).items():
            drawn = course[course["circumstances"] == text]
            drawn = drawn[(drawn["point"] == drawn["lppm"].map(middle_points(drawn))) & (drawn["attack"] == attack)]
            _users(panel, drawn, users, own_looks)
            panel.axvline(0, color=MARK, linewidth=0.9, zorder=1.5)
            _adaptation_panel(panel, drawn, own_looks)
            _rings(panel, drawn, summary, own_looks, found.recovered)
            panel.set_title(style.joined(style.against(attack, room), f", {literal(text)}" if text else "", room))
            panel.set_ylim(_limits(course, users))
            if attacks.index(attack) % columns == 0:
                panel.set_ylabel(style.broken(EFFICIENCY_LABEL, high))
            if text == rows[-1]:
                style.count_queries(panel, room, style.joined("queries after the shift", what, room))
        return style.settled(figure)


def _users(panel: Axes, drawn: pd.DataFrame, users: pd.DataFrame, names: dict[str, Look]) -> None:
    """Draw each user, where they are too few for bands."""
    if users.empty:
        return
    own = users.merge(drawn[SERIES].drop_duplicates(), on=SERIES)
    for (name, _), line in own.groupby(["lppm", own["queries_after"] > 0], sort=False):
        intervals.draw_users(panel, line, "queries_after", "efficiency", names[str(name)])


def _limits(course: pd.DataFrame, users: pd.DataFrame) -> tuple[float, float]:
    """Return the range of the axis; single users may leave the picture above twice of what all together reach."""
    bottom, top = intervals.limits(course, "efficiency")
    if users.empty:
        return bottom, top
    own = users.merge(course[SERIES].drop_duplicates(), on=SERIES)["efficiency"]
    return min(bottom, 0.97 * float(own.min())), max(top, min(1.05 * float(own.max()), 2 * top))


def _adaptation_panel(panel: Axes, rows: pd.DataFrame, names: dict[str, Look]) -> None:
    for name, own in intervals.blank_few(rows, "efficiency").groupby("lppm", sort=False):
        look = names[str(name)]
        for side in (own[own["queries_after"] <= 0], own[own["queries_after"] > 0]):
            at = side["queries_after"].to_numpy(float)
            mean, low, high = (side[f"efficiency{end}"].to_numpy(float) for end in ("", "_low", "_high"))
            every, band = max(1, len(own) // 6), 0.1 if len(names) <= 5 else 0.06
            intervals.with_band(panel, at, mean, low, high, look, str(name), markevery=every, band=band, markersize=3)


def _rings(panel: Axes, rows: pd.DataFrame, summary: pd.DataFrame, names: dict[str, Look], recovered: float) -> None:
    """Show where the course of all users together is back, and, where there are few lines, the level for that."""
    keys = ["point", "lppm", "attack"]
    back = rows[keys].drop_duplicates().merge(summary, on=keys)
    for row in back.to_dict("records"):
        look = names[row["lppm"]]
        level = recovered * row["efficiency_before"]
        if len(back) <= 2:
            panel.axhline(level, color=look.colour, linestyle=(0, (1, 2)), linewidth=0.8, zorder=1.5)
        if not row["pooled_censored"]:
            own = rows[(rows["lppm"] == row["lppm"]) & (rows["queries_after"] == row["pooled_queries_to_recover"])]
            panel.plot(
                own["queries_after"],
                own["efficiency"],
                linestyle="",
                marker="o",
                markersize=7,
                markerfacecolor="none",
                markeredgecolor=look.colour,
                markeredgewidth=1.1,
                zorder=4,
            )
