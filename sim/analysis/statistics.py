"""Confidence intervals over users: Student's t, the delta method, and the treatment of few users.

A confidence interval over fewer than five users is not informative: with two users Student's factor is 12.7, and the
interval of an error of 0.4 km reaches far below zero. With fewer than `FEWEST_USERS` users, tables show the range of
the users' values and figures the individual values instead, and no difference is called significant.

With at least five users, or at least five replications of a single user, intervals are Student's t at 95 %. Most
metrics are non-negative and some are at most 1. Tables and figures truncate intervals at these bounds; this does not
change the coverage, because the true value lies within them. Result files such as `summary.csv` have the full interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from sim.analysis.moments import ColumnMoments, Moments, half_width
from sim.interfaces import FloatArray
from sim.storage.event_schema import MEASURES

FEWEST_USERS = 5
"""Smallest number of users for which intervals are shown and significance is tested."""
SIGNIFICANCE = 0.05
"""Largest p-value, adjusted by `holm` where several tests are made, of a significant difference."""
INTERVAL, OWN_VALUES, NONE = "interval", "users", "none"
SPREAD = "spread"
"""Name of the column with the meaning of `_low` and `_high`: confidence limits, extremes over users, or none."""
ENDS = ("", "_low", "_high")
"""Column suffixes of a mean and of the limits of its interval."""
_MAY_BE_NEGATIVE = ("difference_km", "gain_km", "excess")
_SHARES = (
    *("hit_rate", "posterior_at_truth", "identified_share", "distance", "share", "known"),
    *("changed", "users_ever", "users_mostly"),
)


def intervals(units: pd.DataFrame, keys: list[str], names: Sequence[str] = MEASURES) -> pd.DataFrame:
    """Return by group the mean over units of each column in `names`, and its 95 % confidence interval.

    The limits are the mean -+ `half_width` (Student's t), NaN for fewer than two units. Units without a value are
    excluded.

    >>> table = pd.DataFrame({"point": 0, **dict.fromkeys(MEASURES, [1.0, 3.0])})
    >>> intervals(table, ["point"])[["quality_loss_km", "quality_loss_km_high"]].round(3).values.tolist()
    [[2.0, 14.706]]
    """
    return Moments.of(units, keys, names).intervals()


def mean_interval(values: pd.Series[float], name: str) -> dict[str, float]:
    """Return the mean of `values` as `name`, and the limits of its 95 % interval as `name_low` and `name_high`."""
    mean = float(values.mean())
    half = float(half_width(pd.Series([values.std(ddof=1)]), pd.Series([values.count()])).iloc[0])
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


class PairedLeads:
    """Leads of each column of a table of users over each other column, paired by user, from blocks of users."""

    def __init__(self) -> None:
        self.users = 0
        """Number of users."""
        self._means: ColumnMoments | None = None
        self._leads: dict[str, ColumnMoments] = {}

    def add(
        self, values: pd.DataFrame, firsts: Sequence[str] | None = None, *, deviations: pd.DataFrame | None = None
    ) -> None:
        """Add a block of users (rows); `firsts` are the columns whose leads are needed (default: all).

        `deviations` are those of the batches of replications, as in `ColumnMoments.of`.
        """
        if not len(values):
            return
        self.users += len(values)
        means = ColumnMoments.of(values)
        self._means = means if self._means is None else self._means.merged(means)
        for first in map(str, values.columns) if firsts is None else firsts:
            apart = None if deviations is None else _behind(deviations, first)
            own = ColumnMoments.of(_behind(values, first), apart)
            self._leads[first] = self._leads[first].merged(own) if first in self._leads else own

    @property
    def means(self) -> dict[str, float]:
        """Mean of each column."""
        return {} if self._means is None else self._means.means

    def moments(self, first: str) -> ColumnMoments | None:
        """Return the moments of the leads of column `first`, if there are any users."""
        return self._leads.get(first)

    def over(self, first: str) -> dict[str, tuple[float, float]]:
        """Return the mean lead of column `first` over each other one, and the half-width of its 95 % interval."""
        leads = self._leads[first]
        return {name: (lead, leads.halves[name]) for name, lead in leads.means.items()}


def _behind(values: pd.DataFrame, first: str) -> pd.DataFrame:
    """Return the lead of a column over each other one."""
    return values.drop(columns=first).rsub(values[first], axis=0)


def is_significant(lead: float, half: float) -> bool:
    """Return whether a lead is greater than the half-width of its interval."""
    return lead - half > 0


def holm(p_values: FloatArray) -> FloatArray:
    """Return p-values adjusted for the number of tests in their family by Holm (1979); NaN are not in the family.

    In ascending order, the adjusted value is max over j <= i of (m - j + 1) p_(j), at most 1, for m tests. If all
    hypotheses with an adjusted value below 0.05 are rejected, the probability of any false rejection is at most 5 %,
    whatever the dependence between the tests.

    >>> holm(np.array([0.01, np.nan, 0.04, 0.03])).round(3).tolist()
    [0.03, nan, 0.06, 0.06]
    """
    adjusted = np.full(len(p_values), np.nan)
    known = np.flatnonzero(~np.isnan(p_values))
    order = known[np.argsort(p_values[known], kind="stable")]
    weights = np.arange(len(order), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(weights * p_values[order]), 1.0)
    return adjusted


def ratio_of_means(over: FloatArray, under: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sum(over) / sum(under) by column and the limits of its 95 % interval over rows, the independent units.

    By the delta method, the variance of the ratio R is that of the mean of the residuals (over - R under) /
    mean(under). NaN entries are excluded from their column; columns with fewer than two entries have no interval.

    >>> ratio, low, high = ratio_of_means(np.array([[1.0], [3.0]]), np.array([[2.0], [6.0]]))
    >>> ratio.tolist(), low.tolist(), high.tolist()
    ([0.5], [0.5], [0.5])
    """
    known = ~(np.isnan(over) | np.isnan(under))
    count = known.sum(axis=0)
    above, below = np.where(known, over, 0.0), np.where(known, under, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = above.sum(axis=0) / below.sum(axis=0)
        ratio[~np.isfinite(ratio)] = np.nan
        residuals = (above - ratio * below) / (below.sum(axis=0) / count)
        deviation = np.sqrt((residuals**2).sum(axis=0) / np.maximum(count - 1, 1))
    half = half_width(pd.Series(deviation), pd.Series(count)).to_numpy(dtype=float)
    return ratio, ratio - half, ratio + half


def are_few(users: int) -> bool:
    """Return whether there are several users, but too few for an interval.

    A single user may have an interval over replications.
    """
    return 1 < users < FEWEST_USERS


def spread_kinds(table: pd.DataFrame) -> list[str]:
    """Return the kind of spread to show for each row, from its numbers of `users` and `replications`.

    >>> spread_kinds(pd.DataFrame({"users": [9, 4, 1, 1], "replications": [1, 9, 4, 5]}))
    ['interval', 'users', 'none', 'interval']
    """
    replications = table.get("replications", pd.Series(FEWEST_USERS, index=table.index))
    return [
        OWN_VALUES if are_few(users) else NONE if users == 1 and times < FEWEST_USERS else INTERVAL
        for users, times in zip(table["users"], replications, strict=True)
    ]


def metric_bounds(name: str) -> tuple[float, float]:
    """Return the smallest and the largest possible value of a metric.

    >>> metric_bounds("quality_loss_km"), metric_bounds("hit_rate"), metric_bounds("gain_km")
    ((0.0, inf), (0.0, 1.0), (-inf, inf))
    """
    if name in _MAY_BE_NEGATIVE:
        return -np.inf, np.inf
    return 0.0, 1.0 if name in _SHARES else np.inf


def extremes(units: pd.DataFrame, keys: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """Return the extremes over users by group, as `_low` and `_high` of each metric.

    `units` has one row per user of a group. The index of the result is that of the groups.
    """
    groups = units.groupby(list(keys), sort=True)[list(names)]
    low, high = groups.min(), groups.max()
    return low.add_suffix("_low").join(high.add_suffix("_high"))


def with_spread(
    table: pd.DataFrame, units: pd.DataFrame, names: Sequence[str], keys: Sequence[str], *, signed: bool = False
) -> pd.DataFrame:
    """Return a table of means with the spread to display in `_low` and `_high`, and its kind in the column `spread`.

    `table` has one row per group of `keys`, with its number of `users` and optionally of `replications`; `units` has
    the values of each user. For two to four users, `_low` and `_high` become the extremes over users; for a single user
    with fewer than five replications they become NaN. Otherwise the interval is truncated at the metric's bounds,
    except for `signed` metrics such as differences, which have no bounds. Metrics that `units` lacks get NaN for few
    users.
    """
    shown = table.copy()
    shown[SPREAD] = spread_kinds(shown)
    few, unknown = (shown[SPREAD].to_numpy() == kind for kind in (OWN_VALUES, NONE))
    own = extremes(units, keys, [name for name in names if name in units]) if few.any() else pd.DataFrame()
    places = pd.MultiIndex.from_frame(shown[list(keys)]) if len(keys) > 1 else pd.Index(shown[keys[0]])
    for name in names:
        for end in ENDS[1:]:
            column = name + end
            if column not in shown:
                continue
            ends = shown[column].astype(float).to_numpy()
            # An interval of width zero is exact and needs no second replication.
            vague = unknown & (shown[name].astype(float).to_numpy() != ends)
            ends = np.where(vague, np.nan, ends)
            if column in own:
                ends = np.where(few, own[column].reindex(places).to_numpy(dtype=float), ends)
            elif few.any():
                ends = np.where(few, np.nan, ends)
            shown[column] = ends if signed else np.clip(ends, *metric_bounds(name))
    return shown
