"""Figure of a trace file: a map in km and degrees, rows or good days per user, and rows over time."""

from __future__ import annotations

import io
import warnings
from typing import Any

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator, NullFormatter, PercentFormatter, StrMethodFormatter

from sim.datasets.describing import MANY_DAYS, MANY_ROWS, Description, cells_of
from sim.datasets.trace_file import Traces
from sim.interfaces import IntArray
from sim.mobility.traces import DAY_S
from sim.plots import COLOURS, INK, STYLE
from sim.plots.labels import literal
from sim.world.grid import Grid

_SHADES = LinearSegmentedColormap.from_list("rows", ["#dcebf5", COLOURS[0], "#001e30"])
_FINER = 4
_THOUSANDS = StrMethodFormatter("{x:,.0f}")
_MOST_LINES = 5_000
_FEW_USERS = 20
"""Number of users below which their axis is linear."""
_MOST_DAYS = 60
_WEEK_S, _MONTH_S = 7 * DAY_S, 30 * DAY_S


def picture(traces: Traces, description: Description, *, title: str) -> bytes:
    """Return a PNG: a map of the rows with the cells, the distribution of rows or good days, and rows over time.

    Without times, the share of rows at the most frequent points replaces the last panel.
    """
    tall, beside = 5.0, 3.6
    wide = float(np.clip((tall - 0.9) * description.grid.width_km / description.grid.height_km, 1.5, 6.0)) + 1.3
    with rc_context(STYLE), warnings.catch_warnings():
        # Characters that the font lacks are drawn as boxes.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from", category=UserWarning)
        figure = Figure(figsize=(wide + beside, tall), layout="constrained")
        parts = figure.subfigures(1, 2, squeeze=False, width_ratios=(wide, beside))
        _map(parts[0, 0], traces, description)
        upper, lower = parts[0, 1].subplots(2, 1)
        if description.good_days is None:
            _rows_per_user(upper, traces, description)
        else:
            _days_per_cab(upper, description.good_days)
        if traces.timed:
            _over_time(lower, traces.when)
        else:
            _concentration(lower, traces, description)
        figure.suptitle(literal(title, 70), fontsize=9.5)
        file = io.BytesIO()
        figure.savefig(file, format="png", metadata={"Software": None})
    return file.getvalue()


def _map(figure: SubFigure, traces: Traces, description: Description) -> None:
    """Draw the density of rows, at a finer resolution than the cells, with the borders of the cells."""
    grid = description.grid
    panel = figure.subplots()
    if traces.cell is None:
        x_km, y_km = grid.to_km(traces.lat, traces.lon)
    else:
        x_km, y_km = grid.x_km[traces.cell], grid.y_km[traces.cell]
    finer = _FINER if traces.cell is None else 1
    x_edges = np.linspace(0, grid.width_km, grid.cols * finer + 1)
    y_edges = np.linspace(0, grid.height_km, grid.rows * finer + 1)
    rows, _, _ = np.histogram2d(y_km, x_km, bins=(y_edges, x_edges))
    shades = LogNorm(1, max(float(rows.max()), 10.0))
    mesh = panel.pcolormesh(x_edges, y_edges, np.ma.masked_equal(rows, 0), cmap=_SHADES, norm=shades)
    lines = [((x, 0), (x, grid.height_km)) for x in np.linspace(0, grid.width_km, grid.cols + 1)]
    lines += [((0, y), (grid.width_km, y)) for y in np.linspace(0, grid.height_km, grid.rows + 1)]
    if grid.n_cells <= _MOST_LINES:
        panel.add_collection(LineCollection(lines, colors="#888888", linewidths=0.25))
    panel.grid(visible=False)
    panel.set(xlim=(0, grid.width_km), ylim=(0, grid.height_km), aspect="equal", xlabel="km east", ylabel="km north")
    panel.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    if grid.south is not None:
        _degrees(panel, grid)
    panel.set_title(f"{description.inside:,} rows in {description.cells_visited:,} of {grid.n_cells:,} cells")
    bar = figure.colorbar(mesh, ax=panel, shrink=0.5, pad=0.03, format=_THOUSANDS)
    bar.set_label("rows in a sixteenth of a cell" if finer > 1 else "rows in a cell")
    bar.outline.set_visible(False)


def _degrees(panel: Axes, grid: Grid) -> None:
    """Add axes in degrees at the top and at the right."""
    south, west = grid.to_degrees(0.0, 0.0)
    km_per_lat, km_per_lon = grid.km_per_degree

    def axis(start: float, km: float) -> tuple[Any, Any]:
        return (lambda x: start + np.asarray(x) / km), (lambda degrees: (np.asarray(degrees) - start) * km)

    top = panel.secondary_xaxis("top", functions=axis(float(west), km_per_lon))
    right = panel.secondary_yaxis("right", functions=axis(float(south), km_per_lat))
    top.set_xlabel("degrees east")
    right.set_ylabel("degrees north")
    top.xaxis.set_major_locator(MaxNLocator(3))
    right.yaxis.set_major_locator(MaxNLocator(6))
    for one in (top.xaxis, right.yaxis):
        one.set_major_formatter(StrMethodFormatter("{x:.6g}"))


