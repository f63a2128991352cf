"""Means by windows of queries: time series over the query index, and the first and last half of a run."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, SIMULATED, group_means, query_rows
from sim.analysis.moments import Moments
from sim.interfaces import IntArray
from sim.storage.event_schema import MEASURES
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import Windows, nearest_ends, require_uncut, windows_in

WINDOW_COUNT = 20
BY_WINDOW = [*SERIES, "user", "index", *MEASURES]
WINDOW_KEYS = [*SERIES, "window", "user"]


@dataclass(frozen=True, slots=True)
class Extent:
    """Highest query index, at least 1, and the windows of queries that rows summarize."""

    last_index: int = 1
    windows: Windows = frozenset()

    @property
    def step(self) -> int:
        """Largest number of queries that a row summarizes."""
        return max((last - first + 1 for first, last in self.windows), default=1)

    def joined(self, rows: pa.Table) -> Extent:
        """Return the extent enlarged by these rows, which have a column `index`."""
        highest = pc.max(rows["index"]).as_py() or 1
        return self.union(Extent(highest, windows_in(rows)))

    def union(self, other: Extent) -> Extent:
        """Return the extent of two logs."""
        return Extent(max(self.last_index, other.last_index), self.windows | other.windows)


def read_extent(run: RunDirectory) -> Extent:
    """Read the extent of a log."""
    extent = Extent()
    for rows in query_rows(run, ["index"]):
        extent = extent.joined(rows)
    return extent


def read_over_time(run: RunDirectory, *, window: int | None = None, extent: Extent | None = None) -> pd.DataFrame:
    """Return the mean of each measure by window of query indices, with 95 % confidence intervals over users.

    `window` is the window length in queries; if omitted, about 20 windows of nearly equal length are used. Columns:
    point, lppm, attack, first_index and last_index of the window, users (those with a query in it), queries, and each
    measure with its limits `_low` and `_high`, which are NaN for a single user.

    In a summarized log, default windows end at the nearest row ends; a `window` that splits a row is an error.

    The windows depend on the highest index, so the log is read twice, or once if the extent is given.
    """
    ends = window_ends(run, window=window, extent=extent)
    return over_time_of(window_moments(means_by_window(query_rows(run, BY_WINDOW), ends)), ends)


def window_moments(users: pd.DataFrame) -> Moments:
    """Return the moments over users of a table of `means_by_window`."""
    return Moments.of(users, [*SERIES, "window"], MEASURES, sums=["queries"])


def over_time_of(moments: Moments, ends: IntArray) -> pd.DataFrame:
    """Return the table of `read_over_time` from the moments of `window_moments`."""
    counts = moments.counts("users", "queries")
    return with_indices(counts.merge(moments.intervals(), on=list(moments.keys), validate="one_to_one"), ends)


def window_ends(run: RunDirectory, *, window: int | None = None, extent: Extent | None = None) -> IntArray:
    """Return the last index of each window of `read_over_time`."""
    if window is not None and window < 1:
        raise ValueError(f"window must be in [1, inf), got {window}")
    extent = read_extent(run) if extent is None else extent
    last, windows = extent.last_index, extent.windows
    count = min(WINDOW_COUNT, last) if window is None else -(-last // window)
    ends = np.ceil(np.arange(1, count + 1) * last / count) if window is None else np.arange(1, count + 1) * window
    ends = np.minimum(ends, last).astype(np.int64)
    if window is None:
        return nearest_ends(ends, windows)
    require_uncut(ends, windows, run)
    return ends


def means_by_window(rows: Iterable[pa.Table], ends: IntArray) -> pd.DataFrame:
    """Return each user's means in each window; `ends` has the last indices, `rows` the columns `BY_WINDOW`."""
    return group_means((with_window(table, ends) for table in rows), WINDOW_KEYS)


def with_indices(frame: pd.DataFrame, ends: IntArray) -> pd.DataFrame:
    """Return rows with the column `window` replaced by the first and the last index of the window."""
    place = frame["window"].to_numpy(dtype=np.int64)
    frame = frame.drop(columns="window")
    frame.insert(len(SERIES), "first_index", np.concatenate([[0], ends])[place] + 1)
    frame.insert(len(SERIES) + 1, "last_index", ends[place])
    return frame


def read_halves(run: RunDirectory) -> pd.DataFrame:
    """Return `per_user` separately for the two halves of the queries; the column `half` is `first` or `last`.

    The first half has the indices up to half of the highest index in the run, for all users; the middle query of an odd
    number belongs to the last half. In a summarized log, a row that spans both halves is an error.
    """
    extent = read_extent(run)
    last = extent.last_index
    keys = [*SIMULATED, "window"]
    ends = np.array([last // 2, last])
    require_uncut(ends, extent.windows, run)
    rows = query_rows(run, [*SIMULATED, "index", *MEASURES])
    means = group_means((with_window(table, ends) for table in rows), keys)
    return means.assign(half=np.array(["first", "last"])[means.pop("window").to_numpy(dtype=np.int64)])


def with_window(rows: pa.Table, ends: IntArray) -> pa.Table:
    """Return the rows with the number of the window of their index; `ends` has the last index of each window."""
    return rows.append_column("window", pa.array(ends.searchsorted(rows["index"].to_numpy())))
