"""Trade-off curves of single users: error and further metrics over the quality loss, read off at one loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.replication_effect import BATCH, WEIGHT, deviations
from sim.analysis.summary import preferred
from sim.interfaces import FloatArray, IntArray
from sim.storage.event_schema import POSTERIOR_ENTROPY_BITS, PRIOR_ERROR_KM

SAME_LOSS_KM = 1e-9
SMOOTHED_ERROR_KM, ENTROPY_BITS = "smoothed_error_km", "entropy_bits"
BESIDE = (SMOOTHED_ERROR_KM, ENTROPY_BITS)
"""Metrics that stand beside the adversary error: the error after smoothing and the entropy of the posterior."""
ON_CURVE, AT_LARGEST, AT_SMALLEST = 0, 1, -1


@dataclass(frozen=True, slots=True)
class Reading:
    """Values of a user's curve at one loss."""

    error: float
    place: int
    """`ON_CURVE`, or the end of the curve that is used: `AT_LARGEST` if it lies below the loss, else `AT_SMALLEST`."""
    beside: FloatArray
    """The metrics `BESIDE`; NaN if not recorded."""
    deviations: FloatArray
    """Deviation of the error in each batch of replications, to first order, shape (n_batches,)."""


@dataclass(frozen=True, slots=True)
class UserCurve:
    """A user's sweep points with one mechanism under one attack, by distinct losses in ascending order."""

    losses: FloatArray
    values: FloatArray
    """Error and the metrics `BESIDE` at each loss, shape (n_losses, 3)."""
    loss_deviations: FloatArray
    """Deviations of the losses by batch of replications, shape (n_losses, n_batches)."""
    error_deviations: FloatArray

    def at(self, loss: float) -> Reading:
        """Return the values at a loss: interpolated linearly, or those of the nearer end outside the curve.

        With t = (Q - l_i) / (l_j - l_i) the error is (1 - t) e_i + t e_j. Its deviation in a batch follows from those
        of losses and errors by the chain rule, with the slope s = (e_j - e_i) / (l_j - l_i):
        (1 - t) (de_i - s dl_i) + t (de_j - s dl_j).
        """
        losses = self.losses
        if loss > losses[-1] + SAME_LOSS_KM:
            return self._end(-1, AT_LARGEST)
        if loss < losses[0] - SAME_LOSS_KM:
            return self._end(0, AT_SMALLEST)
        if len(losses) == 1:
            return self._end(0, ON_CURVE)
        j = int(np.clip(np.searchsorted(losses, loss), 1, len(losses) - 1))
        width = losses[j] - losses[j - 1]
        t = float(np.clip((loss - losses[j - 1]) / width, 0.0, 1.0))
        ends = np.array([1 - t, t])
        slope = (self.values[j, 0] - self.values[j - 1, 0]) / width
        apart = self.error_deviations[j - 1 : j + 1] - slope * self.loss_deviations[j - 1 : j + 1]
        # A weight of zero must not turn a missing metric into NaN.
        read = self.values[j] if t == 1 else self.values[j - 1] if t == 0 else ends @ self.values[j - 1 : j + 1]
        return Reading(float(read[0]), ON_CURVE, read[1:], ends @ apart)

    def _end(self, number: int, place: int) -> Reading:
        values = self.values[number]
        return Reading(float(values[0]), place, values[1:], self.error_deviations[number])


Curves = dict[str, dict[str, UserCurve]]
"""Curves by mechanism and user."""


@dataclass(frozen=True, slots=True)
class AttackCurves:
    """Curves of a block of users under one attack, and P0 of each user."""

    curves: Curves
    priors: Mapping[str, float]
    """P0 in km by user; absent or NaN if unknown."""

    @property
    def users(self) -> list[str]:
        """The users with a curve of every mechanism, sorted."""
        return sorted(set.intersection(*map(set, self.curves.values()))) if self.curves else []

    def users_at(self, loss: float) -> list[str]:
        """Return the users who are compared at a loss: those with P0 >= loss, and those whose P0 is unknown.

        This does not depend on the mechanisms. P0 is the error of an adversary without any report, so a user gains
        nothing from a larger loss.
        """
        return [user for user in self.users if self.is_compared(user, loss)]

    def is_compared(self, user: str, loss: float) -> bool:
        """Return whether P0 of a user is at least the loss, or unknown."""
        return not self.priors.get(user, np.nan) < loss - SAME_LOSS_KM

    def read(self, loss: float) -> Readings:
        """Return the values of the compared users at a loss."""
        users = self.users_at(loss)
        own = {lppm: [of_user[user].at(loss) for user in users] for lppm, of_user in self.curves.items()}
        index = pd.Index(users, name="user")
        values = {
            name: pd.DataFrame({lppm: [take(one) for one in read] for lppm, read in own.items()}, index, dtype=float)
            for name, take in _VALUES.items()
        }
        apart = {lppm: np.concatenate([one.deviations for one in read]) for lppm, read in own.items() if read}
        batches = len(next(iter(apart.values()))) // len(users) if apart else 0
        keys = pd.MultiIndex.from_product([users, range(batches)], names=["user", BATCH])
        return Readings(**values, deviations=pd.DataFrame(apart, keys, columns=list(own), dtype=float))


