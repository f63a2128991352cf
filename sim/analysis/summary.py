"""From the event log to tables: means by user, summaries with intervals, courses over time, trade-off curves.

Everything here reads a run directory, one part after another, and keeps sums by group, never rows. `totals` folds
replications together as they come: memory grows with the number of (point, LPPM, attack, user) alone, so that a log of
any length can be summed up. Only `per_user` grows with replications, as its table does. Users are the independent
units. A figure is first averaged for each user, as the paper does, then over users, and a confidence interval says what
another sample of users could have given.

Only rows of queries count, and of those the guesses about the query itself: when an attack estimates a past
query once more (`estimated_index` below `index`) that row says nothing about the online error. A row of a summary
(`record: summary`) stands for all queries of its window and counts as many times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.special import stdtrit

from sim.interfaces import FloatArray, IntArray
from sim.storage.errors import NotApplicable, RunError
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.run_directory import RunDirectory

SERIES = ["point", "lppm", "attack"]
CONFIDENCE = 0.95
WINDOWS = 20
FIGURES = ("quality_loss_km", "adversary_error_km")
"""Q-bar and P_AE of the paper."""
_NO_VARIANCE_KM2 = 1e-24
_SAME_LOSS_KM = 1e-9
_COMPACT_ROWS = 100_000
_SIMULATED = [*SERIES, "user", "replication"]
BY_WINDOW = [*SERIES, "user", "index", *MEASURES]
_SUMS = [f"{name}_{what}" for name in MEASURES for what in ("sum", "count")]


def per_user(run: RunDirectory, parts: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the mean of each measure for each point, LPPM, attack, user and replication, in all parts or in some.

    Columns: point, lppm, attack (empty without one), user, replication, queries, and the four measures, NaN
    where the log has no value.
    """
    return _means(_accumulate(query_rows(run, [*_SIMULATED, *MEASURES], parts), _SIMULATED), _SIMULATED)


Windows = frozenset[tuple[int, int]]
"""The first and the last index of queries that a summary holds together; none where each has rows of its own."""


@dataclass(frozen=True, slots=True)
class Totals:
    """What one reading of a log leaves: no more for a hundred million rows than for a few, enough for all tables."""

    users: pd.DataFrame
    """A row for each point, LPPM, attack and user: queries, and each measure's mean over replications.

    The number of replications that have the measure and their variance are beside it, as `_count` and `_variance`.
    """
    replications: pd.Series[int]
    """How many replications each point, LPPM and attack has."""
    last_index: int = 1
    """The highest index of a query, at least 1."""
    windows: Windows = frozenset()
    """Which queries the log holds together."""


def totals(run: RunDirectory) -> Totals:
    """Read a log once and return what the summary, the comparisons and the windows of `over_time` need of it.

    Up to a hundred thousand (point, LPPM, attack, user, replication) the means are those of pandas to the bit;
    beyond that blocks of replications are merged as they come (Chan, Golub & LeVeque 1983), which rounds differently.
    """
    found: Totals | None = None
    pieces: list[pa.Table] = []
    last, windows, limit = 1, Windows(), _COMPACT_ROWS
    for rows in query_rows(run, [*_SIMULATED, "index", *MEASURES]):
        last, windows = max(last, _highest(rows)), windows | _windows(rows)
        pieces.append(_sum_rows(rows, _SIMULATED))
        if sum(piece.num_rows for piece in pieces) > limit:
            found = _joined(found, _folded(_means(_merge(pieces, _SIMULATED), _SIMULATED)))
            # As many as are kept, so that joining them never costs more than reading.
            pieces, limit = [], max(_COMPACT_ROWS, len(found.users))
    if pieces or found is None:
        found = _joined(found, _folded(_means(_merge(pieces, _SIMULATED), _SIMULATED)))
    return replace(found, last_index=last, windows=windows)


