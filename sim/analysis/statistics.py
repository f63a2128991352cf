"""Confidence intervals over users: Student's t, the delta method, and when there are too few users for either.

A confidence interval over fewer than five users says little: with two users Student's factor is 12.7, and the interval
of an error of 0.4 km reaches far below zero. Below `FEWEST_USERS` the users' own values are shown instead, as the range
from the lowest to the highest in tables and one by one in figures, and no mechanism is called better than another.

With five users or more, or over five replications or more of a single user, intervals are Student's t at 95 %. Most
metrics cannot be negative and some cannot be above 1. Their intervals are cut at these bounds: the true value lies
within them, so that the cut interval covers it as often as the whole one. Tables of results such as `summary.csv` keep
the ends of the whole interval.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from sim.interfaces import FloatArray
from sim.storage.event_schema import MEASURES

FEWEST_USERS = 5
"""Fewer users have no interval, and nothing is significant."""
INTERVAL, OWN_VALUES, NONE = "interval", "users", "none"
SPREAD = "spread"
"""The column that says what `_low` and `_high` are: the ends of an interval, the users' own extremes, or nothing."""
ENDS = ("", "_low", "_high")
"""Suffixes of a mean and of the ends of its interval."""
_MAY_BE_NEGATIVE = ("difference_km", "gain_km")
_SHARES = ("hit_rate", "posterior_at_truth", "identified_share", "distance")
CONFIDENCE = 0.95


def half_width(deviation: pd.Series[float], count: pd.Series[int]) -> pd.Series[float]:
    """Return half of Student's 95 % interval of a mean: t(0.975; n - 1) s / sqrt(n), NaN for fewer than two units.

    >>> half_width(pd.Series([1.0, 1.0]), pd.Series([2, 9])).round(3).tolist()
    [8.985, 0.769]
    """
    number = count.to_numpy()
    quantile = stdtrit(np.maximum(number - 1, 1), (1 + CONFIDENCE) / 2)
    half = deviation.to_numpy() * quantile / np.sqrt(np.maximum(number, 1))
    return pd.Series(np.where(number > 1, half, np.nan), index=count.index)


def intervals(units: pd.DataFrame, keys: list[str], names: Sequence[str] = MEASURES) -> pd.DataFrame:
    """Return, by group, the mean over the units of each measure, or of other columns, and its 95 % interval.

    The interval is Student's t: its ends are the mean -+ `half_width`, NaN for fewer than two units. Units without a
    value do not count.

    >>> table = pd.DataFrame({"point": 0, **dict.fromkeys(MEASURES, [1.0, 3.0])})
    >>> intervals(table, ["point"])[["quality_loss_km", "quality_loss_km_high"]].round(3).values.tolist()
    [[2.0, 14.706]]
    """
    groups = units.groupby(keys, sort=True)[list(names)]
    means, deviations, counts = groups.mean(), groups.std(ddof=1), groups.count()
    columns: dict[str, pd.Series[float]] = {}
    for name in names:
        mean, half = means[name], half_width(deviations[name], counts[name])
        columns |= {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}
    return pd.DataFrame(columns).reset_index()


def mean_interval(values: pd.Series[float], name: str) -> dict[str, float]:
    """Return the mean of some values as `name`, and the ends of its 95 % interval as `name_low` and `name_high`."""
    mean = float(values.mean())
    half = float(half_width(pd.Series([values.std(ddof=1)]), pd.Series([values.count()])).iloc[0])
    return {name: mean, f"{name}_low": mean - half, f"{name}_high": mean + half}


def paired_leads(values: pd.DataFrame, first: str) -> dict[str, tuple[float, float]]:
    """Return by how much one column leads each other on average over rows, and half of the 95 % interval of that.

    Rows are the users, who are paired; the interval is Student's t.
    """
    leads = values.drop(columns=first).rsub(values[first], axis=0)
    halves = half_width(leads.std(ddof=1), leads.count())
    return {
        str(name): (float(leads[name].mean()), float(half)) for name, half in zip(leads.columns, halves, strict=True)
    }


def is_significant(lead: float, half: float) -> bool:
    """Tell whether a lead is above zero by more than half of its interval."""
    return lead - half > 0


def ratio_of_means(over: FloatArray, under: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sum(over) / sum(under) by column and the ends of its 95 % interval over rows, which are the units.

    By the delta method: the ratio R varies as the mean of the residuals (over - R under) / mean(under) does. Rows
    with NaN do not count in their column; fewer than two have no interval.

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
    """Tell whether users are too few for an interval over them; a single user may have one over replications."""
    return 1 < users < FEWEST_USERS


def spread_kinds(table: pd.DataFrame) -> list[str]:
    """Return what may be shown around the means of each row, by its numbers of `users` and `replications`.

    >>> spread_kinds(pd.DataFrame({"users": [9, 4, 1, 1], "replications": [1, 9, 4, 5]}))
    ['interval', 'users', 'none', 'interval']
    """
    replications = table.get("replications", pd.Series(FEWEST_USERS, index=table.index))
    return [
        OWN_VALUES if are_few(users) else NONE if users == 1 and times < FEWEST_USERS else INTERVAL
        for users, times in zip(table["users"], replications, strict=True)
    ]


def metric_bounds(name: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can have.

    >>> metric_bounds("quality_loss_km"), metric_bounds("hit_rate"), metric_bounds("gain_km")
    ((0.0, inf), (0.0, 1.0), (-inf, inf))
    """
    if name in _MAY_BE_NEGATIVE:
        return -np.inf, np.inf
    return 0.0, 1.0 if name in _SHARES else np.inf


def extremes(units: pd.DataFrame, keys: Sequence[str], names: Sequence[str]) -> pd.DataFrame:
    """Return the lowest and the highest of the users' own values by group: `_low` and `_high` of each metric.

    `units` has a row for each user of a group. The index is that of the groups.
    """
    groups = units.groupby(list(keys), sort=True)[list(names)]
    low, high = groups.min(), groups.max()
    return low.add_suffix("_low").join(high.add_suffix("_high"))


def with_spread(
    table: pd.DataFrame, units: pd.DataFrame, names: Sequence[str], keys: Sequence[str], *, signed: bool = False
) -> pd.DataFrame:
    """Return a table of means with the spread that may be shown in `_low` and `_high`, and in `spread` what it is.

    `table` has a row for each group of `keys`, with its number of `users`, and maybe of `replications`; `units` has the
    values of each user. Of two to four users the ends become their lowest and highest value; of a single user with
    fewer than five replications there are none. Else an interval is cut at the metric's bounds; `signed` metrics, such
    as differences, have none. Metrics that `units` lacks get no ends where users are few.
    """
    found = table.copy()
    found[SPREAD] = spread_kinds(found)
    few, unknown = (found[SPREAD].to_numpy() == kind for kind in (OWN_VALUES, NONE))
    own = extremes(units, keys, [name for name in names if name in units]) if few.any() else pd.DataFrame()
    places = pd.MultiIndex.from_frame(found[list(keys)]) if len(keys) > 1 else pd.Index(found[keys[0]])
    for name in names:
        for end in ENDS[1:]:
            column = name + end
            if column not in found:
                continue
            ends = found[column].astype(float).to_numpy()
            # Ends that meet are exact, and need no second replication.
            vague = unknown & (found[name].astype(float).to_numpy() != ends)
            ends = np.where(vague, np.nan, ends)
            if column in own:
                ends = np.where(few, own[column].reindex(places).to_numpy(dtype=float), ends)
            elif few.any():
                ends = np.where(few, np.nan, ends)
            found[column] = ends if signed else np.clip(ends, *metric_bounds(name))
    return found
