"""When people query the service: at every visit, at regular times, or at random.

A user is where her last visit put her. Each demand looks no further ahead in the visits than it must.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from sim.events import Visit
from sim.interfaces import Demand, DemandCapabilities, Generator
from sim.mobility.parameters import require


class EveryVisit:
    """Query once at every visit, as check-ins do."""

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:  # noqa: ARG002
        """Yield the visits as they are."""
        yield from visits


class Periodic:
    """Query once in every slot of `period_s` seconds (in [1, inf)), from the slot of the first visit on.

    Slot k holds the times k period <= t < (k + 1) period. Its query is stamped with the slot's start and
    carries the last cell seen before the slot's *end*; an empty slot repeats the cell of the one before. After
    the last visit of a finite replay nobody knows where the user is: the slot of that visit is the last.

    >>> trip = [Visit(10, 5), Visit(290, 6), Visit(905, 7)]
    >>> [(q.time_s, q.cell) for q in Periodic(period_s=300).queries(trip, None)]
    [(0, 6), (300, 6), (600, 6), (900, 7)]
    """

    def __init__(self, *, period_s: int = 300) -> None:
        require("period_s", period_s, 1, float("inf"), ends="[)")
        if period_s != int(period_s):
            raise ValueError(f"period_s must be whole seconds, got {period_s}")
        self.period_s = int(period_s)

    def queries(self, visits: Iterable[Visit], rng: Generator | None) -> Iterator[Visit]:  # noqa: ARG002
        """Yield one query a slot; nothing here is random."""
        last: Visit | None = None
        slot = 0
        for visit in visits:
            now = visit.time_s // self.period_s
            if last is None:
                slot = now
            while last is not None and slot < now:
                yield Visit(slot * self.period_s, last.cell)
                slot += 1
            last = visit
        if last is not None:
            yield Visit(slot * self.period_s, last.cell)


class Poisson:
    """Query at random moments after the first visit, `per_hour` (in (0, inf)) of them in an hour on average.

    The gaps are exponential; the moments are cut to whole seconds. The cell is that of the last visit at or
    before the moment. A finite replay's last visit ends the queries.
    """

    def __init__(self, *, per_hour: float = 1.0) -> None:
        require("per_hour", per_hour, 0, float("inf"), ends="()")
        self.per_hour = per_hour

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        """Yield the random moments; how many visits there are changes no draw."""
        mean_gap_s = 3600.0 / self.per_hour
        last: Visit | None = None
        clock_s = 0.0
        for visit in visits:
            if last is None:
                clock_s = visit.time_s + rng.exponential(mean_gap_s)
            while last is not None and int(clock_s) < visit.time_s:
                yield Visit(int(clock_s), last.cell)
                clock_s += rng.exponential(mean_gap_s)
            last = visit
        while last is not None and int(clock_s) <= last.time_s:
            yield Visit(int(clock_s), last.cell)
            clock_s += rng.exponential(mean_gap_s)


class Rate:
    """Query `factor` (in (0, inf)) times as often as another demand from a time on, for good or for a while.

    Below 1, each query is kept with that probability. Above 1, a Poisson number of mean factor - 1 comes between each
    query and the next, at uniform moments, in the cell of the last visit at or before them. It ends at `until_s`
    (exclusive) or after `for_queries`. `rng` is its own: the queries before are those of the other demand, to the bit.
    It counts its queries across calls of `queries`, one for each session of a recorded life: use one object per life.
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
        """Yield the queries of the other demand, some of them or more."""
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
        """Return the moments that come between two queries."""
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
    """Return the last visit at or before a time, or the first of all, and forget those before it."""
    while len(seen) > 1 and seen[1].time_s <= time_s:
        seen.popleft()
    return seen[0]
