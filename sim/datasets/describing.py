"""Descriptions of trace files: users, time span, region and data quality."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sim.datasets import trace_file
from sim.datasets.importing import read_raw
from sim.datasets.regions import SAN_FRANCISCO, Box, box_of, grid_over
from sim.datasets.trace_file import Traces
from sim.errors import InputError
from sim.interfaces import FloatArray, IntArray
from sim.mobility.recorded.days import PACIFIC_DAYLIGHT_H, good_days
from sim.mobility.recorded.importable import require_trace_file
from sim.world.grid import Grid

MANY_ROWS = 300
"""Number of check-ins in the region that the paper requires of a user."""
MANY_DAYS = 10
"""Number of good days that the paper requires of a cab."""
LARGE_SHARE = 0.1
"""Share of all rows at one point above which the point is probably a default value."""

_CELLS = 250
"""Number of cells of a grid over other regions than the paper's, as many as the paper's has."""
_INNER = (0.005, 0.995)
_MUCH_LARGER, _BEYOND, _MARGIN = 3.0, 0.07, 1e-3
_SHARES = (0.0, 0.25, 0.5, 0.75, 0.9, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Description:
    """Content of a trace file. Counts in the region refer to the region of the grid."""

    source: str
    users: int
    rows: int
    span_s: tuple[int, int] | None
    """First and last time in Unix seconds; None if the file has an order but no times."""
    extent: Box | None
    """Bounding box of all rows; None for cells without degrees."""
    grid: Grid
    """The paper's grid, the grid of the cells, or a grid over the region of the file or over most of its rows."""
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
    """The most frequent points in the region: latitude, longitude, number of rows; x_km, y_km for cells."""
    good_days: dict[str, int] | None
    """For cabs, the number of local days without a gap of more than two hours, by cab."""

    @property
    def of_paper(self) -> bool:
        """Whether the grid is the paper's."""
        return self.grid.south is not None and box_of(self.grid) == SAN_FRANCISCO

    @property
    def warnings(self) -> Iterator[str]:
        """Warnings about the quality of the data."""
        if self.points and self.points[0][2] > LARGE_SHARE * self.inside:
            lat, lon, rows = self.points[0]
            place = f"{lat:.6f}, {lon:.6f}" if self.extent else f"x {lat:g} km, y {lon:g} km"
            yield (
                f"{rows / self.inside:.0%} of the rows in the region are at one point ({place}): "
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
    require_trace_file(path)
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
    extent = _extent(traces)
    grid = _grid(traces, extent)
    cells = cells_of(traces, grid)
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
        points=_frequent(traces, grid, inside),
        good_days=_good_days(traces, inside) if traces.timed and "occupied" in traces.others else None,
    )


def cells_of(traces: Traces, grid: Grid) -> IntArray:
    """Return the cell of each row, -1 outside the region."""
    return grid.cell_of(traces.lat, traces.lon) if traces.cell is None else traces.cell


def _extent(traces: Traces) -> Box | None:
    if traces.cell is not None:
        return None
    lat, lon = traces.lat, traces.lon
    return float(lat.min()), float(lat.max()), float(lon.min()), float(lon.max())


def _grid(traces: Traces, extent: Box | None) -> Grid:
    """Return the grid of cells, a grid over the region of the file, the paper's, or one that fits most rows."""
    if extent is None:
        grid = trace_file.grid_of(traces.notes)
        assert grid is not None
        return grid
    paper = Grid.san_francisco()
    region = trace_file.region_of(traces.notes)
    if region == SAN_FRANCISCO:
        return paper
    if region is None:
        inside = paper.cell_of(traces.lat, traces.lon) >= 0
        if 2 * int(inside.sum()) > inside.size:
            return paper
        region = fitted(traces.lat, traces.lon)
    return _square_cells(region)


def fitted(lat: FloatArray, lon: FloatArray) -> Box:
    """Return the bounding box of the rows, without the outermost percent if these would make it much larger.

    >>> lat = np.append(np.linspace(48, 49, 999), 0.0)
    >>> fitted(lat, np.linspace(11, 12, 1000))[:2]
    (47.935, 49.064)
    """
    south, north = _range(lat, 90.0)
    west, east = _range(lon, 180.0)
    return south, north, west, east


def _range(degrees: FloatArray, most: float) -> tuple[float, float]:
    low, high = float(degrees.min()), float(degrees.max())
    inner_low, inner_high = (float(value) for value in np.quantile(degrees, _INNER))
    wide = max(inner_high - inner_low, _MARGIN)
    if high - low > _MUCH_LARGER * wide:
        low, high = inner_low - _BEYOND * wide, inner_high + _BEYOND * wide
    else:  # all rows may be on one line
        low, high = low - _MARGIN, high + _MARGIN
    return max(round(low, 3), -most), min(round(high, 3), most)


def _square_cells(region: Box) -> Grid:
    """Return a grid with about as many cells as the paper's, which are nearly square."""
    one = grid_over(region, rows=1, cols=1)
    rows = round(float(np.sqrt(_CELLS * one.height_km / one.width_km)))
    rows = int(np.clip(rows, 5, _CELLS // 5))
    return grid_over(region, rows=rows, cols=_CELLS // rows)


def _frequent(traces: Traces, grid: Grid, inside: np.ndarray) -> tuple[tuple[float, float, int], ...]:
    if traces.cell is None:
        points = pd.DataFrame({"lat": traces.lat[inside], "lon": traces.lon[inside]})
    else:
        points = pd.DataFrame({"x": grid.x_km[traces.cell], "y": grid.y_km[traces.cell]})
    counts = points.value_counts().head(3).reset_index()
    return tuple((float(lat), float(lon), int(rows)) for lat, lon, rows in counts.itertuples(index=False, name=None))


def _good_days(traces: Traces, inside: np.ndarray) -> dict[str, int]:
    user, when = traces.user[inside], traces.when[inside]
    starts = np.searchsorted(user, np.arange(len(traces.users) + 1))
    return {
        name: good_days(when[first:last], utc_offset_s=PACIFIC_DAYLIGHT_H * 3600).size
        for name, first, last in zip(traces.users, starts[:-1], starts[1:], strict=True)
    }
