"""What shifts draw on: the world, the test users and their random streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.interfaces import Demand, FloatArray, Generator, IntArray, Mobility, MobilityCapabilities
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.shifts.life import ShiftedLife
from sim.mobility.synthetic.city import attraction
from sim.mobility.traces import Trace, live
from sim.rng import stream
from sim.world import World


@dataclass(frozen=True)
class ShiftContext:
    """The surroundings of users whose behaviour changes."""

    world: World
    users: Sequence[str]
    demand: Demand
    """When users query without any shift."""
    seed: int

    def stream(self, name: str, *key: str | int) -> Generator:
        """Return the random stream of a shift."""
        return stream(self.seed, "shift", name, *key)

    @cached_property
    def attraction(self) -> FloatArray:
        """The attraction of each cell, shape (n_cells,); nobody goes where it is 0."""
        return attraction(self.world.grid, seed=self.seed, roads=self.world.roads)

    def relive(self, life: ShiftedLife, mobility: Mobility, demand: Demand, **limit: int) -> Trace:
        """Return all queries, past and test, of a life with another mobility or demand and the same randomness."""
        moves, moments = (stream(self.seed, role, life.user, life.replication) for role in ("moves", "moments"))
        return live(mobility, demand, life.user, moves=moves, moments=moments, **limit).test

    def cells_elsewhere(
        self, life: ShiftedLife, start: int, *, what: str, name: str, for_good: bool
    ) -> IntArray | None:
        """Return the cells of the test queries if the mobility model has another `what`; None if it supports none."""
        elsewhere = MobilityCapabilities.elsewhere.of(life.mobility)
        moved = None if elsewhere is None else elsewhere(what, name)
        if moved is None:
            return None
        if for_good:
            life.mobility = moved  # later shifts change this life
        return self._cells_at_queries(life, moved, start)

    def _cells_at_queries(self, life: ShiftedLife, mobility: Mobility, start: int) -> IntArray:
        """Return the cells at the time of each query, from query `start` on those of another mobility.

        With `EveryVisit` the other mobility may have visits at other times: the last one before a query counts.
        """
        times_s = life.times_s
        demand = self.demand if isinstance(self.demand, EveryVisit) else life.demand()
        other = self.relive(life, mobility, demand, until_s=int(times_s[-1]) - life.life.origin_s + 1)
        if not len(other):
            raise ValueError(f"{life.user} never queries in her new life")
        # The first query of a second goes with the first visit in it, the next one with the next.
        all_s = np.concatenate([life.life.past.times_s, times_s])
        nth = np.arange(all_s.size) - all_s.searchsorted(all_s)
        last = other.times_s.searchsorted(all_s, side="right") - 1
        cells = other.cells[np.maximum(np.minimum(other.times_s.searchsorted(all_s) + nth, last), 0)]
        return np.concatenate([life.cells[:start], cells[len(life.life.past) + start :]])
