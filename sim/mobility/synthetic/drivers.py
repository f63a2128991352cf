"""Base class of users who move by trips along the roads."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Self

from sim.events import Visit
from sim.interfaces import Generator
from sim.mobility.synthetic.city import numbered_users
from sim.mobility.synthetic.trips import Trip, cell_visits, node_path

if TYPE_CHECKING:
    from sim.world.roads.graph import Roads

    RoadsAt = Callable[[int], Roads]
    """Function from a time in s to the roads in force, which always have the same nodes."""


class Drivers(ABC):
    """Users who drive; subclasses define the trips."""

    def __init__(self, roads: Roads) -> None:
        self.roads = roads
        self._roads_at: RoadsAt | None = None

    def rerouted(self, roads_at: RoadsAt) -> Self:
        """Return the same users, with each trip on the roads in force at its departure."""
        drivers = copy.copy(self)
        drivers._roads_at = roads_at
        return drivers

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` users (default: 10)."""
        return numbered_users(count)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield a visit at every change of cell and at every stop; there are infinitely many."""
        return cell_visits(self._trips(user, rng), self.roads.cell)

    def drives(self, user: str, rng: Generator) -> Iterator[tuple[int, int]]:
        """Yield (time_s, node) for every node passed; `visits` yields the cells of the same path."""
        return node_path(self._trips(user, rng))

    @abstractmethod
    def _trips(self, user: str, rng: Generator) -> Iterator[Trip]:
        """Yield the user's trips in order."""

    def _roads(self, depart_s: int) -> Roads:
        return self.roads if self._roads_at is None else self._roads_at(depart_s)
