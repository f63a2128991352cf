"""Browser: approximate geolocation as drafted for the Geolocation API."""

from __future__ import annotations

import math
from functools import partial
from typing import ClassVar, Literal

from sim.components.registry import component
from sim.components.spec import Positive
from sim.lppm.designs.phones.coarsening import Rule
from sim.lppm.designs.phones.degrees import square_grid
from sim.lppm.designs.phones.parameters import CoarseningParameters
from sim.lppm.parameters import ShortNames
from sim.world.locations import KM_PER_DEGREE


@component("design")
class BrowserParameters(CoarseningParameters):
    """Browser: approximate geolocation as drafted, the smallest grid with an accuracy radius of 2 km."""

    short_names: ClassVar = ShortNames(design="Browser", alone={})
    source: ClassVar[str] = (
        "Approximate Geolocation Explainer (explainers-by-googlers); w3c/geolocation pull request 195"
    )

    kind: Literal["browser"] = "browser"
    accuracy_m: Positive = 2000.0
    """Accuracy radius in m of an approximate position. The explainer recommends at least 2 km, and snapping to a grid
    as the algorithm; the specification leaves the area to the platform. A cell of the grid is the largest square within
    this radius of its centre, 2.8 km for 2 km."""

    def step_degrees(self) -> tuple[str, float, float]:
        """Return the step of latitude in degrees, after the parameter that sets it and its value."""
        return "accuracy_m", self.accuracy_m, math.sqrt(2) * self.accuracy_m / 1000 / KM_PER_DEGREE

    def rule(self) -> Rule:
        """Return the function from latitudes and longitudes to those that are reported."""
        return partial(square_grid, latitude_step=self.step_degrees()[2])
