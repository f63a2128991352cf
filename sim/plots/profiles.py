"""How far mechanisms are from knowing their users."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from sim.plots import style
from sim.plots.marks import ROW_IN, draw_marks, marks_of, placed, rows_above
from sim.plots.style import STYLE, Look

_DODGE_PT = 5.0
DISTANCE_LABEL = "total variation distance of\nbelieved from true profile"


def profiles_figure(
    distances: pd.DataFrame,
    *,
    title: str = "",
    shifts: pd.DataFrame | None = None,
    width: float,
    names: Mapping[str, Look] | None = None,
) -> Figure:
    """Draw how far beliefs are from the truth by query index; takes a table of `courses.belief_distance`.

    Indices that grow by factors are on a logarithmic axis, with numbers where there are snapshots.
    """
    own_looks = style.own_looks(names, distances["lppm"])
    indices = np.array(sorted(set(distances["index"])), dtype=float)
    gaps = np.diff(indices)
    log = len(indices) > 2 and gaps.max() > 3 * gaps.min()
    span = (indices[0], max(indices[-1], indices[0] + 1))
    told = [] if shifts is None else marks_of(shifts[shifts["point"].isin(set(distances["point"]))])
    marks = placed([mark for mark in told if mark.at <= span[1]], span, width - 0.8, log=log)
    above = ROW_IN * rows_above(marks)
    note = "bands: 95 % intervals over users" if distances["distance_low"].notna().any() else ""
    with rc_context(STYLE):
        figure = style.with_legend(width, float(np.clip(0.55 * width, 1.9, 2.6)) + above, own_looks, note, title=title)
        panel = figure.subplots()
        draw_marks(panel, marks, labelled=True)
        seen: list[tuple[list[float], list[float]]] = []
        for name, own in distances.groupby("lppm", sort=False):
            mean, low, high = (own[f"distance{end}"].to_numpy(float) for end in ("", "_low", "_high"))
            at = own["index"].to_numpy(float)
            curve = (at.tolist(), mean.round(9).tolist())
            # Mechanisms that believe the same for ever are common, and would hide each other.
            aside = _DODGE_PT * seen.count(curve) / 72 / (width - 0.8)
            seen.append(curve)
            at = at * (span[1] / span[0]) ** aside if log else at + aside * (span[1] - span[0])
            style.with_band(panel, at, mean, low, high, own_looks[str(name)], str(name), markevery=1, band=0.1)
        style.count_queries(panel, width)
        if log:
            panel.set_xscale("log")
            panel.xaxis.set_major_locator(FixedLocator(_apart(indices, (width - 0.8) / 0.3)))
            panel.xaxis.set_minor_locator(NullLocator())
            panel.xaxis.set_major_formatter("{x:.0f}")
        panel.set_ylim(0, min(1.0, 1.08 * float(distances["distance"].max())))
        panel.set_ylabel(DISTANCE_LABEL)
        return style.settled(figure)


def _apart(indices: np.ndarray[tuple[int], np.dtype[np.float64]], most: float) -> list[float]:
    """Return indices with room for so many numbers on a logarithmic axis, the last ones first."""
    step = np.log(indices[-1] / indices[0]) / most
    found: list[float] = []
    for index in indices[::-1]:
        if not found or np.log(found[-1] / index) >= step:
            found.append(float(index))
    return found