def summarize(run: RunDirectory, read: Totals | None = None) -> pd.DataFrame:
    """Return the table of `summary.csv`: a row for each point, LPPM and attack.

    Each measure comes as its mean and the ends `_low` and `_high` of a 95 % interval of Student's t. The mean
    is the plain mean over users of each user's mean, itself the plain mean over replications: a user with many
    queries counts no more than another. The interval is over users, the independent units, when there are at
    least two; over replications when there is a single user; and empty when there is one of each. Of a single user
    whose expected figures are the same in every replication, as the manifest says, their interval has no width.

    The log is read unless `totals` did that already.
    """
    return _without_noise(_summary(read or totals(run)), run)


def _without_noise(summary: pd.DataFrame, run: RunDirectory) -> pd.DataFrame:
    exact = {(entry.point, entry.lppm) for entry in run.manifest().repetitions if entry.exact}
    keys = zip(summary["point"], summary["lppm"], strict=True)
    rows = np.array([key in exact for key in keys], dtype=bool) & (summary["users"] == 1).to_numpy()
    for name in FIGURES:
        for end in ("_low", "_high"):
            summary.loc[rows, f"expected_{name}{end}"] = summary.loc[rows, f"expected_{name}"]
    return summary


def summarize_users(users: pd.DataFrame) -> pd.DataFrame:
    """Return the summary of a table made by `per_user`."""
    return _summary(_folded(users))


def _summary(read: Totals) -> pd.DataFrame:
    users = read.users
    alone = users.groupby(SERIES)["user"].transform("size") == 1
    counts = users.groupby(SERIES, as_index=False, sort=True).agg(users=("user", "size"), queries=("queries", "sum"))
    counts.insert(len(SERIES) + 1, "replications", read.replications.to_numpy())
    units = pd.concat([intervals(users[~alone], SERIES), _over_replications(users[alone])], ignore_index=True)
    return counts.merge(units, on=SERIES, validate="one_to_one")


def _over_replications(users: pd.DataFrame) -> pd.DataFrame:
    """Return each user's means with the intervals over her replications."""
    columns = {name: users[name] for name in SERIES}
    for name in MEASURES:
        half = half_width(users[f"{name}_variance"] ** 0.5, users[f"{name}_count"])
        columns |= {name: users[name], f"{name}_low": users[name] - half, f"{name}_high": users[name] + half}
    return pd.DataFrame(columns)


def _folded(users: pd.DataFrame) -> Totals:
    """Fold the replications of a table made by `per_user`."""
    groups = users.groupby([*SERIES, "user"], sort=True)
    columns: dict[str, pd.Series[Any]] = {"queries": groups["queries"].sum()}
    for name in MEASURES:
        own = groups[name]
        columns |= {name: own.mean(), f"{name}_count": own.count(), f"{name}_variance": own.var(ddof=1)}
    return Totals(pd.DataFrame(columns).reset_index(), users.groupby(SERIES)["replication"].nunique())


def _joined(one: Totals | None, other: Totals) -> Totals:
    """Join the totals of different parts: a simulation is whole in one part, so that no replication is in both."""
    if one is None:
        return other
    ours, theirs = (read.users.set_index([*SERIES, "user"]) for read in (one, other))
    index = ours.index.union(theirs.index)
    ours, theirs = ours.reindex(index), theirs.reindex(index)
    columns = {"queries": (ours["queries"].fillna(0) + theirs["queries"].fillna(0)).astype(np.int64)}
    for name in MEASURES:
        n, m = (frame[f"{name}_count"].fillna(0) for frame in (ours, theirs))
        apart = theirs[name] - ours[name]
        both, count = (n > 0) & (m > 0), n + m
        squares = ours[f"{name}_variance"].fillna(0) * (n - 1) + theirs[f"{name}_variance"].fillna(0) * (m - 1)
        mean = (ours[name] + apart * (m / count)).where(both, ours[name].fillna(theirs[name]))
        variance = ((squares + apart**2 * (n * m / count)) / (count - 1)).where(
            both, ours[f"{name}_variance"].fillna(theirs[f"{name}_variance"])
        )
        columns |= {name: mean, f"{name}_count": count.astype(np.int64), f"{name}_variance": variance}
    replications = one.replications.add(other.replications, fill_value=0).astype(np.int64)
    return Totals(pd.DataFrame(columns).reset_index(), replications)


