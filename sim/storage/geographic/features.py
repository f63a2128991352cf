"""Features of an event log: one per true position, report and estimate.

A log has one row per query and attack. A true position and a report are one feature per query and mechanism, whatever
the number of attacks; an estimate is one feature per row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.storage import event_schema as schema
from sim.storage.positions import Located, Positions, Report, is_online

TRUTH, REPORT, ESTIMATE = "truth", "report", "estimate"
_QUERY = (schema.POINT, schema.REPLICATION, schema.LPPM, schema.USER, schema.INDEX)
_SHARED = (*_QUERY, schema.TIME_S)
_OWN = {
    TRUTH: (),
    REPORT: (schema.OUTPUT, schema.QUALITY_LOSS_KM),
    ESTIMATE: (schema.ATTACK, schema.ESTIMATED_INDEX, schema.IDENTITY, schema.ADVERSARY_ERROR_KM),
}
_BATCH = 20_000
_FIELDS: list[pa.Field[Any]] = [
    pa.field("role", pa.string(), nullable=False),
    *(schema.EVENTS.field(name) for name in _SHARED),
    pa.field(schema.CELL, pa.int32()),
    pa.field("cells", pa.int32()),
    *(schema.EVENTS.field(name) for own in _OWN.values() for name in own),
]
PROPERTIES: pa.Schema = pa.schema(_FIELDS)
"""Properties of a feature: `role` (truth, report or estimate), columns of the log, `cell` of the position, and `cells`,
the number of cells that a report names. What does not apply to the role is null."""


class Features(NamedTuple):
    """Features with their properties and places."""

    properties: pa.Table
    """Columns: PROPERTIES."""
    places: Sequence[FloatArray]
    """Coordinates of each feature, shape (k, 2): one place, those of all cells of a region or set, or none."""


def features(table: pa.Table, positions: Positions) -> Iterator[Features]:
    """Yield the features of the queries of a part, in the order of its rows, in batches."""
    first = _first_of_query(table)
    for start in range(0, table.num_rows, _BATCH):
        yield _features_of(table.slice(start, _BATCH), first[start : start + _BATCH], positions)


def _first_of_query(table: pa.Table) -> BoolArray:
    """Return a mask of the first row of each query."""
    keys = table.select([*_QUERY, schema.EVENT, schema.ESTIMATED_INDEX]).to_pandas()
    repeated: BoolArray = keys.duplicated([*_QUERY, schema.EVENT]).to_numpy(dtype=bool)
    return is_online(keys) & ~repeated


def _features_of(table: pa.Table, first: BoolArray, positions: Positions) -> Features:
    located = positions.locate(table)
    new = np.flatnonzero(first)
    estimated = np.flatnonzero(table[schema.ESTIMATE].is_valid().to_numpy())
    reports = [located.reports[row] for row in new.tolist()]
    pieces = [
        _properties(table, new, TRUTH, table[schema.CELL].take(new), None),
        _properties(table, new, REPORT, *_report_cells(reports)),
        _properties(table, estimated, ESTIMATE, table[schema.ESTIMATE].take(estimated), None),
    ]
    places = [*located.true[new][:, None], *_report_places(table, new, located, positions)]
    places += list(located.estimated[estimated][:, None])
    order = np.lexsort(
        (np.repeat(range(3), [len(new), len(new), len(estimated)]), np.concatenate([new, new, estimated]))
    )
    return Features(pa.concat_tables(pieces).take(order), [_existing(places[place]) for place in order])


def _properties(table: pa.Table, rows: IntArray, role: str, cells: Any, counts: Any) -> pa.Table:
    """Return the properties of the features of one role."""
    taken = table.take(rows)
    columns: dict[str, Any] = {name: taken[name] for name in (*_SHARED, *_OWN[role])}
    columns |= {"role": pa.array([role] * len(rows), pa.string()), schema.CELL: cells}
    if counts is not None:
        columns["cells"] = counts
    arrays = [columns.get(field.name, pa.nulls(len(rows), field.type)) for field in PROPERTIES]
    return pa.Table.from_arrays(arrays, schema=PROPERTIES)


def _report_cells(reports: Sequence[Report | None]) -> tuple[Any, Any]:
    """Return the cell of each report, null if it has no single place, and the number of cells that it names."""
    cells = [None if report is None or report.cell < 0 else report.cell for report in reports]
    counts = [0 if report is None else len(report.cells) for report in reports]
    return pa.array(cells, pa.int32()), pa.array(counts, pa.int32())


def _report_places(table: pa.Table, rows: IntArray, located: Located, positions: Positions) -> Iterator[FloatArray]:
    """Yield the places of the reports of some rows: all cells of a region or set, otherwise the reported place."""
    points = table[schema.POINT].to_numpy()
    for row in rows.tolist():
        report = located.reports[row]
        if report is not None and len(report.cells) > 1:
            yield positions.of_cells(int(points[row]), np.array(report.cells))
        else:
            yield located.reported[row][None]


def _existing(places: FloatArray) -> FloatArray:
    return places[~np.isnan(places[:, 0])]
