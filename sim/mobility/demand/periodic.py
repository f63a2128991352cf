"""Queries at regular times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import Count
from sim.events import Visit
from sim.interfaces import Generator
from sim.mobility.demand.parameters import DemandParameters


@component("demand")
class PeriodicParameters(DemandParameters):
    """A query every `period_s` seconds; the user is where she was last seen (see `max_gap_s` of a replay)."""

    random: ClassVar[bool] = False

    kind: Literal["periodic"] = "periodic"
    period_s: Count = 300
    """Seconds between two queries."""

    def build(self) -> Periodic:
        """Return the demand."""
        return Periodic(self)


class Periodic:
    """Query once in every slot of `period_s` seconds (in [1, inf)), from the slot of the first visit on.

    Slot k holds the times k period <= t < (k + 1) period. Its query is stamped with the slot's start and
    carries the last cell seen before the slot's *end*; an empty slot repeats the cell of the one before. After
    the last visit of a finite replay nobody knows where the user is: the slot of that visit is the last.

    >>> trip = [Visit(10, 5), Visit(290, 6), Visit(905, 7)]
    >>> [(q.time_s, q.cell) for q in Periodic(PeriodicParameters(period_s=300)).queries(trip, None)]
    [(0, 6), (300, 6), (600, 6), (900, 7)]
    """

    def __init__(self, parameters: PeriodicParameters) -> None:
        self.period_s = parameters.period_s

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
