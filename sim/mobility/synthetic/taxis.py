"""Taxis: cabs that drive passengers along the roads."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import NonNegative, Positive, Share
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, Generator
from sim.mobility.parameters import MobilityParameters
from sim.mobility.synthetic.city import attraction, fading, pick, thresholds
from sim.mobility.synthetic.drivers import Drivers
from sim.mobility.synthetic.trips import HOUR_S, Trip, drive, standing
from sim.mobility.traces import DAY_S
from sim.rng import stream
from sim.world import World

if TYPE_CHECKING:
    from sim.world.locations import Locations
    from sim.world.roads.graph import Roads


@component("mobility")
class TaxisParameters(MobilityParameters):
    """Cabs that pick up passengers at hotspots and drive them along the roads."""

    needs_roads: ClassVar[bool] = True
    endless: ClassVar[bool] = True

    kind: Literal["taxis"] = "taxis"
    hotspots: Annotated[int, Field(ge=1, le=1000)] = 6
    """Number of centres of activity in the city."""
    wait_s: NonNegative = 300.0
    """Mean waiting time between passengers in seconds."""
    shift_h: Annotated[float, Field(gt=0, le=24)] = 24.0
    """Working hours per day; the cab spends the rest at its depot. With 24, it never rests."""
    near_share: Share = 0.7
    """Share of passengers who are picked up near the cab."""
    near_km: Positive = 2.0
    """Scale in km of the exponential decay of nearby passengers with distance."""

    def build(self, world: World, seed: int, place: Place) -> Taxis:  # noqa: ARG002
        """Return the model on the roads of a world."""
        if world.roads is None:
            raise InvalidValue(f"{self.kind} require `world.roads`, found none: add roads", code="no-roads")
        return Taxis(self, locations=world.locations, roads=world.roads, seed=seed)


class Taxis(Drivers):
    """Cabs that repeatedly wait, drive to a passenger and drive the passenger to a destination.

    The city has `hotspots` centres of activity. With probability `near_share`, a passenger appears near the cab, drawn
    by attraction times exp(-distance / near_km); otherwise anywhere, drawn by attraction. The destination is drawn by
    attraction over the whole city. Waiting times are exponential with mean `wait_s`, at least one second. A cab works
    `shift_h` hours per day, starting at a random hour of the cab, and then rests at its depot. With 24 hours it never
    rests, like cabs shared by several drivers.
    """

    def __init__(self, parameters: TaxisParameters, *, locations: Locations, roads: Roads, seed: int) -> None:
        super().__init__(roads)
        self.parameters, self.locations, self.seed = parameters, locations, seed
        self.attraction = attraction(locations, seed=seed, roads=roads, centres=parameters.hotspots)
        self._anywhere = thresholds(self.attraction)
        self._near: dict[int, FloatArray] = {}
        self._by_cell = np.argsort(roads.cell, kind="stable")
        self._first = np.searchsorted(roads.cell[self._by_cell], np.arange(locations.n_cells + 1))

    def _trips(self, user: str, rng: Generator) -> Iterator[Trip]:
        taste = stream(self.seed, "taste", user)
        depot = int(taste.integers(self.roads.cell.size))
        rests = self.parameters.shift_h < 24
        begin_s = int(taste.integers(DAY_S)) if rests else 0
        node, now_s = depot, 0
        yield standing(depot, now_s)
        for day in count():
            begins_s = day * DAY_S + begin_s
            now_s = max(now_s, begins_s)
            while now_s < begins_s + self.parameters.shift_h * HOUR_S:
                depart_s = now_s + 1 + int(rng.exponential(self.parameters.wait_s))
                for goal in (self._passenger(node, rng), self._node_in(self._anywhere, rng)):
                    trip = drive(self._roads(depart_s), node, goal, depart_s=depart_s)
                    yield trip
                    node, depart_s = goal, trip.arrival_s
                now_s = depart_s
            if rests:
                trip = drive(self._roads(now_s), node, depot, depart_s=now_s)
                yield trip
                node, now_s = depot, trip.arrival_s

    def _passenger(self, node: int, rng: Generator) -> int:
        """Draw the node where the next passenger waits."""
        if rng.random() >= self.parameters.near_share:
            return self._node_in(self._anywhere, rng)
        cell = int(self.roads.cell[node])
        if cell not in self._near:
            self._near[cell] = thresholds(self.attraction * fading(self.locations, cell, self.parameters.near_km))
        return self._node_in(self._near[cell], rng)

    def _node_in(self, limits: FloatArray, rng: Generator) -> int:
        """Draw a cell by thresholds, then one of its nodes uniformly."""
        cell = pick(limits, rng.random())
        return int(self._by_cell[rng.integers(self._first[cell], self._first[cell + 1])])
