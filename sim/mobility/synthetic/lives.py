"""Synthetic lives on the road graph: commuters with homes and jobs, and taxis that follow their fares.

A person's places are drawn from the stream ("taste", user): they are the same in every replication. The
generator handed to `visits` decides the days. Time 0 is the midnight before a Monday.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from sim.events import Visit
from sim.interfaces import FloatArray, Generator, IntArray
from sim.mobility.parameters import require
from sim.mobility.synthetic.city import attraction, fading, numbered_users, pick, thresholds
from sim.mobility.synthetic.trips import Trip, cell_visits, drive, node_path, standing
from sim.mobility.traces import DAY_S
from sim.rng import stream

if TYPE_CHECKING:
    from sim.world.grid import Grid
    from sim.world.roads.graph import Roads

    RoadsAt = Callable[[int], Roads]
    """The roads in force at a time; their nodes are always the same."""

HOUR_S = 3_600
LEISURE_KM = 3.0
LEISURE_HOURS = 2.0
WEEKEND_START_H = 11.0
SHORTEST_STAY_H = 0.25


class Commuters:
    """Live at home, work on weekdays, go out in the evening or at the weekend; drive between the places.

    On a weekday the user leaves home about `work_start_h` (in [0, 24)), stays at work about `work_hours` (in
    (0, 16]), goes with probability `leisure_share` (in [0, 1]) to one of her `leisure_places` (in [0, inf), the
    k-th of weight 1/k), and home. At the weekend she leaves at 11 for one leisure place, or two with
    probability `leisure_share`. `jitter_h` (in [0, 12]) is the standard deviation of every time and stay.
    """

    def __init__(
        self,
        *,
        grid: Grid,
        roads: Roads,
        seed: int,
        leisure_places: int = 4,
        leisure_share: float = 0.5,
        work_start_h: float = 9.0,
        work_hours: float = 8.0,
        jitter_h: float = 0.7,
    ) -> None:
        require("leisure_places", leisure_places, 0, float("inf"), ends="[)")
        require("leisure_share", leisure_share, 0, 1)
        require("work_start_h", work_start_h, 0, 24, ends="[)")
        require("work_hours", work_hours, 0, 16, ends="(]")
        require("jitter_h", jitter_h, 0, 12)
        self.roads, self.seed = roads, seed
        self.leisure_places, self.leisure_share = leisure_places, leisure_share
        self.work_start_h, self.work_hours, self.jitter_h = work_start_h, work_hours, jitter_h
        self._weights = _node_weights(attraction(grid, seed=seed, roads=roads), roads)
        self._tastes: dict[str, tuple[str, ...]] = {}
        self._left: dict[str, Commuters] = {}
        self._roads_at: RoadsAt | None = None

    def elsewhere(self, what: str, name: str) -> Commuters | None:
        """Return the same people with another `home` and leisure around it, `work`, or leisure `places` alone.

        The name tells one such change from another. The same generator gives the same daily rhythm.
        """
        moved = copy.copy(self)
        moved._tastes = self._tastes | dict.fromkeys({"home", "places"} if what == "home" else {what}, (name,))
        moved._left = self._left | {what: self}
        return moved

    def rerouted(self, roads_at: RoadsAt) -> Commuters:
        """Return the same people, who take each drive on the roads that are in force when they depart."""
        moved = copy.copy(self)
        moved._roads_at = roads_at
        return moved

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` users; ten unless told."""
        return numbered_users(count)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield a visit at every change of cell and at every arrival, for ever."""
        return cell_visits(self._trips(user, rng), self.roads.cell)

    def drives(self, user: str, rng: Generator) -> Iterator[tuple[int, int]]:
        """Yield (time_s, node) for every node passed; `visits` is this path seen through the cells."""
        return node_path(self._trips(user, rng))

    def places(self, user: str) -> tuple[int, int, IntArray]:
        """Return the nodes of the user's home, her work and her leisure places, the favourite first."""
        home, work = self._home(user), self._work(user)
        taste = self._taste(user, "places", draws=2)
        x_km, y_km = self.roads.x_km, self.roads.y_km
        near = self._weights * np.exp(-np.hypot(x_km - x_km[home], y_km - y_km[home]) / LEISURE_KM)
        size = min(self.leisure_places, int(np.count_nonzero(near)))
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

    def _roads(self, depart_s: int) -> Roads:
        return self.roads if self._roads_at is None else self._roads_at(depart_s)

    def _outing(self, day: int, work: int, leisure: IntArray, rng: Generator) -> tuple[float, list[tuple[int, float]]]:
        """Return the hour of leaving home, and where to go for how many hours."""
        weekend = day % 7 >= 5
        start_h = (WEEKEND_START_H if weekend else self.work_start_h) + self.jitter_h * rng.normal()
        stops = [] if weekend else [(work, self._hours(self.work_hours, rng))]
        more = bool(rng.random() < self.leisure_share)
        if leisure.size:
            limits = thresholds(1.0 / np.arange(1, leisure.size + 1))
            for _ in range(int(weekend) + int(more)):
                stops.append((int(leisure[pick(limits, rng.random())]), self._hours(LEISURE_HOURS, rng)))
        return start_h, stops

    def _hours(self, mean_h: float, rng: Generator) -> float:
        return max(SHORTEST_STAY_H, mean_h + self.jitter_h * float(rng.normal()))


