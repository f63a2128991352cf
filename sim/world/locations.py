"""Locations: the finite set X of the paper, in which users, reports and estimates are.

A location is an integer. Its position is in km east and north of the south-west corner of the set, and also in degrees
if the set is georeferenced. The locations are the cells of a `sim.world.grid.Grid`, or any `LocationSet`: points of
interest, areas or parts of a road network.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sim.errors import InvalidValue
from sim.inference.bayes import read_only
from sim.interfaces import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.spatial import cKDTree

EARTH_RADIUS_KM = 6371.0088
KM_PER_DEGREE = EARTH_RADIUS_KM * math.pi / 180.0


class Bounds(NamedTuple):
    """A region in degrees."""

    south: float
    north: float
    west: float
    east: float

    @property
    def km_per_degree(self) -> tuple[float, float]:
        """Return the km per degree of latitude and of longitude, the latter at the central latitude."""
        return KM_PER_DEGREE, KM_PER_DEGREE * math.cos(math.radians((self.south + self.north) / 2.0))

    @property
    def size_km(self) -> tuple[float, float]:
        """Return width and height in km."""
        north, east = self.km_per_degree
        return (self.east - self.west) * east, (self.north - self.south) * north

    def to_km(self, lat: ArrayLike, lon: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return (x_km, y_km) of positions given in degrees, by an equirectangular projection."""
        north, east = self.km_per_degree
        x_km = (np.asarray(lon, dtype=np.float64) - self.west) * east
        y_km = (np.asarray(lat, dtype=np.float64) - self.south) * north
        return x_km, y_km


