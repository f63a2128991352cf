"""Time series of a run by windows of queries: of each user and of the efficiency of all users together.

Of several sweep points each LPPM is shown where the caller says, by default at the middle one of its own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, query_rows
from sim.analysis.statistics import ENDS, ratio_of_means
from sim.analysis.summary import LOSS_AND_ERROR, Totals, preferred, read_totals
from sim.analysis.sweep_labels import in_order, named_apart
from sim.analysis.windows import BY_WINDOW, means_by_window, window_ends, with_indices
from sim.interfaces import IntArray
from sim.storage.part_ids import point_in, replications_in
from sim.storage.run_directory import RunDirectory

Chosen = Collection[tuple[str, int]]
"""LPPMs, each with the sweep point it is looked at; one whose kinds are swept too may have several."""

_WINDOW = ["first_index", "last_index"]


def middle_points(frame: pd.DataFrame) -> dict[str, int]:
    """Return, for each LPPM, the one of its sweep points that stands for the others."""
    found = {str(lppm): sorted(own.unique()) for lppm, own in frame.groupby("lppm")["point"]}
    return {lppm: int(points[(len(points) - 1) // 2]) for lppm, points in found.items()}


def middle(run: RunDirectory, read: Totals | None = None) -> list[tuple[str, int]]:
    """Return where the LPPMs of a run are looked at, in its order: each at the middle one of its sweep points.

    An LPPM of which something is swept that is no number, such as its training, is looked at once for each.
    """
    users = (read or read_totals(run)).users
    there = in_order(users.drop_duplicates(SERIES), run)
    names = named_apart(there, run.read_csv("points.csv"))["lppm"]
    chosen = there["point"] == names.map(middle_points(there.assign(lppm=names)))
    return list(dict.fromkeys(there.loc[chosen, ["lppm", "point"]].itertuples(index=False, name=None)))


def user_courses(
    run: RunDirectory,
    *,
    points: Chosen | None = None,
    users: Collection[str] | None = None,
    read: Totals | None = None,
) -> pd.DataFrame:
    """Return each user's loss and error in the windows of `read_over_time`, of all users or of some.

    Columns: point, lppm, attack, first_index, last_index, user, queries (of all replications), quality_loss_km,
    adversary_error_km (NaN without an attack). Expected figures are used where the log has them.
    """
    points = middle(run, read) if points is None else points
    ends = window_ends(run, extent=None if read is None else read.extent)
    rows = query_rows(run, BY_WINDOW, parts_at(run, points))
    found = means_by_window((rows_at(table, points, users) for table in rows), ends)
    return user_series_of(found, ends)


def user_series_of(means: pd.DataFrame, ends: IntArray) -> pd.DataFrame:
    """Return the table of `user_courses`; takes the means of `means_by_window`."""
    best = means[[*SERIES, "window", "user", "queries"]].assign(
        **{name: preferred(means, name) for name in LOSS_AND_ERROR}
    )
    return with_indices(best, ends)


def efficiency_course(courses: pd.DataFrame) -> pd.DataFrame:
    """Return the efficiency P_AE / Q-bar of all users together in each window; takes a table of `user_courses`.

    It is the ratio of the means over users, with a 95 % interval over them by the delta method, as in `adaptation`.
    Columns: point, lppm, attack, first_index, last_index, users, efficiency, efficiency_low, efficiency_high. Windows
    without an attack or without any loss are left out.
    """
    frames = []
    for _, own in courses.dropna(subset=list(LOSS_AND_ERROR)).groupby(SERIES, sort=False):
        loss, error = (own.pivot(index="user", columns=_WINDOW, values=name) for name in LOSS_AND_ERROR)
        ratio, low, high = ratio_of_means(error.to_numpy(float), loss.to_numpy(float))
        frame = loss.columns.to_frame(index=False).assign(users=loss.count().to_numpy())
        frame = frame.assign(efficiency=ratio, efficiency_low=low, efficiency_high=high)
        frames.append(frame.assign(**{name: own[name].iloc[0] for name in SERIES}))
    columns = [*SERIES, *_WINDOW, "users", *(f"efficiency{end}" for end in ENDS)]
    if not frames:
        return pd.DataFrame(columns=columns)
    return pd.concat(frames, ignore_index=True).dropna(subset="efficiency", ignore_index=True)[columns]


def parts_at(run: RunDirectory, points: Chosen, *, first: bool = False) -> list[str]:
    """Return the parts that may hold the points, or of those the ones that may hold the first replication."""
    return [part for part in run.parts() if may_hold(part, points, first=first)]


def may_hold(part_id: str, points: Chosen, *, first: bool = False) -> bool:
    """Tell from its id whether a part may hold some of the points, or the first replication of them."""
    point = point_in(part_id)
    return point is None or (point in {at for _, at in points} and (not first or 0 in replications_in(part_id)))


def rows_at(rows: pa.Table, points: Chosen, users: Collection[str] | None) -> pa.Table:
    """Return the rows of the LPPMs at their points, of all users or of some."""
    keep: Any = pa.array(np.zeros(rows.num_rows, dtype=bool))
    for lppm, point in points:
        keep = pc.or_(keep, equal_rows(rows, {"lppm": lppm, "point": point}))
    if users is not None:
        keep = pc.and_(keep, pc.is_in(rows["user"], pa.array(list(users), pa.string())))
    return rows.filter(keep)


def equal_rows(rows: pa.Table, same: dict[str, Any]) -> Any:
    """Return which rows have these values."""
    found: Any = pa.array(np.ones(rows.num_rows, dtype=bool))
    for name, value in same.items():
        found = pc.and_(found, pc.is_null(rows[name]) if value is None else pc.equal(rows[name], pa.scalar(value)))
    return found
