"""Efficiency around a shift and recovery times, merged from blocks of users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sim.analysis.moments import Moments, RatioMoments, add_moments
from sim.analysis.quantiles import counted_quantile
from sim.analysis.recovery import OVER_USERS, Recovery, pooled_recovery
from sim.analysis.statistics import ENDS, FEWEST_USERS, are_few
from sim.interfaces import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class RecoveryMoments:
    """Mergeable form of a `Recovery`: moments over its users, and sums over the queries of all users."""

    left_out: int
    censored: int
    before: RatioMoments
    """Summed errors and losses before the shift, one column."""
    end: RatioMoments
    """Summed errors and losses of each user's last window, one column."""
    windows: RatioMoments
    """Summed errors and losses of each window, a column for each of `ends`."""
    ends: IntArray
    """Index of the last query of each window, relative to the shift."""
    since: FloatArray
    """Errors and losses of all users from the shift to each of `ends`, 0 for windows before it, and to the last query.
    Shape (2, windows + 1)."""
    times: Moments
    """Moments of `OVER_USERS`, in one group."""
    counts: pd.Series[int]
    """Number of users by `queries_to_recover`."""
    few: pd.DataFrame
    """Time series of each user while there are too few for intervals, otherwise no rows."""

    @classmethod
    def of(cls, recovery: Recovery) -> RecoveryMoments:
        """Return the moments of the users of a block."""
        users = recovery.users
        taken = users["queries_to_recover"]
        return cls(
            left_out=recovery.left_out,
            censored=int(users["censored"].sum()),
            before=RatioMoments.of(*(sums[:, None] for sums in recovery.sums_before())),
            end=RatioMoments.of(*(sums[:, None] for sums in recovery.sums_of_last_window())),
            windows=RatioMoments.of(*recovery.sums_by_window()),
            ends=recovery.ends,
            since=recovery.sums_since_shift(),
            times=Moments.of(users.assign(group=0), ["group"], OVER_USERS),
            counts=taken.groupby(taken).size(),
            few=recovery.user_time_series() if len(users) < FEWEST_USERS else recovery.user_time_series().head(0),
        )

    @property
    def users(self) -> int:
        """Number of users."""
        return int(self.before.count[0])

    def merged(self, other: RecoveryMoments) -> RecoveryMoments:
        """Return the moments over the users of both, which have no user in common."""
        longer = self if len(self.ends) >= len(other.ends) else other
        n = len(longer.ends)
        few = self.users + other.users < FEWEST_USERS
        return RecoveryMoments(
            left_out=self.left_out + other.left_out,
            censored=self.censored + other.censored,
            before=self.before.merged(other.before),
            end=self.end.merged(other.end),
            windows=self.windows.padded(n).merged(other.windows.padded(n)),
            ends=longer.ends,
            # Beyond its last window, a block has the sums of all its queries.
            since=self._since_all(n) + other._since_all(n),
            times=add_moments(self.times, other.times),
            counts=self.counts.add(other.counts, fill_value=0).astype(np.int64),
            few=pd.concat([self.few, other.few], ignore_index=True) if few else self.few.head(0),
        )

    def _since_all(self, n: int) -> FloatArray:
        return np.pad(self.since, ((0, 0), (0, n - len(self.ends))), mode="edge")

    def time_series(self) -> pd.DataFrame:
        """Return the table of `Recovery.time_series`."""
        enough = 2 * self.windows.count >= max(self.users, 1)
        ratio, low, high = self.windows.take(enough).intervals()
        return pd.DataFrame(
            {
                "queries_after": self.ends[enough],
                "users": self.windows.count[enough],
                "efficiency": ratio,
                "efficiency_low": low,
                "efficiency_high": high,
            }
        )

    def time_series_of_few(self) -> pd.DataFrame:
        """Return the time series of each user if users are too few for an interval; otherwise no rows."""
        return self.few if are_few(self.users) else self.few.head(0)

    def summary(self, recovered: float) -> pd.DataFrame:
        """Return the row of `Adaptation.summary`."""
        series = self.time_series()
        after = series[series["queries_after"] > 0].dropna(subset="efficiency")
        row: dict[str, Any] = {"users": self.users, "left_out": self.left_out, "censored": self.censored}
        row |= _named("efficiency_before", self.before.intervals())
        row |= {"efficiency_lowest": after["efficiency"].min()}
        row |= _named("efficiency_end", self.end.intervals())
        times = self.times.intervals()
        for name in OVER_USERS:
            row |= {name + end: float(times[name + end].iloc[0]) if len(times) else np.nan for end in ENDS}
        row["queries_to_recover_median"] = counted_quantile(self.counts.index.to_numpy(float), self.counts, 0.5)
        row |= pooled_recovery(after, row["efficiency_before"], recovered, self._since)
        return pd.DataFrame([row])

    def _since(self, taken: int) -> tuple[float, float]:
        error, loss = self.since[:, np.searchsorted(self.ends, taken)]
        return float(error), float(loss)


def _named(name: str, limits: Sequence[FloatArray]) -> dict[str, float]:
    return {f"{name}{end}": float(value[0]) for end, value in zip(ENDS, limits, strict=True)}
