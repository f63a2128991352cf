"""Efficiency before and after a shift and the time to recover, computed from sums by user and query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.shift_sums import AddedMetrics
from sim.analysis.statistics import ENDS, are_few, mean_interval, ratio_of_means
from sim.interfaces import FloatArray, IntArray

ROUNDING = 1e-9
"""Smallest loss in km that is not a rounding error, and the relative tolerance of levels."""
OVER_USERS = ("queries_to_recover", "queries_lost", "quality_loss_before_km", "quality_loss_after_km")
"""Metrics whose mean over users is in the summary."""


class Recovery:
    """Efficiency and recovery of one LPPM under one attack; see `sim.analysis.adaptation.adaptation`."""

    def __init__(self, added: AddedMetrics, *, before: int, window: int, step: int, recovered: float) -> None:
        self._before, self._window, self._recovered = before, window, recovered
        sums = np.pad(added.sums, ((0, 0), (0, 0), (1, max(before - added.sums.shape[2], 0))))
        counted = sums[2] > 0
        length = counted.shape[1] - counted[:, ::-1].argmax(axis=1) - 1 - before
        until = sums.cumsum(axis=2)
        known = (until[0, :, before] > ROUNDING) & (until[1, :, before] > ROUNDING) & (length >= window)
        self.left_out = int((~known).sum())
        """Number of users with too few queries or without any loss before the shift."""
        self._names = [name for name, is_known in zip(added.rows, known.tolist(), strict=True) if is_known]
        self._error, self._loss = until[0, known], until[1, known]
        """Cumulative sums up to each query; column `before` is the last query before the shift. Shape (users,
        queries + 1)."""
        self._count = until[2, known]
        """Number of queries of all replications up to each query."""
        self._length: IntArray = length[known]
        """Number of queries of each user after the shift."""
        first = np.maximum(counted[known].argmax(axis=1) - step, 0)
        last = int(self._length.max(initial=window))
        earlier, later = (np.arange(start, stop + 1, step) for start, stop in ((0, before - window), (window, last)))
        self.ends: IntArray = np.concatenate([-earlier[::-1], later])
        """Index of the last query of each window, relative to the shift."""
        over, under = self._between(self.ends - window, self.ends)
        whole = (before + self.ends - window >= first[:, None]) & (self.ends <= self._length[:, None])
        self._over, self._under = np.where(whole, over, np.nan), np.where(whole, under, np.nan)
        self.users = self._of_users()
        self.time_series = self._of_all()

    def _between(self, start: IntArray, end: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return each user's summed errors and losses of the queries in (start, end], relative to the shift."""
        last = self._error.shape[1] - 1
        columns = [np.minimum(self._before + at, last) for at in (start, end)]
        return (
            self._error[:, columns[1]] - self._error[:, columns[0]],
            self._loss[:, columns[1]] - self._loss[:, columns[0]],
        )

    def _of_users(self) -> pd.DataFrame:
        after = self.ends > 0
        ends, efficiency = self.ends[after], _divided(self._over[:, after], self._under[:, after])
        error_before, loss_before = self._error[:, self._before], self._loss[:, self._before]
        before = error_before / loss_before
        reached = efficiency >= self._recovered * before[:, None] * (1 - ROUNDING)
        censored = ~reached.any(axis=1)
        taken = np.where(censored, self._length, ends[reached.argmax(axis=1)])
        rows = np.arange(len(before))
        at_start = self._count[:, self._before]
        lost_after, queries_after = self._loss[:, -1] - loss_before, self._count[:, -1] - at_start
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
                "quality_loss_before_km": loss_before / at_start,
                "quality_loss_after_km": lost_after / queries_after,
                "queries_lost": taken * np.maximum(1 - _divided(stretch[0], stretch[1]) / before, 0),
            }
        )

    def _of_all(self) -> pd.DataFrame:
        users = (~np.isnan(self._over)).sum(axis=0)
        enough = 2 * users >= max(len(self._names), 1)
        ratio, low, high = ratio_of_means(self._over[:, enough], self._under[:, enough])
        return pd.DataFrame(
            {
                "queries_after": self.ends[enough],
                "users": users[enough],
                "efficiency": ratio,
                "efficiency_low": low,
                "efficiency_high": high,
            }
        )

    def sums_before(self) -> tuple[FloatArray, FloatArray]:
        """Return each user's summed errors and losses before the shift."""
        return self._error[:, self._before], self._loss[:, self._before]

    def sums_by_window(self) -> tuple[FloatArray, FloatArray]:
        """Return each user's summed errors and losses in each window; NaN where a window is not complete."""
        return self._over, self._under

    def sums_of_last_window(self) -> tuple[FloatArray, FloatArray]:
        """Return each user's summed errors and losses in their last window."""
        rows, last = np.arange(len(self._names)), np.searchsorted(self.ends, self._length, side="right") - 1
        return self._over[rows, last], self._under[rows, last]

    def sums_since_shift(self) -> FloatArray:
        """Return the errors and losses of all users from the shift to the end of each window, and to the last query.

        Windows before the shift have 0. Shape (2, windows + 1).
        """
        ends = np.append(np.maximum(self.ends, 0), self._error.shape[1])
        error, loss = self._between(np.zeros_like(ends), ends)
        return np.stack([error.sum(axis=0), loss.sum(axis=0)])

    def user_time_series(self) -> pd.DataFrame:
        """Return the efficiency of each user by window."""
        return self._series_of(self._names, _divided(self._over, self._under))

    def time_series_of_few(self) -> pd.DataFrame:
        """Return the time series of each user if users are too few for an interval; otherwise no rows."""
        if are_few(len(self._names)):
            return self.user_time_series()
        return self._series_of([], np.empty((0, len(self.ends))))

    def _series_of(self, names: Sequence[str], efficiency: FloatArray) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "user": pd.Series(names, dtype=object).repeat(len(self.ends)).to_numpy(),
                "queries_after": np.tile(self.ends, len(names)),
                "efficiency": efficiency.ravel(),
            }
        ).dropna(subset="efficiency", ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Return the row of `Adaptation.summary`."""
        users, after = self.users, self.time_series[self.time_series["queries_after"] > 0].dropna(subset="efficiency")
        row: dict[str, Any] = {
            "users": len(users),
            "left_out": self.left_out,
            "censored": int(users["censored"].sum()),
        }
        row |= _pooled("efficiency_before", *self.sums_before())
        row |= {"efficiency_lowest": after["efficiency"].min()}
        row |= _pooled("efficiency_end", *self.sums_of_last_window())
        for name in OVER_USERS:
            row |= mean_interval(users[name], name)
        row["queries_to_recover_median"] = users["queries_to_recover"].median()
        row |= pooled_recovery(after, row["efficiency_before"], self._recovered, self._since)
        return pd.DataFrame([row])

    def _since(self, taken: int) -> tuple[float, float]:
        error, loss = self._between(np.array([0]), np.array([taken]))
        return error.sum(), loss.sum()


def pooled_recovery(
    after: pd.DataFrame, efficiency_before: float, recovered: float, since: Callable[[int], tuple[float, float]]
) -> dict[str, Any]:
    """Return the queries to recover and the queries lost of the time series pooled over users.

    `after` has the windows after the shift; `since(r)` returns the summed errors and losses of the r queries after it.
    """
    level = recovered * efficiency_before * (1 - ROUNDING)
    reached = after.loc[after["efficiency"] >= level, "queries_after"]
    taken = reached.min() if len(reached) else after["queries_after"].max()
    row: dict[str, Any] = {
        "pooled_queries_to_recover": float(taken),
        "pooled_censored": not len(reached),
        "pooled_queries_lost": np.nan,
    }
    if len(after):
        efficiency = float(_divided(*since(taken)))
        row["pooled_queries_lost"] = float(taken) * max(1 - efficiency / efficiency_before, 0)
    return row


def _pooled(name: str, errors: FloatArray, losses: FloatArray) -> dict[str, float]:
    ends = ratio_of_means(errors[:, None], losses[:, None])
    return {f"{name}{end}": float(value[0]) for end, value in zip(ENDS, ends, strict=True)}


def _divided(over: Any, under: Any) -> FloatArray:
    """Return the ratios; NaN where the loss is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(under > ROUNDING, over / under, np.nan)
