"""The columns of `export --places`: positions beside the rows of the event log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from sim.interfaces import FloatArray
from sim.storage.event_schema import EVENTS
from sim.storage.positions import Positions

REPORTED_CELLS = "reported_cells"


def place_schema(positions: Positions) -> pa.Schema:
    """Return the schema of the log with the columns of positions."""
    ends = ("lat", "lon") if positions.in_degrees else ("x_km", "y_km")
    true, reported, estimated = (
        [pa.field(f"{what}_{end}", pa.float64()) for end in ends] for what in ("true", "reported", "estimated")
    )
    cells = pa.field(REPORTED_CELLS, pa.int32())
    return pa.schema([*EVENTS, *true, *reported, cells, *estimated])


def with_places(table: pa.Table, positions: Positions) -> pa.Table:
    """Return a table of the log with the columns of `place_schema`; missing positions are null.

    `reported_cells` is the number of cells that a report names: 0 if nothing was reported, several for a region or set;
    null in rows without a report of their own, which are shifts and revised estimates.
    """
    located = positions.locate(table)
    counts = pa.array([None if report is None else len(report.cells) for report in located.reports], pa.int32())
    columns: list[Any] = [
        *table.columns,
        *_axes(located.true, positions),
        *_axes(located.reported, positions),
        counts,
        *_axes(located.estimated, positions),
    ]
    return pa.Table.from_arrays(columns, schema=place_schema(positions))


def _axes(coordinates: FloatArray, positions: Positions) -> list[Any]:
    """Return both columns of coordinates: latitude before longitude, x before y."""
    order = (1, 0) if positions.in_degrees else (0, 1)
    return [pa.array(coordinates[:, axis], pa.float64(), from_pandas=True) for axis in order]
