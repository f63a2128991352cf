"""Synthetic check-ins: independent visits to favourite places."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from sim.components.files import Place
from sim.components.registry import component
from sim.components.spec import Count, NonNegative, Positive, Share
from sim.events import Visit
from sim.interfaces import FloatArray, Generator
from sim.mobility.parameters import MobilityParameters
from sim.mobility.synthetic.city import attraction, fading, numbered_users, pick, thresholds
from sim.mobility.traces import DAY_S
from sim.rng import stream
from sim.world import World

if TYPE_CHECKING:
    from sim.world.locations import Locations
    from sim.world.roads.graph import Roads

BLOCK = 64
EXPLORING_IS_WIDER = 4.0


@component("mobility")
class FavouritesParameters(MobilityParameters):
    """Check-ins: independent draws from a Zipf distribution over favourite places, with some exploration."""

    endless: ClassVar[bool] = True

    kind: Literal["favourites"] = "favourites"
    places: Count = 10
    """Mean number of favourite places of a user (Poisson, at least one)."""
    taste: NonNegative = 1.2
    """Zipf exponent of the preferences: with 0, all favourites are equally likely; with 2, the first dominates."""
    explore: Share = 0.1
    """Probability that a visit goes to any cell of the city instead of a favourite."""
    spread_km: Positive = 3.0
    """Scale in km of the exponential decay of favourites with the distance from home."""
    visits_per_day: Annotated[float, Field(ge=1e-3, le=86_400)] = 4.0
    """Mean number of visits per day."""

    def build(self, world: World, seed: int, place: Place) -> Favourites:  # noqa: ARG002
        """Return the model on the grid and the roads of a world."""
        return Favourites(self, locations=world.locations, roads=world.roads, seed=seed)


class Favourites:
    """Users who check in at favourite places around home, and occasionally anywhere.

    Each user has a home cell, drawn by attraction A, and about `places` (Poisson, at least one) favourite cells, drawn
    without replacement by A(x) exp(-d(home, x) / spread_km). The k-th favourite has the weight k^-taste. With
    probability `explore`, a visit goes instead to a cell drawn by A(x) exp(-d(home, x) / (4 spread_km)). The times
    between visits are exponential. The visits follow the paper's sporadic model exactly: they are independent draws
    from `profile`.
    """

    def __init__(
        self, parameters: FavouritesParameters, *, locations: Locations, seed: int, roads: Roads | None = None
    ) -> None:
        self.parameters, self.locations, self.seed = parameters, locations, seed
        self.attraction = attraction(locations, seed=seed, roads=roads)
        self._tastes: dict[str, tuple[str, ...]] = {}
        self._left: Favourites | None = None

    def elsewhere(self, what: str, name: str) -> Favourites | None:
        """Return the same users with another `home` and places around it, or other `places` only.

        `name` distinguishes several such changes. The same generator gives the same times. For other values of `what`,
        such as work, which this model does not have, return None.
        """
        if what not in {"home", "places"}:
            return None
        moved = copy.copy(self)
        moved._tastes = self._tastes | dict.fromkeys({what, "places"}, (name,))
        if what == "home":
            moved._left = self
        return moved

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` users (default: 10)."""
        return numbered_users(count)

    def home(self, user: str) -> int:
        """Return the cell of the user's home; after a move, another cell than before."""
        life = self.attraction
        if self._left is not None:
            life = life.copy()
            life[self._left.home(user)] = 0.0
        return pick(thresholds(life), stream(self.seed, "taste", user, *self._tastes.get("home", ())).random())

    def profile(self, user: str) -> FloatArray:
        """Return the exact distribution of the user's visits over cells, shape (n_cells,)."""
        home = self.home(user)
        rng = stream(self.seed, "taste", user, *self._tastes.get("places", ()))
        rng.random()  # the draw of the home
        around = self.attraction * fading(self.locations, home, self.parameters.spread_km)
        wider = self.attraction * fading(self.locations, home, EXPLORING_IS_WIDER * self.parameters.spread_km)
        count = min(max(1, int(rng.poisson(self.parameters.places))), int(np.count_nonzero(around)))
        favourites = rng.choice(self.locations.n_cells, size=count, replace=False, p=around / around.sum())
        weights = np.arange(1, count + 1, dtype=np.float64) ** -self.parameters.taste
        profile = self.parameters.explore * wider / wider.sum()
        profile[favourites] += (1.0 - self.parameters.explore) * weights / weights.sum()
        return np.asarray(profile, dtype=np.float64)

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield an infinite sequence of check-ins from time 0 on."""
        limits = thresholds(self.profile(user))
        clock_s = 0.0
        while True:
            moments = clock_s + np.cumsum(rng.exponential(DAY_S / self.parameters.visits_per_day, size=BLOCK))
            cells = limits.searchsorted(rng.random(BLOCK), side="right")
            yield from map(Visit, moments.astype(np.int64).tolist(), cells.tolist())
            clock_s = float(moments[-1])
