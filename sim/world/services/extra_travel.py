"""Extra travel: the detour of a user who is sent to the point of interest that is nearest to the reported location."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Literal

import numpy as np

from sim.components.files import Place
from sim.components.registry import component
from sim.errors import InvalidValue
from sim.inference.dense import DENSE_BYTES
from sim.interfaces import FloatArray, IntArray
from sim.world.locations import Locations
from sim.world.service import Service
from sim.world.services.points_of_interest import OfPoints

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

_TIE_KM = 1e-9
"""Trips whose lengths differ by at most this are ties."""


@component("service")
class ExtraTravelParameters(OfPoints):
    """The point of interest that is nearest by road; the loss is the extra length of the trip to it, in km."""

    kind: Literal["extra_travel"] = "extra_travel"

    @property
    def needs_roads(self) -> bool:
        """Whether the loss is measured along roads."""
        return True

    def build(self, locations: Locations, roads: Roads | None, place: Place) -> Service:
        """Return the service."""
        if roads is None:
            raise InvalidValue("extra_travel requires `world.roads`, found none: add roads", code="no-roads")
        x_km, y_km = self.positions(locations, place)
        return ExtraTravel(locations, roads=roads, x_km=x_km, y_km=y_km)


class ExtraTravel(Service):
    """Search for the point that is nearest by road, to which the user travels from the true location.

    With D(x, p) the length of the trip from x to the point p, and p(z) = argmin_p D(z, p) the answer to a report z, the
    loss is D(x, p(z)) - D(x, p(x)), which is never negative. A trip leads straight to the nearest node, along the roads
    to the node nearest to the point, and straight to the point. Of points at the same distance, the first in the file
    counts. Memory: the lengths from all nodes to the nodes of the points.
    """

    kind = "extra_travel"
    unit = "km"

    def __init__(self, locations: Locations, *, roads: Roads, x_km: FloatArray, y_km: FloatArray) -> None:
        super().__init__(locations)
        self._roads = roads
        self._node_of = roads.nearest_node(locations.x_km, locations.y_km)
        node = roads.nearest_node(x_km, y_km)
        access_km = np.hypot(x_km - roads.x_km[node], y_km - roads.y_km[node])
        # Of the points at a node, no trip leads to another one than the first of the nearest to the node.
        order = np.lexsort((np.arange(node.size), np.round(access_km, 9), node))
        first = order[np.unique(node[order], return_index=True)[1]]
        self._points = np.sort(first)
        self._nodes, self._access_km = node[self._points], access_km[self._points]
        if (size := 8 * self._points.size * roads.n_nodes) > DENSE_BYTES:
            raise InvalidValue(
                f"the lengths by road from {roads.n_nodes:,} nodes to {self._points.size:,} points would take "
                f"{size / 1e9:,.1f} GB of memory, allowed are {DENSE_BYTES / 1e9:g} GB: use fewer points",
                code="matrix-too-large",
            )

    @cached_property
    def _trips_km(self) -> FloatArray:
        """Length from each node to each point, shape (n_nodes, n_points)."""
        lengths = np.empty((self._roads.n_nodes, self._points.size))
        for number, (node, access_km) in enumerate(zip(self._nodes.tolist(), self._access_km.tolist(), strict=True)):
            lengths[:, number] = self._roads.distances_to_km(node) + access_km
        return lengths

    @cached_property
    def _nearest(self) -> IntArray:
        """The nearest point of each node, shape (n_nodes,)."""
        least_km = self._trips_km.min(axis=1, keepdims=True)
        return np.asarray((self._trips_km <= least_km + _TIE_KM).argmax(axis=1))

    def answers(self, x_km: FloatArray, y_km: FloatArray) -> IntArray:
        """Return the row in the file of the point to which the user is sent, shape (n, 1)."""
        return self._points[self._nearest[self._roads.nearest_node(x_km, y_km)]][:, np.newaxis]

    def losses(self, cell: int, answers: IntArray) -> FloatArray:
        """Return the extra length in km of the trips from a location to the points in these answers."""
        trips_km, nearest = self._trips_km[self._node_of[cell]], self._nearest[self._node_of[cell]]
        extra_km = trips_km[np.searchsorted(self._points, answers[:, 0])] - trips_km[nearest]
        return np.asarray(np.maximum(extra_km, 0.0))
