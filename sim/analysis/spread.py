"""How far values spread around a mean over users: what tables, figures and sentences may show of it.

A confidence interval over fewer than five users says little: with two users Student's factor is 12.7, and the interval
of an error of 0.4 km reaches far below zero. Below `FEWEST_USERS` the users' own values are shown instead, as the range
from the lowest to the highest in tables and one by one in figures, and no mechanism is called better than another.

With five users or more, or over five replications or more of a single user, intervals are Student's t at 95 %. Most
metrics cannot be negative and some cannot be above 1. Their intervals are cut at these bounds: the true value lies
within them, so that the cut interval covers it as often as the whole one. Tables of results such as `summary.csv` keep
the ends of the whole interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

FEWEST_USERS = 5
"""Fewer users have no interval, and nothing is significant."""

INTERVAL, OWN_VALUES, NONE = "interval", "users", "none"
SPREAD = "spread"
"""The column that says what `_low` and `_high` are: the ends of an interval, the users' own extremes, or nothing."""

_ENDS = ("_low", "_high")
_MAY_BE_NEGATIVE = ("difference_km", "gain_km")
_ROUNDING = 1e-9
_SHARES = ("hit_rate", "posterior_at_truth", "identified_share", "distance")


def are_few(users: int) -> bool:
    """Tell whether users are too few for an interval over them; a single user may have one over replications."""
    return 1 < users < FEWEST_USERS


def kinds(table: pd.DataFrame) -> list[str]:
    """Return what may be shown around the means of each row, by its numbers of `users` and `replications`.

    >>> kinds(pd.DataFrame({"users": [9, 4, 1, 1], "replications": [1, 9, 4, 5]}))
    ['interval', 'users', 'none', 'interval']
    """
    replications = table.get("replications", pd.Series(FEWEST_USERS, index=table.index))
    return [
        OWN_VALUES if are_few(users) else NONE if users == 1 and times < FEWEST_USERS else INTERVAL
        for users, times in zip(table["users"], replications, strict=True)
    ]


def bounds(name: str) -> tuple[float, float]:
    """Return the lowest and the highest value that a metric can have.

    >>> bounds("quality_loss_km"), bounds("hit_rate"), bounds("gain_km")
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


def shown(
    table: pd.DataFrame, units: pd.DataFrame, names: Sequence[str], keys: Sequence[str], *, signed: bool = False
) -> pd.DataFrame:
    """Return a table of means with the spread that may be shown in `_low` and `_high`, and in `spread` what it is.

    `table` has a row for each group of `keys`, with its number of `users`, and maybe of `replications`; `units` has the
    values of each user. Of two to four users the ends become their lowest and highest value; of a single user with
    fewer than five replications there are none. Else an interval is cut at the metric's bounds; `signed` metrics, such
    as differences, have none. Metrics that `units` lacks get no ends where users are few.
    """
    found = table.copy()
    found[SPREAD] = kinds(found)
    few, unknown = (found[SPREAD].to_numpy() == kind for kind in (OWN_VALUES, NONE))
    own = extremes(units, keys, [name for name in names if name in units]) if few.any() else pd.DataFrame()
    places = pd.MultiIndex.from_frame(found[list(keys)]) if len(keys) > 1 else pd.Index(found[keys[0]])
    for name in names:
        for end in _ENDS:
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
            found[column] = ends if signed else np.clip(ends, *bounds(name))
    return found


def written(row: Mapping[Any, Any], name: str, digits: int, *, signed: bool = False) -> tuple[str, str]:
    """Return a mean and its spread as text, the latter empty where there is none.

    `± half` is an interval, `[low, high]` one that is cut at a bound of the metric, unless that is `signed`, and
    `(low to high)` the users' own extremes.

    >>> row = {"error_km": 0.5, "error_km_low": 0.25, "error_km_high": 0.75}
    >>> written(row, "error_km", 2)
    ('0.50', '± 0.25')
    >>> written(row | {"error_km_low": -0.1, "error_km_high": 1.1}, "error_km", 2)
    ('0.50', '[0.00, 1.10]')
    >>> written(row | {"spread": "users"}, "error_km", 2)
    ('0.50', '(0.25 to 0.75)')
    """
    mean, low, high = (row.get(name + end) for end in ("", *_ENDS))
    if mean is None or pd.isna(mean):
        return "", ""
    text = f"{mean:.{digits}f}"
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return text, ""
    if row.get(SPREAD) == OWN_VALUES:
        return text, f"({low:.{digits}f} to {high:.{digits}f})"
    least, most = bounds("difference_km" if signed else name)
    low, high = max(low, least), min(high, most)
    is_cut = (low, high) == (least, most) or abs((high - mean) - (mean - low)) > _ROUNDING * max(1.0, high - low)
    return text, f"[{low:.{digits}f}, {high:.{digits}f}]" if is_cut else f"± {high - mean:.{digits}f}"


def caption(spreads: Sequence[str], units: str = "users") -> str:
    """Say what stands beside the means of a table with these values of `spread`.

    >>> caption(["interval"]), caption(["users"])
    ('95 % intervals over users', "in brackets the range of the users' own values (fewer than 5: no intervals)")
    """
    words = {
        INTERVAL: f"95 % intervals over {units}",
        OWN_VALUES: f"in brackets the range of the users' own values (fewer than {FEWEST_USERS}: no intervals)",
        NONE: f"no intervals of one user with fewer than {FEWEST_USERS} replications",
    }
    return "; ".join(text for kind, text in words.items() if kind in (spreads or [INTERVAL]))
