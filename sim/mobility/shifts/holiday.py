"""Holiday: a temporary stay around a place far from home."""

from __future__ import annotations

from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from sim.components.registry import component
from sim.components.spec import Count, Days, Positive
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.shifts.context import ShiftContext
from sim.mobility.shifts.life import ShiftedLife
from sim.mobility.shifts.parameters import ShiftOfPlaces
from sim.mobility.shifts.places import by_frequency, distances_km, drawn
from sim.mobility.synthetic.city import fading, pick, thresholds
from sim.world.locations import Locations


@component("shift")
class HolidayParameters(ShiftOfPlaces):
    """Holiday: temporary, independent visits around a place far from home."""

    kind: Literal["holiday"] = "holiday"
    for_queries: Count | None = None
    """Duration in queries; either `for_queries` or `for_days` is required."""
    for_days: Days | None = None
    """Duration in days; either `for_queries` or `for_days` is required."""
    away_km: Positive = 10.0
    """Minimum distance of the holiday place from home in km; if the grid is smaller, the farthest cell."""
    spread_km: Positive = 2.0
    """Scale in km of the exponential decay of visits with the distance from the holiday place."""

    @model_validator(mode="after")
    def _ends(self) -> Self:
        if self.for_good:
            raise InvalidValue(
                "a holiday must end: give `for_queries` or `for_days`, found neither", code="missing-key"
            )
        return self

    def new_cells(self, life: ShiftedLife, start: int, context: ShiftContext, rng: Generator) -> IntArray:
        """Return the cells of all test queries during the holiday."""
        weights = holiday(
            locations=context.world.locations,
            attraction=context.attraction,
            home=int(by_frequency(life.cells_before(start))[0]),
            away_km=self.away_km,
            spread_km=self.spread_km,
            rng=context.stream(self.name, life.user),
        )
        return drawn(weights, len(life.cells), rng)


def holiday(
    *, locations: Locations, attraction: FloatArray, home: int, away_km: float, spread_km: float, rng: Generator
) -> FloatArray:
    """Return the weight of each cell during the holiday, around a place far from home that is drawn by attraction.

    If no place is at least `away_km` away, the place is the farthest cell with positive attraction.
    """
    from_home_km = np.where(attraction > 0, distances_km(locations, home), -1.0)
    far = np.where(from_home_km >= away_km, attraction, 0.0)
    place = pick(thresholds(far), rng.random()) if far.any() else int(from_home_km.argmax())
    return np.asarray(attraction * fading(locations, place, spread_km), dtype=np.float64)
