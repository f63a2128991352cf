"""Answers from the attacks: how often an estimate is near the true place, with intervals over users."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from sim.analysis.answers.excess_risk import Rate, wilson
from sim.analysis.statistics import FEWEST_USERS
from sim.audit.attack import CONTROLS, AttackResult
from sim.interfaces import FloatArray, IntArray

RADII_M = (100.0, 500.0, 564.0, 2000.0)
"""564 m (1,850 ft) is the radius some laws use for a precise position."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A mean over all attacked reports with its 95 % confidence interval over users."""

    attack: str
    control: bool
    metric: str
    """`within` or `error`."""
    radius_m: float
    """NaN for the error."""
    value: float
    """Share of reports, or error in metres."""
    low: float
    high: float


def answers(result: AttackResult) -> list[Answer]:
    """Return the share of estimates within each radius and the mean error, for each attack and control."""
    results = []
    for name in result.estimates_m:
        error = np.hypot(*(result.estimates_m[name] - result.true_xy_m).T)
        user = result.sample.user
        rows = [("within", radius, (error <= radius).astype(float)) for radius in RADII_M]
        for metric, radius, values in [*rows, ("error", math.nan, error)]:
            value, low, high = share(values, user) if metric == "within" else clustered(values, user)
            low = max(low, 0.0)
            results.append(Answer(name, name in CONTROLS, metric, radius, value, low, high))
    return results


def share(values: FloatArray, user: IntArray) -> Rate:
    """Return a share with its interval within [0, 1], with users as clusters.

    For fewer than five users, or if all users have the same share, it is Wilson's interval of as many trials as users:
    wide rather than certain.

    >>> [round(value, 2) for value in share(np.ones(4), np.array([0, 0, 1, 1]))]
    [1.0, 0.34, 1.0]
    """
    mean, low, high = clustered(values, user)
    if high > low:
        return Rate(mean, max(low, 0.0), min(high, 1.0))
    users = np.unique(user).size
    return wilson(mean * users, users)


def clustered(values: FloatArray, user: IntArray) -> tuple[float, float, float]:
    """Return the mean and its interval with users as clusters.

    >>> mean, low, high = clustered(np.array([1.0, 1, 0, 0, 1, 0]), np.array([0, 1, 2, 3, 4, 5]))
    >>> round(mean, 2), round(low, 2), round(high, 2)
    (0.5, -0.07, 1.07)
    """
    mean = float(values.mean())
    users, group = np.unique(user, return_inverse=True)
    if users.size < FEWEST_USERS:
        return mean, math.nan, math.nan
    residual = np.bincount(group, values - mean)
    error = math.sqrt(float(residual @ residual) * users.size / (users.size - 1)) / values.size
    half = float(student.ppf(0.975, users.size - 1)) * error
    return mean, mean - half, mean + half
