"""Read the event log: rows of queries, sums and means by group, and the changes in users' behaviour.

Parts are read one after another and only sums by group are retained, never rows, so memory grows with the number of
groups alone. Only rows of queries count, and of those the estimates of the query itself: a later estimate of a past
query (`estimated_index` below `index`) is not part of the online error. A row that stands for several queries counts
as many times: see `sim.storage.summary_rows`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sim.storage import summary_rows
from sim.storage.errors import RunError
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.run_directory import RunDirectory

SERIES = ["point", "lppm", "attack"]
COMPACT_ROWS = 100_000
SIMULATED = [*SERIES, "user", "replication"]
_SUMS = [f"{name}_{what}" for name in MEASURES for what in ("sum", "count")]


def query_rows(run: RunDirectory, columns: Sequence[str], parts: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of each part, or of some, that are about the query itself.

    Where rows stand for several queries, a column `queries` has their weights.
    """
    parts = run.parts() if parts is None else parts
    if not parts:
        raise RunError(f"{run} has no finished part: run the scenario (again) first.")
    needed = list(dict.fromkeys([*columns, "event", "index", "estimated_index"]))
    for part in parts:
        table = run.read_part(part, needed)
        rows = summary_rows.with_weights(table.select(list(columns)), table["event"], run, part)
        selected = pc.and_(summary_rows.of_queries(table["event"]), about_itself(table))
        # Nearly every log has rows of queries alone, which need no copy.
        yield rows if pc.all(selected).as_py() else rows.filter(selected)


def about_itself(table: pa.Table) -> pa.BooleanArray:
    """Return which rows are about their own query, and not guesses about an earlier one."""
    about = table["estimated_index"]
    return pc.or_kleene(pc.is_null(about), pc.equal(about, table["index"]))


def accumulate(tables: Iterable[pa.Table], keys: list[str]) -> pa.Table:
    """Sum the measures by group over all tables, merging now and then so that memory holds groups alone.

    Sums run in one thread and in the order of rows: a simulation is whole in one part, so its figures do not
    depend on how simulations were packed into parts.
    """
    pieces: list[pa.Table] = []
    limit = COMPACT_ROWS
    for table in tables:
        pieces.append(sum_rows(table, keys))
        if sum(piece.num_rows for piece in pieces) > limit:
            pieces = [merge_sums(pieces, keys)]
            limit = max(COMPACT_ROWS, 2 * pieces[0].num_rows)
    return merge_sums(pieces, keys)


def sum_rows(table: pa.Table, keys: list[str]) -> pa.Table:
    """Sum and count the measures by group, each row as many times as it stands for a query."""
    if summary_rows.WEIGHT in table.column_names:
        return merge_sums([_weighted(table, keys)], keys)
    whats: list[Any] = [(name, what) for name in MEASURES for what in ("sum", "count")]
    return table.group_by(keys, use_threads=False).aggregate([*whats, ([], "count_all")])


def _weighted(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return the sums and counts that each row stands for."""
    found, queries = table.select(keys), table[summary_rows.WEIGHT]
    for name in MEASURES:
        found = found.append_column(f"{name}_sum", pc.multiply(table[name], queries))
        found = found.append_column(f"{name}_count", pc.if_else(pc.is_valid(table[name]), queries, 0))
    return found.append_column("count_all", queries)


def merge_sums(pieces: list[pa.Table], keys: list[str]) -> pa.Table:
    """Add up sums by group, in the order of the pieces."""
    names = [*_SUMS, "count_all"]
    merged = pa.concat_tables(pieces).group_by(keys, use_threads=False).aggregate([(n, "sum") for n in names])
    return merged.select([*keys, *(f"{name}_sum" for name in names)]).rename_columns([*keys, *names])


def means_of_sums(sums: pa.Table, keys: list[str]) -> pd.DataFrame:
    """Return the means as a sorted frame, with plain text and no attack as an empty one."""
    frame = sums.to_pandas().rename(columns={"count_all": "queries"})
    frame["attack"] = frame["attack"].fillna("")
    for name in MEASURES:
        counts = frame[f"{name}_count"]
        frame[name] = frame[f"{name}_sum"].astype(float) / counts.where(counts > 0)
    return frame[[*keys, "queries", *MEASURES]].sort_values(keys, ignore_index=True)


def read_shifts(run: RunDirectory) -> pd.DataFrame:
    """Return the changes in users' lives, each once, whatever mechanisms lived through it.

    Columns: point, replication, shift, event (`shift`, or `shift_end` where it is over), user, index (of the first
    query after it), time_s.
    """
    keys = ["point", "replication", "shift", "event", "user", "index", "time_s"]
    pieces = [EVENTS.empty_table().select(keys)]
    for part in run.parts():
        with run.open_part(part) as file:
            if _may_name_shifts(file.metadata):
                table = file.read(columns=keys)
                pieces.append(table.select(keys).filter(pc.is_valid(table["shift"])))
    frame = pa.concat_tables(pieces).to_pandas().drop_duplicates()
    return frame.sort_values(["point", "replication", "user", "index"], kind="stable", ignore_index=True)


def _may_name_shifts(metadata: pq.FileMetaData) -> bool:
    """Tell from the end of a part alone whether any of its rows may name a shift."""
    column = EVENTS.get_field_index("shift")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    counted = [(group.num_rows, group.column(column).statistics) for group in groups]
    return any(said is None or said.null_count is None or said.null_count < rows for rows, said in counted)
