"""Attraction of the cells of a synthetic city, and sampling by weight."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import numpy as np

from sim.inference.bayes import read_only
from sim.interfaces import FloatArray
from sim.mobility.intervals import require
from sim.mobility.user_ids import UserIds
from sim.rng import stream

if TYPE_CHECKING:
    from sim.world.locations import Locations
    from sim.world.roads.graph import Roads

DEFAULT_USERS = 10


class NumberedUsers(UserIds):
    """The ids ``user-001``, ``user-002``... of synthetic users, made when they are read: a million take no memory.

    >>> users = NumberedUsers(range(1, 2001))
    >>> users[0], users[-1], users.index("user-1234"), "user-2001" in users, list(users[5:7])
    ('user-001', 'user-2000', 1233, False, ['user-006', 'user-007'])
    """

    def __init__(self, numbers: range) -> None:
        self._numbers = numbers

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> NumberedUsers: ...

    def __getitem__(self, place: int | slice) -> str | NumberedUsers:
        if isinstance(place, slice):
            return NumberedUsers(self._numbers[place])
        return _id_of(self._numbers[place])

    def __contains__(self, user: object) -> bool:
        return isinstance(user, str) and _number_in(user) in self._numbers

    def index(self, user: str, start: int = 0, stop: int | None = None) -> int:
        """Return the position of a user; raise ValueError if it is not in the slice `start:stop`."""
        if (number := _number_in(user)) is None or number not in self._numbers[start:stop]:
            raise ValueError(f"{user!r} is not among the users")
        return self._numbers.index(number)


def _id_of(number: int) -> str:
    return f"user-{number:03d}"


def _number_in(user: str) -> int | None:
    """Return the number of a user, or None if the text is not the id of a synthetic user."""
    digits = user.removeprefix("user-")
    number = int(digits) if digits.isascii() and digits.isdecimal() else None
    return number if number is not None and user == _id_of(number) else None


def numbered_users(count: int | None) -> NumberedUsers:
    """Return the ids of the first `count` synthetic users (default: 10).

    >>> list(numbered_users(2))
    ['user-001', 'user-002']
    """
    count = DEFAULT_USERS if count is None else count
    require("count", count, 1, float("inf"), ends="[)")
    return NumberedUsers(range(1, count + 1))


def attraction(locations: Locations, *, seed: int, roads: Roads | None = None, centres: int = 8) -> FloatArray:
    """Return the attraction of each cell, the share of the activity of the city, shape (n_cells,), read-only.

    The attraction is a sum over centres, of which the k-th has the weight 1/k and decays exponentially with distance,
    times a log-normal factor per cell, which makes the tail heavy. With roads, the attraction of cells without a road
    node is 0. The positions of the first centres do not depend on the number of centres.
    """
    require("centres", centres, 1, float("inf"), ends="[)")
    rng = stream(seed, "city")
    local = rng.lognormal(sigma=1.0, size=locations.n_cells)
    draws = rng.random((centres, 3))
    size_km = (
        float(np.hypot(locations.width_km, locations.height_km)) or 1.0
    )  # any, if all locations are at one position
    reach_km = size_km * (0.02 + 0.08 * draws[:, 2])
    away_km = np.hypot(
        locations.x_km[:, None] - (locations.x_km.min() + draws[:, 0] * np.ptp(locations.x_km)),
        locations.y_km[:, None] - (locations.y_km.min() + draws[:, 1] * np.ptp(locations.y_km)),
    )
    clustered = np.exp(-away_km / reach_km) @ (1.0 / np.arange(1, centres + 1))
    life = local * (0.02 + clustered)
    if roads is not None:
        if roads.cells()[-1] >= locations.n_cells:
            raise ValueError(f"roads must be on the grid of {locations.n_cells} cells, got cell {roads.cells()[-1]}")
        reachable = np.zeros(locations.n_cells, dtype=bool)
        reachable[roads.cells()] = True
        life = np.where(reachable, life, 0.0)
    return read_only(life / life.sum())


def fading(locations: Locations, cell: int, reach_km: float) -> FloatArray:
    """Return exp(-d / reach_km) for the Euclidean distances d from a cell to all cells, shape (n_cells,)."""
    away_km = np.hypot(locations.x_km - locations.x_km[cell], locations.y_km - locations.y_km[cell])
    return np.asarray(np.exp(-away_km / reach_km), dtype=np.float64)


def thresholds(weights: FloatArray) -> FloatArray:
    """Return cumulative weights, scaled to end at 1, for drawing by weight, row by row.

    ``searchsorted(thresholds, uniform, side="right")`` draws an index. The last index with positive weight and all
    later ones have exactly 1, and a uniform draw is below 1: in spite of rounding, an index without weight or past the
    end is never drawn.

    >>> thresholds(np.array([1.0, 3.0, 0.0]))
    array([0.25, 1.  , 1.  ])
    """
    sums = np.cumsum(weights, axis=-1)
    return np.asarray(sums / sums[..., -1:], dtype=np.float64)


def pick(limits: FloatArray, uniform: float) -> int:
    """Return the index for a uniform draw from [0, 1), given the `thresholds` of the weights."""
    return int(limits.searchsorted(uniform, side="right"))
