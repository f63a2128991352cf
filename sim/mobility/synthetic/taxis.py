"""Taxis: cabs on the roads that follow their fares."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import NonNegative, Positive, Share
from sim.interfaces import FloatArray, Generator
from sim.mobility.parameters import MobilityParameters
from sim.mobility.synthetic.city import attraction, fading, pick, thresholds
from sim.mobility.synthetic.drivers import Drivers
from sim.mobility.synthetic.trips import HOUR_S, Trip, drive, standing
from sim.mobility.traces import DAY_S
from sim.rng import stream
from sim.world import World

if TYPE_CHECKING:
    from sim.world.grid import Grid
    from sim.world.roads.graph import Roads


@component("mobility")
class TaxisParameters(MobilityParameters):
    """Cabs on the road graph that look for passengers at hot spots and drive them along directed streets."""

    needs_roads: ClassVar[bool] = True

    kind: Literal["taxis"] = "taxis"
    hotspots: Annotated[int, Field(ge=1, le=1000)] = 6
    """How many centres of life the city has."""
    wait_s: NonNegative = 300.0
    """Mean wait for a passenger."""
    shift_h: Annotated[float, Field(gt=0, le=24)] = 24.0
    """Hours a day on the road; the rest is spent at a depot."""
    near_share: Share = 0.7
    """Share of passengers that are picked up nearby."""
    near_km: Positive = 2.0
    """What is nearby."""

    def build(self, world: World, seed: int, place: Place) -> Taxis:  # noqa: ARG002
        """Return the model on the roads of a world."""
        if world.roads is None:
            raise ValueError(f"{self.kind} live on roads, found none")
        return Taxis(self, grid=world.grid, roads=world.roads, seed=seed)


class Taxis(Drivers):
    """Drive to a passenger, drive the passenger to a destination, wait, and again.

    The city has `hotspots` centres of life. A passenger appears near the cab with probability
    `near_share`, by attraction x exp(-distance / near_km), else anywhere by attraction; the
    destination is drawn by attraction over the whole city. Between fares a cab waits an exponential time of mean
    `wait_s`, one second at least. It works `shift_h` hours a day from an hour of its
    own, then rests at its depot; at 24 it never rests, as cabs do that drivers share.
    """

    def __init__(self, parameters: TaxisParameters, *, grid: Grid, roads: Roads, seed: int) -> None:
        super().__init__(roads)
        self.parameters, self.grid, self.seed = parameters, grid, seed
        self.attraction = attraction(grid, seed=seed, roads=roads, centres=parameters.hotspots)
        self._anywhere = thresholds(self.attraction)
        self._near: dict[int, FloatArray] = {}
        self._by_cell = np.argsort(roads.cell, kind="stable")
        self._first = np.searchsorted(roads.cell[self._by_cell], np.arange(grid.n_cells + 1))

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
            self._near[cell] = thresholds(self.attraction * fading(self.grid, cell, self.parameters.near_km))
        return self._node_in(self._near[cell], rng)

    def _node_in(self, limits: FloatArray, rng: Generator) -> int:
        """Draw a cell by its thresholds, then one of its nodes, all alike."""
        cell = pick(limits, rng.random())
        return int(self._by_cell[rng.integers(self._first[cell], self._first[cell + 1])])
