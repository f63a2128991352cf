"""Curves of the adversary error over the quality loss, interpolated per user."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sim.analysis.replication_effect import WEIGHT
from sim.analysis.summary import preferred
from sim.interfaces import FloatArray

_SAME_LOSS_KM = 1e-9


def loss_curves(users: pd.DataFrame, at_km: Sequence[float] | FloatArray) -> pd.DataFrame:
    """Return the adversary error as a function of the quality loss, for each LPPM and attack.

    For each user, the sweep points, averaged over replications, are sorted by loss; the error is interpolated linearly
    at the losses `at_km`, then averaged over users. Values are not extrapolated: a user counts only within the range of
    losses they attain, and the column `users` has the number of users who do. Expected metrics are used where recorded.

    `users` is a table of `per_user`. Columns: lppm, attack, quality_loss_km, users, mean_km, min_km, max_km.
    """
    at = np.asarray(at_km, dtype=float)
    points = user_points(users)
    frames = []
    for (lppm, attack), group in points.groupby(["lppm", "attack"], sort=True):
        errors = np.array([interpolate(own, at) for _, own in group.groupby("user", sort=True)])
        frames.append(_over_users(errors, at).assign(lppm=str(lppm), attack=str(attack)))
    columns = ["lppm", "attack", "quality_loss_km", "users", "mean_km", "min_km", "max_km"]
    return pd.concat(frames, ignore_index=True)[columns] if frames else pd.DataFrame(columns=columns)


def user_points(users: pd.DataFrame) -> pd.DataFrame:
    """Return each user's loss and error at each sweep point, averaged over replications.

    `users` is a table of `per_user`, or `Totals.users` or `Totals.batches`, which are averages over replications.

    Columns: lppm, attack, user, point, loss, error, in km. Expected metrics are used where recorded.
    """
    keys = ["lppm", "attack", "user", "point"]
    best = users[keys].assign(loss=preferred(users, "quality_loss_km"), error=preferred(users, "adversary_error_km"))
    if WEIGHT not in users or (users[WEIGHT] == 1).all():
        return best.groupby(keys, as_index=False, sort=True)[["loss", "error"]].mean().dropna()
    values = best[["loss", "error"]]
    sums = best[keys].join(
        values.mul(users[WEIGHT], axis=0).join(values.notna().mul(users[WEIGHT], axis=0), rsuffix="_n")
    )
    totals = sums.groupby(keys, as_index=False, sort=True).sum()
    means = {name: totals[name] / totals[f"{name}_n"].where(totals[f"{name}_n"] > 0) for name in ("loss", "error")}
    return totals[keys].assign(**means).dropna()


def curve_of_user(own: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return the sorted distinct losses of one user's points, and the mean error at each."""
    line = own.groupby("loss", sort=True)["error"].mean()
    return line.index.to_numpy(dtype=float), line.to_numpy(dtype=float)


def interpolate(own: pd.DataFrame, at: FloatArray) -> FloatArray:
    """Interpolate one user's error at the losses `at`; NaN outside the range of the user's losses."""
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
