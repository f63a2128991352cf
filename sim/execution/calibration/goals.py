"""Goals of a calibration: the metric of a simulation, and the side of the target on which it must stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import pandas as pd
from scipy.special import bdtr, stdtrit

from sim.analysis.event_log import SERIES
from sim.analysis.summary import preferred
from sim.execution.calibration.search import NARROW, Side
from sim.interfaces import FloatArray
from sim.scenario.models import Scenario
from sim.storage.event_schema import ATTACK, MEASURES, QUALITY_LOSS_KM, REPLICATION, USER
from sim.world import World

_CONFIDENCE = 0.95


class Goal(Protocol):
    """A metric of a mechanism whose strength is searched for."""

    @property
    def side(self) -> Side:
        """Return whether the metric may not exceed the target or fall below it."""
        ...

    @property
    def unit(self) -> str:
        """Return the unit of the metric."""
        ...

    @property
    def narrow(self) -> float:
        """Return the relative width of a bracket of strengths at which a jump of the metric is accepted."""
        ...

    def needs(self, scenario: Scenario) -> dict[str, object]:
        """Return the fields of the scenario that the simulations need."""
        ...

    def by_user(self, events: pd.DataFrame, world: World) -> FloatArray:
        """Return the metric of each user, shape (n_replications, n_users)."""
        ...

    def over_users(self, values: FloatArray) -> FloatArray:
        """Return the metric over the users of each replication, shape (n_replications,)."""
        ...

    def limits_over_users(self, values: FloatArray) -> tuple[float, float]:
        """Return 95 % confidence limits of the metric in the population, from a sample of users."""
        ...


def t_half_width(values: FloatArray) -> float:
    """Return the half-width of the 95 % t-interval of a mean of at least two values.

    >>> round(t_half_width(np.array([1.0, 2.0, 3.0])), 3)
    2.484
    """
    return float(stdtrit(values.size - 1, (1 + _CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(values.size))


def quantile_limits(values: FloatArray, at: float) -> tuple[float, float]:
    """Return 95 % confidence limits of a quantile: order statistics, by the binomial distribution of the number below.

    >>> quantile_limits(np.arange(1.0, 101.0), 0.5)
    (40.0, 61.0)
    """
    ordered = np.sort(values)
    below = bdtr(np.arange(values.size), values.size, at)  # P(at most k values below the quantile)
    low = max(int(np.searchsorted(below, (1 - _CONFIDENCE) / 2)) - 1, 0)
    high = int(np.searchsorted(below, (1 + _CONFIDENCE) / 2))
    return float(ordered[low]), float(ordered[min(high, values.size - 1)])


@dataclass(frozen=True, slots=True)
class LossGoal:
    """The quality loss of the users: the mean over them, or the quantile `at` of their mean losses."""

    at: float | None = None
    side: ClassVar[Side] = "at most"
    unit: ClassVar[str] = "km"
    narrow: ClassVar[float] = NARROW

    def needs(self, scenario: Scenario) -> dict[str, object]:  # noqa: ARG002
        """Return the fields of the scenario: no attacks."""
        return {"attacks": []}

    def by_user(self, events: pd.DataFrame, world: World) -> FloatArray:  # noqa: ARG002
        """Return the mean loss of each user in km, expected over the mechanism's noise where recorded."""
        loss_km = preferred(events, QUALITY_LOSS_KM)
        means = loss_km.groupby([events[REPLICATION], events[USER]]).mean()
        return means.unstack().to_numpy(float)

    def over_users(self, values: FloatArray) -> FloatArray:
        """Return the mean or the quantile of each replication.

        >>> LossGoal(0.5).over_users(np.array([[1.0, 2.0, 6.0]])), LossGoal().over_users(np.array([[1.0, 2.0, 6.0]]))
        (array([2.]), array([3.]))
        """
        if self.at is None:
            return np.asarray(values.mean(axis=1))
        return np.quantile(values, self.at, axis=1, method="inverted_cdf")

    def limits_over_users(self, values: FloatArray) -> tuple[float, float]:
        """Return the confidence limits of the mean or the quantile."""
        means = values.mean(axis=0)
        return _mean_limits(means) if self.at is None else quantile_limits(means, self.at)


@dataclass(frozen=True, slots=True)
class ErrorGoal:
    """The mean error of the adversary with the strongest attack, the one with the smallest mean error."""

    side: ClassVar[Side] = "at least"
    unit: ClassVar[str] = "km"
    narrow: ClassVar[float] = 1e-3

    def needs(self, scenario: Scenario) -> dict[str, object]:
        """Return the fields of the scenario: its attacks."""
        return {"attacks": scenario.attacks}

    def by_user(self, events: pd.DataFrame, world: World) -> FloatArray:  # noqa: ARG002
        """Return the mean error of the strongest attack on each user in km."""
        errors = user_errors_km(events)
        strongest = errors.groupby(level=ATTACK).mean().idxmin()
        return errors.xs(strongest, level=ATTACK).unstack().to_numpy(float)

    def over_users(self, values: FloatArray) -> FloatArray:
        """Return the mean of each replication."""
        return np.asarray(values.mean(axis=1))

    def limits_over_users(self, values: FloatArray) -> tuple[float, float]:
        """Return the confidence limits of the mean."""
        return _mean_limits(values.mean(axis=0))


def _mean_limits(means: FloatArray) -> tuple[float, float]:
    half = t_half_width(means)
    return float(means.mean() - half), float(means.mean() + half)


def user_errors_km(events: pd.DataFrame) -> pd.Series[float]:
    """Return the mean error by attack, replication and user.

    Attacks that revise their estimates of past queries count with their last estimate of each query, others with that
    of the present, expected over the mechanism's noise where recorded.
    """
    by_attack = [_errors_of_attack(own) for _, own in events.groupby(ATTACK, sort=True)]
    return pd.concat(by_attack)


def _errors_of_attack(events: pd.DataFrame) -> pd.Series[float]:
    query = [ATTACK, REPLICATION, USER, "estimated_index"]
    if (events["estimated_index"] < events["index"]).any():
        events = events.sort_values("index", kind="stable").drop_duplicates(query, keep="last")
        error_km = events["adversary_error_km"].astype(float)
    else:
        error_km = preferred(events, "adversary_error_km")
    return error_km.groupby([events[name] for name in query[:3]]).mean()


EVENT_COLUMNS: Sequence[str] = (
    *SERIES,
    REPLICATION,
    USER,
    "index",
    "time_s",
    "cell",
    "estimated_index",
    "estimate",
    *MEASURES,
)
"""Columns of the event log that goals read."""
