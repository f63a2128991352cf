"""Periodic queries."""

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
    """A query every `period_s` seconds, at the cell of the last visit (see also `max_gap_s` of `replay`)."""

    random: ClassVar[bool] = False
    endless: ClassVar[bool] = True

    kind: Literal["periodic"] = "periodic"
    period_s: Count = 300
    """Time between two queries in seconds."""

    def build(self) -> Periodic:
        """Return the demand."""
        return Periodic(self)


class Periodic:
    """One query in every slot of `period_s` seconds, in [1, inf), from the slot of the first visit on.

    Slot k covers the times k period <= t < (k + 1) period. The time of its query is the start of the slot, and its cell
    that of the last visit before the *end* of the slot; a slot without a visit repeats the previous cell. The slot of
    the last visit of a finite trace is the last, since the position afterwards is unknown.

    >>> trip = [Visit(10, 5), Visit(290, 6), Visit(905, 7)]
    >>> [(q.time_s, q.cell) for q in Periodic(PeriodicParameters(period_s=300)).queries(trip, None)]
    [(0, 6), (300, 6), (600, 6), (900, 7)]
    """

    def __init__(self, parameters: PeriodicParameters) -> None:
        self.period_s = parameters.period_s

    def queries(self, visits: Iterable[Visit], rng: Generator | None) -> Iterator[Visit]:  # noqa: ARG002
        """Yield one query per slot; `rng` is not used."""
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
