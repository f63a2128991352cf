"""What happens query after query: loss and error, and the efficiency."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.courses import middle_points
from sim.plots import style
from sim.plots.marks import ROW_IN, draw_marks, marks_of, placed, rows_above
from sim.plots.style import EFFICIENCY_LABEL, ERROR_LABEL, PAIR, QUALITY_LABEL, STYLE, Look


def over_time_figure(
    over_time: pd.DataFrame,
    *,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw quality loss and adversary error by query index, a column for each attack.

    Bands are 95 % intervals over users. Of several sweep points each mechanism is drawn at the middle one of those it
    was run at. Expected figures are drawn where the table has them. Changes in users' lives, a table of
    `analysis.shifts`, are lines at the median of the users. With a width, in inches, columns go on in further rows
    where it is too narrow for all. Looks are those of `names`, or by the order of appearance.
    """
    if over_time.empty:
        return style.empty_figure("no query in this run: there is nothing to draw over time")
    chosen = style.preferred_figures(over_time[over_time["point"] == over_time["lppm"].map(middle_points(over_time))])
    labels = zip(PAIR, (QUALITY_LABEL, ERROR_LABEL), strict=True)
    measures = {measure: label for measure, label in labels if chosen[measure].notna().any()}
    note = style.note_on(chosen, "bands")
    return _by_index(chosen, measures, style.own_looks(names, chosen["lppm"]), shifts, title, note, width)


def efficiency_figure(
    course: pd.DataFrame,
    *,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw the efficiency by query index, a column for each attack; takes a table of `courses.efficiency_course`."""
    if course.empty:
        return style.empty_figure("no adversary error and quality loss in this run: there is no efficiency to draw")
    note = "bands: 95 % intervals over users" if course["efficiency_low"].notna().any() else ""
    own = style.own_looks(names, course["lppm"])
    return _by_index(course, {"efficiency": EFFICIENCY_LABEL}, own, shifts, title, note, width)


def _by_index(
    rows: pd.DataFrame,
    measures: dict[str, str],
    names: dict[str, Look],
    shifts: pd.DataFrame | None,
    title: str,
    note: str,
    width: float | None,
) -> Figure:
    """Draw measures by query index, one below the other, a column for each attack."""
    attacks = list(dict.fromkeys(rows["attack"]))
    columns = len(attacks) if width is None else style.columns(width, len(attacks))
    full = style.usual_width(len(attacks)) if width is None else width
    told = [] if shifts is None else marks_of(shifts[shifts["point"].isin(set(rows["point"]))])
    marks = placed(told, (0.0, float(rows["last_index"].max())), full / columns - 0.4)
    above = ROW_IN * rows_above(marks)
    blocks = -(-len(attacks) // columns)
    high = 1.8 if width is None else style.row_height(full / columns)
    with rc_context(STYLE):
        height = blocks * (high * len(measures) + 0.4 + above)
        figure = style.with_legend(full, height, names, note, title=title)
        panels = style.grid(figure, list(measures), attacks, columns)
        for (measure, attack), panel in panels.items():
            first = measure == next(iter(measures))
            draw_marks(panel, marks, labelled=first)
            _course(panel, rows[rows["attack"] == attack], measure, names)
            if first:
                panel.set_title(style.against(attack, full / columns), pad=6 + 72 * above)
            if attacks.index(attack) % columns == 0:
                panel.set_ylabel(style.broken(measures[measure], high))
            if measure == list(measures)[-1]:
                style.count_queries(panel, full / columns)
        if "efficiency" in measures:
            panels["efficiency", attacks[0]].set_ylim(style.limits(rows, "efficiency"))
        return style.settled(figure)


def _course(panel: Axes, rows: pd.DataFrame, measure: str, names: dict[str, Look]) -> None:
    for name, own in rows.dropna(subset=[measure]).groupby("lppm", sort=False):
        look = names[str(name)]
        at = (own["first_index"] + own["last_index"]).to_numpy(float) / 2
        mean, low, high = (own[measure + end].to_numpy(float) for end in ("", "_low", "_high"))
        style.with_band(panel, at, mean, low, high, look, str(name), markevery=max(1, len(at) // 6), band=0.13)
    if not rows.empty and rows[measure].min() < 0.4 * rows[measure].max():
        panel.set_ylim(bottom=0)
