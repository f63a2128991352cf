"""The world: cells, roads and the distances between cells."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from sim.interfaces import FloatArray
from sim.world.distance import Distance, smoothing_kernel
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.distances.road import road
from sim.world.grid import Grid

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

T = TypeVar("T")

__all__ = [
    "Distance",
    "Grid",
    "World",
    "euclidean",
    "manhattan",
    "road",
]


@dataclass(frozen=True, kw_only=True, eq=False)
class World:
    """Everything that stays while people move: the cells, the roads if there are any, d_P and d_Q."""

    grid: Grid
    roads: Roads | None
    privacy_distance: Distance
    quality_distance: Distance
    _derived: dict[Hashable, Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        for name in ("privacy_distance", "quality_distance"):
            n_cells = getattr(self, name).n_cells
            if n_cells != self.grid.n_cells:
                raise ValueError(f"{name} must have the grid's {self.grid.n_cells} cells, got {n_cells}")

    def metric(self, name: str) -> Distance:
        """Return the distance that a promise is about: ``quality``, ``privacy``, or ``euclidean``."""
        match name:
            case "quality":
                return self.quality_distance
            case "privacy":
                return self.privacy_distance
        return self.euclidean_distance

    def smoothing_kernel(self, smooth_km: float) -> FloatArray | None:
        """Return the kernel [to cell, from cell] that falls by e with every `smooth_km` of d_Q; None for 0."""
        return self.derived(
            ("smoothing", smooth_km), lambda: smoothing_kernel(self.quality_distance.matrix_km, smooth_km)
        )

    def derived(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return what `make` makes of this world, once for all users."""
        if key not in self._derived:
            self._derived[key] = make()
        return cast(T, self._derived[key])

    @cached_property
    def euclidean_distance(self) -> Distance:
        """Return the straight-line distance between cells."""
        return euclidean(self.grid)

    @cached_property
    def travel_distance(self) -> Distance:
        """Return how far people have to go: along the roads, if there are any, else d_Q."""
        return self.quality_distance if self.roads is None else road(self.grid, self.roads)
