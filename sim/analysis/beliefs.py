"""What mechanisms believe of their users: snapshots, and their distance from the truth."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import LogPart, about_itself, log_parts
from sim.analysis.statistics import intervals
from sim.analysis.time_series import Chosen, may_hold, middle, parts_at
from sim.interfaces import FloatArray, IntArray
from sim.storage.errors import ChoiceNotApplicable, NotApplicable
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_cells


def belief_distance(
    run: RunDirectory, *, points: Chosen | None = None, users: Collection[str] | None = None
) -> pd.DataFrame:
    """Return how far what LPPMs believe of their users is from the truth, by query, in the first replication.

    The total variation distance between the belief before query r and the shares of the user's cells in the life that
    she leads at r: all her queries, or those between her changes. A belief that never changes was recorded once and
    counts at the other snapshots too. Columns: point, lppm, index, users, and the mean over users `distance` with
    `distance_low` and `distance_high`, its 95 % interval of Student's t. LPPMs that believe nothing are left out, and
    so are those of the design `identity`, which make no use of what they believe.
    """
    return mean_belief_distance(user_belief_distances(run, points=points, users=users))


def user_belief_distances(
    run: RunDirectory, *, points: Chosen | None = None, users: Collection[str] | None = None
) -> pd.DataFrame:
    """Return the distances of `belief_distance` of each user; columns: point, lppm, user, index, distance."""
    points = middle(run) if points is None else points
    collector = BeliefCollector(run, points, users)
    for part in log_parts(run, parts_at(run, points, first=True)):
        collector.add(part)
    return collector.distances()


class BeliefCollector:
    """Distances between beliefs and true profiles of the parts read so far.

    What makes them not applicable is raised by `distances`, so that other collectors can read the same parts.
    """

    def __init__(self, run: RunDirectory, points: Chosen, users: Collection[str] | None = None) -> None:
        indifferent = _indifferent(run)
        self._run, self._users = run, users
        self._points = [(lppm, point) for lppm, point in points if lppm not in indifferent]
        self._snapshots = list(run.manifest().scenario.record.snapshots)
        self._frames: list[pd.DataFrame] = []
        self._error: NotApplicable | None = None
        if not self._points:
            names = ", ".join(dict.fromkeys(lppm for lppm, _ in points))
            self._error = ChoiceNotApplicable(f"{run}: nothing depends on what {names} believes: choose another LPPM.")

    def add(self, part: LogPart) -> None:
        """Take in a part."""
        if self._error is not None or not may_hold(part.id, self._points, first=True):
            return
        beliefs = Beliefs.of(part)
        if not len(beliefs.index):
            return
        try:
            require_cells(self._run, part.rows(["event"])["event"])
        except NotApplicable as error:
            self._error = error
            return
        table = part.rows(["event", "point", "replication", "user", "index", "cell", "estimated_index"])
        first = pc.equal(table["replication"], pa.scalar(0))
        table = table.filter(pc.and_(first, about_itself(table)))
        own = beliefs.only(self._points, part.point, self._users)
        if len(own.index):
            self._frames.append(_distances(_Believed(part.point, own, *_lives(table)), self._snapshots))

    def distances(self) -> pd.DataFrame:
        """Return the table of `user_belief_distances`, or raise `NotApplicable`."""
        if self._error is not None:
            raise self._error
        table = pd.concat(self._frames, ignore_index=True) if self._frames else pd.DataFrame()
        if table.empty:
            raise NotApplicable(
                f"{self._run} has no snapshot of what its mechanisms believe: set record.snapshots, such as "
                "[1, 10, 30, 100], with a mechanism that uses what it believes, and run the scenario into another "
                "folder."
            )
        return table


def mean_belief_distance(of_users: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `belief_distance`; takes one of `user_belief_distances`."""
    keys = ["point", "lppm", "index"]
    counts = of_users.groupby(keys, as_index=False, sort=True).agg(users=("distance", "count"))
    return counts.merge(intervals(of_users, keys, ["distance"]), on=keys, validate="one_to_one")


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The snapshots of the first replication in a part, a row for each."""

    lppm: np.ndarray[Any, Any]
    user: np.ndarray[Any, Any]
    index: np.ndarray[Any, Any]
    profile: FloatArray

    @classmethod
    def of(cls, part: LogPart) -> Beliefs:
        """Read them."""
        arrays = part.snapshots(["lppm", "user", "index", "profile", "replication"])
        if not arrays:
            return cls(np.array([]), np.array([]), np.array([], dtype=int), np.zeros((0, 0)))
        found = cls(*(arrays[name] for name in ("lppm", "user", "index", "profile")))
        return found._where(arrays["replication"] == 0)

    def only(self, points: Chosen, point: int, users: Collection[str] | None) -> Beliefs:
        """Return those of the LPPMs that are looked at in the part's point, of all users or of some."""
        keep = np.isin(self.lppm, [lppm for lppm, at in points if at == point])
        return self._where(keep if users is None else keep & np.isin(self.user, list(users)))

    def _where(self, rows: np.ndarray[Any, Any]) -> Beliefs:
        return Beliefs(self.lppm[rows], self.user[rows], self.index[rows], self.profile[rows])


