"""Positions and times of a whole trace file, to choose a region and users before there is a grid."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sim.errors import InvalidValue
from sim.interfaces import FloatArray, IntArray
from sim.mobility.recorded.tables import Table, load_columns, read_table
from sim.world.grid import Grid

_POLE = 85.0


@dataclass(frozen=True, slots=True, eq=False)
class Visits:
    """Rows of a trace file; all arrays have shape (n_rows,)."""

    table: Table
    lat: FloatArray
    lon: FloatArray

    @property
    def timed(self) -> bool:
        """Whether the file has times."""
        return self.table.timed

    def counts(self, weights: FloatArray) -> IntArray:
        """Return the sum of weights of the rows of each user who has any, shape (n_users,)."""
        sums = np.bincount(self.table.user, weights, len(self.table.users))
        return sums[sums > 0].astype(np.int64)

    def median_gap_s(self) -> float:
        """Return the median time between consecutive rows of a user in s; 0 with a single row."""
        order = self.table.order(self.table.user)
        user, when = self.table.user[order], np.asarray(self.table.when[order], dtype=float)
        gaps = np.diff(when)[np.diff(user) == 0]
        return float(np.median(gaps)) if gaps.size else 0.0


def read_visits(file: Path) -> Visits:
    """Read a trace file with latitudes and longitudes; its rows are checked as for a replay."""
    earth = Grid.region(rows=1, cols=1, south=-_POLE, north=_POLE, west=-180.0, east=180.0)
    table = read_table(file, locations=earth)
    frame, named = load_columns(file, None, degrees=True)
    if "lat" not in named:
        raise InvalidValue(
            f"{file}: the file has cells without latitudes and longitudes, so the grid is unknown: "
            "replay it in a scenario",
            code="no-such-column",
        )
    lat, lon = (np.asarray(frame[named[name]].to_pandas().astype(float)) for name in ("lat", "lon"))
    return Visits(table, lat, lon)
