"""Road distance: length of the shortest path along the roads."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sim.components.files import Place
from sim.components.registry import component
from sim.errors import InvalidValue
from sim.world.distance import Distance, east_km, north_km
from sim.world.grid import Grid
from sim.world.parameters import DistanceParameters

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


@component("distance")
class RoadDistanceParameters(DistanceParameters):
    """Length of the shortest path along the roads; differs between directions where streets are one-way."""

    needs_roads: ClassVar[bool] = True

    kind: Literal["road"] = "road"

    def build(self, grid: Grid, roads: Roads | None, place: Place) -> Distance:  # noqa: ARG002
        """Return the distance between the cells of a grid."""
        if roads is None:
            raise InvalidValue("road distance requires `world.roads`, found none: add roads", code="no-roads")
        return road(grid, roads)


def road(grid: Grid, roads: Roads) -> Distance:
    """Return the length of the shortest path by road, which one-way streets make asymmetric.

    A path leads straight from the centre of a cell to the nearest node, by road to the node nearest to the centre of
    the other cell, and straight to that centre. The distance is at least the Euclidean distance, so two cells with the
    same nearest node have a positive distance.
    """
    node = roads.nearest_node(grid.x_km, grid.y_km)
    access_km = np.hypot(grid.x_km - roads.x_km[node], grid.y_km - roads.y_km[node])
    distinct, position = np.unique(node, return_inverse=True)
    by_road_km = roads.distances_km(distinct)[:, node][position]
    path_km = access_km[:, None] + by_road_km + access_km[None, :]
    matrix_km = np.maximum(path_km, np.hypot(east_km(grid), north_km(grid)))
    np.fill_diagonal(matrix_km, 0.0)
    return Distance(kind="road", matrix_km=matrix_km)
