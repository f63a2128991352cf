"""Courses of a run, query by query: of each user, of the efficiency, of what mechanisms believe, and one user's trace.

Of several sweep points each LPPM is looked at where the caller says, by default at the middle one of its own. Only the
parts of these points are read, one after another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, about_itself, query_rows
from sim.analysis.statistics import ENDS, intervals, ratio_of_means
from sim.analysis.summary import LOSS_AND_ERROR, Totals, preferred, read_totals
from sim.analysis.sweep_labels import in_order, named_apart
from sim.analysis.windows import BY_WINDOW, means_by_window, window_ends, with_indices
from sim.interfaces import FloatArray, IntArray, OutputSpace
from sim.lppm import outputs
from sim.storage.errors import ChoiceNotApplicable, NotApplicable, RequestError
from sim.storage.part_ids import point_in, replications_in
from sim.storage.run_directory import RunDirectory
from sim.storage.summary_rows import require_cells
from sim.world.grid import Grid

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
    found = means_by_window((_only(table, points, users) for table in rows), ends)
    best = found[[*SERIES, "window", "user", "queries"]].assign(
        **{name: preferred(found, name) for name in LOSS_AND_ERROR}
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
    indifferent = _indifferent(run)
    if all(lppm in indifferent for lppm, _ in points):
        names = ", ".join(dict.fromkeys(lppm for lppm, _ in points))
        raise ChoiceNotApplicable(f"{run}: nothing depends on what {names} believes: choose another LPPM.")
    points = [(lppm, point) for lppm, point in points if lppm not in indifferent]
    asked = list(run.manifest().scenario.record.snapshots)
    frames = [_distances(part, asked) for part in _believed(run, points, users)]
    found = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if found.empty:
        raise NotApplicable(
            f"{run} has no snapshot of what its mechanisms believe: set record.snapshots, such as [1, 10, 30, 100], "
            "with a mechanism that uses what it believes, and run the scenario into another folder."
        )
    return found


def mean_belief_distance(of_users: pd.DataFrame) -> pd.DataFrame:
    """Return the table of `belief_distance`; takes one of `user_belief_distances`."""
    keys = ["point", "lppm", "index"]
    counts = of_users.groupby(keys, as_index=False, sort=True).agg(users=("distance", "count"))
    return counts.merge(intervals(of_users, keys, ["distance"]), on=keys, validate="one_to_one")


def output_space(run: RunDirectory, lppm: str, point: int) -> OutputSpace:
    """Return what the outputs of an LPPM stand for."""
    manifest = run.manifest()
    return outputs.read(manifest.output_spaces[lppm], Grid(**manifest.world_of(point).grid), point)


def shown_at(space: OutputSpace, output: int | None) -> tuple[int, ...]:
    """Return where a map shows an output: its place, or where it has none all cells that it names."""
    if output is None:
        return ()
    place = space.shown_at(output)
    return space.cells(output) if place < 0 else (place,)


@dataclass(frozen=True, slots=True)
class UserTrace:
    """What happened to one user under one LPPM, in the first replication."""

    queries: pd.DataFrame
    """A row for each query: index, time_s, cell, output, estimate (NaN without an attack) and, of the output, the cells
    that a map shows it at: a list in `shown`."""
    belief: FloatArray | None
    """What the LPPM believed of her last, as far as it was recorded, shape (n_cells,)."""
    believed_at: int | None
    """Before which query."""


def user_trace(run: RunDirectory, *, lppm: str, point: int, attack: str, user: str) -> UserTrace:
    """Return the trace of one user, what was reported of it and what the attack made of that."""
    columns = ["index", "time_s", "cell", "output", "estimate"]
    for part in parts_at(run, [(lppm, point)], first=True):
        require_cells(run, part)
        same = {"point": point, "replication": 0, "user": user, "lppm": lppm, "attack": attack or None}
        rows = next(query_rows(run, [*columns, *same], [part]))
        rows = rows.filter(_equal(rows, same))
        if rows.num_rows:
            told = Beliefs.of(run, part).only([(lppm, point)], point, [user])
            last = int(told.index.argmax()) if len(told.index) else None
            space = output_space(run, lppm, point)
            queries = rows.select(columns).to_pandas()
            queries["shown"] = [shown_at(space, output) for output in rows["output"].to_pylist()]
            return UserTrace(
                queries.sort_values("index", ignore_index=True),
                None if last is None else told.profile[last],
                None if last is None else int(told.index[last]),
            )
    raise RequestError(f"{run} has no query of user {user!r} under {lppm} against {attack or 'nobody'}.")


@dataclass(frozen=True, slots=True)
class Beliefs:
    """The snapshots of the first replication in a part, a row for each."""

    lppm: np.ndarray[Any, Any]
    user: np.ndarray[Any, Any]
    index: np.ndarray[Any, Any]
    profile: FloatArray

    @classmethod
    def of(cls, run: RunDirectory, part: str) -> Beliefs:
        """Read them."""
        arrays = run.snapshots(part)
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


def _believed(run: RunDirectory, points: Chosen, users: Collection[str] | None) -> Iterator[_Believed]:
    for part in parts_at(run, points, first=True):
        beliefs = Beliefs.of(run, part)
        if not len(beliefs.index):
            continue
        require_cells(run, part)
        table = run.read_part(part, ["event", "point", "replication", "user", "index", "cell", "estimated_index"])
        first = pc.equal(table["replication"], pa.scalar(0))
        table = table.filter(pc.and_(first, about_itself(table)))
        # A part is of one point.
        point = int(table["point"][0].as_py())
        own = beliefs.only(points, point, users)
        if len(own.index):
            yield _Believed(point, own, *_lives(table))


def _lives(rows: pa.Table) -> tuple[dict[str, IntArray], dict[str, list[int]]]:
    """Return each user's cells in the order of her queries, and where her life changes."""
    frame = rows.select(["event", "user", "index", "cell"]).group_by(["event", "user", "index", "cell"]).aggregate([])
    told = frame.to_pandas().sort_values(["user", "index"])
    asked = told["event"] == "query"
    cells = {str(user): own.to_numpy(np.int64) for user, own in told[asked].groupby("user")["cell"]}
    changes = {str(user): sorted(set(own.tolist())) for user, own in told[~asked].groupby("user")["index"]}
    return cells, changes


