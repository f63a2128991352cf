"""Rate: more or fewer queries with the same movement."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

from pydantic import Field

from sim.components.registry import component
from sim.events import Visit
from sim.interfaces import Demand, DemandCapabilities, Generator
from sim.mobility.intervals import require
from sim.mobility.shifts.life import Window
from sim.mobility.shifts.parameters import ShiftOfPeople


@component("shift")
class RateParameters(ShiftOfPeople):
    """More or fewer queries with the same movement."""

    kind: Literal["rate"] = "rate"
    factor: Annotated[float, Field(ge=1e-3, le=1000)]
    """Number of queries relative to before: below 1, some are omitted; above 1, additional ones are inserted."""

    @property
    def changes_statistics(self) -> bool:
        """Whether users have other statistics while the shift is in force."""
        return self.factor != 1

    @property
    def adds_queries(self) -> bool:
        """Whether users may query between their visits while the shift is in force."""
        return self.factor > 1

    def build(self, demand: Demand, window: Window, rng: Generator) -> Rate:
        """Return the demand with its rate changed in a window."""
        return Rate(
            demand,
            factor=self.factor,
            from_s=window.from_s,
            until_s=window.until_s,
            for_queries=window.for_queries,
            rng=rng,
        )


class Rate:
    """Another demand with `factor` times as many queries, in (0, inf), from a time on, permanently or temporarily.

    With a factor below 1, each query remains with that probability. Above 1, a Poisson number of queries with mean
    factor - 1 is inserted between each query and the next, at uniform times, in the cell of the last visit at or before
    each. The change ends at `until_s` (exclusive) or after `for_queries` queries. It draws from its own `rng`, so the
    queries before it are exactly those of the other demand. It counts queries across calls of `queries`, one call per
    session of a recorded trace: use one object per user.
    """

    def __init__(
        self,
        demand: Demand,
        *,
        factor: float,
        from_s: int,
        until_s: float = float("inf"),
        for_queries: float = float("inf"),
        rng: Generator,
    ) -> None:
        require("factor", factor, 0, float("inf"), ends="()")
        self.demand, self.factor, self._rng = demand, factor, rng
        self.from_s, self.until_s, self.for_queries = from_s, until_s, for_queries
        self.period_s = DemandCapabilities.period_s.of(demand)
        self._left = for_queries

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        """Yield the queries of the other demand, with queries omitted or inserted."""
        seen: deque[Visit] = deque()
        last: Visit | None = None
        for query in self.demand.queries(_watched(visits, seen), rng):
            for time_s in self._more(last, query.time_s):
                if self._left > 0:
                    self._left -= 1
                    yield Visit(time_s, _last_before(time_s, seen).cell)
            last = query
            _last_before(query.time_s, seen)
            is_on = self._left > 0 and self._is_on(query.time_s)
            if is_on and self.factor < 1 and self._rng.random() >= self.factor:
                continue
            self._left -= is_on
            yield query

    def _is_on(self, time_s: int) -> bool:
        return self.from_s <= time_s < self.until_s

    def _more(self, last: Visit | None, next_s: int) -> list[int]:
        """Return the times of the queries inserted between two queries."""
        if last is None or self.factor <= 1 or not self._is_on(last.time_s):
            return []
        count = self._rng.poisson(self.factor - 1)
        moments = self._rng.integers(last.time_s, max(next_s, last.time_s + 1), size=count)
        return sorted(filter(self._is_on, moments.tolist()))


def _watched(visits: Iterable[Visit], seen: deque[Visit]) -> Iterator[Visit]:
    for visit in visits:
        seen.append(visit)
        yield visit


def _last_before(time_s: int, seen: deque[Visit]) -> Visit:
    """Return the last visit at or before a time, or else the first visit; drop all visits before it."""
    while len(seen) > 1 and seen[1].time_s <= time_s:
        seen.popleft()
    return seen[0]