@dataclass(frozen=True, slots=True, kw_only=True)
class Readings:
    """Values of the compared users (rows) at one loss, by mechanism (columns)."""

    errors: pd.DataFrame
    places: pd.DataFrame
    smoothed_error_km: pd.DataFrame
    entropy_bits: pd.DataFrame
    deviations: pd.DataFrame
    """Deviations of the errors by user and batch of replications."""


_VALUES: dict[str, Callable[[Reading], float]] = {
    "errors": lambda reading: reading.error,
    "places": lambda reading: reading.place,
    SMOOTHED_ERROR_KM: lambda reading: reading.beside[0],
    ENTROPY_BITS: lambda reading: reading.beside[1],
}


def user_curves(rows: pd.DataFrame, lppms: Sequence[str]) -> Curves:
    """Return the curves of some mechanisms under one attack.

    `rows` are rows of `Totals.batches`, or of a table of `per_user`, under this attack. Expected metrics are used where
    recorded. Points without loss or error are excluded.
    """
    table = rows[["lppm", "user", "point", BATCH]].assign(
        **{WEIGHT: rows.get(WEIGHT, 1)},
        loss=preferred(rows, "quality_loss_km"),
        error=preferred(rows, "adversary_error_km"),
        smoothed=rows.get(SMOOTHED_ERROR_KM, np.nan),
        entropy=rows.get(POSTERIOR_ENTROPY_BITS, np.nan),
    )
    table = table[table["lppm"].isin(lppms)].dropna(subset=["loss", "error"]).reset_index(drop=True)
    apart = deviations(table, ["lppm", "point"], ["loss", "error"], batches=table[BATCH].nunique())[["loss", "error"]]
    columns, moved = table[[WEIGHT, "loss", "error", "smoothed", "entropy"]].to_numpy(float), apart.to_numpy(float)
    names, batches = np.unique(table[BATCH], return_inverse=True)
    points = table["point"].to_numpy()
    curves: Curves = {lppm: {} for lppm in lppms}
    groups: dict[Any, Any] = dict(table.groupby(["lppm", "user"], sort=True).indices)
    for (lppm, user), place in groups.items():
        own = _curve(points[place], columns[place], moved[place], batches[place], n=len(names))
        curves[str(lppm)][str(user)] = own
    return curves


def _curve(points: IntArray, columns: FloatArray, apart: FloatArray, batches: IntArray, *, n: int) -> UserCurve:
    """Return the curve of one user from rows by point and batch."""
    _, of_point = np.unique(points, return_inverse=True)
    weight, values = columns[:, 0], columns[:, 1:]
    total = np.bincount(of_point, weight)
    means = np.stack([np.bincount(of_point, weight * own) / total for own in values.T], axis=1)
    by_batch = np.zeros((2, len(total), n))
    by_batch[:, of_point, batches] = apart.T
    losses, of_loss, counts = np.unique(means[:, 0], return_inverse=True, return_counts=True)
    average = (of_loss == np.arange(len(losses))[:, None]) / counts[:, None]
    return UserCurve(losses, average @ means[:, 1:], average @ by_batch[0], average @ by_batch[1])


def prior_errors(rows: pd.DataFrame) -> dict[str, float]:
    """Return P0 of each user: the mean over all simulated replications, whatever the mechanism; NaN if unknown.

    `rows` are as in `user_curves`. P0 does not depend on the mechanism, but mechanisms may have different numbers of
    replications: the value is that of the largest number.
    """
    if PRIOR_ERROR_KM not in rows:
        return {}
    keys = ["user", "lppm", "point"]
    weight = rows.get(WEIGHT, pd.Series(1, index=rows.index))
    table = rows[keys].assign(weight=weight, total=weight * rows[PRIOR_ERROR_KM])
    sums = table.groupby(keys, sort=True)[["weight", "total"]].sum(min_count=1).reset_index()
    sums["error"] = sums["total"] / sums["weight"]
    first = sums.sort_values(["weight", "error"], ascending=[False, True], kind="stable").drop_duplicates("user")
    return dict(zip(first["user"].astype(str), first["error"].astype(float), strict=True))
