"""Commuters: users with home, work and leisure places on the roads, in a daily rhythm.

The places of a user are drawn from the stream ("taste", user): they are the same in every replication. The generator
passed to `visits` determines the course of the days. Time 0 is the midnight before a Monday.
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
from sim.errors import InvalidValue
from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.parameters import MobilityParameters
from sim.mobility.synthetic.city import attraction, pick, thresholds
from sim.mobility.synthetic.drivers import Drivers
from sim.mobility.synthetic.trips import HOUR_S, Trip, drive, standing
from sim.mobility.traces import DAY_S
from sim.rng import stream
from sim.world import World

if TYPE_CHECKING:
    from sim.world.locations import Locations
    from sim.world.roads.graph import Roads


LEISURE_KM = 3.0
LEISURE_HOURS = 2.0
WEEKEND_START_H = 11.0
SHORTEST_STAY_H = 0.25


@component("mobility")
class CommutersParameters(MobilityParameters):
    """Users with home, work and leisure places on the roads, in a daily rhythm; day 1 is a Monday."""

    needs_roads: ClassVar[bool] = True
    endless: ClassVar[bool] = True

    kind: Literal["commuters"] = "commuters"
    leisure_places: Annotated[int, Field(ge=0, le=1_000_000)] = 4
    """Number of leisure places of each user."""
    leisure_share: Share = 0.5
    """Probability of visiting a leisure place after work, and of visiting a second one on a day of the weekend."""
    work_start_h: Annotated[float, Field(ge=0, lt=24)] = 9.0
    """Mean hour of the day at which the user leaves home for work."""
    work_hours: Annotated[float, Field(gt=0, le=16)] = 8.0
    """Mean length of a working day in hours."""
    jitter_h: Annotated[float, Field(ge=0, le=12)] = 0.7
    """Standard deviation of departure times and lengths of stays in hours."""

    def build(self, world: World, seed: int, place: Place) -> Commuters:  # noqa: ARG002
        """Return the model on the roads of a world."""
        if world.roads is None:
            raise InvalidValue(f"{self.kind} require `world.roads`, found none: add roads", code="no-roads")
        return Commuters(self, locations=world.locations, roads=world.roads, seed=seed)


class Commuters(Drivers):
    """Users who drive between home, work on weekdays, and leisure places in the evening or at the weekend.

    On a weekday, a user leaves home about `work_start_h`, stays at work for about `work_hours`, visits one of the
    `leisure_places` (the k-th has the weight 1/k) with probability `leisure_share`, and drives home. At the weekend,
    they leave about 11:00 for one leisure place, or for two with probability `leisure_share`. `jitter_h` is the
    standard deviation of departure times and stays.
    """

    def __init__(self, parameters: CommutersParameters, *, locations: Locations, roads: Roads, seed: int) -> None:
        super().__init__(roads)
        self.parameters, self.seed = parameters, seed
        self._weights = _node_weights(attraction(locations, seed=seed, roads=roads), roads)
        self._tastes: dict[str, tuple[str, ...]] = {}
        self._left: dict[str, Commuters] = {}

    def elsewhere(self, what: str, name: str) -> Commuters | None:
        """Return the same users with another `home` and leisure places around it, `work`, or leisure `places` only.

        `name` distinguishes several such changes. The same generator gives the same daily rhythm.
        """
        moved = copy.copy(self)
        moved._tastes = self._tastes | dict.fromkeys({"home", "places"} if what == "home" else {what}, (name,))
        moved._left = self._left | {what: self}
        return moved

    def places(self, user: str) -> tuple[int, int, IntArray]:
        """Return the nodes of the user's home, work and leisure places, the favourite first."""
        home, work = self._home(user), self._work(user)
        taste = self._taste(user, "places", draws=2)
        x_km, y_km = self.roads.x_km, self.roads.y_km
        near = self._weights * np.exp(-np.hypot(x_km - x_km[home], y_km - y_km[home]) / LEISURE_KM)
        size = min(self.parameters.leisure_places, int(np.count_nonzero(near)))
        return home, work, taste.choice(near.size, size=size, replace=False, p=near / near.sum())

    def _home(self, user: str) -> int:
        """Return a uniformly drawn node; after a move, one in another cell than before."""
        left = self._left.get("home")
        nodes = np.arange(self.roads.cell.size) if left is None else self._others(left._home(user))
        return int(nodes[self._taste(user, "home").integers(nodes.size)])

    def _work(self, user: str) -> int:
        """Return a node drawn by attraction; after a change of work, one in another cell than before."""
        left, weights = self._left.get("work"), self._weights
        if left is not None:
            others = self._others(left._work(user))
            weights = np.zeros_like(weights)
            weights[others] = self._weights[others]
        return pick(thresholds(weights), self._taste(user, "work", draws=1).random())

    def _others(self, node: int) -> IntArray:
        """Return the nodes in other cells than this node, or all nodes if there are none."""
        others = np.flatnonzero(self.roads.cell != self.roads.cell[node])
        return others if others.size else np.arange(self.roads.cell.size)

    def _taste(self, user: str, part: str, *, draws: int = 0) -> Generator:
        """Return the generator for a part of the user's places, after the first `draws`: home, then work."""
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
            # A user cannot leave before returning: a late evening may extend into the next morning.
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
        """Return the hour of departure from home, and the stops of the day with their lengths in hours."""
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
    """Divide the attraction of each cell equally among its nodes, shape (n_nodes,)."""
    nodes_in_cell = np.bincount(roads.cell, minlength=life.size)
    weights = life[roads.cell] / nodes_in_cell[roads.cell]
    return np.asarray(weights / weights.sum(), dtype=np.float64)