def _distances(part: _Believed, asked: Sequence[int]) -> pd.DataFrame:
    """Return a row for each LPPM, user and index: how far the belief is from the truth."""
    told = part.beliefs
    indices = sorted({*asked, *told.index.tolist()})
    rows = []
    for lppm in dict.fromkeys(told.lppm.tolist()):
        own = np.flatnonzero(told.lppm == lppm)
        fixed = (told.index[own] == indices[0]).all()
        for place in own:
            user = str(told.user[place])
            cells, belief = part.cells[user], told.profile[place]
            # What was recorded once and never learns is believed at all later queries too.
            at = [r for r in indices if r <= len(cells)] if fixed else [int(told.index[place])]
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


def parts_at(run: RunDirectory, points: Chosen, *, first: bool = False) -> list[str]:
    """Return the parts that may hold the points, or of those the ones that may hold the first replication."""
    wanted = {point for _, point in points}
    found = [part for part in run.parts() if (at := point_in(part)) is None or at in wanted]
    return [part for part in found if not first or point_in(part) is None or 0 in replications_in(part)]


def _only(rows: pa.Table, points: Chosen, users: Collection[str] | None) -> pa.Table:
    """Return the rows of the LPPMs at their points, of all users or of some."""
    keep: Any = pa.array(np.zeros(rows.num_rows, dtype=bool))
    for lppm, point in points:
        keep = pc.or_(keep, _equal(rows, {"lppm": lppm, "point": point}))
    if users is not None:
        keep = pc.and_(keep, pc.is_in(rows["user"], pa.array(list(users), pa.string())))
    return rows.filter(keep)


def _equal(rows: pa.Table, same: dict[str, Any]) -> Any:
    """Return which rows have these values."""
    found: Any = pa.array(np.ones(rows.num_rows, dtype=bool))
    for name, value in same.items():
        found = pc.and_(found, pc.is_null(rows[name]) if value is None else pc.equal(rows[name], pa.scalar(value)))
    return found


def _indifferent(run: RunDirectory) -> set[str]:
    """Return the LPPMs that report the same whatever they believe."""
    return {lppm.name for lppm in run.manifest().scenario.lppms if lppm.design.kind == "identity"}
