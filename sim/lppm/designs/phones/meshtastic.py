"""Meshtastic: report the first bits of latitude and longitude as 32-bit integers."""

from __future__ import annotations

from functools import partial
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sim.components.registry import component
from sim.interfaces import FloatArray
from sim.lppm.designs.phones.coarsening import Rule
from sim.lppm.designs.phones.parameters import CoarseningParameters
from sim.lppm.parameters import ShortNames

_PER_DEGREE = 1e7
"""Units of `latitude_i` and `longitude_i` per degree."""


@component("design")
class MeshtasticParameters(CoarseningParameters):
    """Meshtastic: reports the centre of the cell given by the first bits of latitude and longitude."""

    short_names: ClassVar = ShortNames(design="Meshtastic", alone={})
    source: ClassVar[str] = "Meshtastic firmware, src/modules/PositionModule.cpp, `allocPositionPacket`"

    kind: Literal["meshtastic"] = "meshtastic"
    precision_bits: Annotated[int, Field(ge=1, le=32)] = 13
    """Number of bits that are kept, `position_precision` of a channel. The firmware's default for the public channel is
    13 (a cell of 5.8 km from south to north, which clients show as 2.9 km); clients offer 10 to 19, and 32 for the
    exact position."""

    def step_degrees(self) -> tuple[str, float, float]:
        """Return the step of latitude in degrees, after the parameter that sets it and its value."""
        return "precision_bits", self.precision_bits, 2 ** (32 - self.precision_bits) / _PER_DEGREE

    def rule(self) -> Rule:
        """Return the function from latitudes and longitudes to those that are reported."""
        return partial(with_bits, precision_bits=self.precision_bits)


def with_bits(lat: FloatArray, lon: FloatArray, *, precision_bits: int) -> tuple[FloatArray, FloatArray]:
    """Return the centres of the cells given by the first bits of latitude and longitude.

    Coordinates are 32-bit integers in units of 1e-7 degrees. The other bits are set to zero, and half of the cell is
    added. Both cells and centres are the same at all latitudes, so cells get narrower towards the poles.

    >>> lat, lon = with_bits(np.array([47.3769]), np.array([-8.5417]), precision_bits=16)
    >>> lat.tolist(), lon.tolist()
    ([47.3792512], [-8.5426176])
    """
    return _cut(lat, precision_bits), _cut(lon, precision_bits)


def _cut(degrees: FloatArray, bits: int) -> FloatArray:
    units = np.rint(degrees * _PER_DEGREE).astype(np.int64)
    lost = 32 - bits
    if lost > 0:
        units = (units >> lost << lost) + (1 << (lost - 1))
    return np.asarray(units / _PER_DEGREE)
