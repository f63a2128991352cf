"""Efficiency before and after a shift."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sim.adaptation import Adaptation
from sim.courses import middle_points
from sim.plots import style
from sim.plots.labels import literal
from sim.plots.marks import MOST_ROWS
from sim.plots.style import EFFICIENCY_LABEL, MARK, STYLE, Look, looks


def adaptation_figure(found: Adaptation, *, title: str = "") -> Figure:
    """Draw the efficiency against the queries since a shift, a column for each attack.

    Each mechanism is drawn at the middle one of its sweep points; what is swept outside of them, as the tables'
    column `circumstances` says, has a row for each value. A ring shows where all users together have recovered.
    Nothing is drawn within a window after the shift, which would hold queries of both sides.
    """
    course = found.course.dropna(subset="efficiency")
    if course.empty:
        return style.empty_figure(f"nobody has {found.window} queries from the shift to the next change: ask for less")
    course, summary = (
        table.assign(circumstances=table.get("circumstances", pd.Series("", index=table.index)))
        for table in (course, found.summary)
    )
    names, attacks = looks(found.course["lppm"]), list(dict.fromkeys(course["attack"]))
    rows = list(dict.fromkeys(course["circumstances"]))
    rows = rows if len(rows) <= MOST_ROWS else [rows[(len(rows) - 1) // 2]]
    course = course[course["circumstances"].isin(rows)]
    width = style.usual_width(len(attacks))
    bands = "bands: 95 % intervals over users; " if course["efficiency_low"].notna().any() else ""
    with rc_context(STYLE):
        note = f"{bands}windows of the last {found.window} queries; rings: back at {100 * found.recovered:g} %"
        figure = style.with_legend(width, 2.3 * len(rows) + 0.5, names, note)
        panels = figure.subplots(len(rows), len(attacks), sharex=True, sharey=True, squeeze=False)
        for line, text in zip(panels, rows, strict=True):
            own = course[course["circumstances"] == text]
            own = own[own["point"] == own["lppm"].map(middle_points(own))]
            for panel, attack in zip(line, attacks, strict=True):
                drawn = own[own["attack"] == attack]
                panel.axvline(0, color=MARK, linewidth=0.9, zorder=1.5)
                _adaptation_panel(panel, drawn, names)
                _rings(panel, drawn, summary, names, found.recovered)
                panel.set_title(style.against(attack) + (f", {literal(text)}" if text else ""))
            line[0].set_ylabel(EFFICIENCY_LABEL)
        shown = dict.fromkeys(course["shift"])
        what = f" ({literal(next(iter(shown)))})" if len(shown) == 1 else ""
        for panel in panels[-1]:
            panel.set_xlabel(f"queries after the shift{what}")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        panels[0, 0].set_ylim(_efficiency_limits(course))
        if title:
            figure.suptitle(literal(title, 100), fontsize=8.5)
        return style.settled(figure)


def _adaptation_panel(panel: Axes, rows: pd.DataFrame, names: dict[str, Look]) -> None:
    for name, own in rows.groupby("lppm", sort=False):
        look = names[str(name)]
        for side in (own[own["queries_after"] <= 0], own[own["queries_after"] > 0]):
            at = side["queries_after"].to_numpy(float)
            mean, low, high = (side[f"efficiency{end}"].to_numpy(float) for end in ("", "_low", "_high"))
            every, band = max(1, len(own) // 6), 0.1 if len(names) <= 5 else 0.06
            style.with_band(panel, at, mean, low, high, look, str(name), markevery=every, band=band, markersize=3)


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


def _efficiency_limits(course: pd.DataFrame) -> tuple[float, float]:
    """Return the range of the axis; wide bands of a few users may leave the picture, the lines may not."""
    low, high = course["efficiency"].min(), course["efficiency"].max()
    room = max(high - low, 0.1 * high, 1e-9)
    ends = course[["efficiency_low", "efficiency_high"]].clip(low - 0.5 * room, high + 0.5 * room)
    low, high = np.nanmin([low, *ends["efficiency_low"]]), np.nanmax([high, *ends["efficiency_high"]])
    low = 0.0 if 0 <= low < 0.4 * high else low
    return float(low - 0.03 * (high - low)), float(high + 0.05 * (high - low))
