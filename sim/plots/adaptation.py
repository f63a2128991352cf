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
    adaptation: Adaptation, *, title: str = "", width: float | None = None, names: Mapping[str, Look] | None = None
) -> Figure:
    """Draw the efficiency against the queries since a shift, with one column per attack.

    Each mechanism is drawn at its middle sweep point; parameters swept outside the mechanisms (column `circumstances`
    of the tables) have one row per value. A ring marks the query at which all users together have recovered. The first
    window after the shift is empty, because it would contain queries from both sides. If `width`, in inches, is too
    small for all columns, they continue in further rows.
    """
    series = adaptation.time_series.dropna(subset="efficiency")
    if series.empty:
        return style.empty_figure(f"no user has {adaptation.window} queries between the shift and the next change")
    series, summary = (
        table.assign(circumstances=table.get("circumstances", pd.Series("", index=table.index)))
        for table in (series, adaptation.summary)
    )
    own_looks, attacks = style.own_looks(names, adaptation.time_series["lppm"]), list(dict.fromkeys(series["attack"]))
    rows = list(dict.fromkeys(series["circumstances"]))
    rows = rows if len(rows) <= MOST_ROWS else [rows[(len(rows) - 1) // 2]]
    series = series[series["circumstances"].isin(rows)]
    full = style.usual_width(len(attacks)) if width is None else width
    columns = len(attacks) if width is None else style.columns(width, len(attacks))
    room = full / columns
    high = 2.3 if width is None else 1.2 * style.row_height(room)
    users = adaptation.user_time_series
    note = intervals.note_on(series, "bands", "efficiency", users=users)
    shown = dict.fromkeys(series["shift"])
    what = f" ({literal(next(iter(shown)), MOST_LETTERS)})" if len(shown) == 1 else ""
    with rc_context(STYLE):
        note = f"{note}; " if note else ""
        note += f"windows of the last {adaptation.window} queries; rings: recovery to {100 * adaptation.recovered:g} %"
        blocks = -(-len(attacks) // columns)
        figure = style.with_legend(full, blocks * (high * len(rows) + 0.5), own_looks, note, title=title)
        for (text, attack), panel in style.grid(figure, rows, attacks, columns).items():
            drawn = series[series["circumstances"] == text]
            drawn = drawn[(drawn["point"] == drawn["lppm"].map(middle_points(drawn))) & (drawn["attack"] == attack)]
            _users(panel, drawn, users, own_looks)
            panel.axvline(0, color=MARK, linewidth=0.9, zorder=1.5)
            _adaptation_panel(panel, drawn, own_looks)
            _rings(panel, drawn, summary, own_looks, adaptation.recovered)
            panel.set_title(style.joined(style.against(attack, room), f", {literal(text)}" if text else "", room))
            panel.set_ylim(_limits(series, users))
            if attacks.index(attack) % columns == 0:
                panel.set_ylabel(style.broken(EFFICIENCY_LABEL, high))
            if text == rows[-1]:
                style.count_queries(panel, room, style.joined("queries after the shift", what, room))
        return style.settled(figure)


def _users(panel: Axes, drawn: pd.DataFrame, users: pd.DataFrame, names: dict[str, Look]) -> None:
    """Draw each user if there are too few for bands."""
    if users.empty:
        return
    own = users.merge(drawn[SERIES].drop_duplicates(), on=SERIES)
    for (name, _), line in own.groupby(["lppm", own["queries_after"] > 0], sort=False):
        intervals.draw_users(panel, line, "queries_after", "efficiency", names[str(name)])


def _limits(series: pd.DataFrame, users: pd.DataFrame) -> tuple[float, float]:
    """Return the y limits; values of single users may exceed them above twice the pooled maximum."""
    bottom, top = intervals.limits(series, "efficiency")
    if users.empty:
        return bottom, top
    own = users.merge(series[SERIES].drop_duplicates(), on=SERIES)["efficiency"]
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
    """Mark where the pooled time series recovers and, with few lines, the recovery level."""
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
