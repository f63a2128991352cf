"""WebKit: approximate positions of Safari, and reduced accuracy of iOS."""

from __future__ import annotations

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
class WebKitParameters(CoarseningParameters):
    """WebKit: reports the nearest point of a grid of about 5 km, as iOS does with reduced accuracy."""

    short_names: ClassVar = ShortNames(design="WebKit", alone={})
    source: ClassVar[str] = "M. Caceres on WebKit in w3c/geolocation pull request 233 (2026-08-12); CLLocationManager.h"

    kind: Literal["webkit"] = "webkit"
    cell_m: Positive = 5000.0
    """Height and width of a cell in m on the ground. WebKit states about 5 km, after the horizontal accuracy that
    CoreLocation documents for reduced accuracy. Its exact number of degrees and the grid of CoreLocation are not
    published; here the grid starts at latitude 0 and longitude 0."""

    def step_degrees(self) -> tuple[str, float, float]:
        """Return the step of latitude in degrees, after the parameter that sets it and its value."""
        return "cell_m", self.cell_m, self.cell_m / 1000 / KM_PER_DEGREE

    def rule(self) -> Rule:
        """Return the function from latitudes and longitudes to those that are reported."""
        return partial(square_grid, latitude_step=self.step_degrees()[2])
