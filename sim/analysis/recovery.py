"""Efficiency before and after a shift and the time to recover, computed from sums by user and query."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.shift_sums import AddedMetrics
from sim.analysis.statistics import ENDS, are_few, mean_interval, ratio_of_means
from sim.interfaces import FloatArray, IntArray

_ROUNDING = 1e-9


class Recovery:
    """Efficiency and recovery of one LPPM under one attack; see `sim.analysis.adaptation.adaptation`."""

    def __init__(self, added: AddedMetrics, *, before: int, window: int, step: int, recovered: float) -> None:
        self._before, self._window, self._recovered = before, window, recovered
        sums = np.pad(added.sums, ((0, 0), (0, 0), (1, max(before - added.sums.shape[2], 0))))
        counted = sums[2] > 0
        length = counted.shape[1] - counted[:, ::-1].argmax(axis=1) - 1 - before
        until = sums.cumsum(axis=2)
        known = (until[0, :, before] > _ROUNDING) & (until[1, :, before] > _ROUNDING) & (length >= window)
        self._left_out = int((~known).sum())
        self._names = [name for name, is_known in zip(added.rows, known.tolist(), strict=True) if is_known]
        self._error, self._loss = until[0, known], until[1, known]
        """Cumulative sums up to each query; column `before` is the last query before the shift. Shape (users,
        queries + 1)."""
        self._length: IntArray = length[known]
        """Number of queries of each user after the shift."""
        first = np.maximum(counted[known].argmax(axis=1) - step, 0)
        last = int(self._length.max(initial=window))
        earlier, later = (np.arange(start, stop + 1, step) for start, stop in ((0, before - window), (window, last)))
        self._ends: IntArray = np.concatenate([-earlier[::-1], later])
        """Index of the last query of each window, relative to the shift."""
        over, under = self._between(self._ends - window, self._ends)
        whole = (before + self._ends - window >= first[:, None]) & (self._ends <= self._length[:, None])
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

    def time_series_of_few(self) -> pd.DataFrame:
        """Return the time series of each user if users are too few for an interval; otherwise no rows."""
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
        """Return the row of `Adaptation.summary`."""
        users, after = self.users, self.time_series[self.time_series["queries_after"] > 0].dropna(subset="efficiency")
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
            row |= mean_interval(users[name], name)
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
        return {f"{name}{end}": float(value[0]) for end, value in zip(ENDS, ends, strict=True)}


def _divided(over: Any, under: Any) -> FloatArray:
    """Return the ratios; NaN where the loss is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(under > _ROUNDING, over / under, np.nan)
