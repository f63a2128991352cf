"""Commuters: people with home, work and leisure on the roads, in a daily rhythm.

A person's places are drawn from the stream ("taste", user): they are the same in every replication. The
generator handed to `visits` decides the days. Time 0 is the midnight before a Monday.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import count
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import Share
from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.parameters import MobilityParameters
from sim.mobility.synthetic.city import attraction, pick, thresholds
from sim.mobility.synthetic.drivers import Drivers
from sim.mobility.synthetic.trips import HOUR_S, Trip, drive, standing
from sim.mobility.traces import DAY_S
from sim.rng import stream
from sim.world import World

if TYPE_CHECKING:
    from sim.world.grid import Grid
    from sim.world.roads.graph import Roads


LEISURE_KM = 3.0
LEISURE_HOURS = 2.0
WEEKEND_START_H = 11.0
SHORTEST_STAY_H = 0.25


@component("mobility")
class CommutersParameters(MobilityParameters):
    """People with home, work and leisure on the roads, in a daily rhythm; day 1 is a Monday, days 6 and 7 are off."""

    needs_roads: ClassVar[bool] = True

    kind: Literal["commuters"] = "commuters"
    leisure_places: Annotated[int, Field(ge=0, le=1_000_000)] = 4
    """How many places of leisure a user has."""
    leisure_share: Share = 0.5
    """Probability of going out after work, or on a day off."""
    work_start_h: Annotated[float, Field(ge=0, lt=24)] = 9.0
    """Hour at which work begins, on average."""
    work_hours: Annotated[float, Field(gt=0, le=16)] = 8.0
    """Length of a working day, on average."""
    jitter_h: Annotated[float, Field(ge=0, le=12)] = 0.7
    """How much the daily rhythm varies."""

    def build(self, world: World, seed: int, place: Place) -> Commuters:  # noqa: ARG002
        """Return the model on the roads of a world."""
        if world.roads is None:
            raise ValueError(f"{self.kind} live on roads, found none")
        return Commuters(self, grid=world.grid, roads=world.roads, seed=seed)


class Commuters(Drivers):
    """Live at home, work on weekdays, go out in the evening or at the weekend; drive between the places.

    On a weekday the user leaves home about `work_start_h`, stays at work about `work_hours`, goes with probability
    `leisure_share` to one of `leisure_places` (the k-th of weight 1/k), and home. At the weekend they leave at 11 for
    one leisure place, or two with probability `leisure_share`. `jitter_h` is the standard deviation of every time and
    stay.
    """

    def __init__(self, parameters: CommutersParameters, *, grid: Grid, roads: Roads, seed: int) -> None:
        super().__init__(roads)
        self.parameters, self.seed = parameters, seed
        self._weights = _node_weights(attraction(grid, seed=seed, roads=roads), roads)
        self._tastes: dict[str, tuple[str, ...]] = {}
        self._left: dict[str, Commuters] = {}

    def elsewhere(self, what: str, name: str) -> Commuters | None:
        """Return the same people with another `home` and leisure around it, `work`, or leisure `places` alone.

        The name tells one such change from another. The same generator gives the same daily rhythm.
        """
        moved = copy.copy(self)
        moved._tastes = self._tastes | dict.fromkeys({"home", "places"} if what == "home" else {what}, (name,))
        moved._left = self._left | {what: self}
        return moved

    def places(self, user: str) -> tuple[int, int, IntArray]:
        """Return the nodes of the user's home, her work and her leisure places, the favourite first."""
        home, work = self._home(user), self._work(user)
        taste = self._taste(user, "places", draws=2)
        x_km, y_km = self.roads.x_km, self.roads.y_km
        near = self._weights * np.exp(-np.hypot(x_km - x_km[home], y_km - y_km[home]) / LEISURE_KM)
        size = min(self.parameters.leisure_places, int(np.count_nonzero(near)))
        return home, work, taste.choice(near.size, size=size, replace=False, p=near / near.sum())

    def _home(self, user: str) -> int:
        """Return a node drawn from all alike; after a move, from those in other cells."""
        left = self._left.get("home")
        nodes = np.arange(self.roads.cell.size) if left is None else self._others(left._home(user))
        return int(nodes[self._taste(user, "home").integers(nodes.size)])

    def _work(self, user: str) -> int:
        """Return a node drawn by attraction; after a change of work, from those in other cells."""
        left, weights = self._left.get("work"), self._weights
        if left is not None:
            others = self._others(left._work(user))
            weights = np.zeros_like(weights)
            weights[others] = self._weights[others]
        return pick(thresholds(weights), self._taste(user, "work", draws=1).random())

    def _others(self, node: int) -> IntArray:
        """Return the nodes in other cells than this one's, or all."""
        others = np.flatnonzero(self.roads.cell != self.roads.cell[node])
        return others if others.size else np.arange(self.roads.cell.size)

    def _taste(self, user: str, part: str, *, draws: int = 0) -> Generator:
        """Return what draws a part of the user's places: home is the first draw of a stream, work the second."""
        taste = stream(self.seed, "taste", user, *self._tastes.get(part, ()))
        if draws > 0:
            taste.integers(self._weights.size)
        if draws > 1:
            taste.random()
        return taste

    def _trips(self, user: str, rng: Generator) -> Iterator[Trip]:
        home, work, leisure = self.places(user)
        node, now_s = home, 0
        yield standing(home, now_s)
        for day in count():
            start_h, stops = self._outing(day, work, leisure, rng)
            # Nobody leaves before she has come back: a late evening can run into an early morning.
            now_s = max(now_s, day * DAY_S + int(start_h * HOUR_S))
            for place, hours in stops:
                trip = drive(self._roads(now_s), node, place, depart_s=now_s)
                yield trip
                node, now_s = place, trip.arrival_s + int(hours * HOUR_S)
            if node != home:
                trip = drive(self._roads(now_s), node, home, depart_s=now_s)
                yield trip
                node, now_s = home, trip.arrival_s

    def _outing(self, day: int, work: int, leisure: IntArray, rng: Generator) -> tuple[float, list[tuple[int, float]]]:
        """Return the hour of leaving home, and where to go for how many hours."""
        weekend = day % 7 >= 5
        start_h = (
            WEEKEND_START_H if weekend else self.parameters.work_start_h
        ) + self.parameters.jitter_h * rng.normal()
        stops = [] if weekend else [(work, self._hours(self.parameters.work_hours, rng))]
        more = bool(rng.random() < self.parameters.leisure_share)
        if leisure.size:
            limits = thresholds(1.0 / np.arange(1, leisure.size + 1))
            for _ in range(int(weekend) + int(more)):
                stops.append((int(leisure[pick(limits, rng.random())]), self._hours(LEISURE_HOURS, rng)))
        return start_h, stops

    def _hours(self, mean_h: float, rng: Generator) -> float:
        return max(SHORTEST_STAY_H, mean_h + self.parameters.jitter_h * float(rng.normal()))


def _node_weights(life: FloatArray, roads: Roads) -> FloatArray:
    """Share each cell's attraction among its nodes, shape (n_nodes,)."""
    nodes_in_cell = np.bincount(roads.cell, minlength=life.size)
    weights = life[roads.cell] / nodes_in_cell[roads.cell]
    return np.asarray(weights / weights.sum(), dtype=np.float64)
