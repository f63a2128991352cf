"""Distance between believed and true profiles over the query index."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from sim.plots import intervals, style
from sim.plots.marks import ROW_IN, draw_marks, marks_of, placed, rows_above
from sim.plots.style import STYLE, Look

_DODGE_PT = 5.0
DISTANCE_LABEL = "distance of belief\nfrom true profile"


def profiles_figure(
    distances: pd.DataFrame,
    *,
    users: pd.DataFrame | None = None,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw the distance between belief and true profile by query index, from a table of `beliefs.belief_distance`.

    Two to four users of a mechanism are drawn individually, given by `users` (`beliefs.user_belief_distances`).
    """
    distances = distances.assign(attack=distances.get("attack", ""))
    few = intervals.few_users(distances)
    own_values = pd.DataFrame() if users is None or few.empty else users.merge(few[["point", "lppm"]])
    own_looks = style.own_looks(names, distances["lppm"])
    first, last = float(distances["index"].min()), float(distances["index"].max())
    span = (first, max(last, first + 1))
    unplaced = [] if shifts is None else marks_of(shifts[shifts["point"].isin(set(distances["point"]))])
    marks = placed([mark for mark in unplaced if mark.at <= span[1]], span, width - 0.8)
    above = ROW_IN * rows_above(marks)
    spread = intervals.note_on(distances, "bands", "distance", users=own_values)
    note = "; ".join(filter(None, ["total variation distance", spread]))
    with rc_context(STYLE | style.lines_for(width)):
        figure = style.with_legend(width, float(np.clip(0.55 * width, 1.9, 2.6)) + above, own_looks, note, title=title)
        panel = figure.subplots()
        draw_marks(panel, marks, labelled=True)
        seen: list[tuple[list[float], list[float]]] = []
        for name, own in intervals.blank_few(distances, "distance").groupby("lppm", sort=False):
            mean, low, high = (own[f"distance{end}"].to_numpy(float) for end in ("", "_low", "_high"))
            at = own["index"].to_numpy(float)
            curve = (at.tolist(), mean.round(9).tolist())
            # Mechanisms with the same fixed belief are common; without an offset they would hide each other.
            aside = _DODGE_PT * seen.count(curve) / 72 / (width - 0.8)
            seen.append(curve)
            at = at + aside * (span[1] - span[0])
            if len(own_values):
                of_users = own_values[own_values["lppm"] == name]
                intervals.draw_users(panel, of_users, "index", "distance", own_looks[str(name)])
            intervals.with_band(panel, at, mean, low, high, own_looks[str(name)], str(name), markevery=1, band=0.1)
        style.count_queries(panel, width)
        bottom, top = intervals.whole_limits(distances, "distance")
        if len(own_values):
            bottom, top = (
                min(bottom, float(own_values["distance"].min())),
                max(top, 1.02 * own_values["distance"].max()),
            )
        panel.set_ylim(bottom, min(1.02, top))
        panel.set_ylabel(DISTANCE_LABEL)
        return style.settled(figure)
