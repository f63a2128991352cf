"""What happens query after query: loss and error, and the efficiency."""

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
    """Draw quality loss and adversary error by query index, a column for each attack.

    A loss that is the same whatever the attack is drawn once. Mechanisms that are at nought throughout, as without any
    protection, may lie below the frame, and then a note says so.

    Bands are 95 % intervals over users, none where fewer than five have a query. Where a mechanism has two to four
    users in all, each is drawn as a thin line, given by `users`, a table of `time_series.user_courses` with LPPMs named
    alike. Of several sweep points each mechanism is drawn at the middle one of those it was run at. Expected figures
    are drawn where the table has them. Changes in users' lives, a table of `shifts`, are lines at the median
    of the users. With a width, in inches, columns go on in further rows where it is too narrow for all. Looks are those
    of `names`, or by the order of appearance.
    """
    if over_time.empty:
        return style.empty_figure("no query in this run: there is nothing to draw over time")
    chosen = intervals.preferred_figures(
        over_time[over_time["point"] == over_time["lppm"].map(middle_points(over_time))]
    )
    labels = zip(PAIR, (QUALITY_LABEL, ERROR_LABEL), strict=True)
    measures = {measure: label for measure, label in labels if chosen[measure].notna().any()}
    own = _of_few(chosen, users)
    note = intervals.note_on(chosen, "bands", users=own)
    return _by_index(chosen, own, measures, style.own_looks(names, chosen["lppm"]), shifts, title, note, width)


def efficiency_figure(
    course: pd.DataFrame,
    *,
    users: pd.DataFrame | None = None,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw the efficiency by query index, a column for each attack; takes a table of `time_series.efficiency_course`.

    Of two to four users each is drawn, given by `users`, as in `over_time_figure`.
    """
    if course.empty:
        return style.empty_figure("no adversary error and quality loss in this run: there is no efficiency to draw")
    of_few = _of_few(course, users)
    note = intervals.note_on(course, "bands", "efficiency", users=of_few)
    own = style.own_looks(names, course["lppm"])
    return _by_index(course, of_few, {"efficiency": EFFICIENCY_LABEL}, own, shifts, title, note, width)


def _of_few(rows: pd.DataFrame, users: pd.DataFrame | None) -> pd.DataFrame:
    """Return the windows of each user, with their efficiency, of the series that have too few users for intervals."""
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
    """Draw measures by query index, one below the other, a column for each attack."""
    attacks = list(dict.fromkeys(rows["attack"]))
    columns = len(attacks) if width is None else style.columns(width, len(attacks))
    full = style.usual_width(len(attacks)) if width is None else width
    told = [] if shifts is None else marks_of(shifts[shifts["point"].isin(set(rows["point"]))])
    marks = placed(told, (0.0, float(rows["last_index"].max())), full / columns - 0.4)
    above = ROW_IN * rows_above(marks)
    blocks = -(-len(attacks) // columns)
    high = 1.8 if width is None else style.row_height(full / columns)
    once = len(attacks) > 1 and len(measures) > 1 and _same_for_all(rows, PAIR[0])
    limits = {measure: _limits(rows, users, measure) for measure in measures}
    below = dict.fromkeys(name for measure in measures for name in _at_nought(rows, measure) if limits[measure][0] > 0)
    if below:
        note = "; ".join(filter(None, [note, f"at 0, below the frame: {', '.join(map(literal, below))}"]))
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
            _course(panel, rows[rows["attack"] == attack], measure, names)
            panel.set_ylim(limits[measure])
            if first != once:
                panel.set_title(style.against(attack, full / columns), pad=6 + 72 * above * first)
            if attacks.index(attack) % columns == 0:
                panel.set_ylabel(style.broken(measures[measure], high))
            if measure == list(measures)[-1] and (not once or attacks.index(attack) + columns >= len(attacks)):
                style.count_queries(panel, full / columns)
        if inside:
            # In parts of the panel of the loss, to the right of it.
            room: Any = {"bbox_to_anchor": (1.07, 0, 1.06 * (columns - 1), 1)}
            room["bbox_transform"] = panels[PAIR[0], attacks[0]].transAxes
            style.legend(figure, names, note, free_in, loc="center", **room)
        return style.settled(figure)


def _same_for_all(rows: pd.DataFrame, measure: str) -> bool:
    """Return whether a measure does not differ by attack."""
    found = rows.pivot_table(index=["lppm", "point", "first_index"], columns="attack", values=measure)
    low, high = found.min(axis=1, skipna=False), found.max(axis=1, skipna=False)
    return bool(np.allclose(low, high, rtol=1e-9, atol=1e-12))


def _panels_once(
    figure: Figure, measures: Sequence[str], attacks: Sequence[str], columns: int
) -> dict[tuple[str, str], Axes]:
    """Return a panel for the first measure, and below it one for each attack and the second."""
    once, other = measures
    there = figure.subplots(1 - (-len(attacks) // columns), columns, sharex=True, squeeze=False)
    found: dict[tuple[str, str], Axes] = {(once, attacks[0]): there[0, 0]}
    for number, panel in enumerate(there[1:].flat):
        if number >= len(attacks):
            panel.remove()
            continue
        found[other, attacks[number]] = panel
        if number:
            panel.sharey(there[1, 0])
        panel.tick_params(labelleft=number % columns == 0, labelbottom=number + columns >= len(attacks))
    for panel in there[0, 1:]:
        panel.remove()
    return found


def _at_nought(rows: pd.DataFrame, measure: str) -> list[str]:
    """Return the LPPMs of which a measure is nought throughout."""
    most = rows.groupby("lppm", sort=False)[measure].max()
    return [str(name) for name in most.index[most == 0]]


def _limits(rows: pd.DataFrame, users: pd.DataFrame, measure: str) -> tuple[float, float]:
    """Return the range of an axis, with the lines of single users in it."""
    kept = rows if measure == "efficiency" else rows[~rows["lppm"].isin(_at_nought(rows, measure))]
    kept = kept if len(kept) else rows
    bottom, top = (intervals.limits if measure == "efficiency" else intervals.whole_limits)(kept, measure)
    own = users.loc[users["lppm"].isin(kept["lppm"]), measure].dropna()
    if own.empty:
        return bottom, top
    # The efficiency of a user in a window without any loss to speak of may be anything.
    most = 2 * top if measure == "efficiency" else np.inf
    return min(bottom, max(0.0, 0.97 * float(own.min()))), max(top, min(1.05 * float(own.max()), most))


def _course(panel: Axes, rows: pd.DataFrame, measure: str, names: dict[str, Look]) -> None:
    for name, own in intervals.blank_few(rows, measure).dropna(subset=[measure]).groupby("lppm", sort=False):
        look = names[str(name)]
        at = (own["first_index"] + own["last_index"]).to_numpy(float) / 2
        mean, low, high = (own[measure + end].to_numpy(float) for end in ("", "_low", "_high"))
        intervals.with_band(panel, at, mean, low, high, look, str(name), markevery=max(1, len(at) // 6), band=0.13)
