"""Tables of results as text: one format of a metric and its spread for the terminal and the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from sim.analysis.statistics import ENDS, FEWEST_USERS, INTERVAL, NONE, OWN_VALUES, SPREAD, metric_bounds

_ROUNDING = 1e-9


def format_metric(row: Mapping[Any, Any], name: str, digits: int, *, signed: bool = False) -> tuple[str, str]:
    """Return a mean and its spread as text, the latter empty where there is none.

    `± half` is an interval, `[low, high]` one that is cut at a bound of the metric, unless that is `signed`, and
    `(low to high)` the users' own extremes.

    >>> row = {"error_km": 0.5, "error_km_low": 0.25, "error_km_high": 0.75}
    >>> format_metric(row, "error_km", 2)
    ('0.50', '± 0.25')
    >>> format_metric(row | {"error_km_low": -0.1, "error_km_high": 1.1}, "error_km", 2)
    ('0.50', '[0.00, 1.10]')
    >>> format_metric(row | {"spread": "users"}, "error_km", 2)
    ('0.50', '(0.25 to 0.75)')
    """
    mean, low, high = (row.get(name + end) for end in ENDS)
    if mean is None or pd.isna(mean):
        return "", ""
    text = f"{mean:.{digits}f}"
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return text, ""
    if row.get(SPREAD) == OWN_VALUES:
        return text, f"({low:.{digits}f} to {high:.{digits}f})"
    least, most = metric_bounds("difference_km" if signed else name)
    low, high = max(low, least), min(high, most)
    is_cut = (low, high) == (least, most) or abs((high - mean) - (mean - low)) > _ROUNDING * max(1.0, high - low)
    return text, f"[{low:.{digits}f}, {high:.{digits}f}]" if is_cut else f"± {high - mean:.{digits}f}"


def spread_note(spreads: Sequence[str], units: str = "users") -> str:
    """Say what stands beside the means of a table with these values of `spread`.

    >>> spread_note(["interval"]), spread_note(["users"])
    ('95 % intervals over users', "in brackets the range of the users' own values (fewer than 5: no intervals)")
    """
    words = {
        INTERVAL: f"95 % intervals over {units}",
        OWN_VALUES: f"in brackets the range of the users' own values (fewer than {FEWEST_USERS}: no intervals)",
        NONE: f"no intervals of one user with fewer than {FEWEST_USERS} replications",
    }
    return "; ".join(text for kind, text in words.items() if kind in (spreads or [INTERVAL]))
