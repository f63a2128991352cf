"""Clocks of a secret: the correlation of the secrets in two consecutive queries as a function of their public times."""

from __future__ import annotations

import math
from typing import Any, Protocol

DAY_S = 86_400


class Clock(Protocol):
    """A rule for the change of a secret, which depends on nothing but the times of the queries."""

    def advance(self, state: Any, time_s: int) -> tuple[float, Any]:
        """Return the correlation with the secret of the last query, in [0, 1], and the new state of the clock.

        The state is that after the last query; at the first query it is None, and the correlation is ignored. Pure.
        """
        ...


class Constant:
    """The secret never changes.

    >>> Constant().advance(None, 0)
    (1.0, 0)
    """

    def advance(self, state: Any, time_s: int) -> tuple[float, int]:  # noqa: ARG002
        """Return the correlation 1."""
        return 1.0, time_s


class Periodic:
    """The secret is drawn again at the first query of each period of `period_s` seconds, by default a day.

    >>> clock = Periodic()
    >>> clock.advance(86_399, 86_400), clock.advance(86_400, 172_799)
    ((0.0, 86400), (1.0, 172799))
    """

    def __init__(self, period_s: int = DAY_S) -> None:
        self._period_s = period_s

    def advance(self, state: int | None, time_s: int) -> tuple[float, int]:
        """Return the correlation 1 within a period and 0 from one to another."""
        same = state is not None and state // self._period_s == time_s // self._period_s
        return float(same), time_s


class Drifting:
    """The secret changes gradually: the correlation decreases by the factor e in `time_constant_s` seconds.

    >>> Drifting(60.0).advance(0, 120)[0] == math.exp(-2)
    True
    """

    def __init__(self, time_constant_s: float) -> None:
        if not time_constant_s > 0:
            raise ValueError(f"time_constant_s must be in (0, inf), got {time_constant_s}")
        self._time_constant_s = time_constant_s

    def advance(self, state: int | None, time_s: int) -> tuple[float, int]:
        """Return the correlation exp(-t / time_constant_s) after t seconds."""
        passed_s = 0 if state is None else max(time_s - state, 0)
        return math.exp(-passed_s / self._time_constant_s), time_s