def replication_means(users: pd.DataFrame) -> pd.DataFrame:
    """Return Q-bar and P_AE of each replication: the mean over users of each user's mean; takes a table of `per_user`.

    Columns: point, lppm, attack, replication, quality_loss_km, adversary_error_km. Expected figures are used where the
    log has them.
    """
    keys = [*SERIES, "replication"]
    best = users[keys].assign(**{name: preferred(users, name) for name in FIGURES})
    return best.groupby(keys, as_index=False, sort=True)[list(FIGURES)].mean()


def replication_half_widths(means: pd.DataFrame) -> pd.DataFrame:
    """Return how sharp the means over replications are; takes a table of `replication_means`.

    Half of the 95 % interval of each figure, with the same users: another set of users is another matter, and so is
    the interval of `summarize`. Columns: point, lppm, attack, quality_loss_km, adversary_error_km, NaN where there is
    no figure.
    """
    groups = means.groupby(SERIES, sort=True)
    halves = {name: half_width(groups[name].std(ddof=1), groups[name].count()) for name in FIGURES}
    return pd.DataFrame(halves).reset_index()


def variance_ratio(users: pd.DataFrame) -> pd.DataFrame:
    """Return how many times fewer replications the expected figures need than the sampled ones; takes `per_user`.

    The interval of a mean over n replications is as wide as sqrt(variance / n), so `ratio`, the variance over
    replications of the sampled mean over users by that of the expected one, is the ratio of the replications that reach
    the same interval. Users are independent, so each variance is the sum of the users' own over their number squared,
    which is known far better than that of the means of a few replications. `removed_share` is the variance of the
    difference sampled - expected, the mechanism's current noise, as a share of the sampled variance. Whatever else a
    replication draws, such as new movements, stays in both figures and keeps the ratio near 1.

    Columns: point, lppm, attack, figure, users, replications, sampled_km2, expected_km2, ratio (infinite where the
    expected figure is exact), removed_share. Series with one replication or without expected figures are left out.
    """
    frames = []
    for name in FIGURES:
        own = users[[*SERIES, "user", "replication"]].assign(
            sampled_km2=users[name], expected_km2=users[f"expected_{name}"]
        )
        own = own.dropna().assign(removed_km2=lambda frame: frame["sampled_km2"] - frame["expected_km2"])
        of_user = own.groupby([*SERIES, "user"])
        spread = of_user[["sampled_km2", "expected_km2", "removed_km2"]].var(ddof=1).dropna()
        counted = spread.assign(replications=of_user.size().reindex(spread.index))
        groups = counted.groupby(SERIES, sort=True)
        number = groups.size()
        frame = groups[list(spread.columns)].sum().div(number**2, axis=0).reset_index()
        frame.insert(len(SERIES), "figure", name)
        frame.insert(len(SERIES) + 1, "users", number.to_numpy())
        frame.insert(len(SERIES) + 2, "replications", groups["replications"].max().to_numpy())
        frames.append(frame)
    table = pd.concat(frames, ignore_index=True).sort_values([*SERIES, "figure"], ignore_index=True)
    noise, rest = (table[name].where(table[name] > _NO_VARIANCE_KM2, 0.0) for name in ("sampled_km2", "expected_km2"))
    with np.errstate(divide="ignore", invalid="ignore"):
        table["ratio"] = noise.to_numpy() / rest.to_numpy()
        table["removed_share"] = table.pop("removed_km2").to_numpy() / noise.to_numpy()
    return table


