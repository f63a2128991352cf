"""How mechanisms follow a change in their users' lives: efficiency before and after it, and how long it takes.

Efficiency is P_AE / Q-bar, how much error an adversary makes for each km of quality that is given up. It is always a
ratio of sums over the same queries, never a mean of ratios: of one query the loss may be nought. Queries are counted
from the shift, so that users who change at different moments lie upon each other. What happens between the last change
before the shift, or the beginning, and the next change after it (another shift, the end of this one) or the end of the
trace is looked at; a user who does not change is left out.

The log is read one part after another, and of each point only sums by LPPM, attack, user and query are kept:
replications of a user are added up before any ratio is taken.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis.event_log import SERIES, LogPart, log_parts, read_shifts
from sim.analysis.recovery import Recovery
from sim.analysis.shift_sums import ShiftSums, spans_around
from sim.analysis.statistics import ENDS, mean_interval, ratio_of_means
from sim.storage.errors import ChoiceNotApplicable, NotApplicable, RequestError
from sim.storage.event_schema import MEASURES
from sim.storage.part_ids import point_in
from sim.storage.run_directory import RunDirectory

WINDOW = 50
BEFORE = 150
RECOVERED = 0.9
OF_USER = ["efficiency_before", "efficiency_lowest", "efficiency_end", "queries_to_recover", "queries_lost"]
"""Metrics of each user, which are compared between mechanisms."""


_COLUMNS = [*SERIES, "user", "replication", "index", *MEASURES]


@dataclass(frozen=True, slots=True)
class Adaptation:
    """How the mechanisms of a run followed a shift; see `adaptation` for what the figures are."""

    summary: pd.DataFrame
    """A row for each point, LPPM and attack.

    Columns: point, lppm, attack, shift, users, left_out, censored, then efficiency_before, efficiency_lowest and
    efficiency_end of all users together, the mean of each user's queries_to_recover and queries_lost (all but the
    lowest with `_low` and `_high`), queries_to_recover_median, and from the course of all users together
    pooled_queries_to_recover, pooled_censored and pooled_queries_lost.
    """
    users: pd.DataFrame
    """A row for each point, LPPM, attack and user: the five figures, queries_after and whether she is censored."""
    course: pd.DataFrame
    """The efficiency of all users together in the window that ends so many queries after the shift, with bands.

    Columns: point, lppm, attack, shift, queries_after (nought or less: the window lies before the shift), users,
    efficiency, efficiency_low, efficiency_high.
    """
    window: int
    recovered: float
    user_courses: pd.DataFrame = field(default_factory=pd.DataFrame)
    """The same course of each user, where two to four are too few for bands; columns as `course`, and user."""

    def compare(self, against: str) -> pd.DataFrame:
        """Compare each LPPM with one of them, paired by user, at the same point (or its only one) and attack.

        Columns: point, attack, lppm, against, users, and for each figure of a user the mean of the differences LPPM -
        other with the ends `_low` and `_high` of its 95 % interval of Student's t; `recovery_ratio` is the mean of the
        queries to recover by that of the other, with its interval by the delta method.
        """
        return compare(self.users, against)


def adaptation(
    run: RunDirectory,
    *,
    window: int = WINDOW,
    recovered: float = RECOVERED,
    before: int = BEFORE,
    shift: str | None = None,
) -> Adaptation:
    """Return how the mechanisms of a run followed a shift: that of this name, or at each point the first one.

    `efficiency_before` is that of the last `before` queries before the shift, or of as many as there are.
    After it, efficiency is looked at in windows of the last `window` queries, which lie wholly after the shift.
    `queries_to_recover` is how many queries it takes until that of such a window is at least `recovered` times
    `efficiency_before`. The least possible value is therefore the window's length, for all mechanisms alike: a window
    that grows from the first query on would count a lucky first query as recovery, the more so the noisier the
    mechanism. A user who never gets there is censored: she counts with all her queries after the shift, and `censored`
    says how many do. `queries_lost` is the area between the level before and the course until then: T (1 - e / b),
    with T the queries to recover, e the efficiency of these T and b that before; none if e is above b. It is in
    queries: so many with no protection at all would have cost as much. Figures of all users together pool their
    queries, those of the course in windows which at least half of the users have whole. `efficiency_end` is that of
    each user's last window.

    Intervals are at 95 % over users, the independent units: of ratios by the delta method (linearised residuals
    and Student's t), of means by Student's t; none for a single user. A user with less than a window after the shift,
    or without any loss before it, is `left_out`. Expected figures are used where the log has them.

    Rows that stand for several queries must end before the shift and make up `window`; others are refused.
    """
    collector = AdaptationCollector(
        run, read_shifts(run), window=window, recovered=recovered, before=before, shift=shift
    )
    for part in log_parts(run):
        collector.add(part)
    return collector.adaptation()


class AdaptationCollector:
    """Adaptation to a shift from the parts read so far; the sums of one sweep point at a time are in memory.

    What makes it not applicable is raised by `adaptation`, so that other collectors can read the same parts.
    """

    def __init__(
        self,
        run: RunDirectory,
        changes: pd.DataFrame,
        *,
        window: int = WINDOW,
        recovered: float = RECOVERED,
        before: int = BEFORE,
        shift: str | None = None,
    ) -> None:
        if window < 1 or before < 1 or not 0 < recovered <= 1:
            raise ValueError(
                f"window and before must be in [1, inf), recovered in (0, 1], got {window}, {before} and {recovered}"
            )
        self._run = run
        self._window, self._recovered, self._before = window, recovered, before
        self._changes = changes
        self._shifts: dict[int, str] = {}
        self._sums: dict[int, ShiftSums] = {}
        self._frames: dict[int, list[dict[str, pd.DataFrame]]] = {}
        self._error: NotApplicable | None = None
        try:
            self._shifts = _chosen(changes, shift, run)
        except NotApplicable as error:
            self._error = error

    def add(self, part: LogPart) -> None:
        """Take in a part."""
        if self._error is not None:
            return
        try:
            self._add(part)
        except NotApplicable as error:
            self._error = error

    def _add(self, part: LogPart) -> None:
        begun = point_in(part.id)
        # Parts come in the order of their points.
        for point in [point for point in self._sums if begun is not None and point < begun]:
            self._finish(point)
        points: list[int] = pc.unique(part.rows(["point"])["point"]).to_pylist() if begun is None else [begun]  # type: ignore[assignment]
        for point in points:
            if point in self._shifts:
                rows = part.queries(_COLUMNS)
                self._sums_of(point).add(rows.filter(pc.equal(rows["point"], pa.scalar(point))), self._run)

    def _sums_of(self, point: int) -> ShiftSums:
        if point not in self._sums:
            changes = self._changes[self._changes["point"] == point]
            self._sums[point] = ShiftSums(spans_around(changes, self._shifts[point]), self._before)
        return self._sums[point]

    def _finish(self, point: int) -> None:
        """Replace the sums of a point by its tables."""
        sums = self._sums.pop(point)
        sums.require_window(self._window, self._run)
        for (lppm, attack), own in sorted(sums.series.items()):
            recovery = Recovery(
                own, before=self._before, window=self._window, step=sums.step, recovered=self._recovered
            )
            key: dict[str, Any] = {"point": point, "lppm": lppm, "attack": attack, "shift": self._shifts[point]}
            frames = {
                "summary": recovery.summary(),
                "users": recovery.users,
                "course": recovery.course,
                "user_courses": recovery.courses_of_few(),
            }
            keyed = {name: frame.assign(**key)[[*key, *frame.columns]] for name, frame in frames.items()}
            self._frames.setdefault(point, []).append(keyed)

    def adaptation(self) -> Adaptation:
        """Return the adaptation, or raise `NotApplicable`."""
        if self._error is not None:
            raise self._error
        for point in list(self._sums):
            self._finish(point)
        frames = [keyed for point in self._shifts for keyed in self._frames.get(point, [])]
        if not frames:
            raise NotApplicable(
                f"{self._run} has no figures of an attack on users who change: there is no efficiency to look at."
            )
        tables = {name: pd.concat([keyed[name] for keyed in frames], ignore_index=True) for name in frames[0]}
        if not tables["summary"]["users"].any():
            names = " or ".join(dict.fromkeys(self._shifts.values()))
            raise ChoiceNotApplicable(
                f"{self._run}: nobody has {self._window} queries after {names}, up to the next change or the end, and "
                "a loss before. A shorter window may do: `lppm-sim adaptation RUN --window N`."
            )
        return Adaptation(**tables, window=self._window, recovered=self._recovered)


def compare(users: pd.DataFrame, against: str) -> pd.DataFrame:
    """Compare LPPMs paired by user; takes the users of an `Adaptation`, or of several with distinct names of LPPMs."""
    if against not in set(users["lppm"]):
        names = ", ".join(dict.fromkeys(users["lppm"]))
        raise RequestError(f"no LPPM {against!r} to compare with: there are {names}")
    theirs = users[users["lppm"] == against].drop(columns="lppm")
    # What a sweep does not touch was run once, and stands for itself at all points.
    once = theirs["point"].nunique() == 1
    rows = []
    for (point, attack, lppm), own in users.groupby(["point", "attack", "lppm"], sort=False):
        other = theirs.assign(point=own["point"].iloc[0]) if once else theirs
        both = own.merge(other, on=["point", "attack", "user"], suffixes=("", "_other"))
        row: dict[str, Any] = {"point": point, "attack": attack, "lppm": lppm, "against": against, "users": len(both)}
        for name in OF_USER:
            row |= mean_interval(both[name] - both[f"{name}_other"], name)
        times = [both[[name]].to_numpy(float) for name in ("queries_to_recover", "queries_to_recover_other")]
        ends = ratio_of_means(times[0], times[1])
        row |= {f"recovery_ratio{end}": float(value[0]) for end, value in zip(ENDS, ends, strict=True)}
        rows.append(row)
    table = pd.DataFrame(rows)
    return table[(table["lppm"] != against) & (table["users"] > 0)].reset_index(drop=True)


def _chosen(changes: pd.DataFrame, shift: str | None, run: RunDirectory) -> dict[int, str]:
    """Return the name of the shift to look at, for each point that has one."""
    begun = changes[changes["event"] == "shift"]
    if begun.empty:
        raise ChoiceNotApplicable(f"{run} has no shift: there is nothing to adapt to. Give the scenario `shifts`.")
    if shift is not None and shift not in set(begun["shift"]):
        raise RequestError(f"{run} has no shift {shift!r}: there are {', '.join(dict.fromkeys(begun['shift']))}")
    if shift is not None:
        return dict.fromkeys(sorted(begun.loc[begun["shift"] == shift, "point"].unique().tolist()), shift)
    medians = begun.groupby(["point", "shift"], sort=False)["index"].median().reset_index()
    first = medians.sort_values(["point", "index"], kind="stable").drop_duplicates("point")
    return dict(zip(first["point"].tolist(), first["shift"].tolist(), strict=True))