class Taxis:
    """Drive to a passenger, drive the passenger to a destination, wait, and again.

    The city has `hotspots` (in [1, inf)) centres of life. A passenger appears near the cab with probability
    `near_share` (in [0, 1]), by attraction x exp(-distance / near_km), else anywhere by attraction; the
    destination is drawn by attraction over the whole city. Between fares a cab waits an exponential time of mean
    `wait_s` (in [0, inf)), one second at least. It works `shift_h` (in (0, 24]) hours a day from an hour of its
    own, then rests at its depot; at 24 it never rests, as cabs do that drivers share.
    """

    def __init__(
        self,
        *,
        grid: Grid,
        roads: Roads,
        seed: int,
        hotspots: int = 6,
        wait_s: float = 300,
        shift_h: float = 24.0,
        near_share: float = 0.7,
        near_km: float = 2.0,
    ) -> None:
        require("wait_s", wait_s, 0, float("inf"), ends="[)")
        require("shift_h", shift_h, 0, 24, ends="(]")
        require("near_share", near_share, 0, 1)
        require("near_km", near_km, 0, float("inf"), ends="()")
        require("hotspots", hotspots, 1, float("inf"), ends="[)")
        self.grid, self.roads, self.seed = grid, roads, seed
        self.wait_s, self.shift_h, self.near_share, self.near_km = wait_s, shift_h, near_share, near_km
        self.attraction = attraction(grid, seed=seed, roads=roads, centres=hotspots)
        self._anywhere = thresholds(self.attraction)
        self._near: dict[int, FloatArray] = {}
        self._by_cell = np.argsort(roads.cell, kind="stable")
        self._first = np.searchsorted(roads.cell[self._by_cell], np.arange(grid.n_cells + 1))
        self._roads_at: RoadsAt | None = None

    def rerouted(self, roads_at: RoadsAt) -> Taxis:
        """Return the same cabs, which take each drive on the roads that are in force when they depart."""
        moved = copy.copy(self)
        moved._roads_at = roads_at
        return moved

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` cabs; ten unless told."""
        return numbered_users(count)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield a visit at every change of cell and at every stop, for ever."""
        return cell_visits(self._trips(user, rng), self.roads.cell)

    def drives(self, user: str, rng: Generator) -> Iterator[tuple[int, int]]:
        """Yield (time_s, node) for every node passed; `visits` is this path seen through the cells."""
        return node_path(self._trips(user, rng))

    def _trips(self, user: str, rng: Generator) -> Iterator[Trip]:
        taste = stream(self.seed, "taste", user)
        depot = int(taste.integers(self.roads.cell.size))
        rests = self.shift_h < 24
        begin_s = int(taste.integers(DAY_S)) if rests else 0
        node, now_s = depot, 0
        yield standing(depot, now_s)
        for day in count():
            begins_s = day * DAY_S + begin_s
            now_s = max(now_s, begins_s)
            while now_s < begins_s + self.shift_h * HOUR_S:
                depart_s = now_s + 1 + int(rng.exponential(self.wait_s))
                for goal in (self._passenger(node, rng), self._node_in(self._anywhere, rng)):
                    trip = drive(self._roads(depart_s), node, goal, depart_s=depart_s)
                    yield trip
                    node, depart_s = goal, trip.arrival_s
                now_s = depart_s
            if rests:
                trip = drive(self._roads(now_s), node, depot, depart_s=now_s)
                yield trip
                node, now_s = depot, trip.arrival_s

    def _roads(self, depart_s: int) -> Roads:
        return self.roads if self._roads_at is None else self._roads_at(depart_s)

    def _passenger(self, node: int, rng: Generator) -> int:
        """Draw the node where the next passenger waits."""
        if rng.random() >= self.near_share:
            return self._node_in(self._anywhere, rng)
        cell = int(self.roads.cell[node])
        if cell not in self._near:
            self._near[cell] = thresholds(self.attraction * fading(self.grid, cell, self.near_km))
        return self._node_in(self._near[cell], rng)

    def _node_in(self, limits: FloatArray, rng: Generator) -> int:
        """Draw a cell by its thresholds, then one of its nodes, all alike."""
        cell = pick(limits, rng.random())
        return int(self._by_cell[rng.integers(self._first[cell], self._first[cell + 1])])


def _node_weights(life: FloatArray, roads: Roads) -> FloatArray:
    """Share each cell's attraction among its nodes, shape (n_nodes,)."""
    nodes_in_cell = np.bincount(roads.cell, minlength=life.size)
    weights = life[roads.cell] / nodes_in_cell[roads.cell]
    return np.asarray(weights / weights.sum(), dtype=np.float64)