@dataclass(frozen=True, slots=True)
class _Believed:
    """What is believed and what is true, of a point in the first replication."""

    point: int
    beliefs: Beliefs
    cells: dict[str, IntArray]
    """Each user's cells in the order of her queries."""
    changes: dict[str, list[int]]
    """The first query of each life that a user leads after her first one, ascending."""


def _lives(rows: pa.Table) -> tuple[dict[str, IntArray], dict[str, list[int]]]:
    """Return each user's cells in the order of her queries, and where her life changes."""
    frame = rows.select(["event", "user", "index", "cell"]).group_by(["event", "user", "index", "cell"]).aggregate([])
    ordered = frame.to_pandas().sort_values(["user", "index"])
    asked = ordered["event"] == "query"
    cells = {str(user): own.to_numpy(np.int64) for user, own in ordered[asked].groupby("user")["cell"]}
    changes = {str(user): sorted(set(own.tolist())) for user, own in ordered[~asked].groupby("user")["index"]}
    return cells, changes


def _distances(part: _Believed, asked: Sequence[int]) -> pd.DataFrame:
    """Return a row for each LPPM, user and index: how far the belief is from the truth."""
    beliefs = part.beliefs
    indices = sorted({*asked, *beliefs.index.tolist()})
    rows = []
    for lppm in dict.fromkeys(beliefs.lppm.tolist()):
        own = np.flatnonzero(beliefs.lppm == lppm)
        fixed = (beliefs.index[own] == indices[0]).all()
        for place in own:
            user = str(beliefs.user[place])
            cells, belief = part.cells[user], beliefs.profile[place]
            # What was recorded once and never learns is believed at all later queries too.
            at = [r for r in indices if r <= len(cells)] if fixed else [int(beliefs.index[place])]
            for index in at:
                truth = _shares(cells, part.changes.get(user, []), index, len(belief))
                distance = 0.5 * float(np.abs(belief - truth).sum())
                rows.append({"point": part.point, "lppm": lppm, "user": user, "index": index, "distance": distance})
    return pd.DataFrame(rows)


def _shares(cells: IntArray, changes: Sequence[int], index: int, n_cells: int) -> FloatArray:
    """Return how a user's queries are shared among cells, in the life that she leads at a query."""
    first = max((change for change in changes if change <= index), default=1)
    after = min((change for change in changes if change > index), default=len(cells) + 1)
    own = cells[first - 1 : after - 1]
    return np.asarray(np.bincount(own, minlength=n_cells) / len(own), dtype=np.float64)


def _indifferent(run: RunDirectory) -> set[str]:
    """Return the LPPMs that report the same whatever they believe."""
    return {lppm.name for lppm in run.manifest().scenario.lppms if lppm.design.kind == "identity"}
