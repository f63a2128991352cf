"""Time series over the query index: quality loss, adversary error and efficiency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.analysis.event_log import SERIES
from sim.analysis.time_series import middle_points
from sim.plots import intervals, style
from sim.plots.labels import literal
from sim.plots.marks import ROW_IN, draw_marks, marks_of, placed, rows_above
from sim.plots.style import EFFICIENCY_LABEL, ERROR_LABEL, PAIR, QUALITY_LABEL, STYLE, Look


def over_time_figure(
    over_time: pd.DataFrame,
    *,
    users: pd.DataFrame | None = None,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw quality loss and adversary error by query index, with one column per attack.

    A loss that does not depend on the attack is drawn once. Mechanisms whose values are all zero, such as no
    protection, may lie below the axis limits, which a note reports.

    Bands are 95 % confidence intervals over users, drawn where at least five users have a query. If a mechanism has two
    to four users, each is drawn as a thin line, given by `users`, a table of `time_series.user_time_series` with the
    same LPPM names. Each mechanism is drawn at its middle sweep point. Expected metrics are drawn where recorded.
    Behaviour shifts, a table of `shifts`, are vertical lines at the median over users. If `width`, in inches, is too
    small for all columns, they continue in further rows. `names` gives the style of each LPPM (default: by order of
    appearance).
    """
    if over_time.empty:
        return style.empty_figure("this run has no queries to draw over time")
    chosen = intervals.preferred_metrics(
        over_time[over_time["point"] == over_time["lppm"].map(middle_points(over_time))]
    )
    labels = zip(PAIR, (QUALITY_LABEL, ERROR_LABEL), strict=True)
    measures = {measure: label for measure, label in labels if chosen[measure].notna().any()}
    own = _of_few(chosen, users)
    note = intervals.note_on(chosen, "bands", users=own)
    return _by_index(chosen, own, measures, style.own_looks(names, chosen["lppm"]), shifts, title, note, width)


