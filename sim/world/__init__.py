"""The world: cells, roads and the distances between cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sim.world.distance import Distance, euclidean, manhattan, road
from sim.world.grid import Grid

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

__all__ = [
    "Distance",
    "Grid",
    "World",
    "euclidean",
    "manhattan",
    "road",
]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class World:
    """Everything that stays while people move: the cells, the roads if there are any, d_P and d_Q."""

    grid: Grid
    roads: Roads | None
    privacy_distance: Distance
    quality_distance: Distance

    def __post_init__(self) -> None:
        for name in ("privacy_distance", "quality_distance"):
            n_cells = getattr(self, name).n_cells
            if n_cells != self.grid.n_cells:
                raise ValueError(f"{name} must have the grid's {self.grid.n_cells} cells, got {n_cells}")
