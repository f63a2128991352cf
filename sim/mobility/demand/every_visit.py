"""A query at every visit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from sim.components.registry import component
from sim.events import Visit
from sim.interfaces import Generator
from sim.mobility.demand.parameters import DemandParameters


@component("demand")
class EveryVisitParameters(DemandParameters):
    """A query at every visit."""

    random: ClassVar[bool] = False
    between_visits: ClassVar[bool] = False
    endless: ClassVar[bool] = True

    kind: Literal["every_visit"] = "every_visit"

    def build(self) -> EveryVisit:
        """Return the demand."""
        return EveryVisit()


class EveryVisit:
    """One query at every visit, as with check-ins."""

    def queries(self, visits: Iterable[Visit], rng: Generator) -> Iterator[Visit]:  # noqa: ARG002
        """Yield the visits unchanged."""
        yield from visits
