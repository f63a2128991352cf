"""Manhattan distance: distance along the axes of the grid."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from sim.components.files import Place
from sim.components.registry import component
from sim.world.distance import Distance, east_km, north_km
from sim.world.grid import Grid
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class ManhattanParameters(DistanceParameters):
    """Distance along the two axes of the grid, as in the paper."""

    kind: Literal["manhattan"] = "manhattan"

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        return manhattan(grid)


def manhattan(grid: Grid) -> Distance:
    """Return the Manhattan distance between cell centres, used in the paper's experiments."""
    return Distance(kind="manhattan", matrix_km=np.abs(east_km(grid)) + np.abs(north_km(grid)), shape=grid.shape)
