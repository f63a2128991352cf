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

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.analysis import summary as analysis
from sim.analysis.spread import are_few
from sim.analysis.summary import SERIES
from sim.interfaces import FloatArray, IntArray
from sim.storage.errors import ChoiceNotApplicable, NotApplicable, RequestError
from sim.storage.event_schema import MEASURES
from sim.storage.run_directory import RunDirectory

WINDOW = 50
BEFORE = 150
RECOVERED = 0.9
OF_USER = ["efficiency_before", "efficiency_lowest", "efficiency_end", "queries_to_recover", "queries_lost"]
"""What can be told of each user, and compared between mechanisms."""
_ENDS = ("", "_low", "_high")
_ROUNDING = 1e-9
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

    A summary will do if its windows end where the shift begins and make up `window`; another one is refused.
    """
    if window < 1 or before < 1 or not 0 < recovered <= 1:
        raise ValueError(
            f"window and before must be in [1, inf), recovered in (0, 1], got {window}, {before} and {recovered}"
        )
    changes = analysis.shifts(run)
    chosen = _chosen(changes, shift, run)
    parts = _parts_by_point(run, chosen)
    tables: dict[str, list[pd.DataFrame]] = {"summary": [], "users": [], "course": [], "user_courses": []}
    for point, name in chosen.items():
        sums = _Sums(_spans(changes[changes["point"] == point], name), before)
        for part in parts[point]:
            for rows in analysis.query_rows(run, _COLUMNS, [part]):
                sums.add(rows.filter(pc.equal(rows["point"], pa.scalar(point))), run)
        sums.refuse_window(window, run)
        for (lppm, attack), own in sorted(sums.series.items()):
            found = _Course(own, before=before, window=window, step=sums.step, recovered=recovered)
            key: dict[str, Any] = {"point": point, "lppm": lppm, "attack": attack, "shift": name}
            frames = {"summary": found.summary(), "users": found.users, "course": found.course}
            for table, frame in (frames | {"user_courses": found.courses_of_few()}).items():
                tables[table].append(frame.assign(**key)[[*key, *frame.columns]])
    if not tables["summary"]:
        raise NotApplicable(
            f"{run} has no figures of an attack on users who change: there is no efficiency to look at."
        )
    joined = {name: pd.concat(frames, ignore_index=True) for name, frames in tables.items()}
    if not joined["summary"]["users"].any():
        names = " or ".join(dict.fromkeys(chosen.values()))
        raise ChoiceNotApplicable(
            f"{run}: nobody has {window} queries after {names}, up to the next change or the end, and a loss before. "
            "A shorter window may do: `lppm-sim adaptation RUN --window N`."
        )
    return Adaptation(**joined, window=window, recovered=recovered)


def ratio_of_means(over: FloatArray, under: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sum(over) / sum(under) by column and the ends of its 95 % interval over rows, which are the units.

    By the delta method: the ratio R varies as the mean of the residuals (over - R under) / mean(under) does. Rows
    with NaN do not count in their column; fewer than two have no interval.

    >>> ratio, low, high = ratio_of_means(np.array([[1.0], [3.0]]), np.array([[2.0], [6.0]]))
    >>> ratio.tolist(), low.tolist(), high.tolist()
    ([0.5], [0.5], [0.5])
    """
    known = ~(np.isnan(over) | np.isnan(under))
    count = known.sum(axis=0)
    above, below = np.where(known, over, 0.0), np.where(known, under, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = above.sum(axis=0) / below.sum(axis=0)
        ratio[~np.isfinite(ratio)] = np.nan
        residuals = (above - ratio * below) / (below.sum(axis=0) / count)
        deviation = np.sqrt((residuals**2).sum(axis=0) / np.maximum(count - 1, 1))
    half = analysis.half_width(pd.Series(deviation), pd.Series(count)).to_numpy(dtype=float)
    return ratio, ratio - half, ratio + half


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
            row |= _mean(both[name] - both[f"{name}_other"], name)
        times = [both[[name]].to_numpy(float) for name in ("queries_to_recover", "queries_to_recover_other")]
        ends = ratio_of_means(times[0], times[1])
        row |= {f"recovery_ratio{end}": float(value[0]) for end, value in zip(_ENDS, ends, strict=True)}
        rows.append(row)
    table = pd.DataFrame(rows)
    return table[(table["lppm"] != against) & (table["users"] > 0)].reset_index(drop=True)


def _mean(values: pd.Series[float], name: str) -> dict[str, float]:
    """Return the mean of a figure over users, with its interval."""
    mean = float(values.mean())
    half = float(analysis.half_width(pd.Series([values.std(ddof=1)]), pd.Series([values.count()])).iloc[0])
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


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


def _parts_by_point(run: RunDirectory, points: dict[int, str]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {point: [] for point in points}
    for part in run.parts():
        for point in pc.unique(run.read_part(part, ["point"])["point"]).to_pylist():
            if point in found:
                found[point].append(part)
    return found


_Span = tuple[int, int, int]
"""The first query to look at, the first after the shift, and the first after all that is looked at."""

_NOT_AT_ALL: _Span = (0, 0, 0)


def _spans(changes: pd.DataFrame, name: str) -> dict[tuple[int, str], _Span]:
    """Return where to look, by replication and user: from the change before a shift up to the change after it."""
    keys = ["replication", "user"]
    begun = changes[(changes["shift"] == name) & (changes["event"] == "shift")]
    frame = changes.merge(begun.groupby(keys, as_index=False)["index"].min(), on=keys, suffixes=("", "_at"))
    frame["first"] = frame["index"].where(frame["index"] < frame["index_at"], 1)
    frame["end"] = frame["index"].astype(np.int64).where(frame["index"] > frame["index_at"], np.iinfo(np.int64).max)
    found = frame.groupby(keys, sort=False).agg(first=("first", "max"), at=("index_at", "min"), end=("end", "min"))
    spans = zip(*(found[column].tolist() for column in ("first", "at", "end")), strict=True)
    return dict(zip(found.index.tolist(), spans, strict=True))


class _Sums:
    """The errors and losses of one point, added up by LPPM, attack, user and query."""

    def __init__(self, spans: dict[tuple[int, str], _Span], before: int) -> None:
        self.series: dict[tuple[str, str], _Added] = {}
        self.step = 1
        """How many queries a row stands for, at most."""
        self._spans = spans
        self._before = before

    def add(self, rows: pa.Table, run: RunDirectory) -> None:
        """Add the rows of a part, a row of a summary at its last query."""
        error, loss = (_best(rows, name) for name in ("adversary_error_km", "quality_loss_km"))
        rows = rows.append_column("error", error).append_column("loss", loss)
        rows = rows.filter(pc.and_(pc.is_valid(error), pc.is_valid(loss)))
        if not rows.num_rows:
            return
        (users, user), (lppms, lppm), (attacks, attack) = (_coded(rows[name]) for name in ("user", "lppm", "attack"))
        lives, life = np.unique(
            rows["replication"].to_numpy().astype(np.int64) * len(users) + user, return_inverse=True
        )
        whose = [(code // len(users), users[code % len(users)]) for code in lives.tolist()]
        spans = np.array([self._spans.get(life, _NOT_AT_ALL) for life in whose], dtype=np.int64)
        first, at, end = spans[life].T
        last = rows["index"].to_numpy().astype(np.int64)
        queries = rows["queries"].to_numpy() if "queries" in rows.column_names else np.ones_like(last)
        begin = last - queries + 1
        self._refuse_cut(begin, at, last, run)
        within = (begin >= np.maximum(first, at - self._before)) & (last < end)
        self.step = max(self.step, int(queries[within].max(initial=1)))
        figures = np.stack([rows["error"].to_numpy() * queries, rows["loss"].to_numpy() * queries, queries])
        series = lppm * len(attacks) + attack
        for code in np.unique(series[within]).tolist():
            own = within & (series == code)
            added = self.series.setdefault((lppms[code // len(attacks)], attacks[code % len(attacks)]), _Added())
            added.add(users, user[own], (last - at + self._before)[own], figures[:, own])

    def _refuse_cut(self, begin: IntArray, at: IntArray, last: IntArray, run: RunDirectory) -> None:
        cut = np.flatnonzero((begin < at) & (at <= last))
        if cut.size:
            row = int(cut[0])
            raise NotApplicable(
                f"{run} is a summary, with one row for queries {begin[row]} to {last[row]}, but the shift comes at "
                f"query {at[row]}: what was before and after it cannot be told. Set record.window to a divisor of "
                f"{at[row] - 1}, or record.log to queries, and run the scenario into another folder."
            )

    def refuse_window(self, window: int, run: RunDirectory) -> None:
        """Refuse windows that are not made of whole rows."""
        if window % self.step:
            raise NotApplicable(
                f"{run} is a summary with one row for {self.step} queries, which windows of {window} would cut: ask "
                f"for a window of {-(-window // self.step) * self.step}, or another multiple of {self.step}."
            )


def _best(rows: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    """Return a measure's expected figures where there are any, else the realised ones."""
    best: pa.ChunkedArray[Any] = pc.coalesce(rows[f"expected_{name}"], rows[name])
    return best


def _coded(column: pa.ChunkedArray[Any]) -> tuple[list[str], IntArray]:
    """Return the different texts of a column, and which of them each row has."""
    coded: Any = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return [text or "" for text in coded.dictionary.to_pylist()], coded.indices.to_numpy().astype(np.int64)


class _Added:
    """Errors, losses and numbers of queries of one LPPM and attack."""

    def __init__(self) -> None:
        self.rows: dict[str, int] = {}
        """Where each user is in the figures."""
        self.figures: FloatArray = np.zeros((3, 0, 0))
        """Shape (3, users, queries); the first query is the one that is `before` the shift."""

    def add(self, users: Sequence[str], user: IntArray, column: IntArray, figures: FloatArray) -> None:
        """Add rows, in their order, so that sums do not depend on how rows are packed into parts."""
        there = np.unique(user)
        place = np.zeros(len(users), dtype=np.int64)
        place[there] = [self.rows.setdefault(users[code], len(self.rows)) for code in there.tolist()]
        _, rows, columns = self.figures.shape
        more = (max(len(self.rows) - rows, 0), max(int(column.max()) + 1 - columns, 0))
        if any(more):
            self.figures = np.pad(self.figures, ((0, 0), (0, more[0]), (0, more[1])))
        for own, values in zip(self.figures, figures, strict=True):
            np.add.at(own, (place[user], column), values)


class _Course:
    """What the sums of one LPPM and attack come to."""

    def __init__(self, added: _Added, *, before: int, window: int, step: int, recovered: float) -> None:
        self._before, self._window, self._recovered = before, window, recovered
        figures = np.pad(added.figures, ((0, 0), (0, 0), (1, max(before - added.figures.shape[2], 0))))
        there = figures[2] > 0
        length = there.shape[1] - there[:, ::-1].argmax(axis=1) - 1 - before
        until = figures.cumsum(axis=2)
        known = (until[0, :, before] > _ROUNDING) & (until[1, :, before] > _ROUNDING) & (length >= window)
        self._left_out = int((~known).sum())
        self._names = [name for name, kept in zip(added.rows, known.tolist(), strict=True) if kept]
        self._error, self._loss = until[0, known], until[1, known]
        """Sums up to each query, the last before the shift in column `before`; shape (users, queries + 1)."""
        self._length: IntArray = length[known]
        """How many queries each user has after the shift."""
        first = np.maximum(there[known].argmax(axis=1) - step, 0)
        last = int(self._length.max(initial=window))
        earlier, later = (np.arange(start, stop + 1, step) for start, stop in ((0, before - window), (window, last)))
        self._ends: IntArray = np.concatenate([-earlier[::-1], later])
        """How many queries after the shift each window ends."""
        over, under = self._between(self._ends - window, self._ends)
        whole = (before + self._ends - window >= first[:, None]) & (self._ends <= self._length[:, None])
        self._over, self._under = np.where(whole, over, np.nan), np.where(whole, under, np.nan)
        self.users = self._of_users()
        self.course = self._of_all()

    def _between(self, start: IntArray, end: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return everybody's errors and losses from so many queries after the shift on, up to so many."""
        last = self._error.shape[1] - 1
        columns = [np.minimum(self._before + at, last) for at in (start, end)]
        return (
            self._error[:, columns[1]] - self._error[:, columns[0]],
            self._loss[:, columns[1]] - self._loss[:, columns[0]],
        )

    def _of_users(self) -> pd.DataFrame:
        after = self._ends > 0
        ends, efficiency = self._ends[after], _divided(self._over[:, after], self._under[:, after])
        error_before, loss_before = self._error[:, self._before], self._loss[:, self._before]
        before = error_before / loss_before
        reached = efficiency >= self._recovered * before[:, None] * (1 - _ROUNDING)
        censored = ~reached.any(axis=1)
        taken = np.where(censored, self._length, ends[reached.argmax(axis=1)])
        rows = np.arange(len(before))
        stretch = [sums[rows, self._before + taken] - sums[rows, self._before] for sums in (self._error, self._loss)]
        last = np.searchsorted(ends, self._length, side="right") - 1
        return pd.DataFrame(
            {
                "user": pd.Series(self._names, dtype=object),
                "queries_after": self._length,
                "censored": censored,
                "efficiency_before": before,
                "efficiency_lowest": np.fmin.reduce(efficiency, axis=1),
                "efficiency_end": efficiency[rows, last],
                "queries_to_recover": taken.astype(float),
                "queries_lost": taken * np.maximum(1 - _divided(stretch[0], stretch[1]) / before, 0),
            }
        )

    def _of_all(self) -> pd.DataFrame:
        users = (~np.isnan(self._over)).sum(axis=0)
        enough = 2 * users >= max(len(self._names), 1)
        ratio, low, high = ratio_of_means(self._over[:, enough], self._under[:, enough])
        return pd.DataFrame(
            {
                "queries_after": self._ends[enough],
                "users": users[enough],
                "efficiency": ratio,
                "efficiency_low": low,
                "efficiency_high": high,
            }
        )

    def courses_of_few(self) -> pd.DataFrame:
        """Return the course of each user, where they are too few for an interval; else no rows."""
        few = are_few(len(self._names))
        efficiency = _divided(self._over, self._under) if few else np.empty((0, len(self._ends)))
        names = self._names if few else []
        return pd.DataFrame(
            {
                "user": pd.Series(names, dtype=object).repeat(len(self._ends)).to_numpy(),
                "queries_after": np.tile(self._ends, len(names)),
                "efficiency": efficiency.ravel(),
            }
        ).dropna(subset="efficiency", ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Return one row."""
        users, after = self.users, self.course[self.course["queries_after"] > 0].dropna(subset="efficiency")
        row: dict[str, Any] = {
            "users": len(users),
            "left_out": self._left_out,
            "censored": int(users["censored"].sum()),
        }
        row |= self._pooled("efficiency_before", self._error[:, self._before], self._loss[:, self._before])
        row |= {"efficiency_lowest": after["efficiency"].min()}
        rows, last = np.arange(len(users)), np.searchsorted(self._ends, self._length, side="right") - 1
        row |= self._pooled("efficiency_end", self._over[rows, last], self._under[rows, last])
        for name in ("queries_to_recover", "queries_lost"):
            row |= _mean(users[name], name)
        row["queries_to_recover_median"] = users["queries_to_recover"].median()
        level = self._recovered * row["efficiency_before"] * (1 - _ROUNDING)
        reached = after.loc[after["efficiency"] >= level, "queries_after"]
        taken = reached.min() if len(reached) else after["queries_after"].max()
        row |= {
            "pooled_queries_to_recover": float(taken),
            "pooled_censored": not len(reached),
            "pooled_queries_lost": np.nan,
        }
        if len(after):
            error, loss = self._between(np.array([0]), np.array([taken]))
            efficiency = float(_divided(error.sum(), loss.sum()))
            row["pooled_queries_lost"] = float(taken) * max(1 - efficiency / row["efficiency_before"], 0)
        return pd.DataFrame([row])

    def _pooled(self, name: str, errors: FloatArray, losses: FloatArray) -> dict[str, float]:
        ends = ratio_of_means(errors[:, None], losses[:, None])
        return {f"{name}{end}": float(value[0]) for end, value in zip(_ENDS, ends, strict=True)}


def _divided(over: Any, under: Any) -> FloatArray:
    """Return the ratios, NaN where nothing was lost."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(under > _ROUNDING, over / under, np.nan)