def _rows_per_user(panel: Axes, traces: Traces, description: Description) -> None:
    cells = cells_of(traces, description.grid)
    rows = np.bincount(traces.user[cells >= 0], minlength=len(traces.users))
    panel.set(xscale="log", yscale="log", xlabel="rows in the region", ylabel="users with at least as many")
    _at_least(panel, rows[rows > 0], MANY_ROWS)
    panel.set_xlim(right=10 * max(int(rows.max()), MANY_ROWS))
    most = int((rows > 0).sum())
    if most < _FEW_USERS:  # a logarithmic axis would have ticks between 1 and 10 only at fractions of a user
        panel.set(yscale="linear", ylim=(0, 1.15 * most))
        panel.yaxis.set_major_locator(MaxNLocator(5, integer=True))
        panel.yaxis.set_major_formatter(_THOUSANDS)
    panel.yaxis.set_minor_formatter(NullFormatter())
    panel.set_title("rows per user")


def _days_per_cab(panel: Axes, days: dict[str, int]) -> None:
    counts = np.array(list(days.values()))
    _at_least(panel, counts, MANY_DAYS)
    panel.set(xlabel="good days", ylabel="cabs with at least as many", ylim=(0, None))
    panel.set_xlim(0, 1.5 * max(int(counts.max()), MANY_DAYS))
    panel.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    panel.yaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    panel.set_title("days without a gap over 2 h")


def _at_least(panel: Axes, counts: IntArray, mark: int) -> None:
    """Draw the complementary cumulative distribution of counts, and mark one value."""
    values = np.unique(np.append(counts, 1))
    panel.step(values, [(counts >= value).sum() for value in values], where="pre", color=COLOURS[0])
    for axis in (panel.xaxis, panel.yaxis):
        axis.set_major_formatter(_THOUSANDS)
    many = int((counts >= mark).sum())
    panel.axvline(mark, color="#777777", linestyle="--", linewidth=0.9)
    _mark(panel, mark, many, f"{many:,} with {mark} or more")


def _mark(panel: Axes, x: float, y: float, label: str) -> None:
    """Mark a point of a decreasing curve with a label; if y is 0, only write the label at the top of the panel."""
    if y:
        panel.plot(x, y, "o", color=COLOURS[1], markersize=4)
    panel.annotate(
        label,
        (x, y if y else 0.9),
        xycoords="data" if y else ("data", "axes fraction"),
        xytext=(5, 4),
        textcoords="offset points",
        fontsize=7.5,
        color=INK,
    )


def _over_time(panel: Axes, times_s: IntArray) -> None:
    """Draw rows per day, week or 30 days, depending on the time span."""
    span_s = int(times_s.max() - times_s.min())
    step_s, unit = next(
        ((step, unit) for step, unit in ((DAY_S, "day"), (_WEEK_S, "week")) if span_s <= 120 * step),
        (_MONTH_S, "30 days"),
    )
    bins = times_s // step_s
    first = int(bins.min())
    counts = np.bincount(bins - first)
    edges = (np.arange(first, first + counts.size + 1) * step_s).astype("datetime64[s]")
    panel.stairs(counts, mdates.date2num(edges), fill=True, color=COLOURS[0])  # type: ignore[no-untyped-call]
    _dates(panel, edges)
    panel.yaxis.set_major_formatter(_THOUSANDS)
    panel.set(ylabel=f"rows per {unit}", ylim=(0, None))
    panel.set_title("rows over time (UTC)")


def _dates(panel: Axes, edges: Any) -> None:
    """Set the ticks of an axis of dates: on up to two months every few days, counted from the first day."""
    days = int((edges[-1] - edges[0]) / np.timedelta64(1, "D"))
    if days > _MOST_DAYS:
        locator = mdates.AutoDateLocator(minticks=3)  # type: ignore[no-untyped-call]
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        return
    # The locator of matplotlib counts days from the 1st of each month: it has ticks on both the 31st and the 1st.
    step = next(step for step in (1, 2, 3, 5, 7, 10, 14) if days <= 5 * step)
    ticks = edges[0] + np.arange(0, days, step) * np.timedelta64(1, "D")
    texts = [f"{date.day} {date:%b}" for date in ticks.tolist()]
    panel.set_xticks(mdates.date2num(ticks), texts)  # type: ignore[no-untyped-call]
    years = sorted({date.year for date in ticks.tolist()})
    panel.set_xlabel(" to ".join(map(str, years)))


def _concentration(panel: Axes, traces: Traces, description: Description) -> None:
    """Draw the cumulative share of rows at the most frequent points."""
    cells = cells_of(traces, description.grid)
    inside = cells >= 0
    where = {"cell": cells} if traces.cell is not None else {"lat": traces.lat, "lon": traces.lon}
    points = pd.DataFrame({name: values[inside] for name, values in where.items()}).value_counts().to_numpy()
    shares = np.cumsum(points) / points.sum()
    panel.plot(np.arange(1, points.size + 1), shares, color=COLOURS[0])
    panel.plot(1, shares[0], "o", color=COLOURS[1], markersize=4)
    panel.annotate(f"{shares[0]:.0%} at one point", (1, shares[0]), (6, -9), textcoords="offset points", fontsize=7.5)
    panel.set(xscale="log", ylim=(0, 1.03), xlabel="most frequent points", ylabel="share of the rows")
    panel.xaxis.set_major_formatter(_THOUSANDS)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    panel.set_title("rows at the most frequent points")
