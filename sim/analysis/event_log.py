"""Read the event log: rows of queries, sums and means by group, and behaviour shifts.

Parts are read sequentially. Only sums by group are retained, never rows, so memory grows with the number of groups.
Only rows of queries count, and only online estimates: an estimate of a past query (`estimated_index` below `index`) is
not part of the online error. A row that summarizes several queries is weighted by their number: see
`sim.storage.summary_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sim.storage import summary_rows
from sim.storage.errors import RunError
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.part_ids import point_in
from sim.storage.parts import Part
from sim.storage.run_directory import RunDirectory

SERIES = ["point", "lppm", "attack"]
COMPACT_ROWS = 100_000
SIMULATED = [*SERIES, "user", "replication"]


class LogPart:
    """One open part of an event log; columns and snapshots are read on first access."""

    def __init__(self, run: RunDirectory, part_id: str, file: Part) -> None:
        self.id = part_id
        self.notes = file.notes
        self._run, self._file = run, file
        self._columns: dict[str, pa.ChunkedArray[Any]] = {}
        self._snapshots: dict[tuple[str, ...], dict[str, NDArray[Any]]] = {}

    def rows(self, columns: Sequence[str]) -> pa.Table:
        """Return these columns of all rows."""
        missing = [name for name in columns if name not in self._columns]
        if missing:
            table = self._file.read(missing)
            self._columns |= {name: table[name] for name in missing}
        schema = pa.schema([EVENTS.field(name) for name in columns])
        return pa.Table.from_arrays([self._columns[name] for name in columns], schema=schema)

    def queries(self, columns: Sequence[str]) -> pa.Table:
        """Return these columns of the rows with online estimates.

        If rows summarize several queries, the column `queries` has their weights.
        """
        rows, selected = self.rows(columns), self._selected
        if self._weights is not None:
            rows = rows.append_column(summary_rows.WEIGHT, self._weights)
        return rows if selected is None else rows.filter(selected)

    @cached_property
    def _selected(self) -> Any:
        """Mask of the rows with online estimates; None if all are."""
        table = self.rows(["event", "index", "estimated_index"])
        selected = pc.and_(summary_rows.of_queries(table["event"]), is_online(table))
        # Nearly all logs consist of such rows only and need no copy.
        return None if pc.all(selected).as_py() else selected

    @cached_property
    def _weights(self) -> Any:
        """Number of queries that each row summarizes; None if one each."""
        return summary_rows.weights(self.rows(summary_rows.COLUMNS)) if self.is_summary else None

    @cached_property
    def is_summary(self) -> bool:
        """Whether rows summarize several queries."""
        return summary_rows.any_summary(self.rows(["event"])["event"])

    @property
    def point(self) -> int:
        """The sweep point of the part."""
        point = point_in(self.id)
        return int(self.rows(["point"])["point"][0].as_py()) if point is None else point

    @property
    def n_rows(self) -> int:
        """Number of rows, from the file's metadata only."""
        return self._file.metadata.num_rows

    def may_name_shifts(self) -> bool:
        """Return whether any row may name a shift, judged from the file's metadata only."""
        column = EVENTS.get_field_index("shift")
        groups = [self._file.metadata.row_group(number) for number in range(self._file.metadata.num_row_groups)]
        statistics = [(group.num_rows, group.column(column).statistics) for group in groups]
        return any(known is None or known.null_count is None or known.null_count < rows for rows, known in statistics)

    def may_hold_user(self, user: str) -> bool:
        """Return whether the part may have rows of a user, judged from the file's metadata only."""
        column = EVENTS.get_field_index("user")
        groups = (self._file.metadata.row_group(number) for number in range(self._file.metadata.num_row_groups))
        known: list[Any] = [group.column(column).statistics for group in groups]
        return any(own is None or not own.has_min_max or own.min <= user <= own.max for own in known)

    def snapshots(self, names: Sequence[str]) -> dict[str, NDArray[Any]]:
        """Return those of the named snapshot arrays that the part has."""
        key = tuple(names)
        if key not in self._snapshots:
            self._snapshots[key] = self._run.snapshots_of(self.id, self._file, names)
        return self._snapshots[key]


def log_parts(run: RunDirectory, parts: Sequence[str] | None = None) -> Iterator[LogPart]:
    """Open the parts of a log (default: all) one after another."""
    for part in run.parts() if parts is None else parts:
        with run.open_part(part) as file:
            yield LogPart(run, part, file)


