"""Local metric coordinates of pairs of true and sent positions."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.world.locations import KM_PER_DEGREE

M_PER_DEGREE = 1000.0 * KM_PER_DEGREE
SAME_PLACE_M = 0.1
"""Distance below which two positions are the same; files with six decimals round by up to 0.08 m."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Pairs of true and sent positions in degrees, sorted by user and time; all arrays have shape (n,)."""

    user: IntArray
    """Number of the user of each pair, never decreasing."""
    time_s: FloatArray
    """Time in seconds, or the position within the trace."""
    lat: FloatArray
    lon: FloatArray
    sent_lat: FloatArray
    """NaN if nothing was sent."""
    sent_lon: FloatArray

    def __len__(self) -> int:
        return int(self.user.size)

    def rows(self, chosen: BoolArray | IntArray) -> Sample:
        """Return some of the pairs."""
        return Sample(**{field.name: getattr(self, field.name)[chosen] for field in fields(self)})

    @cached_property
    def sent(self) -> BoolArray:
        """Mask of the pairs with a report."""
        return np.asarray(np.isfinite(self.sent_lat) & np.isfinite(self.sent_lon))

    @cached_property
    def dx_m(self) -> FloatArray:
        """Displacement to the east in metres; NaN if nothing was sent."""
        return np.asarray((self.sent_lon - self.lon) * metres_per_degree_east(self.lat))

    @cached_property
    def dy_m(self) -> FloatArray:
        """Displacement to the north in metres; NaN if nothing was sent."""
        return np.asarray((self.sent_lat - self.lat) * M_PER_DEGREE)

    @cached_property
    def distance_m(self) -> FloatArray:
        """Length of the displacement in metres."""
        return np.hypot(self.dx_m, self.dy_m)

    @cached_property
    def identical(self) -> BoolArray:
        """Mask of the pairs whose report is the true position."""
        with np.errstate(invalid="ignore"):
            return np.asarray(self.distance_m <= SAME_PLACE_M)

    @cached_property
    def follows(self) -> BoolArray:
        """Mask of the pairs that follow another pair of the same user."""
        return np.concatenate([[False], self.user[1:] == self.user[:-1]])[: len(self)]

    @cached_property
    def plane(self) -> Plane:
        """Plane around the true positions."""
        return Plane.around(self.lat, self.lon)

    @cached_property
    def true_xy_m(self) -> tuple[FloatArray, FloatArray]:
        """True positions in metres on `plane`."""
        return self.plane.to_m(self.lat, self.lon)

    @cached_property
    def sent_xy_m(self) -> tuple[FloatArray, FloatArray]:
        """Sent positions in metres on `plane`."""
        return self.plane.to_m(self.sent_lat, self.sent_lon)


@dataclass(frozen=True, slots=True)
class Plane:
    """Equirectangular projection around a point in degrees."""

    lat: float
    lon: float

    @classmethod
    def around(cls, lat: FloatArray, lon: FloatArray) -> Plane:
        """Return the plane whose origin is the centre of the extent of positions."""
        return cls(float(lat.min() + lat.max()) / 2, float(lon.min() + lon.max()) / 2)

    def to_m(self, lat: FloatArray, lon: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (x, y) in metres.

        >>> x, y = Plane(0.0, 10.0).to_m(np.array([1.0]), np.array([10.0]))
        >>> x.round(), y.round()
        (array([0.]), array([111195.]))
        """
        scale = M_PER_DEGREE * np.cos(np.radians(self.lat))
        return (lon - self.lon) * scale, (lat - self.lat) * M_PER_DEGREE

    def to_degrees(self, x_m: FloatArray, y_m: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return (lat, lon) of positions in metres."""
        scale = M_PER_DEGREE * np.cos(np.radians(self.lat))
        return self.lat + y_m / M_PER_DEGREE, self.lon + x_m / scale


def metres_per_degree_east(lat: FloatArray) -> FloatArray:
    """Return the length in metres of a degree of longitude at a latitude."""
    return np.asarray(M_PER_DEGREE * np.cos(np.radians(lat)))
