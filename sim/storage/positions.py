"""Positions of true cells, reports and estimates in the rows of an event log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from sim.interfaces import BoolArray, FloatArray, IntArray, OutputSpace
from sim.lppm.outputs import Places, Points
from sim.storage import event_schema as schema
from sim.storage.manifest import RunManifest
from sim.storage.worlds import locations_at, output_space
from sim.world.locations import Locations

COLUMNS = [
    *(schema.EVENT, schema.INDEX, schema.ESTIMATED_INDEX),
    *(schema.POINT, schema.LPPM, schema.CELL, schema.OUTPUT, schema.ESTIMATE),
]
"""Columns of the log that determine positions."""
_NONE = -1


class Report(NamedTuple):
    """The meaning of one output."""

    place: tuple[float, float]
    """Coordinates of the reported place, or of the centre of a region; NaN for a set of cells and for no report."""
    cell: int
    """Cell of the place; -1 if there is none."""
    cells: tuple[int, ...]
    """Cells that the output names; none, one or several."""


NO_REPORT = Report((np.nan, np.nan), _NONE, ())
"""Nothing was reported."""


@dataclass(frozen=True, slots=True)
class Located:
    """Positions of the rows of a log; shapes (n_rows, 2), NaN where there is none."""

    true: FloatArray
    reported: FloatArray
    estimated: FloatArray
    reports: Sequence[Report | None]
    """Report of each row; None in rows without one, such as shifts and revised estimates."""


class Positions:
    """Coordinates of everything that the log of a run names by a number.

    Coordinates are (longitude, latitude) in degrees if all worlds of the run are georeferenced; otherwise (x, y) in km,
    east and north in the plane of the world. Longitudes beyond the date line are wrapped. A position beyond a pole,
    which strong noise may reach, does not exist on Earth: it is NaN and counted in `beyond_poles`.
    """

    def __init__(self, manifest: RunManifest) -> None:
        self._manifest = manifest
        self._worlds: dict[int, Locations] = {}
        self._cells: dict[int, FloatArray] = {}
        self._spaces: dict[tuple[str, int], OutputSpace] = {}
        self.beyond_poles = 0

    @cached_property
    def in_degrees(self) -> bool:
        """Whether coordinates are degrees."""
        points = [point for world in self._manifest.worlds for point in world.points]
        return bool(points) and all(self._locations(point).bounds is not None for point in points)

    def locate(self, table: pa.Table) -> Located:
        """Return the positions of the rows of a table that has `COLUMNS`."""
        frame = table.select(COLUMNS).to_pandas(integer_object_nulls=True)
        n_rows = len(frame)
        true, reported, estimated = (np.full((n_rows, 2), np.nan) for _ in range(3))
        reports: list[Report | None] = [NO_REPORT if online else None for online in is_online(frame)]
        groups: Any = frame.groupby([schema.POINT, schema.LPPM], sort=False).indices
        for (point, lppm), rows in groups.items():
            own = frame.iloc[rows]
            true[rows] = self.of_cells(int(point), _numbers(own[schema.CELL]))
            estimated[rows] = self.of_cells(int(point), _numbers(own[schema.ESTIMATE]))
            has_output = own[schema.OUTPUT].notna().to_numpy(dtype=bool)
            codes, outputs = pd.factorize(own[schema.OUTPUT].to_numpy()[has_output])
            known = [self.report(int(point), str(lppm), int(output)) for output in outputs]
            for row, code in zip(rows[has_output].tolist(), codes.tolist(), strict=True):
                reports[row] = known[code]
                reported[row] = known[code].place
        self.beyond_poles += sum(
            report is not None and report.cell >= 0 and np.isnan(report.place[0]) for report in reports
        )
        return Located(true, reported, estimated, reports)

    def of_cells(self, point: int, cells: IntArray) -> FloatArray:
        """Return the coordinates of cells, shape (n, 2); NaN for -1."""
        if point not in self._cells:
            locations = self._locations(point)
            known = self._coordinates(locations, locations.x_km, locations.y_km)
            self._cells[point] = np.vstack([known, [[np.nan, np.nan]]])  # the last row is that of -1
        return self._cells[point][cells]

    def report(self, point: int, lppm: str, output: int) -> Report:
        """Return the meaning of an output."""
        space = self._space(lppm, point)
        if output == space.nothing:
            return NO_REPORT
        cell = space.shown_at(output)
        if isinstance(space, Points | Places):
            east, north = space.place_km(output)
            ((x, y),) = self._coordinates(self._locations(point), np.array([east]), np.array([north]))
            return Report((float(x), float(y)), cell, space.cells(output))
        ((x, y),) = self.of_cells(point, np.array([cell]))
        return Report((float(x), float(y)), cell, space.cells(output))

    def _locations(self, point: int) -> Locations:
        if point not in self._worlds:
            self._worlds[point] = locations_at(self._manifest, point)
        return self._worlds[point]

    def _space(self, lppm: str, point: int) -> OutputSpace:
        if (lppm, point) not in self._spaces:
            self._spaces[lppm, point] = output_space(self._manifest, lppm, point)
        return self._spaces[lppm, point]

    def _coordinates(self, locations: Locations, x_km: FloatArray, y_km: FloatArray) -> FloatArray:
        if not self.in_degrees:
            return np.column_stack([x_km, y_km])
        lat, lon = locations.to_degrees(x_km, y_km)
        wrapped = np.where(np.abs(lon) > 180.0, (lon + 180.0) % 360.0 - 180.0, lon)
        coordinates = np.column_stack([wrapped, lat])
        coordinates[np.abs(lat) > 90.0] = np.nan
        return coordinates


def is_online(rows: pd.DataFrame) -> BoolArray:
    """Return a mask of the rows of queries that do not estimate an earlier query, from columns of the log."""
    past = rows[schema.ESTIMATED_INDEX]
    online = past.isna() | (past == rows[schema.INDEX])
    return ((rows[schema.EVENT] == schema.QUERY_EVENT) & online).to_numpy(dtype=bool)


def _numbers(cells: pd.Series) -> IntArray:
    """Return cells as integers, -1 where missing."""
    return cells.fillna(_NONE).to_numpy(dtype=np.int64)
