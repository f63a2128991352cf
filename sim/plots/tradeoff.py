"""Privacy-quality trade-off: adversary error against quality loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.analysis.event_log import SERIES
from sim.analysis.summary import preferred
from sim.interfaces import FloatArray
from sim.plots import intervals, style
from sim.plots.axis_control import REFERENCE
from sim.plots.labels import label_points
from sim.plots.style import DIAGONAL, ERROR_LABEL, LINES, PAIR, QUALITY_LABEL, STYLE, Look, looks

_HIGHEST_IN = 4.0
"""Maximum height of a panel, in inches."""
_UNBROKEN = DIAGONAL.replace(" ", r"\,")
"""The name of the diagonal without spaces, at which a note would be wrapped."""
_PAGE_IN, _NARROWEST_IN = 7.0, 2.2
"""Maximum height of a printed figure, and the width down to which its panels shrink to fit, in inches."""


def tradeoff_figure(
    summary: pd.DataFrame,
    *,
    users: pd.DataFrame | None = None,
    width: float | None = None,
    names: Mapping[str, Look] | None = None,
    other_axes: bool = False,
) -> Figure:
    """Draw the adversary error against the quality loss, with one panel per attack.

    Each LPPM is a line through its sweep points, sorted by loss, or a labelled dot if it has one point. Bars are
    confidence intervals; for two to four users, the values of each are drawn instead, given by `users`, a table of the
    means of each user (`totals`) with the LPPM names of the summary. Above the dashed line P_AE = Q-bar the adversary's
    estimate is worse than the report itself. Expected metrics are drawn where recorded. `width` is in inches (default:
    as needed by the panels). `names` gives the style of each curve, see `series_looks` (default: by order of
    appearance). `other_axes`: limits or scales will be changed, so the diagonal continues beyond the limits, and names
    are in the legend.
    """
    shown = intervals.preferred_metrics(_with_series(summary)).dropna(subset=PAIR)
    if shown.empty:
        return style.empty_figure("this run has no attack, so the adversary error is undefined")
    shown = intervals.blank_few(shown, *PAIR)
    own_values = _values_of_few(shown, users)
    known, attacks = names or series_looks(summary), list(dict.fromkeys(shown["attack"]))
    series = {name: known[name] for name in dict.fromkeys(_with_series(summary)["series"])}
    if width is None:
        columns = len(attacks) if len(attacks) <= 3 else 2 if len(attacks) == 4 else 3
        side = 3.4 if columns == 1 else 2.7
    else:
        columns = style.columns(width, len(attacks), least_in=2.3)
        side = (width - 0.4) / columns
    rows = -(-len(attacks) // columns)
    room = side if width is None else _below_one_another(side, 1.0, rows)
    single = not shown.duplicated(["series", "attack"]).any()
    few = len(series) <= 6 and len(attacks) <= 4 and max(map(len, series)) <= 14
    direct = single and few and room > 2.5 and not other_axes
    limits, cut = _limits(shown, own_values, room=0.35 if direct else 0.18)
    share = 1.0 if direct else _height(shown, own_values, limits)
    room = side if width is None else _below_one_another(side, share, rows)
    with rc_context(STYLE if width is None else STYLE | style.lines_for(width)):
        height = (min(room, _HIGHEST_IN) * share + 0.2) * rows + 0.45
        note = intervals.note_on(shown, "bars", users=own_values) + ("; some exceed the axis limits" if cut else "")
        note = "; ".join(filter(None, [note, f"dashed: {_UNBROKEN}"])) if other_axes else note
        figure = style.with_legend(side * columns + 0.4, height, {} if direct else series, note, lines=not single)
        panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for panel, attack in zip(panels.flat, attacks, strict=False):
            own = shown[shown["attack"] == attack].sort_values(["quality_loss_km", "point"])
            own_of_attack = own_values[own_values["attack"] == attack].sort_values([PAIR[0], "point"])
            for name, of_users in own_of_attack.groupby("series", sort=False):
                intervals.draw_users(panel, of_users, PAIR[0], PAIR[1], series[str(name)])
            _diagonal(panel, limits, share, other_axes=other_axes)
            _tradeoff_panel(panel, own, series, limits, share)
            panel.set_title(style.against(attack, side))
            if direct:
                within = (own[PAIR].to_numpy(float) - limits[0]) / (limits[1] - limits[0])
                colours = [series[name].colour for name in own["series"]]
                others = (own_of_attack[PAIR].to_numpy(float) - limits[0]) / (limits[1] - limits[0])
                label_points(panel, within, own["series"].tolist(), colours, others)
        _label_outer(panels, len(attacks), style.broken(ERROR_LABEL, min(room, _HIGHEST_IN) * share))
        return style.settled(figure)


def _with_series(summary: pd.DataFrame) -> pd.DataFrame:
    """Return the summary with a name for each curve: the LPPM and, if present, the circumstances."""
    labels = summary["circumstances"] if "circumstances" in summary else pd.Series("", index=summary.index)
    names = [f"{lppm} ({label})" if label else lppm for lppm, label in zip(summary["lppm"], labels, strict=True)]
    return summary.assign(series=names, circumstances=labels)


def series_looks(summary: pd.DataFrame) -> dict[str, Look]:
    """Return a style for each curve: colour and marker by LPPM, line style by circumstances."""
    summary = _with_series(summary)
    of_lppm = looks(summary["lppm"])
    curves = summary.drop_duplicates("series")
    order = {text: i for i, text in enumerate(dict.fromkeys(curves["circumstances"]))}
    return {
        row["series"]: of_lppm[row["lppm"]]
        if len(order) == 1
        else replace(of_lppm[row["lppm"]], line=LINES[order[row["circumstances"]] % len(LINES)])
        for row in curves.to_dict("records")
    }


def _values_of_few(shown: pd.DataFrame, users: pd.DataFrame | None) -> pd.DataFrame:
    """Return the loss and error of each user for series with too few users for intervals."""
    columns = ["series", "point", "attack", "user", *PAIR]
    few = intervals.few_users(shown)
    if users is None or few.empty:
        return pd.DataFrame(columns=columns)
    own = _with_series(users).assign(**{name: preferred(users, name) for name in PAIR})
    return own.merge(few, on=SERIES)[columns].dropna()


def _below_one_another(side: float, share: float, rows: int) -> float:
    """Return the panel width for print if `rows` panels, with height `share` times width, are stacked."""
    return min(side, max(_NARROWEST_IN, (_PAGE_IN / rows - 0.35) / share))


def _limits(shown: pd.DataFrame, users: pd.DataFrame, *, room: float) -> tuple[tuple[float, float], bool]:
    """Return the limits of both axes, and whether bars exceed them.

    The limits start at zero, unless all points are close together. They cover at most twice the range of the points;
    longer bars are cut off.
    """
    means = shown[PAIR].to_numpy(dtype=float)
    top = float(means.max()) or 1.0
    ends = shown[[f"{name}_{end}" for name in PAIR for end in ("low", "high")]].to_numpy(dtype=float)
    reach = np.clip(ends, -0.3 * top, 2 * top)
    own = users[PAIR].to_numpy(dtype=float)
    low, high = (of([*means.flat, *reach.flat, *own.flat]) for of in (np.nanmin, np.nanmax))
    low = low - 0.1 * top if low > 0.5 * top else min(low, 0.0)
    span = high - low
    limits = float(low - 0.03 * span), float(max(high + 0.05 * span, top + room * (top - low)))
    return limits, bool(np.nanmax(np.abs(reach - ends), initial=0) > 0)


def _height(shown: pd.DataFrame, users: pd.DataFrame, limits: tuple[float, float]) -> float:
    """Return the fraction of the range that the y axis needs, at least 0.5; losses may be much larger than errors."""
    low, high = limits
    top = float(shown["adversary_error_km"].max())
    reach = float(np.nanmax([top, *shown["adversary_error_km_high"], *users["adversary_error_km"]]))
    needed = (max(1.1 * top, reach + 0.04 * (high - low)) - low) / (high - low)
    return float(np.clip(needed, 0.5, 1.0))


def _diagonal(panel: Axes, limits: tuple[float, float], share: float, *, other_axes: bool) -> None:
    """Draw the diagonal with its name; for other axes without, and as a curve that any scale can show."""
    ends = np.concatenate([limits, limits[1] * np.geomspace(1e-6, 1e3, 200)]) if other_axes else np.array(limits)
    ends.sort()
    (line,) = panel.plot(ends, ends, linestyle="--", color="#777777", linewidth=0.9, zorder=1, label=DIAGONAL)
    if other_axes:
        line.set_gid(REFERENCE)
        return
    end = limits[0] + (share - 0.06) * (limits[1] - limits[0])
    panel.text(
        end,
        end,
        DIAGONAL,
        color="#555555",
        fontsize=7.5,
        rotation=45,
        rotation_mode="anchor",
        horizontalalignment="right",
        verticalalignment="bottom",
    )


def _tradeoff_panel(
    panel: Axes, rows: pd.DataFrame, names: dict[str, Look], limits: tuple[float, float], share: float
) -> None:
    """Draw one attack with equal scales; the y axis covers only the fraction `share` of the range."""
    for name, own in rows.groupby("series", sort=False):
        look = names[str(name)]
        loss, error = own["quality_loss_km"].to_numpy(float), own["adversary_error_km"].to_numpy(float)
        panel.errorbar(
            loss,
            error,
            xerr=_bars(own, "quality_loss_km"),
            yerr=_bars(own, "adversary_error_km"),
            fmt="none",
            ecolor=look.colour,
            alpha=0.35,
            elinewidth=0.9,
            zorder=2,
        )
        panel.plot(loss, error, color=look.colour, marker=look.marker, linestyle=look.line, label=str(name), zorder=3)
    panel.set_xlim(limits)
    panel.set_ylim(limits[0], limits[0] + share * (limits[1] - limits[0]))
    panel.set_box_aspect(share)


def _bars(rows: pd.DataFrame, name: str) -> FloatArray:
    mean = rows[name].to_numpy(dtype=float)
    low = rows[f"{name}_low"].to_numpy(dtype=float)
    high = rows[f"{name}_high"].to_numpy(dtype=float)
    return np.nan_to_num(np.maximum([mean - low, high - mean], 0.0))


def _label_outer(panels: np.ndarray[Any, Any], count: int, error_label: str) -> None:
    """Hide the panels beyond `count` and label the outer ones of the others."""
    columns = panels.shape[1]
    for i, panel in enumerate(panels.flat):
        panel.set_visible(i < count)
        if i + columns >= count:
            panel.set_xlabel(QUALITY_LABEL)
            panel.tick_params(labelbottom=True)
        if i % columns == 0:
            panel.set_ylabel(error_label)
