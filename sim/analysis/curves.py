"""Curves of the adversary's error over the quality loss, and the losses at which mechanisms are compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sim.analysis.summary import preferred
from sim.interfaces import FloatArray

_SAME_LOSS_KM = 1e-9


def loss_curves(users: pd.DataFrame, at_km: Sequence[float] | FloatArray) -> pd.DataFrame:
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

    Takes a table of `per_user`, or the users of `read_totals`, which are averaged already.

    Columns: lppm, attack, user, point, loss, error. Expected figures are used where the log has them.
    """
    keys = ["lppm", "attack", "user", "point"]
    best = users[keys].assign(loss=preferred(users, "quality_loss_km"), error=preferred(users, "adversary_error_km"))
    return best.groupby(keys, as_index=False, sort=True)[["loss", "error"]].mean().dropna()


def curve_of_user(own: pd.DataFrame) -> tuple[FloatArray, FloatArray]:
    """Return the losses of one user's points, sorted and each once, and the errors at them."""
    line = own.groupby("loss", sort=True)["error"].mean()
    return line.index.to_numpy(dtype=float), line.to_numpy(dtype=float)


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
