"""Summaries of a run: means by user, and means over users with confidence intervals.

A metric is first averaged for each user, as in the paper, then over users; the confidence interval accounts for the
sampling of users and for what replications share (`sim.analysis.replication_effect`). `read_totals` accumulates
replications as they are read: its memory grows with the number of (point, LPPM, attack, user) and of batches of
replications. Only `per_user` grows with the number of replications.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sim.analysis.event_log import (
    COMPACT_ROWS,
    SERIES,
    SIMULATED,
    LogPart,
    group_means,
    log_parts,
    means_of_sums,
    merge_sums,
    query_rows,
    require_parts,
    sum_rows,
)
from sim.analysis.moments import UNITS, Moments, half_width, merge_columns
from sim.analysis.replication_effect import ReplicationMoments, batches_of, deviations
from sim.analysis.sweep_labels import with_swept_values
from sim.analysis.windows import Extent
from sim.storage.event_schema import MEASURES, POSTERIOR_ENTROPY_BITS, PRIOR_ERROR_KM
from sim.storage.run_directory import RunDirectory

LOSS_AND_ERROR = ("quality_loss_km", "adversary_error_km")
"""Q-bar and P_AE of the paper."""
OF_BATCHES = (*MEASURES, POSTERIOR_ENTROPY_BITS, PRIOR_ERROR_KM)
"""Columns of the event log that `Totals.batches` averages."""


def preferred(frame: pd.DataFrame, name: str, end: str = "") -> pd.Series[float]:
    """Return the expected values of a measure where recorded, otherwise the realised ones.

    `end`, one of `_low` and `_high`, selects that confidence limit of the same metric.
    """
    expected, realised = (frame[column + end].astype(float) for column in (f"expected_{name}", name))
    return expected.where(frame[f"expected_{name}"].notna(), realised)


def per_user(run: RunDirectory, parts: Sequence[str] | None = None) -> pd.DataFrame:
    """Return the mean of each measure by point, LPPM, attack, user and replication, in `parts` (default: all).

    Columns: point, lppm, attack (empty if there is none), user, replication, queries, and the four measures
    `quality_loss_km`, `adversary_error_km` (realised) and `expected_quality_loss_km`, `expected_adversary_error_km`;
    NaN where the log has no value.
    """
    return group_means(query_rows(run, [*SIMULATED, *MEASURES], parts), SIMULATED)


@dataclass(frozen=True, slots=True)
class Totals:
    """Means by user of an event log; the size does not depend on the number of queries or replications."""

    users: pd.DataFrame
    """One row per point, LPPM, attack and user: the number of queries, and each measure's mean over replications.

    `_count` and `_variance` are the number of replications that have the measure and the variance over them.
    """
    replications: pd.Series[int]
    """Number of replications by point, LPPM and attack."""
    extent: Extent = field(default_factory=Extent)
    """Highest query index, and the windows of queries that rows summarize."""
    moments: Moments | None = None
    """Moments over all users, if `users` has a sample of a large population only."""
    batches: pd.DataFrame = field(default_factory=pd.DataFrame)
    """One row per point, LPPM, attack, user and batch of replications, with the means of `OF_BATCHES`: see
    `replication_effect.batches_of`. Empty if `users` has a sample."""
    effects: ReplicationMoments | None = None
    """Moments of the replications of all users, if `users` has a sample of a large population only."""

    @property
    def over_users(self) -> Moments:
        """Moments over all users of the measures, by point, LPPM and attack."""
        return user_moments(self.users) if self.moments is None else self.moments

    @property
    def over_replications(self) -> ReplicationMoments:
        """Moments of the replications of all users, by point, LPPM and attack."""
        if self.effects is not None:
            return self.effects
        return ReplicationMoments.of(deviations(self.batches, SERIES, MEASURES), SERIES, MEASURES)

    @property
    def series(self) -> pd.DataFrame:
        """The distinct points, LPPMs and attacks, sorted."""
        return self.over_users.frame.index.to_frame(index=False)

    @property
    def n_users(self) -> int:
        """Largest number of users of a point, LPPM and attack."""
        return int(self.over_users.frame[UNITS].max())


def user_moments(users: pd.DataFrame) -> Moments:
    """Return the moments over the users of a table of `Totals.users`."""
    return Moments.of(users, SERIES, MEASURES, sums=["queries"])


class TotalsCollector:
    """Collector of `Totals`.

    Up to 100,000 combinations of point, LPPM, attack, user and replication, the means are bitwise those of pandas.
    Beyond that, blocks of replications are merged as they are read (Chan, Golub & LeVeque 1983), which rounds
    differently.
    """

    def __init__(self) -> None:
        self._totals: Totals | None = None
        self._pieces: list[pa.Table] = []
        self._extent = Extent()
        self._limit = COMPACT_ROWS

    def add(self, part: LogPart) -> None:
        """Add a part of the log."""
        rows = part.queries([*SIMULATED, "index", *OF_BATCHES])
        self._extent = self._extent.joined(rows)
        self._pieces.append(sum_rows(rows, SIMULATED, OF_BATCHES))
        if sum(piece.num_rows for piece in self._pieces) > self._limit:
            joined = self._joined_pieces()
            # The limit grows with the retained rows, so that joining never costs more than reading.
            self._totals, self._pieces, self._limit = joined, [], max(COMPACT_ROWS, len(joined.users))

    def totals(self) -> Totals:
        """Return the totals of at least one part."""
        joined = self._joined_pieces() if self._pieces or self._totals is None else self._totals
        return replace(joined, extent=self._extent)

    def _joined_pieces(self) -> Totals:
        sums = merge_sums(self._pieces, SIMULATED, OF_BATCHES)
        return _joined(self._totals, _folded(means_of_sums(sums, SIMULATED, OF_BATCHES)))


def read_totals(run: RunDirectory, parts: Sequence[str] | None = None) -> Totals:
    """Read a log, or some parts of it, once and return the means by user and its extent."""
    parts = run.parts() if parts is None else parts
    require_parts(run, parts)
    collector = TotalsCollector()
    for part in log_parts(run, parts):
        collector.add(part)
    return collector.totals()


def summarize(run: RunDirectory, read: Totals | None = None) -> pd.DataFrame:
    """Return the table of `summary.csv`: one row per point, LPPM and attack.

    `quality_loss_km` and `adversary_error_km` are the realised means, `expected_quality_loss_km` and
    `expected_adversary_error_km` the means expected over the mechanism's noise, NaN where not recorded. (In
    `metrics.csv` the columns `quality_loss_km` and `adversary_error_km` have the expected means where recorded.)

    Each measure has a mean and the limits `_low` and `_high` of a 95 % confidence interval (Student's t). The mean is
    the unweighted mean over users of each user's unweighted mean over replications: users with many queries do not
    weigh more. The interval is over users and replications (`sim.analysis.replication_effect`) if there are at least
    two users; over replications if there is a single user; NaN for one user with one replication. For a single user
    whose expected metrics are the same in every replication, according to the manifest, the interval has width zero.

    `read` has the totals of `read_totals`; if omitted, the log is read.
    """
    return _without_noise(_summary(read or read_totals(run)), run)


def _without_noise(summary: pd.DataFrame, run: RunDirectory) -> pd.DataFrame:
    exact = {(entry.point, entry.lppm) for entry in run.manifest().repetitions if entry.exact}
    keys = zip(summary["point"], summary["lppm"], strict=True)
    rows = np.array([key in exact for key in keys], dtype=bool) & (summary["users"] == 1).to_numpy()
    for name in LOSS_AND_ERROR:
        for end in ("_low", "_high"):
            summary.loc[rows, f"expected_{name}{end}"] = summary.loc[rows, f"expected_{name}"]
    return summary


def summarize_users(users: pd.DataFrame) -> pd.DataFrame:
    """Return the summary from a table of `per_user`."""
    return _summary(_folded(users))


def _summary(read: Totals) -> pd.DataFrame:
    moments = read.over_users
    counts = moments.counts("users", "queries")
    counts.insert(len(SERIES) + 1, "replications", read.replications.to_numpy())
    over_users = moments.intervals(replications=read.over_replications)[counts["users"] > 1]
    # A sample of the users has the only user of a series, whatever its size.
    alone = read.users.groupby(SERIES)["user"].transform("size") == 1
    units = pd.concat([over_users, _over_replications(read.users[alone])], ignore_index=True)
    return counts.merge(units, on=SERIES, validate="one_to_one")


def _over_replications(users: pd.DataFrame) -> pd.DataFrame:
    """Return each user's means with confidence intervals over their replications."""
    columns = {name: users[name] for name in SERIES}
    for name in MEASURES:
        half = half_width(users[f"{name}_variance"] ** 0.5, users[f"{name}_count"])
        columns |= {name: users[name], f"{name}_low": users[name] - half, f"{name}_high": users[name] + half}
    return pd.DataFrame(columns)


def _folded(users: pd.DataFrame) -> Totals:
    """Average a table of `per_user` over replications."""
    groups = users.groupby([*SERIES, "user"], sort=True)
    columns: dict[str, pd.Series[Any]] = {"queries": groups["queries"].sum()}
    for name in MEASURES:
        own = groups[name]
        columns |= {name: own.mean(), f"{name}_count": own.count(), f"{name}_variance": own.var(ddof=1)}
    batches = batches_of(users, SERIES, [name for name in OF_BATCHES if name in users])
    replications = users.groupby(SERIES)["replication"].nunique()
    return Totals(pd.DataFrame(columns).reset_index(), replications, batches=batches)


def _joined(one: Totals | None, other: Totals) -> Totals:
    """Merge the totals of different parts; no replication is in both, because parts hold complete simulations."""
    if one is None:
        return other
    ours, theirs = (read.users.set_index([*SERIES, "user"]) for read in (one, other))
    index = ours.index.union(theirs.index)
    ours, theirs = ours.reindex(index), theirs.reindex(index)
    columns = {"queries": (ours["queries"].fillna(0) + theirs["queries"].fillna(0)).astype(np.int64)}
    for name in MEASURES:
        columns |= merge_columns(ours, theirs, name)
    replications = one.replications.add(other.replications, fill_value=0).astype(np.int64)
    batches = batches_of(pd.concat([one.batches, other.batches], ignore_index=True), SERIES, OF_BATCHES)
    return Totals(pd.DataFrame(columns).reset_index(), replications, batches=batches)


def tradeoff(run: RunDirectory, read: Totals | None = None) -> pd.DataFrame:
    """Return the summary with a column for each swept parameter, NaN where it does not affect an LPPM.

    A swept parameter whose name is also a column of the summary, such as `replications`, gets the suffix `_swept`.
    """
    return with_swept_values(summarize(run, read), run.read_csv("points.csv"))
