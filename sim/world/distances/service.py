"""Service distance: the loss of a service at a reported location."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from sim.components.files import Place
from sim.components.registry import OneOf, component
from sim.components.spec import Positive
from sim.world.distance import Distance, MatrixDistance
from sim.world.locations import Locations
from sim.world.parameters import DistanceParameters, ServiceParameters
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class ServiceDistanceParameters(DistanceParameters):
    """Loss of a service that gets the other location instead of the true one, such as missing points of interest."""

    is_dense: ClassVar[bool] = True

    kind: Literal["service"] = "service"
    service: Annotated[ServiceParameters, OneOf("service")]
    """Service whose loss is the distance."""
    km_per_unit: Positive = 1.0
    """Distance in km that a loss of 1 counts as, whether it is a share, a wrong zone, a tariff or a km of travel."""

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Distance:
        """Return the distance between locations."""
        return service_distance(self.service.build(locations, roads, place), km_per_unit=self.km_per_unit)


def service_distance(service: Service, *, km_per_unit: float = 1.0) -> Distance:
    """Return the loss of a service as a distance [true location, reported location], which need not be symmetric."""
    return MatrixDistance(kind="service", matrix_km=km_per_unit * service.matrix())
