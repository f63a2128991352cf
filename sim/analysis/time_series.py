"""Time series of a run by windows of queries: per user, and of the efficiency pooled over users.

Each LPPM is shown at selected sweep points, by default at the middle one of those that affect it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, query_rows
from sim.analysis.moments import RatioMoments
from sim.analysis.statistics import ENDS, ratio_of_means
from sim.analysis.summary import LOSS_AND_ERROR, Totals, preferred, read_totals
from sim.analysis.sweep_labels import in_order, with_distinct_names
from sim.analysis.windows import BY_WINDOW, means_by_window, window_ends, with_indices
from sim.interfaces import IntArray
from sim.storage.part_ids import point_in, replications_in
from sim.storage.run_directory import RunDirectory

Chosen = Collection[tuple[str, int]]
"""Selected pairs of LPPM and sweep point; an LPPM with swept non-numeric parameters may have several."""

_WINDOW = ["first_index", "last_index"]


def middle_points(frame: pd.DataFrame) -> dict[str, int]:
    """Return the middle sweep point of each LPPM."""
    points_of = {str(lppm): sorted(own.unique()) for lppm, own in frame.groupby("lppm")["point"]}
    return {lppm: int(points[(len(points) - 1) // 2]) for lppm, points in points_of.items()}


def middle(run: RunDirectory, read: Totals | None = None) -> list[tuple[str, int]]:
    """Return each LPPM of a run with its middle sweep point, in the order of the scenario.

    An LPPM with a swept non-numeric parameter, such as its training set, has one middle point per value.
    """
    series = in_order((read or read_totals(run)).series, run)
    names = with_distinct_names(series, run.read_csv("points.csv"))["lppm"]
    chosen = series["point"] == names.map(middle_points(series.assign(lppm=names)))
    return list(dict.fromkeys(series.loc[chosen, ["lppm", "point"]].itertuples(index=False, name=None)))


def user_time_series(
    run: RunDirectory,
    *,
    points: Chosen | None = None,
    users: Collection[str] | None = None,
    read: Totals | None = None,
) -> pd.DataFrame:
    """Return the loss and error of each user in the windows of `read_over_time`.

    `points` selects LPPMs and sweep points (default: `middle`), `users` selects users (default: all).

    Columns: point, lppm, attack, first_index, last_index, user, queries (of all replications), quality_loss_km,
    adversary_error_km (NaN without an attack). Expected metrics are used where recorded.
    """
    points = middle(run, read) if points is None else points
    ends = window_ends(run, extent=None if read is None else read.extent)
    rows = query_rows(run, BY_WINDOW, parts_at(run, points))
    means = means_by_window((rows_at(table, points, users) for table in rows), ends)
    return user_series_of(means, ends)


def user_series_of(means: pd.DataFrame, ends: IntArray) -> pd.DataFrame:
    """Return the table of `user_time_series` from the means of `means_by_window`."""
    best = means[[*SERIES, "window", "user", "queries"]].assign(
        **{name: preferred(means, name) for name in LOSS_AND_ERROR}
    )
    return with_indices(best, ends)


def efficiency_time_series(series: pd.DataFrame) -> pd.DataFrame:
    """Return the efficiency P_AE / Q-bar pooled over users in each window, from a table of `user_time_series`.

    It is the ratio of the means over users, with a 95 % confidence interval by the delta method, as in `adaptation`.
    Columns: point, lppm, attack, first_index, last_index, users, efficiency, efficiency_low, efficiency_high. Windows
    without an attack or without any loss are omitted.
    """
    frames = []
    for _, own in series.dropna(subset=list(LOSS_AND_ERROR)).groupby(SERIES, sort=False):
        loss, error = (own.pivot(index="user", columns=_WINDOW, values=name) for name in LOSS_AND_ERROR)
        ratio, low, high = ratio_of_means(error.to_numpy(float), loss.to_numpy(float))
        frame = loss.columns.to_frame(index=False).assign(users=loss.count().to_numpy())
        frame = frame.assign(efficiency=ratio, efficiency_low=low, efficiency_high=high)
        frames.append(frame.assign(**{name: own[name].iloc[0] for name in SERIES}))
    return _efficiencies(frames)


class EfficiencyMoments:
    """The table of `efficiency_time_series`, from blocks of users; `ends` has the last index of each window."""

    def __init__(self, ends: IntArray) -> None:
        self._windows = pd.DataFrame({"first_index": np.concatenate([[0], ends[:-1]]) + 1, "last_index": ends})
        self._moments: dict[tuple[Any, ...], RatioMoments] = {}

    def add(self, series: pd.DataFrame) -> None:
        """Add a block of users: a table of `user_time_series`."""
        windows = pd.MultiIndex.from_frame(self._windows)
        for key, own in series.dropna(subset=list(LOSS_AND_ERROR)).groupby(SERIES, sort=False):
            loss, error = (own.pivot(index="user", columns=_WINDOW, values=name) for name in LOSS_AND_ERROR)
            values = (table.reindex(columns=windows).to_numpy(float) for table in (error, loss))
            moments = RatioMoments.of(*values)
            self._moments[key] = self._moments[key].merged(moments) if key in self._moments else moments

    def time_series(self) -> pd.DataFrame:
        """Return the table."""
        frames = []
        for key, moments in sorted(self._moments.items()):
            ratio, low, high = moments.intervals()
            limits = {"efficiency": ratio, "efficiency_low": low, "efficiency_high": high}
            named = dict(zip(SERIES, key, strict=True))
            frames.append(self._windows.assign(users=moments.count, **limits, **named))
        return _efficiencies(frames)


def _efficiencies(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """Concatenate the time series of the efficiency, without windows in which it is undefined."""
    columns = [*SERIES, *_WINDOW, "users", *(f"efficiency{end}" for end in ENDS)]
    if not frames:
        return pd.DataFrame(columns=columns)
    return pd.concat(frames, ignore_index=True).dropna(subset="efficiency", ignore_index=True)[columns]


def parts_at(run: RunDirectory, points: Chosen, *, first: bool = False) -> list[str]:
    """Return the parts that may hold the points, with `first` only those that may hold the first replication."""
    return [part for part in run.parts() if may_hold(part, points, first=first)]


def may_hold(part_id: str, points: Chosen, *, first: bool = False) -> bool:
    """Return whether a part may hold some of the points (with `first`: their first replication), judged by its id."""
    point = point_in(part_id)
    return point is None or (point in {at for _, at in points} and (not first or 0 in replications_in(part_id)))


def rows_at(rows: pa.Table, points: Chosen, users: Collection[str] | None) -> pa.Table:
    """Return the rows of the LPPMs at their points, optionally of some users only."""
    keep: Any = pa.array(np.zeros(rows.num_rows, dtype=bool))
    for lppm, point in points:
        keep = pc.or_(keep, equal_rows(rows, {"lppm": lppm, "point": point}))
    if users is not None:
        keep = pc.and_(keep, pc.is_in(rows["user"], pa.array(list(users), pa.string())))
    return rows.filter(keep)


def equal_rows(rows: pa.Table, same: dict[str, Any]) -> Any:
    """Return a mask of the rows that have these values; None stands for null."""
    mask: Any = pa.array(np.ones(rows.num_rows, dtype=bool))
    for name, value in same.items():
        mask = pc.and_(mask, pc.is_null(rows[name]) if value is None else pc.equal(rows[name], pa.scalar(value)))
    return mask
