"""Belief snapshots of mechanisms, and their distance from the users' true profiles."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import LogPart, is_online, log_parts
from sim.analysis.moments import Moments, add_moments
from sim.analysis.time_series import Chosen, may_hold, middle, parts_at
from sim.analysis.user_samples import PointSamples, SampledRows
from sim.interfaces import FloatArray, IntArray
from sim.storage.errors import ChoiceNotApplicable, NotApplicable
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_cells


def belief_distance(
    run: RunDirectory, *, points: Chosen | None = None, users: Collection[str] | None = None
) -> pd.DataFrame:
    """Return the distance between the believed and the true profile by query, in the first replication.

    The distance is the total variation distance, in [0, 1], between the belief before query r and the user's empirical
    cell distribution in the behaviour regime of query r: over all their queries, or over those between two shifts. A
    belief that never changes is recorded once; its distance is computed at all other snapshot indices too.

    Columns: point, lppm, index, users, and the mean over users `distance` with the limits `distance_low` and
    `distance_high` of its 95 % confidence interval (Student's t). LPPMs without a belief and those of the design
    `identity`, which does not use it, are excluded.
    """
    return mean_belief_distance(user_belief_distances(run, points=points, users=users))


def user_belief_distances(
    run: RunDirectory, *, points: Chosen | None = None, users: Collection[str] | None = None
) -> pd.DataFrame:
    """Return the distances of `belief_distance` by user; columns: point, lppm, user, index, distance."""
    points = middle(run) if points is None else points
    collector = BeliefCollector(run, points, users)
    for part in log_parts(run, parts_at(run, points, first=True)):
        collector.add(part)
    return collector.distances()


class BeliefCollector:
    """Collector of the distances between believed and true profiles.

    `NotApplicable` is raised by `distances`, not by `add`, so that other collectors can read the same parts.
    """

    def __init__(self, run: RunDirectory, points: Chosen, users: Collection[str] | None = None) -> None:
        indifferent = _indifferent(run)
        self._run, self._users = run, users
        self._points = [(lppm, point) for lppm, point in points if lppm not in indifferent]
        self._snapshots = list(run.manifest().scenario.record.snapshots)
        self._frames: list[pd.DataFrame] = []
        self._reduced: tuple[SampledRows, Moments] | None = None
        self._error: NotApplicable | None = None
        try:
            require_belief(run, points)
        except NotApplicable as error:
            self._error = error

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""
        if self._error is not None or not may_hold(part.id, self._points, first=True):
            return
        beliefs = Beliefs.of(part)
        if not len(beliefs.index):  # also of a summary: then nothing is missing but snapshots
            return
        try:
            require_cells(self._run, part.rows(["event"])["event"])
        except NotApplicable as error:
            self._error = error
            return
        table = part.rows(["event", "point", "replication", "user", "index", "cell", "estimated_index"])
        first = pc.equal(table["replication"], pa.scalar(0))
        table = table.filter(pc.and_(first, is_online(table)))
        own = beliefs.only(self._points, part.point, self._users)
        if len(own.index):
            self._frames.append(_distances(_PointBeliefs(part.point, own, *_cells_and_changes(table)), self._snapshots))

    def distances(self) -> pd.DataFrame:
        """Return the table of `user_belief_distances`, or raise `NotApplicable`."""
        self._require_snapshots()
        return self._collected() if self._reduced is None else self._reduced[0].rows("point", "lppm", "user", "index")

    def moments(self) -> Moments:
        """Return the moments of the distances over users, or raise `NotApplicable`."""
        self._require_snapshots()
        return distance_moments(self._collected()) if self._reduced is None else self._reduced[1]

    def end_block(self, samples: PointSamples) -> None:
        """Reduce the users of a block to moments and the rows of a sample of users."""
        if not self._frames:
            return
        own = self._collected()
        rows = SampledRows(samples) if self._reduced is None else self._reduced[0]
        rows.add(own)
        self._reduced = rows, add_moments(None if self._reduced is None else self._reduced[1], distance_moments(own))
        self._frames = []

    def _collected(self) -> pd.DataFrame:
        return pd.concat(self._frames, ignore_index=True)

    def _require_snapshots(self) -> None:
        if self._error is not None:
            raise self._error
        if not self._frames and self._reduced is None:
            raise NotApplicable(
                f"{self._run} has no belief snapshots: set record.snapshots, for example [1, 10, 30, 100], use a "
                "mechanism with a belief, and run the scenario into a new directory.",
                code="no-snapshots",
            )


def mean_belief_distance(of_users: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `belief_distance` from that of `user_belief_distances`."""
    return distance_over_users(distance_moments(of_users))


def distance_moments(of_users: pd.DataFrame) -> Moments:
    """Return the moments over users of a table of `user_belief_distances`."""
    return Moments.of(of_users, ["point", "lppm", "index"], ["distance"])


def distance_over_users(moments: Moments) -> pd.DataFrame:
    """Return the table of `belief_distance` from the moments of `distance_moments`."""
    return moments.counts("users").merge(moments.intervals(), on=list(moments.keys), validate="one_to_one")


@dataclass(frozen=True, slots=True)
class Beliefs:
    """Belief snapshots of the first replication in a part; all arrays have one entry (row) per snapshot."""

    lppm: np.ndarray[Any, Any]
    user: np.ndarray[Any, Any]
    index: np.ndarray[Any, Any]
    profile: FloatArray

    @classmethod
    def of(cls, part: LogPart) -> Beliefs:
        """Read the snapshots of a part."""
        arrays = part.snapshots(["lppm", "user", "index", "profile", "replication"])
        if not arrays:
            return cls(np.array([]), np.array([]), np.array([], dtype=int), np.zeros((0, 0)))
        snapshots = cls(*(arrays[name] for name in ("lppm", "user", "index", "profile")))
        return snapshots._where(arrays["replication"] == 0)

    def only(self, points: Chosen, point: int, users: Collection[str] | None) -> Beliefs:
        """Return the snapshots of the LPPMs selected at the sweep point `point`, optionally of some users only."""
        keep = np.isin(self.lppm, [lppm for lppm, at in points if at == point])
        return self._where(keep if users is None else keep & np.isin(self.user, list(users)))

    def _where(self, rows: np.ndarray[Any, Any]) -> Beliefs:
        return Beliefs(self.lppm[rows], self.user[rows], self.index[rows], self.profile[rows])


@dataclass(frozen=True, slots=True)
class _PointBeliefs:
    """Beliefs and true cells at one sweep point, in the first replication."""

    point: int
    beliefs: Beliefs
    cells: dict[str, IntArray]
    """Cells of each user in query order."""
    changes: dict[str, list[int]]
    """Query indices at which each user's behaviour changes, ascending."""


def _cells_and_changes(rows: pa.Table) -> tuple[dict[str, IntArray], dict[str, list[int]]]:
    """Return each user's cells in query order, and the query indices at which their behaviour changes."""
    frame = rows.select(["event", "user", "index", "cell"]).group_by(["event", "user", "index", "cell"]).aggregate([])
    ordered = frame.to_pandas().sort_values(["user", "index"])
    is_query = ordered["event"] == "query"
    cells = {str(user): own.to_numpy(np.int64) for user, own in ordered[is_query].groupby("user")["cell"]}
    changes = {str(user): sorted(set(own.tolist())) for user, own in ordered[~is_query].groupby("user")["index"]}
    return cells, changes


def _distances(part: _PointBeliefs, snapshot_indices: Sequence[int]) -> pd.DataFrame:
    """Return the total variation distance of belief and true profile, one row per LPPM, user and index."""
    beliefs = part.beliefs
    indices = sorted({*snapshot_indices, *beliefs.index.tolist()})
    rows = []
    for lppm in dict.fromkeys(beliefs.lppm.tolist()):
        own = np.flatnonzero(beliefs.lppm == lppm)
        fixed = (beliefs.index[own] == indices[0]).all()
        for place in own:
            user = str(beliefs.user[place])
            cells, belief = part.cells[user], beliefs.profile[place]
            # A fixed belief is recorded once and holds at all later queries.
            at = [r for r in indices if r <= len(cells)] if fixed else [int(beliefs.index[place])]
            for index in at:
                truth = _true_profile(cells, part.changes.get(user, []), index, len(belief))
                distance = 0.5 * float(np.abs(belief - truth).sum())
                rows.append({"point": part.point, "lppm": lppm, "user": user, "index": index, "distance": distance})
    return pd.DataFrame(rows)


def _true_profile(cells: IntArray, changes: Sequence[int], index: int, n_cells: int) -> FloatArray:
    """Return the empirical cell distribution of a user between the changes before and after a query."""
    first = max((change for change in changes if change <= index), default=1)
    after = min((change for change in changes if change > index), default=len(cells) + 1)
    own = cells[first - 1 : after - 1]
    return np.asarray(np.bincount(own, minlength=n_cells) / len(own), dtype=np.float64)


def require_belief(run: RunDirectory, points: Chosen) -> None:
    """Raise an error if the reports of none of the chosen LPPMs depend on a belief."""
    names = list(dict.fromkeys(lppm for lppm, _ in points))
    if set(names) <= _indifferent(run):
        message = f"{run}: the reports of {', '.join(names)} do not depend on a belief: select another LPPM."
        raise ChoiceNotApplicable(message, code="no-belief")


def _indifferent(run: RunDirectory) -> set[str]:
    """Return the names of the LPPMs whose reports do not depend on a belief."""
    return {lppm.name for lppm in run.manifest().scenario.lppms if lppm.design.kind == "identity"}
