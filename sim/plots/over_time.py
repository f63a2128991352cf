"""Loss and error by query index."""

from __future__ import annotations

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from sim.courses import middle_points
from sim.plots import style
from sim.plots.labels import literal
from sim.plots.marks import ROW_IN, draw_marks, marks_of, placed, rows_above
from sim.plots.style import ERROR_LABEL, PAIR, QUALITY_LABEL, STYLE, Look, looks


def over_time_figure(over_time: pd.DataFrame, *, title: str = "", shifts: pd.DataFrame | None = None) -> Figure:
    """Draw quality loss and adversary error by query index, a column for each attack.

    Bands are 95 % intervals over users. Of several sweep points each mechanism is drawn at the middle one of those it
    was run at. Expected figures are drawn where the table has them. Changes in users' lives, a table of
    `analysis.shifts`, are lines at the median of the users.
    """
    if over_time.empty:
        return style.empty_figure("no query in this run: there is nothing to draw over time")
    chosen = style.preferred_figures(over_time[over_time["point"] == over_time["lppm"].map(middle_points(over_time))])
    names, attacks = looks(over_time["lppm"]), list(dict.fromkeys(chosen["attack"]))
    labels = zip(PAIR, (QUALITY_LABEL, ERROR_LABEL), strict=True)
    measures = {measure: label for measure, label in labels if chosen[measure].notna().any()}
    width = style.usual_width(len(attacks))
    told = [] if shifts is None else marks_of(shifts[shifts["point"].isin(set(chosen["point"]))])
    marks = placed(told, (0.0, float(chosen["last_index"].max())), width / len(attacks) - 0.4)
    with rc_context(STYLE):
        height = 1.8 * len(measures) + 0.4 + ROW_IN * rows_above(marks)
        figure = style.with_legend(width, height, names, style.note_on(chosen, "bands"))
        panels = figure.subplots(len(measures), len(attacks), sharex=True, sharey="row", squeeze=False)
        for number, panel in enumerate(panels.flat):
            draw_marks(panel, marks, labelled=number < len(attacks))
        for row, (measure, label) in zip(panels, measures.items(), strict=True):
            for panel, attack in zip(row, attacks, strict=True):
                _course(panel, chosen[chosen["attack"] == attack], measure, names)
            row[0].set_ylabel(label)
        for panel, attack in zip(panels[0], attacks, strict=True):
            panel.set_title(style.against(attack), pad=6 + 72 * ROW_IN * rows_above(marks))
        for panel in panels[-1]:
            panel.set_xlabel("query index $r$")
            panel.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
        if title:
            figure.suptitle(literal(title, 100), fontsize=8.5)
        return style.settled(figure)


def _course(panel: Axes, rows: pd.DataFrame, measure: str, names: dict[str, Look]) -> None:
    for name, own in rows.dropna(subset=[measure]).groupby("lppm", sort=False):
        look = names[str(name)]
        at = (own["first_index"] + own["last_index"]).to_numpy(float) / 2
        mean, low, high = (own[measure + end].to_numpy(float) for end in ("", "_low", "_high"))
        style.with_band(panel, at, mean, low, high, look, str(name), markevery=max(1, len(at) // 6), band=0.13)
    if not rows.empty and rows[measure].min() < 0.4 * rows[measure].max():
        panel.set_ylim(bottom=0)
