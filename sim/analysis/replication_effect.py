"""Replications in the variance of a mean over users: users and replications are crossed random effects.

Model: the value of user u in replication r is x_ur = mu + A_u + B_r + e_ur, with independent effects of users (A), of
replications that all users share (B), and of both (e). A mean over n users and R replications has the variance
var(A)/n + var(B)/R + var(e)/(nR). The variance of the users' means over n contains the first and the last term, and
misses the middle one. With the mean squares of the two-way analysis of variance (Searle, Casella & McCulloch 1992,
ch. 4), MS_A = R var(users' means), MS_B of replications and MS_E of the rest,

    V = (MS_A + max(MS_B - MS_E, 0)) / (nR),

with degrees of freedom by Satterthwaite (1946), at least min(n, R) - 1: the difference of mean squares would otherwise
give fewer than one by chance. Without a common effect, or with one replication, V is the variance of
the users' means over n, and the interval is Student's t with n - 1 degrees of freedom.

MS_B and MS_E follow from the deviations of a user's replications from the user's mean; sums of these can be merged
between blocks of users. More than `MOST_BATCHES` replications are combined into as many batches, to which the same
model applies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from sim.interfaces import FloatArray

MOST_BATCHES = 32
"""Largest number of batches of replications; memory of an analysis grows with users times batches."""
BATCH = "replication"
"""Column of the number of a batch: the replication modulo `MOST_BATCHES`."""
WEIGHT = "weight"
"""Column of the number of replications in a batch."""
CONFIDENCE = 0.95


def standard_error(
    variance: FloatArray, users: FloatArray, of_batches: FloatArray, of_rest: FloatArray, batches: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the standard error of a mean over users and batches, and its degrees of freedom; NaN for one user.

    `variance` is that of the users' means, `of_batches` and `of_rest` are MS_B and MS_E. The arguments have one shape.
    """
    n, b = np.maximum(users, 2), np.maximum(batches, 1)
    common = (b > 1) & (of_batches > of_rest)
    ms_b, ms_e = (np.where(common, square, 0.0) for square in (of_batches, of_rest))
    ms_a = b * variance
    with np.errstate(divide="ignore", invalid="ignore"):
        total = ms_a + ms_b - ms_e
        spread = ms_a**2 / (n - 1) + ms_b**2 / np.maximum(b - 1, 1) + ms_e**2 / ((n - 1) * np.maximum(b - 1, 1))
        freedom = np.maximum(total**2 / spread, np.minimum(n, b) - 1)
        freedom = np.where(common, freedom, n - 1)
        error = np.sqrt(np.where(common, total / b, variance)) / np.sqrt(n)
    return np.where(users > 1, error, np.nan), np.where(users > 1, freedom, np.nan)


def half_width(
    variance: FloatArray, users: FloatArray, of_batches: FloatArray, of_rest: FloatArray, batches: FloatArray
) -> FloatArray:
    """Return the half-width of the 95 % interval of a mean over users and batches; NaN for fewer than two users.

    The arguments are those of `standard_error`.

    >>> one = np.ones(1)
    >>> half_width(one, 9 * one, 0 * one, one, 4 * one).round(3).tolist()
    [0.769]
    """
    error, freedom = standard_error(variance, users, of_batches, of_rest, batches)
    half: FloatArray = error * stdtrit(freedom, (1 + CONFIDENCE) / 2)
    return half


def deviations(
    table: pd.DataFrame, keys: Sequence[str], names: Sequence[str], *, batches: int | None = None
) -> pd.DataFrame:
    """Return the weighted deviations of each user's batches from the user's mean, B w_b / W (x_ub - mean_u).

    `table` has one row per group (`keys`), user and batch, with the number of its replications (`WEIGHT`). B is the
    number of `batches` (default: that of the group). With equal weights w the deviations are x_ub - mean_u; their mean
    over batches is always zero. A user without some batch has no row for it. Columns: keys, `BATCH`, names.
    """
    by_user = [table[name] for name in (*keys, "user")]
    number = table.groupby(list(keys))[BATCH].transform("nunique") if batches is None else batches
    columns = {}
    for name in names:
        values = table[name].astype(float)
        weight = table[WEIGHT].where(values.notna()).astype(float)
        total = weight.groupby(by_user).transform("sum")
        mean = (values * weight).groupby(by_user).transform("sum") / total
        columns[name] = (values - mean) * weight * (number / total)
    return pd.concat([table[[*keys, BATCH]], pd.DataFrame(columns, index=table.index)], axis=1)


