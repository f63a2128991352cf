"""Decimals: report latitude and longitude with few decimals."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.components.registry import component
from sim.interfaces import FloatArray
from sim.lppm.designs.phones.coarsening import Rule
from sim.lppm.designs.phones.degrees import nearest, truncated
from sim.lppm.designs.phones.parameters import CoarseningParameters
from sim.lppm.parameters import ShortNames

Rounding = Literal["nearest", "truncate"]


@component("design")
class DecimalsParameters(CoarseningParameters):
    """Decimals: reports latitude and longitude with a number of decimals."""

    short_names: ClassVar = ShortNames(design="Decimals", alone={})
    source: ClassVar[str] = "Common practice of apps, such as MeshCore issue 870 (3 decimals) and APRS ambiguity"

    kind: Literal["decimals"] = "decimals"
    decimals: Annotated[int, Field(ge=0, le=7)] = 2
    """Number of decimals of latitude and longitude in degrees: 2 are 1.1 km from south to north, 3 are 111 m."""
    rounding: Rounding = "nearest"
    """Round to the nearest number, or truncate the other decimals, which moves every report towards 0, 0."""

    def step_degrees(self) -> tuple[str, float, float]:
        """Return the step of latitude in degrees, after the parameter that sets it and its value."""
        return "decimals", self.decimals, 10.0**-self.decimals

    def rule(self) -> Rule:
        """Return the function from latitudes and longitudes to those that are reported."""
        return partial(rounded, decimals=self.decimals, rounding=self.rounding)


def rounded(lat: FloatArray, lon: FloatArray, *, decimals: int, rounding: Rounding) -> tuple[FloatArray, FloatArray]:
    """Return latitudes and longitudes with a number of decimals.

    >>> import numpy as np
    >>> lat, lon = rounded(np.array([40.758896]), np.array([-73.98513]), decimals=2, rounding="nearest")
    >>> lat.round(9).tolist(), lon.round(9).tolist()
    ([40.76], [-73.99])
    """
    to = truncated if rounding == "truncate" else nearest
    step = 10.0**-decimals
    return to(lat, step), to(lon, step)
