"""Location Guard: planar Laplace noise in three levels, whose result is cached for some minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NoReturn

import numpy as np
from pydantic import Field

from sim.components.registry import component
from sim.errors import InvalidValue
from sim.events import Release
from sim.interfaces import Channel, FloatArray, Generator, IntArray
from sim.lppm.designs.phones.parameters import PhoneParameters
from sim.lppm.designs.planar_laplace import EPSILON_OF_POINTS_PER_KM, LaplacePointsChannel
from sim.lppm.outputs import Points
from sim.lppm.parameters import ShortNames
from sim.lppm.place_loss import loss_at_km
from sim.world import World
from sim.world.distance import Distance
from sim.world.locations import Locations

EPSILON = 2.0
"""Epsilon of geo-indistinguishability within the radius of a level; the mean displacement is the radius."""
RADIUS_M = {"low": 200.0, "medium": 500.0, "high": 2000.0}
CACHE_MIN = {"low": 10, "medium": 30, "high": 60}
Minutes = Annotated[int, Field(ge=0, le=600)]
Radius = Annotated[float, Field(ge=1000 * EPSILON / EPSILON_OF_POINTS_PER_KM[1], le=1e6)]


@component("design")
class LocationGuardParameters(PhoneParameters):
    """Location Guard: reports a point with planar Laplace noise, and repeats it for some minutes."""

    short_names: ClassVar = (
        ShortNames(design="LG-low", alone={}, parameters={"level": "low"}),
        ShortNames(design="LG", alone={}),
        ShortNames(design="LG-high", alone={}, parameters={"level": "high"}),
    )
    source: ClassVar[str] = "Location Guard (github.com/chatziko/location-guard), src/js/common/browser_base.js"

    kind: Literal["location_guard"] = "location_guard"
    level: Literal["low", "medium", "high"] = "medium"
    """Level of the extension, with a radius of 200, 500 or 2,000 m and a cache of 10, 30 or 60 minutes. The default is
    that of the extension."""
    radius_m: Radius | None = None
    """Radius of the protection area in m, the mean displacement: epsilon is 2 / radius. Replaces that of the level."""
    cache_min: Minutes | None = None
    """Minutes for which a reported point is repeated, wherever the user goes; 0: never. Replaces those of the level."""

    @property
    def uses_prior(self) -> bool:
        """Whether the channel depends on the prior: never."""
        return False

    @property
    def countless(self) -> bool:
        """Whether there may be too many outputs to enumerate."""
        return True

    @property
    def sees_past(self) -> bool:
        """Whether the channel depends on the time or past releases."""
        return self.cache_s > 0

    @property
    def epsilon_per_km(self) -> float:
        """Epsilon of one point."""
        return 1000 * EPSILON / (RADIUS_M[self.level] if self.radius_m is None else self.radius_m)

    @property
    def cache_s(self) -> int:
        """Time in seconds for which a point is repeated."""
        return 60 * (CACHE_MIN[self.level] if self.cache_min is None else self.cache_min)

    def step(self, locations: Locations) -> tuple[str, float, float] | None:  # noqa: ARG002
        """Return the mean displacement in km, after the parameter that sets it and its value."""
        radius_m = 1000 * EPSILON / self.epsilon_per_km
        return "radius_m", radius_m, radius_m / 1000

    def build(self, world: World) -> LocationGuard:
        """Return the design for the grid and the quality distance of a world."""
        return LocationGuard(self, locations=world.locations, distance=world.quality_distance)


class LocationGuard:
    """Report a point with planar Laplace noise around the true location, and repeat it until the cache expires.

    The first query after the cache has expired draws a new point. Which queries these are follows from the times of
    the reports, so the channel in force is public: that of a new point, or one without any information. Points are
    rounded to metres and may lie outside the grid.
    """

    uses_prior = False

    def __init__(self, parameters: LocationGuardParameters, *, locations: Locations, distance: Distance) -> None:
        self.space = Points(locations)
        self._locations, self._distance = locations, distance
        self._cache_s = parameters.cache_s
        self._new = LaplacePointsChannel(
            locations=locations, distance=distance, epsilon_per_km=parameters.epsilon_per_km
        )

    def __call__(self, prior: FloatArray) -> Channel:  # noqa: ARG002
        """Return the channel of a first query."""
        return self._new

    def channel_at(self, prior: FloatArray, time_s: int, releases: Sequence[Release]) -> Channel:  # noqa: ARG002
        """Return the channel of a query after these releases."""
        drawn_s = last_draw([release.time_s for release in releases], self._cache_s)
        if drawn_s is None or time_s - drawn_s >= self._cache_s:
            return self._new
        return CachedPoint(releases[-1].output, locations=self._locations, distance=self._distance)


def last_draw(times_s: Sequence[int], cache_s: int) -> int | None:
    """Return the time at which the last point was drawn, given the times of all reports; None without any.

    >>> last_draw([0, 500, 650, 1100], cache_s=600)
    650
    """
    drawn_s: int | None = None
    for time_s in times_s:
        if drawn_s is None or time_s - drawn_s >= cache_s:
            drawn_s = time_s
    return drawn_s


class CachedPoint:
    """The channel that repeats a point: it reveals nothing."""

    countless = True
    epsilon_per_km = 0.0

    def __init__(self, output: int, *, locations: Locations, distance: Distance) -> None:
        self.space = Points(locations)
        self.n_outputs = self.space.count
        self._output, self._locations, self._distance = output, locations, distance

    def sample(self, cell: int, rng: Generator) -> int:  # noqa: ARG002
        """Return the point."""
        return self._output

    def likelihood(self, output: int) -> FloatArray:
        """Return f(z | .): 1 in all cells for the point, 0 for others."""
        return np.full(self._locations.n_cells, float(output == self._output))

    def loss_of_km(self, cell: int, output: int) -> float:
        """Return the loss in km of a point in a cell."""
        return loss_at_km(self._locations, self._distance, cell, *self.space.place_km(output))

    def expected_loss_of_km(self, cell: int) -> float:
        """Return the loss in km of the point in a cell."""
        return self.loss_of_km(cell, self._output)

    def row(self, cell: int) -> FloatArray:  # noqa: ARG002
        """Raise an error: there are too many outputs."""
        self._refuse()

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        """Raise an error: there are too many outputs."""
        self._refuse()

    def matrix(self) -> FloatArray:
        """Raise an error: there are too many outputs."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise InvalidValue("too many outputs to enumerate: call `likelihood` of one point", code="too-many-outputs")
