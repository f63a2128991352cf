"""People whose visits follow from trips along the roads."""

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
    """The roads in force at a time; their nodes are always the same."""


class Drivers(ABC):
    """Users who drive; a subclass says where and when."""

    def __init__(self, roads: Roads) -> None:
        self.roads = roads
        self._roads_at: RoadsAt | None = None

    def rerouted(self, roads_at: RoadsAt) -> Self:
        """Return the same users, who take each drive on the roads that are in force when they depart."""
        moved = copy.copy(self)
        moved._roads_at = roads_at
        return moved

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` users; by default ten."""
        return numbered_users(count)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield a visit at every change of cell and at every stop, without end."""
        return cell_visits(self._trips(user, rng), self.roads.cell)

    def drives(self, user: str, rng: Generator) -> Iterator[tuple[int, int]]:
        """Yield (time_s, node) for every node passed; `visits` is this path seen through the cells."""
        return node_path(self._trips(user, rng))

    @abstractmethod
    def _trips(self, user: str, rng: Generator) -> Iterator[Trip]:
        """Yield the user's trips in order."""

    def _roads(self, depart_s: int) -> Roads:
        return self.roads if self._roads_at is None else self._roads_at(depart_s)
