"""Nodes and segments of the road network."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import Positive
from sim.world.areas import NearestLine, require_shapely
from sim.world.grid import Grid
from sim.world.grids.san_francisco import SanFranciscoParameters
from sim.world.locations import Locations, LocationSet
from sim.world.parameters import LocationParameters, OptionalRegion

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads


class OnRoads(OptionalRegion, LocationParameters):
    """Parameters of locations on the roads of a region (default: that of the grid san_francisco)."""

    needs_roads: ClassVar[bool] = True

    reach_km: Positive = 1.0
    """Largest distance in km between a position and its location; positions farther away are outside."""

    def frame(self) -> Grid:
        """Return the region as a grid of one cell."""
        if self.region is None:
            return SanFranciscoParameters().of_shape(1, 1)
        return Grid.region(rows=1, cols=1, **self.region._asdict())


@component("locations")
class RoadNodesParameters(OnRoads):
    """The nodes of the road network, which are crossings; a position belongs to the nearest node."""

    kind: Literal["road_nodes"] = "road_nodes"

    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Locations:  # noqa: ARG002
        """Return the nodes, in the order of the road network."""
        frame = self.frame()
        roads = roads_on(frame)
        return LocationSet(
            kind="road_nodes",
            x_km=roads.x_km,
            y_km=roads.y_km,
            width_km=frame.width_km,
            height_km=frame.height_km,
            bounds=frame.bounds,
            reach_km=self.reach_km,
        )


@component("locations")
class RoadSegmentsParameters(OnRoads):
    """The segments of the road network, both directions together; a position belongs to the nearest segment."""

    kind: Literal["road_segments"] = "road_segments"
    longest_m: Positive = 500.0
    """Length of a segment in m above which it is divided into equal parts."""

    def locate(self, place: Place, roads_on: Callable[[Locations], Roads]) -> Locations:  # noqa: ARG002
        """Return the segments, each at its middle."""
        frame, shapely = self.frame(), require_shapely()
        roads = roads_on(frame)
        pairs = np.unique(np.sort(np.array(roads.graph.edges, dtype=np.int64), axis=1), axis=0)
        ends = np.stack([np.column_stack([roads.x_km[side], roads.y_km[side]]) for side in pairs.T], axis=1)
        length_km = np.hypot(*(ends[:, 1] - ends[:, 0]).T)
        parts = np.maximum(np.ceil(length_km * 1000 / self.longest_m), 1).astype(np.int64)
        owner = np.repeat(np.arange(len(pairs)), parts)
        nth = np.arange(owner.size) - np.repeat(np.cumsum(parts) - parts, parts)
        step = (ends[owner, 1] - ends[owner, 0]) / parts[owner, None]
        lines = np.stack([ends[owner, 0] + nth[:, None] * step, ends[owner, 0] + (nth[:, None] + 1) * step], axis=1)
        middle = lines.mean(axis=1)
        return LocationSet(
            kind="road_segments",
            x_km=middle[:, 0],
            y_km=middle[:, 1],
            width_km=frame.width_km,
            height_km=frame.height_km,
            bounds=frame.bounds,
            reach_km=self.reach_km,
            outlines=tuple(lines),
            find=NearestLine(shapely.linestrings(lines), self.reach_km),
        )