def query_rows(run: RunDirectory, columns: Sequence[str], parts: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows with online estimates of each part (default: all parts); see `LogPart.queries`."""
    parts = run.parts() if parts is None else parts
    require_parts(run, parts)
    for part in log_parts(run, parts):
        yield part.queries(columns)


def require_parts(run: RunDirectory, parts: Sequence[str]) -> None:
    """Raise an error if the run has no finished part."""
    if not parts:
        raise RunError(f"{run} has no finished part: run the scenario first.", code="no-results")


def is_online(table: pa.Table) -> pa.BooleanArray:
    """Return a mask of the rows that do not estimate an earlier query."""
    about = table["estimated_index"]
    return pc.or_kleene(pc.is_null(about), pc.equal(about, table["index"]))


class GroupSums:
    """Sums of the measures by group over all tables, merged periodically so that memory holds one row per group.

    Sums run in one thread and in row order. A simulation is never split between parts, so its metrics do not depend on
    how simulations are distributed over parts.
    """

    def __init__(self, keys: list[str]) -> None:
        self._keys = keys
        self._pieces: list[pa.Table] = []
        self._limit = COMPACT_ROWS

    def add(self, table: pa.Table) -> None:
        """Add the rows of a table."""
        self._pieces.append(sum_rows(table, self._keys))
        if sum(piece.num_rows for piece in self._pieces) > self._limit:
            self._pieces = [merge_sums(self._pieces, self._keys)]
            self._limit = max(COMPACT_ROWS, 2 * self._pieces[0].num_rows)

    def means(self) -> pd.DataFrame:
        """Return the means by group."""
        return means_of_sums(merge_sums(self._pieces, self._keys), self._keys)


def group_means(tables: Iterable[pa.Table], keys: list[str]) -> pd.DataFrame:
    """Return the means of the measures by group over all tables."""
    sums = GroupSums(keys)
    for table in tables:
        sums.add(table)
    return sums.means()


def sum_rows(table: pa.Table, keys: list[str], names: Sequence[str] = MEASURES) -> pa.Table:
    """Sum and count some columns by group; a row that summarizes several queries is weighted by their number."""
    if summary_rows.WEIGHT in table.column_names:
        return merge_sums([_weighted(table, keys, names)], keys, names)
    aggregations: list[Any] = [(name, what) for name in names for what in ("sum", "count")]
    return table.group_by(keys, use_threads=False).aggregate([*aggregations, ([], "count_all")])


def _weighted(table: pa.Table, keys: list[str], names: Sequence[str]) -> pa.Table:
    """Return the weighted sums and counts of each row."""
    sums, queries = table.select(keys), table[summary_rows.WEIGHT]
    for name in names:
        sums = sums.append_column(f"{name}_sum", pc.multiply(table[name], queries))
        sums = sums.append_column(f"{name}_count", pc.if_else(pc.is_valid(table[name]), queries, 0))
    return sums.append_column("count_all", queries)


def merge_sums(pieces: list[pa.Table], keys: list[str], names: Sequence[str] = MEASURES) -> pa.Table:
    """Add sums by group, in the order of the pieces."""
    sums = [*(f"{name}_{what}" for name in names for what in ("sum", "count")), "count_all"]
    merged = pa.concat_tables(pieces).group_by(keys, use_threads=False).aggregate([(n, "sum") for n in sums])
    return merged.select([*keys, *(f"{name}_sum" for name in sums)]).rename_columns([*keys, *sums])


def means_of_sums(sums: pa.Table, keys: list[str], names: Sequence[str] = MEASURES) -> pd.DataFrame:
    """Return the means as a sorted frame; `attack` is empty where there is none."""
    frame = sums.to_pandas().rename(columns={"count_all": "queries"})
    frame["attack"] = frame["attack"].fillna("")
    for name in names:
        counts = frame[f"{name}_count"]
        frame[name] = frame[f"{name}_sum"].astype(float) / counts.where(counts > 0)
    return frame[[*keys, "queries", *names]].sort_values(keys, ignore_index=True)


class ShiftCollector:
    """Collector of the users' behaviour shifts."""

    _COLUMNS = ("point", "replication", "shift", "event", "user", "index", "time_s")

    def __init__(self) -> None:
        self._pieces = [EVENTS.empty_table().select(list(self._COLUMNS))]

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""
        if part.may_name_shifts():
            table = part.rows(self._COLUMNS)
            self._pieces.append(table.filter(pc.is_valid(table["shift"])))

    def shifts(self) -> pd.DataFrame:
        """Return the table of `read_shifts`."""
        frame = pa.concat_tables(self._pieces).to_pandas().drop_duplicates()
        return frame.sort_values(["point", "replication", "user", "index"], kind="stable", ignore_index=True)


SHIFT_TIMES = ["point", "shift", "event", "index"]


def shift_times(shifts: pd.DataFrame) -> pd.DataFrame:
    """Return the number of users and replications that shift at each query; columns: SHIFT_TIMES and `count`.

    `shifts` is a table of `read_shifts`.
    """
    return shifts.groupby(SHIFT_TIMES, as_index=False, sort=False).size().rename(columns={"size": "count"})


def read_shifts(run: RunDirectory) -> pd.DataFrame:
    """Return the behaviour shifts of the users; a shift that occurs under several mechanisms has one row.

    Columns: point, replication, shift, event (`shift` at the start, `shift_end` at the end), user, index (of the first
    query after it), time_s.
    """
    collector = ShiftCollector()
    for part in log_parts(run):
        collector.add(part)
    return collector.shifts()