def over_time(run: RunDirectory, *, window: int | None = None, read: Totals | None = None) -> pd.DataFrame:
    """Return the mean of each measure by query index, with 95 % intervals over users.

    Indices are taken together in windows of `window` queries, or in about 20 of nearly equal length. Columns: point,
    lppm, attack, first_index and last_index of the window, users (those with a query in it), queries, and each
    measure with its `_low` and `_high`, which are empty for a single user.

    Of a summary the ends of windows are the nearest to those that it has; a `window` that would cut one is refused.

    The log is read twice, since the windows depend on the highest index, but once where `totals` told that already.
    """
    ends = window_ends(run, window=window, read=read)
    users = means_by_window(query_rows(run, BY_WINDOW), ends)
    series = [*SERIES, "window"]
    counts = users.groupby(series, as_index=False, sort=True).agg(users=("user", "size"), queries=("queries", "sum"))
    frame = counts.merge(intervals(users, series), on=series, validate="one_to_one")
    return with_indices(frame, ends)


def window_ends(run: RunDirectory, *, window: int | None = None, read: Totals | None = None) -> IntArray:
    """Return the last index of each window of `over_time`."""
    if window is not None and window < 1:
        raise ValueError(f"window must be in [1, inf), got {window}")
    last, windows = _extent(run) if read is None else (read.last_index, read.windows)
    count = min(WINDOWS, last) if window is None else -(-last // window)
    ends = np.ceil(np.arange(1, count + 1) * last / count) if window is None else np.arange(1, count + 1) * window
    ends = np.minimum(ends, last).astype(np.int64)
    if window is None:
        return _nearest(ends, _possible_ends(last, windows))
    _refuse_cuts(ends, windows, run)
    return ends


def means_by_window(rows: Iterable[pa.Table], ends: IntArray) -> pd.DataFrame:
    """Return each user's means in each window, given as their last indices; takes rows with the columns `BY_WINDOW`."""
    keys = [*SERIES, "window", "user"]
    return _means(_accumulate((_with_window(table, ends) for table in rows), keys), keys)


def with_indices(frame: pd.DataFrame, ends: IntArray) -> pd.DataFrame:
    """Return rows by series and window with the first and the last index in the place of the window's number."""
    place = frame["window"].to_numpy(dtype=np.int64)
    frame = frame.drop(columns="window")
    frame.insert(len(SERIES), "first_index", np.concatenate([[0], ends])[place] + 1)
    frame.insert(len(SERIES) + 1, "last_index", ends[place])
    return frame


def shifts(run: RunDirectory) -> pd.DataFrame:
    """Return the changes in users' lives, each once, whatever mechanisms lived through it.

    Columns: point, replication, shift, event (`shift`, or `shift_end` where it is over), user, index (of the first
    query after it), time_s.
    """
    keys = ["point", "replication", "shift", "event", "user", "index", "time_s"]
    pieces = [EVENTS.empty_table().select(keys)]
    for part in run.parts():
        with run.open_part(part) as file:
            if _tells_of_shifts(file.metadata):
                table = file.read(columns=keys)
                pieces.append(table.select(keys).filter(pc.is_valid(table["shift"])))
    frame = pa.concat_tables(pieces).to_pandas().drop_duplicates()
    return frame.sort_values(["point", "replication", "user", "index"], kind="stable", ignore_index=True)


def _tells_of_shifts(metadata: pq.FileMetaData) -> bool:
    """Tell from the end of a part alone whether any of its rows may name a shift."""
    column = EVENTS.get_field_index("shift")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    counted = [(group.num_rows, group.column(column).statistics) for group in groups]
    return any(said is None or said.null_count is None or said.null_count < rows for rows, said in counted)


def tradeoff(run: RunDirectory, read: Totals | None = None) -> pd.DataFrame:
    """Return the summary with the values of the sweep beside it, empty where they make no difference to an LPPM.

    A swept value whose name is a column of the summary as well, such as `replications`, gets the suffix
    `_swept`.
    """
    return with_swept_values(summarize(run, read), run.read_csv("points.csv"))


def with_swept_values(frame: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return rows by point and LPPM with the swept values beside them, empty where an LPPM has only one of several."""
    joined = frame.merge(points, on="point", how="left", validate="many_to_one", suffixes=("", "_swept"))
    for path in points.columns.drop("point"):
        column = f"{path}_swept" if path in frame.columns else path
        own = joined.groupby("lppm")[column].transform(lambda values: values.nunique(dropna=False))
        if points[path].nunique(dropna=False) > 1:
            joined[column] = joined[column].where(own > 1)
    return joined


def named_apart(frame: pd.DataFrame, points: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with LPPMs named apart where something of theirs is swept that is no number.

    A curve joins points that differ in a mechanism's numbers. With another training set, say, it is another mechanism.
    """
    numbers = points.select_dtypes("number").columns
    said = _said(frame, points, [path for path in points.columns if _of_lppms(path) and path not in numbers])
    return frame.assign(
        lppm=[f"{lppm} ({text})" if text else lppm for lppm, text in zip(frame["lppm"], said, strict=True)]
    )


def in_order(frame: pd.DataFrame, run: RunDirectory) -> pd.DataFrame:
    """Return the rows with LPPMs and attacks in the order of the scenario, which colours and panels follow."""
    scenario = run.manifest().scenario
    lppms = {lppm.name: i for i, lppm in enumerate(scenario.lppms)}
    attacks = {attack.name: i for i, attack in enumerate(scenario.attacks)}
    ranked = frame.assign(_lppm=frame["lppm"].map(lppms), _attack=frame["attack"].map(attacks))
    ordered = ranked.sort_values(["_lppm", "_attack"], kind="stable", ignore_index=True)
    return ordered.drop(columns=["_lppm", "_attack"])


def swept_words(frame: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Return, for each row, all swept values that make a difference to its LPPM, in words."""
    return _said(frame, points, list(points.columns.drop("point")))


def circumstances(frame: pd.DataFrame, points: pd.DataFrame) -> list[str]:
    """Return, for each row, what is swept outside the mechanisms: only rows with the same can be compared."""
    return _said(frame, points, [path for path in points.columns.drop("point") if not _of_lppms(path)])


def _of_lppms(path: str) -> bool:
    return path.startswith("lppms.")


def _said(frame: pd.DataFrame, points: pd.DataFrame, paths: Sequence[str]) -> list[str]:
    """Return the values of some swept paths in words, for each row; empty where they make no difference to an LPPM."""
    short = headings(paths)
    values = with_swept_values(frame[["lppm", "point"]], points[["point", *paths]]).to_dict("records")
    return [", ".join(f"{short[path]} {plain(row[path])}" for path in paths if pd.notna(row[path])) for row in values]


def plain(value: Any) -> str:
    """Write a swept value: whole numbers without a point.

    >>> plain(1.0), plain(0.25), plain("few")
    ('1', '0.25', 'few')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def headings(paths: Sequence[str]) -> dict[str, str]:
    """Return the last step of each path, or all of it where the last steps are alike."""
    last = [path.rsplit(".", 1)[-1] for path in paths]
    return {path: path if last.count(step) > 1 else step for path, step in zip(paths, last, strict=True)}


def halves(run: RunDirectory) -> pd.DataFrame:
    """Return `per_user` for the first and the last half of the queries apart, in a column `half`: first, last.

    The first half are the indices up to half of the highest index in the run, for all users alike; the middle query
    of an odd number belongs to the last half. A summary with a window across the two is refused.
    """
    last, windows = _extent(run)
    keys = [*_SIMULATED, "window"]
    ends = np.array([last // 2, last])
    _refuse_cuts(ends, windows, run)
    rows = query_rows(run, [*_SIMULATED, "index", *MEASURES])
    found = _means(_accumulate((_with_window(table, ends) for table in rows), keys), keys)
    return found.assign(half=np.array(["first", "last"])[found.pop("window").to_numpy(dtype=np.int64)])


def curves(users: pd.DataFrame, at_km: Sequence[float] | FloatArray) -> pd.DataFrame:
    """Return the adversary's error as a function of the quality loss, for each LPPM and attack.

    Each user's points, averaged over replications, are sorted by loss and joined by straight lines; the error
    at the losses `at_km` is read off, then averaged over users. A user has no value outside the losses she
    attained: `users` says how many have one, and nothing is extrapolated. Expected figures are used where the
    log has them. Takes a table made by `per_user`. Columns: lppm, attack, quality_loss_km, users, mean_km,
    min_km, max_km.
    """
    at = np.asarray(at_km, dtype=float)
    points = user_points(users)
    frames = []
    for (lppm, attack), group in points.groupby(["lppm", "attack"], sort=True):
        errors = np.array([read_off(own, at) for _, own in group.groupby("user", sort=True)])
        frames.append(_over_users(errors, at).assign(lppm=str(lppm), attack=str(attack)))
    columns = ["lppm", "attack", "quality_loss_km", "users", "mean_km", "min_km", "max_km"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def user_points(users: pd.DataFrame) -> pd.DataFrame:
    """Return each user's loss and error at each point, averaged over replications.

    Takes a table of `per_user`, or the users of `totals`, which are averaged already.

    Columns: lppm, attack, user, point, loss, error. Expected figures are used where the log has them.
    """
    keys = ["lppm", "attack", "user", "point"]
    best = users[keys].assign(loss=preferred(users, "quality_loss_km"), error=preferred(users, "adversary_error_km"))
    return best.groupby(keys, as_index=False, sort=True)[["loss", "error"]].mean().dropna()


def curve_of_user(own: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return the losses of one user's points, sorted and each once, and the errors at them."""
    line = own.groupby("loss", sort=True)["error"].mean()
    return line.index.to_numpy(dtype=float), line.to_numpy(dtype=float)


def preferred(frame: pd.DataFrame, name: str, end: str = "") -> pd.Series[float]:
    """Return a measure's expected figures where there are any, else the realised ones.

    `end`, `_low` or `_high`, asks for that end of the interval of the same figure.
    """
    expected, realised = (frame[column + end].astype(float) for column in (f"expected_{name}", name))
    return expected.where(frame[f"expected_{name}"].notna(), realised)


def half_width(deviation: pd.Series[float], count: pd.Series[int]) -> pd.Series[float]:
    """Return half of Student's 95 % interval of a mean: t(0.975; n - 1) s / sqrt(n), NaN for fewer than two units.

    >>> half_width(pd.Series([1.0, 1.0]), pd.Series([2, 9])).round(3).tolist()
    [8.985, 0.769]
    """
    number = count.to_numpy()
    quantile = stdtrit(np.maximum(number - 1, 1), (1 + CONFIDENCE) / 2)
    half = deviation.to_numpy() * quantile / np.sqrt(np.maximum(number, 1))
    return pd.Series(np.where(number > 1, half, np.nan), index=count.index)


def intervals(units: pd.DataFrame, keys: list[str], names: Sequence[str] = MEASURES) -> pd.DataFrame:
    """Return, by group, the mean over the units of each measure, or of other columns, and its 95 % interval.

    The interval is Student's t: its ends are the mean -+ `half_width`, NaN for fewer than two units. Units without a
    value do not count.

    >>> table = pd.DataFrame({"point": 0, **dict.fromkeys(MEASURES, [1.0, 3.0])})
    >>> intervals(table, ["point"])[["quality_loss_km", "quality_loss_km_high"]].round(3).values.tolist()
    [[2.0, 14.706]]
    """
    groups = units.groupby(keys, sort=True)[list(names)]
    means, deviations, counts = groups.mean(), groups.std(ddof=1), groups.count()
    columns: dict[str, pd.Series[float]] = {}
    for name in names:
        mean, half = means[name], half_width(deviations[name], counts[name])
        columns |= {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
    return pd.DataFrame(columns).reset_index()


def query_rows(run: RunDirectory, columns: Sequence[str], parts: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Yield the rows of each part, or of some, that are about the query itself.

    Where rows stand for several queries, a column `queries` says for how many.
    """
    parts = run.parts() if parts is None else parts
    if not parts:
        raise RunError(f"{run} has no finished part: run the scenario (again) first.")
    needed = list(dict.fromkeys([*columns, "event", "index", "estimated_index"]))
    for part in parts:
        table = run.read_part(part, needed)
        online = about_itself(table)
        queries = pc.equal(table["event"], pa.scalar("query"))
        rows = table.select(list(columns))
        # Nearly every log has rows of queries alone, and they need no copy.
        if pc.all(pc.and_(queries, online)).as_py():
            yield rows
            continue
        summaries = pc.equal(table["event"], pa.scalar("summary"))
        if pc.any(summaries).as_py():
            rows = rows.append_column("queries", _queries_of(run.read_part(part, [*_SIMULATED, "event", "index"])))
        yield rows.filter(pc.and_(pc.or_(queries, summaries), online))


def about_itself(table: pa.Table) -> pa.BooleanArray:
    """Return which rows are about their own query, and not guesses about an earlier one."""
    about = table["estimated_index"]
    return pc.or_kleene(pc.is_null(about), pc.equal(about, table["index"]))


def _queries_of(table: pa.Table) -> pa.Array[Any]:
    """Return how many queries each row stands for: a window of a summary begins where the one before has ended."""
    frame = table.to_pandas()
    summary = frame["event"] == "summary"
    sizes = frame[summary].groupby(_SIMULATED, sort=False, dropna=False)["index"].diff()
    queries = sizes.reindex(frame.index).fillna(frame["index"]).where(summary, 1)
    found: pa.Array[Any] = pa.array(queries.to_numpy(np.int64))
    return found


def _accumulate(tables: Iterable[pa.Table], keys: list[str]) -> pa.Table:
    """Sum the measures by group over all tables, merging now and then so that memory holds groups alone.

    Sums run in one thread and in the order of rows: a simulation is whole in one part, so its figures do not
    depend on how simulations were packed into parts.
    """
    pieces: list[pa.Table] = []
    limit = _COMPACT_ROWS
    for table in tables:
        pieces.append(_sum_rows(table, keys))
        if sum(piece.num_rows for piece in pieces) > limit:
            pieces = [_merge(pieces, keys)]
            limit = max(_COMPACT_ROWS, 2 * pieces[0].num_rows)
    return _merge(pieces, keys)


def _sum_rows(table: pa.Table, keys: list[str]) -> pa.Table:
    """Sum and count the measures by group, each row as many times as it stands for a query."""
    if "queries" in table.column_names:
        return _merge([_weighted(table, keys)], keys)
    whats: list[Any] = [(name, what) for name in MEASURES for what in ("sum", "count")]
    return table.group_by(keys, use_threads=False).aggregate([*whats, ([], "count_all")])


def _weighted(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return the sums and counts that each row stands for."""
    found, queries = table.select(keys), table["queries"]
    for name in MEASURES:
        found = found.append_column(f"{name}_sum", pc.multiply(table[name], queries))
        found = found.append_column(f"{name}_count", pc.if_else(pc.is_valid(table[name]), queries, 0))
    return found.append_column("count_all", queries)


def _merge(pieces: list[pa.Table], keys: list[str]) -> pa.Table:
    names = [*_SUMS, "count_all"]
    merged = pa.concat_tables(pieces).group_by(keys, use_threads=False).aggregate([(n, "sum") for n in names])
    return merged.select([*keys, *(f"{name}_sum" for name in names)]).rename_columns([*keys, *names])


def _means(sums: pa.Table, keys: list[str]) -> pd.DataFrame:
    """Return the means as a sorted frame, with plain text and no attack as an empty one."""
    frame = sums.to_pandas().rename(columns={"count_all": "queries"})
    frame["attack"] = frame["attack"].fillna("")
    for name in MEASURES:
        counts = frame[f"{name}_count"]
        frame[name] = frame[f"{name}_sum"].astype(float) / counts.where(counts > 0)
    return frame[[*keys, "queries", *MEASURES]].sort_values(keys, ignore_index=True)


def _with_window(rows: pa.Table, ends: IntArray) -> pa.Table:
    """Return the rows with the number of the window that their index lies in; `ends` are the last of each."""
    return rows.append_column("window", pa.array(ends.searchsorted(rows["index"].to_numpy())))


def _extent(run: RunDirectory) -> tuple[int, Windows]:
    """Return the highest index of a query, at least 1, and which queries the log holds together."""
    last, windows = 1, Windows()
    for rows in query_rows(run, ["index"]):
        last, windows = max(last, _highest(rows)), windows | _windows(rows)
    return last, windows


def _highest(rows: pa.Table) -> int:
    return pc.max(rows["index"]).as_py() or 1


def _windows(rows: pa.Table) -> Windows:
    if "queries" not in rows.column_names:
        return Windows()
    different = rows.group_by(["index", "queries"]).aggregate([]).to_pydict()
    both = zip(different["index"], different["queries"], strict=True)
    return Windows((index - queries + 1, index) for index, queries in both if queries > 1)


def _possible_ends(last: int, windows: Windows) -> IntArray:
    """Return the indices up to the last at which a window may end without cutting one of the log.

    >>> _possible_ends(7, Windows({(1, 3), (4, 6)}))
    array([3, 6, 7])
    """
    possible = np.ones(last + 1, dtype=bool)
    possible[0] = False
    for first, end in windows:
        possible[first:end] = False
    return np.flatnonzero(possible)


def _nearest(wanted: IntArray, possible: IntArray) -> IntArray:
    """Return the possible values next to those wanted, each once; both are sorted and have the same last one."""
    above = possible.searchsorted(wanted)
    below = np.maximum(above - 1, 0)
    nearer_below = wanted - possible[below] < possible[above] - wanted
    return np.unique(possible[np.where(nearer_below & (below < above), below, above)])


def _refuse_cuts(ends: IntArray, windows: Windows, run: RunDirectory) -> None:
    """Refuse windows with these ends where one of the log lies across two of them."""
    for first, last in sorted(windows):
        inside = ends[(ends >= first) & (ends < last)]
        if len(inside):
            fits = math.gcd(*ends[:-1].tolist())
            raise NotApplicable(
                f"{run} is a summary, with one row for queries {first} to {last}: figures of those up to "
                f"{inside[0]} alone cannot be told. Set record.window to {fits} or a divisor of it, or record.log to "
                "queries, and run the scenario into another folder."
            )


def read_off(own: pd.DataFrame, at: FloatArray) -> FloatArray:
    """Interpolate one user's error at the losses, NaN outside the range she attained."""
    losses, error = curve_of_user(own)
    inside = (at >= losses[0] - _SAME_LOSS_KM) & (at <= losses[-1] + _SAME_LOSS_KM)
    return np.where(inside, np.interp(at, losses, error), np.nan)


def _over_users(errors: FloatArray, at: FloatArray) -> pd.DataFrame:
    columns = pd.DataFrame(errors)
    return pd.DataFrame(
        {
            "quality_loss_km": at,
            "users": columns.count().to_numpy(),
            "mean_km": columns.mean().to_numpy(),
            "min_km": columns.min().to_numpy(),
            "max_km": columns.max().to_numpy(),
        }
    )