class Locations(ABC):
    """A finite set of locations in the plane."""

    __slots__ = ()

    kind: str
    """Kind of the set, such as ``points``."""
    x_km: FloatArray
    """Positions in km east of the south-west corner, shape (n_cells,)."""
    y_km: FloatArray
    """Positions in km north of the south-west corner, shape (n_cells,)."""
    width_km: float
    """Extent from west to east in km."""
    height_km: float
    """Extent from south to north in km."""
    bounds: Bounds | None
    """The region in degrees; None if the set is not georeferenced."""
    labels: tuple[str, ...] | None
    """A label of each location; None without labels."""
    weights: FloatArray | None
    """A weight of each location, such as its number of visits, shape (n_cells,); None without weights."""

    @property
    def n_cells(self) -> int:
        """Return the number of locations, |X| of the paper."""
        return len(self.x_km)

    @property
    @abstractmethod
    def cell_size_km(self) -> tuple[float, float]:
        """Return the typical extent of a location from west to east and from south to north in km."""

    @abstractmethod
    def cell_of_km(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the location of each position given in km, -1 outside the set."""

    @abstractmethod
    def nearest(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the location that is nearest to each position given in km, wherever the position is."""

    @abstractmethod
    def summary(self) -> str:
        """Return number and size of the locations in words."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return the manifest entry, from which `sim.world.restore` restores the set."""

    def cell_of(self, lat: ArrayLike, lon: ArrayLike) -> IntArray:
        """Return the location of each position given in degrees, -1 outside the set."""
        return self.cell_of_km(*self.to_km(lat, lon))

    def to_km(self, lat: ArrayLike, lon: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return (x_km, y_km) of positions given in degrees."""
        return self.require_bounds().to_km(lat, lon)

    def to_degrees(self, x_km: ArrayLike, y_km: ArrayLike) -> tuple[FloatArray, FloatArray]:
        """Return (lat, lon) of positions given in km."""
        bounds = self.require_bounds()
        north, east = bounds.km_per_degree
        lat = bounds.south + np.asarray(y_km, dtype=np.float64) / north
        lon = bounds.west + np.asarray(x_km, dtype=np.float64) / east
        return lat, lon

    @property
    def km_per_degree(self) -> tuple[float, float]:
        """Return the km per degree of latitude and of longitude."""
        return self.require_bounds().km_per_degree

    def require_bounds(self) -> Bounds:
        """Return the region in degrees; raise `InvalidValue` if the set is not georeferenced."""
        if self.bounds is None:
            raise InvalidValue(
                f"{self.kind} without latitudes and longitudes: use Grid.region, a grid of kind region or "
                "san_francisco, or locations in degrees",
                code="no-coordinates",
            )
        return self.bounds


class Finder(Protocol):
    """Assignment of positions to locations."""

    def __call__(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the location of each position, shapes (n,), -1 outside the set."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class LocationSet(Locations):
    """Locations at any positions.

    >>> corner = LocationSet(kind="points", x_km=[0.0, 3.0], y_km=[0.0, 4.0], width_km=3.0, height_km=4.0, reach_km=2.0)
    >>> corner.cell_of_km([0.0, 1.0, 1.5], [1.0, 4.0, 2.0]).tolist()
    [0, 1, -1]
    """

    kind: str
    x_km: FloatArray
    y_km: FloatArray
    width_km: float
    height_km: float
    bounds: Bounds | None = None
    labels: tuple[str, ...] | None = None
    weights: FloatArray | None = None
    reach_km: float = math.inf
    """Largest distance, in [0, inf] km, of a position from its location; positions farther away are outside."""
    outlines: tuple[FloatArray, ...] | None = None
    """Closed outline, or course of a road, of each location in km, shape (n_vertices, 2), for maps; None for points."""
    find: Finder | None = field(default=None, repr=False)
    """Assignment of positions to locations. None: the nearest location within `reach_km`."""

    def __post_init__(self) -> None:
        for name in ("x_km", "y_km", "weights"):
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, read_only(np.array(values, dtype=np.float64)))
        if self.n_cells < 1 or self.x_km.ndim != 1 or self.y_km.shape != self.x_km.shape:
            raise ValueError(
                f"x_km and y_km must have the same shape (n_cells,) with n_cells in [1, inf), got {self.x_km.shape} "
                f"and {self.y_km.shape}"
            )
        if not (np.isfinite(self.x_km).all() and np.isfinite(self.y_km).all()):
            raise ValueError("x_km and y_km must be finite")
        for name in ("labels", "weights", "outlines"):
            values = getattr(self, name)
            if values is not None and len(values) != self.n_cells:
                raise ValueError(f"{name} must have one value per location, {self.n_cells}, got {len(values)}")
        if self.weights is not None and not (np.isfinite(self.weights).all() and self.weights.min() >= 0):
            raise ValueError(f"weights must be in [0, inf), got {self.weights.min()}")

    @property
    def cell_size_km(self) -> tuple[float, float]:
        """Return the median distance from a location to its nearest neighbour, in both directions."""
        return (self._spacing_km, self._spacing_km)

    def cell_of_km(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the location of each position given in km, -1 outside the set."""
        x_km, y_km = np.broadcast_arrays(np.asarray(x_km, dtype=np.float64), np.asarray(y_km, dtype=np.float64))
        cells = np.full(x_km.shape, -1, dtype=np.int64)
        finite = np.isfinite(x_km) & np.isfinite(y_km)
        find = self._within_reach if self.find is None else self.find
        cells[finite] = find(x_km[finite], y_km[finite])
        return cells

    def nearest(self, x_km: ArrayLike, y_km: ArrayLike) -> IntArray:
        """Return the location that is nearest to each position given in km."""
        return self._nearest(x_km, y_km)[1]

    def summary(self) -> str:
        """Return number and spacing of the locations in words."""
        region = f"{self.width_km:.3g} x {self.height_km:.3g} km"
        kind = self.kind.replace("_", " ")
        return f"{self.n_cells:,} ({kind}) in {region}, each {1000 * self._spacing_km:,.0f} m from the next (median)"

    def describe(self) -> dict[str, Any]:
        """Return the manifest entry, from which `of_entry` restores the set; positions are exact, outlines in m."""
        return {
            "kind": self.kind,
            "x_km": self.x_km.tolist(),
            "y_km": self.y_km.tolist(),
            "width_km": self.width_km,
            "height_km": self.height_km,
            "bounds": None if self.bounds is None else list(self.bounds),
            "labels": None if self.labels is None else list(self.labels),
            "weights": None if self.weights is None else self.weights.tolist(),
            "reach_km": None if math.isinf(self.reach_km) else self.reach_km,
            "outlines_m": None
            if self.outlines is None
            else [np.rint(outline * 1000).astype(int).ravel().tolist() for outline in self.outlines],
        }

    @classmethod
    def of_entry(cls, entry: Mapping[str, Any]) -> LocationSet:
        """Restore a set from its manifest entry, to map positions; areas are represented by their centres."""
        bounds, labels, outlines = entry["bounds"], entry["labels"], entry["outlines_m"]
        return cls(
            kind=entry["kind"],
            x_km=entry["x_km"],
            y_km=entry["y_km"],
            width_km=float(entry["width_km"]),
            height_km=float(entry["height_km"]),
            bounds=None if bounds is None else Bounds(*bounds),
            labels=None if labels is None else tuple(labels),
            weights=entry["weights"],
            reach_km=math.inf if entry["reach_km"] is None else entry["reach_km"],
            outlines=None if outlines is None else tuple(np.reshape(outline, (-1, 2)) / 1000 for outline in outlines),
        )

    def _within_reach(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        away_km, cells = self._nearest(x_km, y_km)
        return np.where(away_km <= self.reach_km, cells, -1)

    def _nearest(self, x_km: ArrayLike, y_km: ArrayLike) -> tuple[FloatArray, IntArray]:
        """Return distance and number of the nearest location; of locations at the same position, the lowest."""
        away_km, place = self._tree.query(np.stack(np.broadcast_arrays(x_km, y_km), axis=-1))
        return np.asarray(away_km), self._lowest[place]

    @cached_property
    def _distinct(self) -> tuple[FloatArray, IntArray]:
        """Distinct positions, shape (k, 2), and the lowest location at each."""
        positions, lowest = np.unique(np.column_stack([self.x_km, self.y_km]), axis=0, return_index=True)
        return positions, np.asarray(lowest, dtype=np.int64)

    @property
    def _lowest(self) -> IntArray:
        return self._distinct[1]

    @cached_property
    def _tree(self) -> cKDTree:
        from scipy.spatial import cKDTree  # slow to import

        return cKDTree(self._distinct[0])

    @cached_property
    def _spacing_km(self) -> float:
        positions = self._distinct[0]
        if len(positions) == 1:
            return max(self.width_km, self.height_km)
        away_km, _ = self._tree.query(positions, k=[2])
        return float(np.median(away_km))
