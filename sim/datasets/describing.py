"""Descriptions of trace files: users, time span, region and data quality, as numbers and as a figure."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib.dates as mdates
import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import LinearSegmentedColormap, LogNorm
from matplotlib.figure import Figure, SubFigure
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from sim.datasets import trace_file
from sim.datasets.importing import read_raw
from sim.datasets.regions import SAN_FRANCISCO, Box, box_of, grid_over
from sim.datasets.trace_file import Traces
from sim.errors import InputError
from sim.interfaces import IntArray
from sim.mobility.recorded.days import PACIFIC_DAYLIGHT_H, good_days
from sim.mobility.traces import DAY_S
from sim.plots import COLOURS, INK, STYLE
from sim.plots.labels import literal
from sim.world.grid import Grid

MANY_ROWS = 300
"""Number of check-ins in the region that the paper requires of a user."""
MANY_DAYS = 10
"""Number of good days that the paper requires of a cab."""
LARGE_SHARE = 0.1
"""Share of all rows at one point above which the point is probably a default value."""

_ROWS, _COLS = 25, 10
_SHADES = LinearSegmentedColormap.from_list("rows", ["#dcebf5", COLOURS[0], "#001e30"])
_FINER = 4
_THOUSANDS = StrMethodFormatter("{x:,.0f}")
_WEEK_S, _MONTH_S = 7 * DAY_S, 30 * DAY_S
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """Content of a trace file. Counts in the region refer to the region of the grid."""

    source: str
    users: int
    rows: int
    span_s: tuple[int, int] | None
    """First and last time in Unix seconds; None if the file has an order but no times."""
    extent: Box
    """Bounding box of all rows."""
    grid: Grid
    """The paper's grid, or a grid over the region of the file if that is another one."""
    inside: int
    """Number of rows in the region."""
    cells_visited: int
    rows_per_user: tuple[tuple[float, int], ...]
    """Quantiles of the number of rows in the region, over users with at least one: probability and value."""
    most_rows: tuple[str, int]
    """User with the most rows in the region, and the number of these rows."""
    users_with_many: int
    """Number of users with at least `MANY_ROWS` rows in the region."""
    points: tuple[tuple[float, float, int], ...]
    """The most frequent points in the region: latitude, longitude, number of rows."""
    good_days: dict[str, int] | None
    """For cabs, the number of local days without a gap of more than two hours, by cab."""

    @property
    def of_paper(self) -> bool:
        """Whether the grid is the paper's."""
        return box_of(self.grid) == SAN_FRANCISCO

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings about the quality of the data."""
        if self.points and self.points[0][2] > LARGE_SHARE * self.inside:
            lat, lon, rows = self.points[0]
            yield (
                f"{rows / self.inside:.0%} of the rows in the region are at one point ({lat:.6f}, {lon:.6f}): "
                "probably a default value, not a location that users visited"
            )
        if self.inside < self.rows:
            out = self.rows - self.inside
            yield f"{out:,} of {self.rows:,} rows are outside the region: scenarios ignore them"


def load(path: Path) -> Traces:
    """Read a trace file, or a CSV file with a header."""
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a trace file", code="is-a-folder")
    if not path.is_file():
        raise InputError(f"{path} does not exist: name a trace file", code="file-not-found")
    if path.suffix.lower() in (".parquet", ".pq"):
        traces = trace_file.read(path)
        if not traces.user.size:
            raise InputError(f"{path} has no rows", code="empty-file")
        return traces
    traces, counts = read_raw(None, [path], region=None)
    if counts.unreadable:
        lines = "\n  ".join(counts.first_unreadable)
        raise InputError(
            f"{path}: {counts.unreadable:,} of {counts.lines:,} lines are invalid:\n  {lines}", code="invalid-row"
        )
    return traces


def describe(traces: Traces) -> Description:
    """Return a description of traces."""
    extent = (
        float(traces.lat.min()),
        float(traces.lat.max()),
        float(traces.lon.min()),
        float(traces.lon.max()),
    )
    grid = _grid(traces, extent)
    cells = grid.cell_of(traces.lat, traces.lon)
    inside = cells >= 0
    if not inside.any():
        raise InputError(
            f"none of the {cells.size:,} rows is in the region that the file states", code="outside-region"
        )
    rows = np.bincount(traces.user[inside], minlength=len(traces.users))
    positive = rows[rows > 0]
    most = int(np.argmax(rows))
    return Description(
        source=str(traces.notes.get("source") or ""),
        users=len(traces.users),
        rows=int(traces.user.size),
        span_s=(int(traces.when.min()), int(traces.when.max())) if traces.timed else None,
        extent=extent,
        grid=grid,
        inside=int(inside.sum()),
        cells_visited=int(np.unique(cells[inside]).size),
        rows_per_user=tuple((share, int(np.quantile(positive, share, method="lower"))) for share in _SHARES),
        most_rows=(traces.users[most], int(rows[most])),
        users_with_many=int((rows >= MANY_ROWS).sum()),
        points=_frequent(traces, inside),
        good_days=_good_days(traces, inside) if traces.timed and "occupied" in traces.others else None,
    )


def _grid(traces: Traces, extent: Box) -> Grid:
    """Return a grid over the file's region; without one, the paper's grid if any row is in it, or one over all rows."""
    paper = Grid.san_francisco()
    region = trace_file.region_of(traces.notes)
    if region == SAN_FRANCISCO or (region is None and np.any(paper.cell_of(traces.lat, traces.lon) >= 0)):
        return paper
    if region is None:
        south, north, west, east = extent
        margin = 1e-3  # all rows may be on one line
        region = (max(south - margin, -90), min(north + margin, 90), max(west - margin, -180), min(east + margin, 180))
    return grid_over(region, rows=_ROWS, cols=_COLS)


def _frequent(traces: Traces, inside: np.ndarray) -> tuple[tuple[float, float, int], ...]:
    points = pd.DataFrame({"lat": traces.lat[inside], "lon": traces.lon[inside]})
    counts = points.value_counts().head(3).reset_index()
    return tuple((float(lat), float(lon), int(rows)) for lat, lon, rows in counts.itertuples(index=False, name=None))


def _good_days(traces: Traces, inside: np.ndarray) -> dict[str, int]:
    user, when = traces.user[inside], traces.when[inside]
    starts = np.searchsorted(user, np.arange(len(traces.users) + 1))
    return {
        name: good_days(when[first:last], utc_offset_s=PACIFIC_DAYLIGHT_H * 3600).size
        for name, first, last in zip(traces.users, starts[:-1], starts[1:], strict=True)
    }


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
    x_km, y_km = grid.to_km(traces.lat, traces.lon)
    x_edges = np.linspace(0, grid.width_km, grid.cols * _FINER + 1)
    y_edges = np.linspace(0, grid.height_km, grid.rows * _FINER + 1)
    rows, _, _ = np.histogram2d(y_km, x_km, bins=(y_edges, x_edges))
    shades = LogNorm(1, max(float(rows.max()), 10.0))
    mesh = panel.pcolormesh(x_edges, y_edges, np.ma.masked_equal(rows, 0), cmap=_SHADES, norm=shades)
    lines = [((x, 0), (x, grid.height_km)) for x in np.linspace(0, grid.width_km, grid.cols + 1)]
    lines += [((0, y), (grid.width_km, y)) for y in np.linspace(0, grid.height_km, grid.rows + 1)]
    panel.add_collection(LineCollection(lines, colors="#888888", linewidths=0.25))
    panel.grid(visible=False)
    panel.set(xlim=(0, grid.width_km), ylim=(0, grid.height_km), aspect="equal", xlabel="km east", ylabel="km north")
    panel.xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
    panel.set_title(f"{description.inside:,} rows in {description.cells_visited:,} of {grid.n_cells:,} cells")
    bar = figure.colorbar(mesh, ax=panel, shrink=0.5, pad=0.03, format=_THOUSANDS)
    bar.set_label("rows in a sixteenth of a cell")
    bar.outline.set_visible(False)


def _rows_per_user(panel: Axes, traces: Traces, description: Description) -> None:
    cells = description.grid.cell_of(traces.lat, traces.lon)
    rows = np.bincount(traces.user[cells >= 0], minlength=len(traces.users))
    panel.set(xscale="log", yscale="log", xlabel="rows in the region", ylabel="users with at least as many")
    _at_least(panel, rows[rows > 0], MANY_ROWS)
    panel.set_xlim(right=10 * max(int(rows.max()), MANY_ROWS))
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
    locator = mdates.AutoDateLocator(minticks=3)  # type: ignore[no-untyped-call]
    panel.xaxis.set_major_locator(locator)
    panel.xaxis.set_major_formatter(mdates.ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    panel.yaxis.set_major_formatter(_THOUSANDS)
    panel.set(ylabel=f"rows per {unit}", ylim=(0, None))
    panel.set_title("rows over time (UTC)")


def _concentration(panel: Axes, traces: Traces, description: Description) -> None:
    """Draw the cumulative share of rows at the most frequent points."""
    inside = description.grid.cell_of(traces.lat, traces.lon) >= 0
    points = pd.DataFrame({"lat": traces.lat[inside], "lon": traces.lon[inside]}).value_counts().to_numpy()
    shares = np.cumsum(points) / points.sum()
    panel.plot(np.arange(1, points.size + 1), shares, color=COLOURS[0])
    panel.plot(1, shares[0], "o", color=COLOURS[1], markersize=4)
    panel.annotate(f"{shares[0]:.0%} at one point", (1, shares[0]), (6, -9), textcoords="offset points", fontsize=7.5)
    panel.set(xscale="log", ylim=(0, 1.03), xlabel="most frequent points", ylabel="share of the rows")
    panel.xaxis.set_major_formatter(_THOUSANDS)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    panel.set_title("rows at the most frequent points")
