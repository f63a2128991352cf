"""Forgetting: the reports that a learning belief remembers, their weights, and a test for changes of the profile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim.components.spec import Count, Days, Positive, Spec
from sim.errors import InvalidValue
from sim.inference.compact_rows import CompactRow, CompactRows, given_row
from sim.inference.likelihoods import Likelihoods
from sim.interfaces import FloatArray, IntArray

HALF_LIVES = 10
"""Age in half-lives above which a report is dropped: its weight is then below a thousandth."""
_LEAST_WEIGHT = 2.0**-HALF_LIVES * (1 - 1e-9)  # tolerance: a report of exactly this age is not dropped
_DAY_S = 86_400


class Forgetting(Spec):
    """Decay of the weight of past reports: a half-life or a window, a test for changes, or both."""

    half_life_queries: Positive | None = None
    """Half-life of a report's weight, in reports; after ten half-lives the report is dropped. Default: no decay."""
    half_life_days: Days | None = None
    """Half-life of a report's weight, in days; after ten half-lives the report is dropped. Default: no decay."""
    window: Count | None = None
    """Number of latest reports that are used, with equal weights. Default: all."""
    adaptive: bool = False
    """Test the reports for changes of the profile; after a change, forget the reports before it."""
    queries_per_false_alarm: Annotated[float, Field(ge=2, le=1e12)] = 1000.0
    """Lower bound of the mean number of queries between false alarms of the `adaptive` test, if the estimated profile
    is correct."""
    recent: Count = 20
    """Number of latest reports whose estimate the `adaptive` test compares with the estimate from all reports."""

    @model_validator(mode="after")
    def _one_decay(self) -> Self:
        names = ("half_life_queries", "half_life_days", "window")
        given = [name for name in names if vars(self)[name] is not None]
        if len(given) > 1:
            listed = " and ".join(f"`{name}`" for name in given)
            raise InvalidValue(f"{listed} exclude each other: keep one of them", code="exclusive-keys")
        if not given and not self.adaptive:
            raise InvalidValue(
                "no decay is given: add `half_life_queries`, `half_life_days`, `window` or `adaptive: true`, "
                "or write `forget: none`",
                code="missing-key",
            )
        return self


def retention(half_life_queries: float | Literal["none"] | None) -> float:
    """Return the factor by which each further report multiplies the weight of a report.

    >>> retention(1.0), retention("none")
    (0.5, 1.0)
    """
    if half_life_queries is None or half_life_queries == "none":
        return 1.0
    return float(2.0 ** (-1 / half_life_queries))


class Memory:
    """The likelihoods and weights of the remembered reports; the last report has weight 1."""

    def __init__(self, n_cells: int, forgetting: Forgetting | None = None, *, compact: bool = False) -> None:
        half_life_queries = None if forgetting is None else forgetting.half_life_queries
        half_life_days = None if forgetting is None else forgetting.half_life_days
        self._seen = CompactRows(n_cells) if compact else Likelihoods(n_cells)
        self._window = None if forgetting is None else forgetting.window
        self._per_query = 1 / (half_life_queries or np.inf)
        self._per_second = 1 / (_DAY_S * (half_life_days or np.inf))
        self.ages_with_time = half_life_days is not None
        """Whether weights also decay with time between reports."""
        self.weights: FloatArray | None = None
        """The weights of the rows at the time of the last report, shape (n_reports,); None if all are 1."""
        if half_life_queries is not None or self.ages_with_time:
            self.weights = np.empty(0)
        self.last_s = 0
        """Time of the last report in seconds."""

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def rows(self) -> FloatArray:
        """The remembered likelihoods, oldest first, as a read-only view of shape (n_reports, n_cells)."""
        assert isinstance(self._seen, Likelihoods)
        return self._seen.rows

    @property
    def compact(self) -> CompactRows | None:
        """The remembered likelihoods in compact form; None if they are stored as rows."""
        return self._seen if isinstance(self._seen, CompactRows) else None

    @property
    def groups(self) -> IntArray:
        """For each cell, the lowest cell with the same column in `rows`, shape (n_cells,)."""
        return self._seen.groups

    def append(
        self, time_s: int, likelihood: FloatArray, compact: Callable[[], CompactRow | None] = lambda: None
    ) -> int:
        """Add a report; return the number of old reports that were dropped.

        `compact` returns the likelihood in compact form, or None if the channel has no such form.
        """
        if isinstance(self._seen, CompactRows):
            self._seen.append(compact() or given_row(likelihood), likelihood)
        else:
            self._seen.append(likelihood)
        forgotten = 0
        if self.weights is not None:
            faded = self.weights * self._fading(self._per_query, time_s)
            self.weights = np.append(faded, 1.0)
            forgotten = int(np.searchsorted(faded, _LEAST_WEIGHT))
        elif self._window is not None:
            forgotten = max(0, len(self) - self._window)
        self.last_s = time_s
        self.forget(forgotten)
        return forgotten

    def forget(self, count: int) -> None:
        """Drop the `count` oldest reports."""
        if count:
            self._seen.forget(count)
            self.weights = None if self.weights is None else self.weights[count:]

    def weights_at(self, time_s: int) -> FloatArray | None:
        """Return the weights of the rows at a time, shape (n_reports,); None if all are 1."""
        return None if self.weights is None else self.weights * self._fading(0.0, time_s)

    def amount(self, time_s: int) -> float:
        """Return the sum of the weights at a time."""
        if self.weights is None:
            return float(len(self))
        return float(self.weights.sum()) * self._fading(0.0, time_s)

    def _fading(self, half_lives: float, time_s: int) -> float:
        """Return the decay factor of a weight: by `half_lives` and, if weights decay with time, by the time passed."""
        return float(2.0 ** -(half_lives + self._per_second * max(0, time_s - self.last_s)))


class ChangeTest:
    """Detect changes of the user's profile from the reports alone: a CUSUM of log-likelihood ratios.

    `observe` receives the probability of each report under two priors held before it: that from all remembered reports,
    and that from recent reports alone. If the former is correct, the expected ratio of the two is 1 for any channel,
    since f(z | .) sums to 1 over all z. The cumulative sum, reset to 0 whenever it becomes negative, therefore reaches
    log(queries_per_false_alarm) on average at most once in `queries_per_false_alarm` queries (Lorden 1971, Ann. Math.
    Statist. 42, 1897-1908).
    """

    def __init__(self, queries_per_false_alarm: float) -> None:
        self._threshold = float(np.log(queries_per_false_alarm))
        self._sum = 0.0

    def observe(self, remembered: float, recent: float) -> bool:
        """Return whether this report raises an alarm, given its two probabilities; an alarm resets the sum."""
        if recent <= 0:
            self._sum = 0.0
            return False
        self._sum = max(0.0, self._sum + float(np.log(recent / remembered))) if remembered > 0 else np.inf
        if self._sum < self._threshold:
            return False
        self._sum = 0.0
        return True


def change_point(rows: FloatArray, before: FloatArray, after: FloatArray) -> int:
    """Return the first row after the change from profile `before` to profile `after` that maximises the likelihood.

    >>> change_point(np.eye(2)[[0, 0, 1, 0, 0, 1, 1]], np.array([0.9, 0.1]), np.array([0.1, 0.9]))
    5
    """
    floor = np.finfo(np.float64).tiny
    gains = np.log(np.maximum(rows @ after, floor)) - np.log(np.maximum(rows @ before, floor))
    return int(np.cumsum(gains[::-1])[::-1].argmax())
