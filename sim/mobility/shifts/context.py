"""Context of shifts: the world, the test users and their random streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sim.errors import InvalidValue
from sim.interfaces import Demand, FloatArray, Generator, IntArray, Mobility, MobilityCapabilities
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.shifts.life import ShiftedLife
from sim.mobility.synthetic.city import attraction
from sim.mobility.traces import Trace, live
from sim.rng import stream
from sim.world import World


@dataclass(frozen=True)
class ShiftContext:
    """Data that shifts use: the world, all test users, their demand and the seed."""

    world: World
    users: Sequence[str]
    """Ids of all test users."""
    demand: Demand
    """Demand of the users without any shift."""
    seed: int

    def stream(self, name: str, *key: str | int) -> Generator:
        """Return the random stream of a shift."""
        return stream(self.seed, "shift", name, *key)

    @cached_property
    def attraction(self) -> FloatArray:
        """The attraction of each cell, shape (n_cells,); users never visit cells where it is 0."""
        return attraction(self.world.locations, seed=self.seed, roads=self.world.roads)

    def relive(self, life: ShiftedLife, mobility: Mobility, demand: Demand, **limit: int) -> Trace:
        """Return all queries, past and test, of a user with another mobility or demand and the same randomness."""
        moves, moments = (stream(self.seed, role, life.user, life.replication) for role in ("moves", "moments"))
        return live(mobility, demand, life.user, moves=moves, moments=moments, **limit).test

    def cells_elsewhere(
        self, life: ShiftedLife, start: int, *, what: str, name: str, for_good: bool
    ) -> IntArray | None:
        """Return the cells of the test queries with another `what`, or None if the mobility does not support it.

        A permanent change (`for_good`) becomes the mobility to which later shifts apply.
        """
        elsewhere = MobilityCapabilities.elsewhere.of(life.mobility)
        moved = None if elsewhere is None else elsewhere(what, name)
        if moved is None:
            return None
        if for_good:
            life.mobility = moved  # later shifts apply to this mobility
        return self._cells_at_queries(life, moved, start)

    def _cells_at_queries(self, life: ShiftedLife, mobility: Mobility, start: int) -> IntArray:
        """Return the cell at the time of each query, from query `start` on with another mobility.

        With `EveryVisit`, the other mobility may have visits at other times: the last visit before a query counts.
        """
        times_s = life.times_s
        demand = self.demand if isinstance(self.demand, EveryVisit) else life.demand()
        other = self.relive(life, mobility, demand, until_s=int(times_s[-1]) - life.life.origin_s + 1)
        if not len(other):
            raise InvalidValue(f"{life.user} has no queries after the shift", code="no-queries")
        # Queries within the same second are matched in order with the visits within that second.
        all_s = np.concatenate([life.life.past.times_s, times_s])
        nth = np.arange(all_s.size) - all_s.searchsorted(all_s)
        last = other.times_s.searchsorted(all_s, side="right") - 1
        cells = other.cells[np.maximum(np.minimum(other.times_s.searchsorted(all_s) + nth, last), 0)]
        return np.concatenate([life.cells[:start], cells[len(life.life.past) + start :]])