def efficiency_figure(
    series: pd.DataFrame,
    *,
    users: pd.DataFrame | None = None,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw the efficiency by query index, with one column per attack.

    `series` is a table of `time_series.efficiency_time_series`. Two to four users are drawn individually, given by
    `users`, as in `over_time_figure`.
    """
    if series.empty:
        return style.empty_figure("efficiency is undefined: this run has no adversary error or no quality loss")
    of_few = _of_few(series, users)
    note = intervals.note_on(series, "bands", "efficiency", users=of_few)
    own = style.own_looks(names, series["lppm"])
    return _by_index(series, of_few, {"efficiency": EFFICIENCY_LABEL}, own, shifts, title, note, width)


def _of_few(rows: pd.DataFrame, users: pd.DataFrame | None) -> pd.DataFrame:
    """Return the windows of each user, with their efficiency, for series with too few users for intervals."""
    few = intervals.few_users(rows)
    if users is None or few.empty:
        return pd.DataFrame(columns=[*SERIES, "user", "at", *PAIR, "efficiency"])
    own = users.merge(few, on=SERIES)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = own[PAIR[1]].to_numpy(float) / own[PAIR[0]].to_numpy(float)
    efficiency = np.where(np.isfinite(ratio), ratio, np.nan)
    return own.assign(at=(own["first_index"] + own["last_index"]) / 2, efficiency=efficiency)


def _by_index(
    rows: pd.DataFrame,
    users: pd.DataFrame,
    measures: dict[str, str],
    names: dict[str, Look],
    shifts: pd.DataFrame | None,
    title: str,
    note: str,
    width: float | None,
) -> Figure:
    """Draw measures by query index, one below the other, with one column per attack."""
    attacks = list(dict.fromkeys(rows["attack"]))
    columns = len(attacks) if width is None else style.columns(width, len(attacks))
    full = style.usual_width(len(attacks)) if width is None else width
    unplaced = [] if shifts is None else marks_of(shifts[shifts["point"].isin(set(rows["point"]))])
    marks = placed(unplaced, (0.0, float(rows["last_index"].max())), full / columns - 0.4)
    above = ROW_IN * rows_above(marks)
    blocks = -(-len(attacks) // columns)
    high = 1.8 if width is None else style.row_height(full / columns)
    once = len(attacks) > 1 and len(measures) > 1 and _same_for_all(rows, PAIR[0])
    limits = {measure: _limits(rows, users, measure) for measure in measures}
    below = dict.fromkeys(name for measure in measures for name in _at_zero(rows, measure) if limits[measure][0] > 0)
    if below:
        note = "; ".join(filter(None, [note, f"zero, below the axis: {', '.join(map(literal, below))}"]))
    free_in = (full - 0.5) * (columns - 1) / columns - 0.1
    inside = once and columns > 1 and style.legend_height(names, note, free_in) <= high
    with rc_context(STYLE if width is None else STYLE | style.lines_for(width)):
        height = high + above + blocks * (high + 0.25) + 0.3 if once else blocks * (high * len(measures) + 0.4 + above)
        figure = style.with_legend(full, height, {} if inside else names, "" if inside else note, title=title)
        panels = (_panels_once if once else style.grid)(figure, list(measures), attacks, columns)
        for (measure, attack), panel in panels.items():
            first = measure == next(iter(measures))
            draw_marks(panel, marks, labelled=first)
            for name, own in users[users["attack"] == attack].groupby("lppm", sort=False):
                intervals.draw_users(panel, own, "at", measure, names[str(name)])
            _lines(panel, rows[rows["attack"] == attack], measure, names)
            panel.set_ylim(limits[measure])
            if first != once:
                panel.set_title(style.against(attack, full / columns), pad=6 + 72 * above * first)
            if attacks.index(attack) % columns == 0:
                panel.set_ylabel(style.broken(measures[measure], high))
            if measure == list(measures)[-1] and (not once or attacks.index(attack) + columns >= len(attacks)):
                style.count_queries(panel, full / columns)
        if inside:
            # To the right of the panel of the loss, in fractions of it.
            room: Any = {"bbox_to_anchor": (1.07, 0, 1.06 * (columns - 1), 1)}
            room["bbox_transform"] = panels[PAIR[0], attacks[0]].transAxes
            style.legend(figure, names, note, free_in, loc="center", **room)
        return style.settled(figure)


def _same_for_all(rows: pd.DataFrame, measure: str) -> bool:
    """Return whether a measure does not depend on the attack."""
    by_attack = rows.pivot_table(index=["lppm", "point", "first_index"], columns="attack", values=measure)
    low, high = by_attack.min(axis=1, skipna=False), by_attack.max(axis=1, skipna=False)
    return bool(np.allclose(low, high, rtol=1e-9, atol=1e-12))


def _panels_once(
    figure: Figure, measures: Sequence[str], attacks: Sequence[str], columns: int
) -> dict[tuple[str, str], Axes]:
    """Return one panel for the first measure, and below it one panel per attack for the second."""
    once, other = measures
    axes = figure.subplots(1 - (-len(attacks) // columns), columns, sharex=True, squeeze=False)
    panels: dict[tuple[str, str], Axes] = {(once, attacks[0]): axes[0, 0]}
    for number, panel in enumerate(axes[1:].flat):
        if number >= len(attacks):
            panel.remove()
            continue
        panels[other, attacks[number]] = panel
        if number:
            panel.sharey(axes[1, 0])
        panel.tick_params(labelleft=number % columns == 0, labelbottom=number + columns >= len(attacks))
    for panel in axes[0, 1:]:
        panel.remove()
    return panels


def _at_zero(rows: pd.DataFrame, measure: str) -> list[str]:
    """Return the LPPMs for which all values of a measure are zero."""
    most = rows.groupby("lppm", sort=False)[measure].max()
    return [str(name) for name in most.index[most == 0]]


def _limits(rows: pd.DataFrame, users: pd.DataFrame, measure: str) -> tuple[float, float]:
    """Return axis limits that contain the lines of single users."""
    shown = rows if measure == "efficiency" else rows[~rows["lppm"].isin(_at_zero(rows, measure))]
    shown = shown if len(shown) else rows
    bottom, top = (intervals.limits if measure == "efficiency" else intervals.whole_limits)(shown, measure)
    own = users.loc[users["lppm"].isin(shown["lppm"]), measure].dropna()
    if own.empty:
        return bottom, top
    # The efficiency of a user in a window with almost no loss may be arbitrarily large.
    most = 2 * top if measure == "efficiency" else np.inf
    return min(bottom, max(0.0, 0.97 * float(own.min()))), max(top, min(1.05 * float(own.max()), most))


def _lines(panel: Axes, rows: pd.DataFrame, measure: str, names: dict[str, Look]) -> None:
    for name, own in intervals.blank_few(rows, measure).dropna(subset=[measure]).groupby("lppm", sort=False):
        look = names[str(name)]
        at = (own["first_index"] + own["last_index"]).to_numpy(float) / 2
        mean, low, high = (own[measure + end].to_numpy(float) for end in ("", "_low", "_high"))
        intervals.with_band(panel, at, mean, low, high, look, str(name), markevery=max(1, len(at) // 6), band=0.13)
