"""The world: locations, roads and the distances between locations.

Locations are called cells throughout the code: the cells of a grid, or points, areas and parts of roads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.world.distance import Distance, smoothing_kernel
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.distances.road import road
from sim.world.grid import Grid, require_grid
from sim.world.locations import Bounds, Locations, LocationSet
from sim.world.service import Service

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

T = TypeVar("T")

__all__ = [
    "Bounds",
    "Distance",
    "Grid",
    "LocationSet",
    "Locations",
    "Service",
    "World",
    "euclidean",
    "manhattan",
    "restore",
    "road",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """The fixed environment of a simulation: locations, optional roads, and the distances d_P and d_Q of the paper."""

    locations: Locations
    """The locations that users, reports and estimates are in: the set X of the paper."""
    roads: Roads | None
    """Road graph; None: no roads."""
    privacy_distance: Distance
    """d_P, in which the adversary error is measured."""
    quality_distance: Distance
    """d_Q, in which the quality loss is measured."""
    services: Mapping[str, Service] = field(default_factory=dict)
    """Services that users ask about their location, by name."""
    _derived: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("privacy_distance", "quality_distance"):
            n_cells = getattr(self, name).n_cells
            if n_cells != self.n_cells:
                raise InvalidValue(
                    f"{name} must have as many cells as the world, {self.n_cells}, got {n_cells}", code="wrong-shape"
                )

    @property
    def n_cells(self) -> int:
        """Return the number of locations, |X| of the paper."""
        return self.locations.n_cells

    @property
    def grid(self) -> Grid:
        """Return the locations if they are the cells of a grid; raise `InvalidValue` otherwise."""
        return require_grid(self.locations)

    def metric(self, name: str) -> Distance:
        """Return a distance by name: ``quality`` (d_Q), ``privacy`` (d_P) or ``euclidean``."""
        match name:
            case "quality":
                return self.quality_distance
            case "privacy":
                return self.privacy_distance
        return self.euclidean_distance

    def smoothing_kernel(self, smooth_km: float) -> FloatArray | None:
        """Return the smoothing kernel exp(-d_Q / smooth_km) with columns that sum to 1; None if `smooth_km` is 0.

        The shape is (n_cells, n_cells), [to cell, from cell].
        """
        return self.derived(
            ("smoothing", smooth_km), lambda: smoothing_kernel(self.quality_distance.matrix_km, smooth_km)
        )

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the result of `make()`, computed once per key and shared by all users."""
        if key not in self._derived:
            self._derived[key] = make()
        return cast(T, self._derived[key])

    @cached_property
    def euclidean_distance(self) -> Distance:
        """Return the straight-line distance between cells."""
        return euclidean(self.locations)

    @cached_property
    def travel_distance(self) -> Distance:
        """Return the distance that users travel: along the roads, or d_Q without roads."""
        return self.quality_distance if self.roads is None else road(self.locations, self.roads)


def restore(entry: Mapping[str, Any]) -> Locations:
    """Return the locations of a manifest entry, as `Locations.describe` returns it.

    >>> restore(Grid.rectangle(rows=1, cols=2, width_km=2, height_km=1).describe()).x_km.tolist()
    [0.5, 1.5]
    """
    return LocationSet.of_entry(entry) if "kind" in entry else Grid(**entry)
