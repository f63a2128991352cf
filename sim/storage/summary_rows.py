"""Summary rows (`record: summary`): one row of the event log for a window of consecutive queries of a user.

Such a row has the last index and time of its queries and the means of their metrics. It has no cell, output, estimate
or posterior. Readers get each row with a weight, the number of its queries; results that need more raise NotApplicable.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sim.interfaces import FloatArray, IntArray
from sim.storage import event_schema as schema
from sim.storage.errors import NotApplicable
from sim.storage.manifest import RunManifest
from sim.storage.run_directory import RunDirectory

WEIGHT = "queries"
"""Column of rows in memory: number of queries that a row represents; absent if it is 1 in all rows."""

_SIMULATION = [schema.POINT, schema.LPPM, schema.ATTACK, schema.USER, schema.REPLICATION]
COLUMNS = [*_SIMULATION, schema.EVENT, schema.INDEX]
"""Columns from which `weights` are computed."""

Windows = frozenset[tuple[int, int]]
"""First and last query index of each summary row; empty if each query has its own rows."""

NO_POSITIONS = "The event log of this run contains means only (record.log: summary), no positions to replay."


@dataclass(frozen=True, slots=True)
class QueryColumns:
    """Columns of the event log by query, concatenated over users: n entries, sum of `lengths`."""

    event: str
    lengths: IntArray
    """Number of entries of each user, shape (n_users,)."""
    by_query: dict[str, NDArray[Any]]
    """Columns common to all attacks, shape (n,) each."""
    by_attack: dict[str, NDArray[Any]]
    """Columns that differ by attack, shape (n, n_attacks) each."""


def averaged(columns: QueryColumns, size: int) -> QueryColumns:
    """Return an entry per window of `size` queries of a user; the last window of a user may be shorter."""
    ends = np.cumsum(columns.lengths)
    bounds = zip(ends - columns.lengths, ends, strict=True)
    starts: IntArray = np.concatenate([np.arange(start, end, size) for start, end in bounds])
    sizes: IntArray = np.diff(starts, append=ends[-1])
    last = starts + sizes - 1
    by_query = {name: columns.by_query[name][last] for name in (schema.INDEX, schema.TIME_S)}
    by_query[schema.CELL] = np.full(starts.size, -1)
    for name in set(schema.MEASURES) & columns.by_query.keys():
        by_query[name] = _means(columns.by_query[name].reshape(-1, 1), starts, sizes).ravel()
    by_attack = {
        name: _means(columns.by_attack[name], starts, sizes) for name in set(schema.MEASURES) & columns.by_attack.keys()
    }
    return QueryColumns(schema.SUMMARY_EVENT, -(-columns.lengths // size), by_query, by_attack)


def _means(values: FloatArray, starts: IntArray, sizes: IntArray) -> FloatArray:
    """Return the mean of each column over each window; NaN if no query of the window has a value."""
    counts = np.add.reduceat(~np.isnan(values), starts, axis=0, dtype=np.int64)
    if ((counts > 0) & (counts < sizes[:, None])).any():
        raise RuntimeError(
            "an attack predicted its estimates for some queries of a window only, which a summary cannot represent: "
            "predict all or none, or set record.log to queries"
        )
    sums: FloatArray = np.add.reduceat(values, starts, axis=0)
    return sums / sizes[:, None]


def summarized(manifest: RunManifest) -> bool:
    """Return whether a run was recorded in summary rows."""
    return manifest.scenario.record.log == "summary"


def any_summary(events: pa.ChunkedArray[Any]) -> bool:
    """Return whether any of these events is a summary row."""
    return bool(pc.any(_is_summary(events)).as_py())


def of_queries(events: pa.ChunkedArray[Any]) -> pa.BooleanArray:
    """Return a mask of the rows that represent one or several queries."""
    return pc.or_(pc.equal(events, pa.scalar(schema.QUERY_EVENT)), _is_summary(events))


def weights_of(rows: pa.Table) -> IntArray:
    """Return the number of queries that each row represents."""
    if WEIGHT not in rows.column_names:
        return np.ones(rows.num_rows, dtype=np.int64)
    return rows[WEIGHT].to_numpy()


def windows_in(rows: pa.Table) -> Windows:
    """Return the windows of the summary rows among these rows."""
    if WEIGHT not in rows.column_names:
        return Windows()
    distinct = rows.group_by([schema.INDEX, WEIGHT]).aggregate([]).to_pydict()
    pairs = zip(distinct[schema.INDEX], distinct[WEIGHT], strict=True)
    return Windows((index - queries + 1, index) for index, queries in pairs if queries > 1)


def nearest_ends(targets: IntArray, windows: Windows) -> IntArray:
    """Return the distinct query indices nearest to `targets` that do not split a window; the last one is unchanged.

    >>> nearest_ends(np.array([2, 4, 7]), Windows({(1, 3), (4, 6)}))
    array([3, 7])
    """
    possible = _possible_ends(int(targets[-1]), windows)
    above = possible.searchsorted(targets)
    below = np.maximum(above - 1, 0)
    nearer_below = targets - possible[below] < possible[above] - targets
    return np.unique(possible[np.where(nearer_below & (below < above), below, above)])


def _possible_ends(last: int, windows: Windows) -> IntArray:
    """Return the query indices up to `last` that do not split a window.

    >>> _possible_ends(7, Windows({(1, 3), (4, 6)}))
    array([3, 6, 7])
    """
    possible = np.ones(last + 1, dtype=bool)
    possible[0] = False
    for first, end in windows:
        possible[first:end] = False
    return np.flatnonzero(possible)


def require_uncut(ends: IntArray, windows: Windows, run: RunDirectory) -> None:
    """Reject time windows with these ends if a summary row spans two of them."""
    for first, last in sorted(windows):
        inside = ends[(ends >= first) & (ends < last)]
        if len(inside):
            fits = math.gcd(*ends[:-1].tolist())
            raise NotApplicable(
                f"{run} is a summary with one row for queries {first} to {last}, so metrics up to query {inside[0]} "
                f"are not available. Set record.window to {fits} or a divisor of it, or record.log to queries, and run "
                "the scenario into another folder.",
                code="window-splits-rows",
            )


def require_uncut_by_shift(first: IntArray, last: IntArray, shift: IntArray, run: RunDirectory) -> None:
    """Reject rows with these first and last queries if a shift, given by its first query, splits one."""
    cut = np.flatnonzero((first < shift) & (shift <= last))
    if cut.size:
        row = int(cut[0])
        raise NotApplicable(
            f"{run} is a summary with one row for queries {first[row]} to {last[row]}, but the shift starts at query "
            f"{shift[row]}, so metrics before and after it are not available. Set record.window to a divisor of "
            f"{shift[row] - 1}, or record.log to queries, and run the scenario into another folder.",
            code="window-splits-rows",
        )


def require_whole_rows(window: int, queries_per_row: int, run: RunDirectory) -> None:
    """Reject a time window that is not a multiple of the number of queries per row."""
    if window % queries_per_row:
        raise NotApplicable(
            f"{run} is a summary with one row for {queries_per_row} queries, which windows of {window} would split: "
            f"choose a window of {-(-window // queries_per_row) * queries_per_row}, or another multiple of "
            f"{queries_per_row}.",
            code="window-splits-rows",
        )


def require_cells(run: RunDirectory, events: pa.ChunkedArray[Any]) -> None:
    """Reject summary rows, which have no cells."""
    if any_summary(events):
        raise NotApplicable(
            f"{run} is a summary without the users' cells: set record.log to queries, and run the scenario into "
            "another folder.",
            code="needs-query-log",
        )


def _is_summary(events: pa.ChunkedArray[Any]) -> pa.BooleanArray:
    return pc.equal(events, pa.scalar(schema.SUMMARY_EVENT))


def weights(table: pa.Table) -> pa.Array[Any]:
    """Return the number of queries of each row: a window starts after the last query of the previous one.

    `table` has the columns COLUMNS of a whole part.
    """
    frame = table.to_pandas()
    summary = frame[schema.EVENT] == schema.SUMMARY_EVENT
    sizes = frame[summary].groupby(_SIMULATION, sort=False, dropna=False)[schema.INDEX].diff()
    queries = sizes.reindex(frame.index).fillna(frame[schema.INDEX]).where(summary, 1)
    numbers: pa.Array[Any] = pa.array(queries.to_numpy(np.int64))
    return numbers
