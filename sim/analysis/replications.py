"""Means and variances over replications: their precision, and the variance reduction by expected metrics."""

from __future__ import annotations

import numpy as np
import pandas as pd

from sim.analysis.event_log import SERIES
from sim.analysis.moments import Moments, half_width
from sim.analysis.summary import LOSS_AND_ERROR, preferred

_NO_VARIANCE_KM2 = 1e-24


def replication_means(users: pd.DataFrame | Moments) -> pd.DataFrame:
    """Return Q-bar and P_AE of each replication: the mean over users of each user's mean.

    `users` is a table of `per_user`, or its moments (`replication_moments`), which can be merged between blocks of
    users. Columns: point, lppm, attack, replication, quality_loss_km, adversary_error_km. Expected metrics are used
    where recorded.
    """
    moments = replication_moments(users) if isinstance(users, pd.DataFrame) else users
    return moments.frame[list(LOSS_AND_ERROR)].reset_index()


def replication_moments(users: pd.DataFrame) -> Moments:
    """Return the moments over users of loss and error in each replication; `users` is a table of `per_user`."""
    keys = [*SERIES, "replication"]
    best = users[[*keys, "user"]].assign(**{name: preferred(users, name) for name in LOSS_AND_ERROR})
    return Moments.of(best, keys, LOSS_AND_ERROR)


def replication_half_widths(means: pd.DataFrame) -> pd.DataFrame:
    """Return the half-width of the 95 % confidence interval over replications of each mean.

    `means` is a table of `replication_means`. The interval holds for the simulated users; unlike that of `summarize`,
    it does not cover the sampling of users. Columns: point, lppm, attack, quality_loss_km, adversary_error_km; NaN
    where a metric has no value.
    """
    groups = means.groupby(SERIES, sort=True)
    halves = {name: half_width(groups[name].std(ddof=1), groups[name].count()) for name in LOSS_AND_ERROR}
    return pd.DataFrame(halves).reset_index()


def variance_ratio(users: pd.DataFrame) -> pd.DataFrame:
    """Return the factor by which expected metrics reduce the number of replications, compared with sampled ones.

    `users` is a table of `per_user`. The interval of a mean over n replications is proportional to sqrt(variance / n).
    `ratio`, the variance over replications of the sampled mean over users divided by that of the expected mean, is
    therefore the ratio of the replications needed for the same interval. Users are independent, so each variance is the
    sum of the users' variances divided by the squared number of users, which is much more precise than the variance of
    a few replication means. `removed_share` is the variance of the difference sampled - expected (the noise of the
    current report) divided by the sampled variance. Other randomness of a replication, such as new movements, affects
    both metrics and keeps the ratio near 1.

    Columns: point, lppm, attack, metric, users, replications, sampled_km2, expected_km2, ratio (infinite if the
    expected metric is exact), removed_share. Series with one replication or without expected metrics are excluded.
    """
    frames = []
    for name in LOSS_AND_ERROR:
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
        frame.insert(len(SERIES), "metric", name)
        frame.insert(len(SERIES) + 1, "users", number.to_numpy())
        frame.insert(len(SERIES) + 2, "replications", groups["replications"].max().to_numpy())
        frames.append(frame)
    table = pd.concat(frames, ignore_index=True).sort_values([*SERIES, "metric"], ignore_index=True)
    noise, rest = (table[name].where(table[name] > _NO_VARIANCE_KM2, 0.0) for name in ("sampled_km2", "expected_km2"))
    with np.errstate(divide="ignore", invalid="ignore"):
        table["ratio"] = noise.to_numpy() / rest.to_numpy()
        table["removed_share"] = table.pop("removed_km2").to_numpy() / noise.to_numpy()
    return table
