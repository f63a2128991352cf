"""Any change of the answer of another service."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np

from sim.components.files import Place
from sim.components.registry import OneOf, component
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Locations
from sim.world.parameters import ServiceParameters
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("service")
class AnswerChangesParameters(ServiceParameters):
    """Whether the answer of another service differs at all; the loss is 1 if it does."""

    is_composed: ClassVar[bool] = True

    kind: Literal["answer_changes"] = "answer_changes"
    service: Annotated[ServiceParameters, OneOf("service", composed=False)]
    """Service whose answers are compared."""

    @property
    def needs_roads(self) -> bool:
        """Whether the other service needs roads."""
        return self.service.needs_roads

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Service:
        """Return the service."""
        return AnswerChanges(self.service.build(locations, roads, place))


class AnswerChanges(Service):
    """A service whose users lose 1 if the answer differs in anything from that to the true location."""

    kind = "answer_changes"
    unit = "0/1"
    unanswered = 1.0

    def __init__(self, service: Service) -> None:
        super().__init__(service.locations)
        self._service = service

    def answers(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the answers of the other service."""
        return self._service.answers(x_km, y_km)

    def losses(self, cell: int, answers: IntArray) -> FloatArray:
        """Return 1 for each answer that differs from that to the location."""
        return self._service.changed(cell, answers).astype(np.float64)