@dataclass(frozen=True, slots=True)
class ReplicationMoments:
    """Sums over users of the deviations of batches, and of their squares, by group and name."""

    sums: pd.DataFrame
    """Sums of the deviations, indexed by the keys and the batch; one column per name."""
    squares: pd.DataFrame
    """Sums of the squared deviations over users and batches, indexed by the keys; one column per name."""

    @classmethod
    def of(cls, deviations: pd.DataFrame, keys: Sequence[str], names: Sequence[str]) -> ReplicationMoments:
        """Return the moments of a table with the columns `keys`, `BATCH` and `names`."""
        sums = deviations.groupby([*keys, BATCH], sort=True)[list(names)].sum(min_count=1)
        squares = (deviations[list(names)] ** 2).groupby([deviations[key] for key in keys], sort=True).sum()
        return cls(sums, squares)

    def merged(self, other: ReplicationMoments) -> ReplicationMoments:
        """Return the moments over the users of both, which have no user in common."""
        return ReplicationMoments(
            self.sums.add(other.sums, fill_value=0), self.squares.add(other.squares, fill_value=0)
        )

    def half_widths(self, variances: pd.DataFrame, counts: pd.DataFrame) -> pd.DataFrame:
        """Return the half-widths of the 95 % intervals of means over users and replications.

        `variances` of the users' means and `counts` of users are indexed by the keys, with one column per name.
        """
        error, freedom = self.standard_errors(variances, counts)
        return error * stdtrit(freedom, (1 + CONFIDENCE) / 2)

    def standard_errors(self, variances: pd.DataFrame, counts: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return the standard errors of means over users and replications, and their degrees of freedom.

        The arguments are those of `half_widths`.
        """
        names, keys = list(variances.columns), list(range(self.sums.index.nlevels - 1))
        by_key = self.sums[names].groupby(level=keys, sort=True)
        batches = by_key.count().reindex(variances.index).fillna(0)
        users = counts[names].to_numpy(float)
        n, b = np.maximum(users, 2), np.maximum(batches.to_numpy(float), 2)
        between = (self.sums[names] ** 2).groupby(level=keys, sort=True).sum().reindex(variances.index).to_numpy() / n
        rest = np.maximum(self.squares[names].reindex(variances.index).to_numpy() - between, 0.0)
        error, freedom = standard_error(
            variances.to_numpy(float), users, between / (b - 1), rest / ((n - 1) * (b - 1)), batches.to_numpy(float)
        )
        index, columns = variances.index, variances.columns
        return pd.DataFrame(error, index, columns), pd.DataFrame(freedom, index, columns)


def batches_of(replications: pd.DataFrame, keys: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """Return the means of each user over the replications of a batch, and their number (`WEIGHT`).

    `replications` has one row per group (`keys`), user and replication, or is a concatenation of results of this
    function. Columns: keys, user, `BATCH`, `WEIGHT`, names.
    """
    columns = [*keys, "user", BATCH]
    replications = replications.reset_index(drop=True)
    rows = replications[columns].assign(**{BATCH: replications[BATCH] % MOST_BATCHES})
    rows[WEIGHT] = replications.get(WEIGHT, 1)
    rows = rows.join(replications[list(names)])
    if rows.duplicated(columns).any():
        weighted = rows[columns].join(rows[list(names)].mul(rows[WEIGHT], axis=0))
        known = rows[columns].join(rows[list(names)].notna().mul(rows[WEIGHT], axis=0))
        groups = [frame.groupby(columns)[list(names)] for frame in (weighted, known)]
        means = groups[0].sum(min_count=1) / groups[1].sum()
        rows = rows.groupby(columns)[[WEIGHT]].sum().join(means).reset_index()
    return rows.sort_values(columns, kind="stable", ignore_index=True)
