"""Straight-line distance."""

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
class EuclideanParameters(DistanceParameters):
    """Straight-line distance between cell centres."""

    kind: Literal["euclidean"] = "euclidean"

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        return euclidean(grid)


def euclidean(grid: Grid) -> Distance:
    """Return the Euclidean distance between cell centres."""
    return Distance(kind="euclidean", matrix_km=np.hypot(east_km(grid), north_km(grid)))
