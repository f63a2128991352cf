"""Plain formulas for intervals over users and replications."""

from __future__ import annotations

import numpy as np
from scipy import stats

from sim.interfaces import FloatArray


def plain_half_width(values: FloatArray) -> float:
    """Return the half-width over users and replications from mean squares; missing values are those of the user."""
    (n, b), rows = values.shape, np.nanmean(values, axis=1)
    if b == 1:
        return float(stats.t.ppf(0.975, n - 1) * stats.sem(rows))
    weights = b / np.isfinite(values).sum(axis=1)
    values = rows[:, None] + np.nan_to_num((values - rows[:, None]) * weights[:, None])
    columns = (values - rows[:, None]).mean(axis=0)
    ms_a, ms_b = b * rows.var(ddof=1), n * (columns**2).sum() / (b - 1)
    ms_e = ((values - rows[:, None] - columns) ** 2).sum() / ((n - 1) * (b - 1))
    if ms_b <= ms_e:
        return float(stats.t.ppf(0.975, n - 1) * stats.sem(rows))
    total = ms_a + ms_b - ms_e
    freedom = total**2 / (ms_a**2 / (n - 1) + ms_b**2 / (b - 1) + ms_e**2 / ((n - 1) * (b - 1)))
    return float(stats.t.ppf(0.975, max(freedom, min(n, b) - 1)) * np.sqrt(total / (n * b)))
