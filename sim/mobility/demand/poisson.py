"""Queries at random times (Poisson process)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.components.registry import component
from sim.events import Visit
from sim.interfaces import Generator
from sim.mobility.demand.parameters import DemandParameters


@component("demand")
class PoissonParameters(DemandParameters):
    """Queries at random times: a Poisson process."""

    endless: ClassVar[bool] = True

    kind: Literal["poisson"] = "poisson"
    per_hour: Annotated[float, Field(ge=1e-3, le=3600)] = 1.0
    """Mean number of queries per hour."""

    def build(self) -> Poisson:
        """Return the demand."""
        return Poisson(self)


class Poisson:
    """Queries at random times after the first visit, on average `per_hour` per hour, in (0, inf).

    The times between queries are exponential and times are rounded down to whole seconds. The cell of a query is that
    of the last visit at or before it. The queries end with the last visit of a finite trace.
    """

    def __init__(self, parameters: PoissonParameters) -> None:
        self.per_hour = parameters.per_hour

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:
        """Yield the queries; the random draws do not depend on the number of visits."""
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
