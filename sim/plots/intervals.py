"""Means with their spread in figures: bands, bars or single users, and axis limits."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from sim.analysis.event_log import SERIES
from sim.analysis.statistics import ENDS, FEWEST_USERS, INTERVAL, are_few, metric_bounds, spread_kinds
from sim.analysis.summary import preferred
from sim.interfaces import FloatArray
from sim.plots.style import PAIR, Look


def preferred_metrics(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with realised metrics and intervals replaced by the expected ones where recorded."""
    return table.assign(**{name + end: preferred(table, name, end) for name in PAIR for end in ENDS})


def limits(series: pd.DataFrame, measure: str) -> tuple[float, float]:
    """Return axis limits that contain all lines; wide bands may exceed them."""
    series = blank_few(series, measure)
    low, high = series[measure].min(), series[measure].max()
    room = max(high - low, 0.1 * high, 1e-9)
    ends = series[[f"{measure}_low", f"{measure}_high"]].clip(low - 0.5 * room, high + 0.5 * room)
    low, high = np.nanmin([low, *ends[f"{measure}_low"]]), np.nanmax([high, *ends[f"{measure}_high"]])
    low = 0.0 if low < 0.4 * high else low
    return float(max(low - 0.03 * (high - low), 0.0)), float(high + 0.05 * (high - low))


def whole_limits(series: pd.DataFrame, measure: str) -> tuple[float, float]:
    """Return axis limits that contain the bands up to twice the largest mean, so that wide bands do not hide the lines.

    The lower limit is zero unless all lines lie far above it.
    """
    series = blank_few(series, measure)
    low, high = (series[f"{measure}_{end}"].combine_first(series[measure]) for end in ("low", "high"))
    top = min(float(high.max()), 2 * float(series[measure].max()) or np.inf)
    bottom = 0.0 if series[measure].min() < 0.4 * series[measure].max() else max(0.0, float(low.min()))
    room = 0.05 * (top - bottom) or 0.05 * top or 1.0
    return bottom - room if bottom else 0.0, top + room


def blank_few(rows: pd.DataFrame, *measures: str) -> pd.DataFrame:
    """Return rows with the intervals to draw: none for few units, truncated at the metric's bounds."""
    few = np.array([kind != INTERVAL for kind in spread_kinds(rows)], dtype=bool)
    ends = {f"{name}{end}": name for name in measures for end in ENDS[1:]}
    return rows.assign(
        **{end: rows[end].astype(float).mask(few).clip(*metric_bounds(name)) for end, name in ends.items()}
    )


def few_users(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the point, LPPM and attack of the series that have too few users for intervals."""
    most = rows.groupby(SERIES, sort=False)["users"].max()
    return most[most.map(are_few)].index.to_frame(index=False)


def draw_users(panel: Axes, own: pd.DataFrame, x: str, y: str, look: Look) -> None:
    """Draw the values of each user as a thin line, or as a small dot if there is a single value."""
    for _, of_user in own.dropna(subset=[x, y]).groupby("user", sort=False):
        single = {"marker": look.marker, "markersize": 2.2} if len(of_user) == 1 else {}
        at, values = of_user[x].to_numpy(float), of_user[y].to_numpy(float)
        panel.plot(at, values, color=look.colour, alpha=0.5, linewidth=0.6, zorder=1.8, **single)  # type: ignore[arg-type]


def note_on(rows: pd.DataFrame, what: str, measure: str = "quality_loss_km", *, users: pd.DataFrame | None) -> str:
    """Return the note on bars, bands and thin lines; `users` has the values of individually drawn users."""
    units = "replications" if (rows["users"] == 1).all() else "users"
    drawn = blank_few(rows, measure)[f"{measure}_low"].notna().any()
    parts = [f"{what}: 95 % confidence intervals over {units}"] if drawn else []
    if users is not None and len(users):
        parts.append(f"thin lines or small marks: individual users (no intervals for fewer than {FEWEST_USERS} users)")
    return "; ".join(parts)


def line(
    panel: Axes, at: FloatArray, mean: FloatArray, look: Look, label: str, *, markevery: int, **marker: float
) -> None:
    """Draw a line."""
    drawn = {"color": look.colour, "linestyle": look.line, "marker": look.marker, "label": label}
    panel.plot(at, mean, markevery=markevery, **drawn, **marker)  # type: ignore[arg-type]


def with_band(
    panel: Axes,
    at: FloatArray,
    mean: FloatArray,
    low: FloatArray,
    high: FloatArray,
    look: Look,
    label: str,
    *,
    markevery: int,
    band: float,
    **marker: float,
) -> None:
    """Draw a line and its interval as a band of opacity `band`."""
    line(panel, at, mean, look, label, markevery=markevery, **marker)
    panel.fill_between(at, low, high, color=look.colour, alpha=band, linewidth=0)
