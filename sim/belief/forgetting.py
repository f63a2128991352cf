"""What a learning belief remembers of past reports: which of them, and with which weight."""

from __future__ import annotations

from typing import Annotated, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from sim.components.spec import Count, Days, Positive, Spec
from sim.inference.likelihoods import Likelihoods
from sim.interfaces import FloatArray, IntArray

HALF_LIVES = 10
"""What is older than so many half-lives is forgotten altogether: a thousandth of the weight of all."""
_LEAST_WEIGHT = 2.0**-HALF_LIVES * (1 - 1e-9)  # exactly so many half-lives are not more than so many
_DAY_S = 86_400


class Forgetting(Spec):
    """How past reports lose their weight: a half-life or a window, and a test for changes on top of it or alone."""

    half_life_queries: Positive | None = None
    """Half-life of a report's weight, in reports; after ten half-lives the report is dropped."""
    half_life_days: Days | None = None
    """Half-life in days."""
    window: Count | None = None
    """Number of last reports that count, all equally."""
    adaptive: bool = False
    """Test the reports for a change of the profile, and forget what is older than one."""
    queries_per_false_alarm: Annotated[float, Field(ge=2, le=1e12)] = 1000.0
    """Of the test: mean number of queries between false alarms, at least, as far as the estimate is right."""
    recent: Count = 20
    """Of the test: number of last reports whose estimate is compared with that from all."""

    @model_validator(mode="after")
    def _something(self) -> Self:
        names = ("half_life_queries", "half_life_days", "window")
        given = [name for name in names if vars(self)[name] is not None]
        if len(given) > 1:
            listed = " and ".join(f"`{name}`" for name in given)
            raise ValueError(f"found {listed}, allowed is one of them: they exclude each other")
        if not given and not self.adaptive:
            raise ValueError(
                "nothing is forgotten: say `half_life_queries`, `half_life_days`, `window` or `adaptive: true`, "
                "or `forget: none`"
            )
        return self


def retention(half_life_queries: float | Literal["none"] | None) -> float:
    """Return the share of its weight that a report keeps with each report after it.

    >>> retention(1.0), retention("none")
    (0.5, 1.0)
    """
    if half_life_queries is None or half_life_queries == "none":
        return 1.0
    return float(2.0 ** (-1 / half_life_queries))


class Memory:
    """The likelihoods of the reports that are remembered, with their weights; of the last report it is 1."""

    def __init__(self, n_cells: int, forgetting: Forgetting | None = None) -> None:
        half_life_queries = None if forgetting is None else forgetting.half_life_queries
        half_life_days = None if forgetting is None else forgetting.half_life_days
        self._seen = Likelihoods(n_cells)
        self._window = None if forgetting is None else forgetting.window
        self._per_query = 1 / (half_life_queries or np.inf)
        self._per_second = 1 / (_DAY_S * (half_life_days or np.inf))
        self.ages_with_time = half_life_days is not None
        """Whether weights fall between reports too."""
        self.weights: FloatArray | None = None
        """The weights of the rows, in their order; None if all are 1."""
        if half_life_queries is not None or self.ages_with_time:
            self.weights = np.empty(0)
        self.last_s = 0
        """When the last report came."""

    def __len__(self) -> int:
        return len(self._seen)

    @property
    def rows(self) -> FloatArray:
        """Return the likelihoods that are remembered, the oldest first, as a read-only view."""
        return self._seen.rows

    @property
    def groups(self) -> IntArray:
        """Return for each cell the lowest one that these rows cannot tell from it."""
        return self._seen.groups

    def append(self, time_s: int, likelihood: FloatArray) -> int:
        """Add a report, and return how many old ones were forgotten."""
        self._seen.append(likelihood)
        forgotten = 0
        if self.weights is not None:
            faded = self.weights * self._fading(self._per_query, time_s)
            self.weights = np.append(faded, 1.0)
            forgotten = int(np.searchsorted(faded, _LEAST_WEIGHT))
        elif self._window is not None:
            forgotten = max(0, len(self._seen) - self._window)
        self.last_s = time_s
        self.forget(forgotten)
        return forgotten

    def forget(self, count: int) -> None:
        """Forget the oldest reports."""
        if count:
            self._seen.forget(count)
            self.weights = None if self.weights is None else self.weights[count:]

    def weights_at(self, time_s: int) -> FloatArray | None:
        """Return the weights as they are at a time, None if all are 1."""
        return None if self.weights is None else self.weights * self._fading(0.0, time_s)

    def amount(self, time_s: int) -> float:
        """Return how much is remembered at a time: the sum of the weights."""
        if self.weights is None:
            return float(len(self._seen))
        return float(self.weights.sum()) * self._fading(0.0, time_s)

    def _fading(self, half_lives: float, time_s: int) -> float:
        """Return what a weight is multiplied by after so many half-lives and until a time, if time counts."""
        return float(2.0 ** -(half_lives + self._per_second * max(0, time_s - self.last_s)))


class ChangeTest:
    """Tells from the reports alone whether the user's profile has changed: a CUSUM of log-likelihood ratios.

    For each report, `observe` is told how likely it was by the belief from all that is remembered, and by the belief
    that only recent reports would have led to, both held before it. If the former is right, the expected ratio is 1
    whatever the channel, since f(z | .) sums to 1 over all z. So the sum, which starts anew at 0 whenever it falls
    below, reaches log(queries_per_false_alarm) once in that many queries or less often (Lorden 1971, Ann. Math.
    Statist. 42, 1897-1908).
    """

    def __init__(self, queries_per_false_alarm: float) -> None:
        self._threshold = float(np.log(queries_per_false_alarm))
        self._sum = 0.0

    def observe(self, remembered: float, recent: float) -> bool:
        """Return whether this report raises an alarm; the sum then starts anew."""
        if recent <= 0:
            self._sum = 0.0
            return False
        self._sum = max(0.0, self._sum + float(np.log(recent / remembered))) if remembered > 0 else np.inf
        if self._sum < self._threshold:
            return False
        self._sum = 0.0
        return True


def change_point(rows: FloatArray, before: FloatArray, after: FloatArray) -> int:
    """Return the row from which on a change from one profile to another explains all rows best.

    >>> change_point(np.eye(2)[[0, 0, 1, 0, 0, 1, 1]], np.array([0.9, 0.1]), np.array([0.1, 0.9]))
    5
    """
    floor = np.finfo(np.float64).tiny
    gains = np.log(np.maximum(rows @ after, floor)) - np.log(np.maximum(rows @ before, floor))
    return int(np.cumsum(gains[::-1])[::-1].argmax())
