"""Base classes of the parameters of shifts: start, duration, users and transition."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from sim.components.registry import OneOf, Parameters
from sim.components.spec import Count, Days, Name
from sim.components.suggestions import suggestion
from sim.components.wording import described
from sim.errors import InvalidValue

if TYPE_CHECKING:
    from sim.interfaces import Generator, IntArray
    from sim.mobility.shifts.context import ShiftContext
    from sim.mobility.shifts.life import ShiftedLife
    from sim.world.locations import Locations
    from sim.world.roads.graph import Roads

Concerned = Callable[[str], bool]
"""Function that returns whether a shift changes the behaviour of a user."""

MOST_COMPARED = 10_000
"""Maximum number of users among which a similar name is searched."""

SomeShare = Annotated[float, Field(gt=0, le=1)]


class ShiftParameters(Parameters):
    """Parameters of a behaviour shift."""

    changes_places: ClassVar[bool] = False
    """Whether the shift replaces the cells of queries."""

    kind: str
    name: Name = Field(default_factory=lambda values: values.get("kind", "shift"))
    """Name in logs and figures (default: the kind)."""

    @property
    def changes_statistics(self) -> bool:
        """Whether users have other statistics while the shift is in force."""
        return True

    @property
    def adds_queries(self) -> bool:
        """Whether users may query between their visits while the shift is in force."""
        return False

    @property
    def ramp_queries(self) -> int:
        """Number of queries until the shift has its full weight."""
        return 0

    @property
    def named_users(self) -> list[str]:
        """Ids of users in the parameters."""
        return []

    def concerned(self, users: Sequence[str], draw: Callable[[str], float]) -> Concerned:  # noqa: ARG002
        """Return which of the test users change their behaviour; `draw` returns a random number for each user."""
        return lambda _user: True


class ShiftOfPeople(ShiftParameters):
    """A change of the behaviour of some or all users."""

    at_query: Annotated[int, Field(ge=2, le=1_000_000)] | None = None
    """First query after the change, counted from 1 in each user's test; either `at_query` or `at_day` is required."""
    at_day: Days | None = None
    """Start in days after the beginning of the test; either `at_query` or `at_day` is required."""
    users: Annotated[list[str], Field(min_length=1)] | None = None
    """Ids of the users whose behaviour changes (default: all users)."""
    share: SomeShare | None = None
    """Share of the users whose behaviour changes, at least one, drawn at random; cannot be combined with `users`."""
    for_queries: Count | None = None
    """Duration in queries (default: permanent); cannot be combined with `for_days`."""
    for_days: Days | None = None
    """Duration in days (default: permanent); cannot be combined with `for_queries`."""

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        starts = [name for name in ("at_query", "at_day") if vars(self)[name] is not None]
        if len(starts) != 1:
            raise InvalidValue(
                f"exactly one of `at_query` and `at_day` is required, found {'both' if starts else 'none'}",
                code="exclusive-keys" if starts else "missing-key",
            )
        self.require_at_most_one("users", "share")
        return self.require_at_most_one("for_queries", "for_days")

    @property
    def for_good(self) -> bool:
        """Whether the change is permanent."""
        return self.for_queries is None and self.for_days is None

    @property
    def named_users(self) -> list[str]:
        """Ids of users in the parameters."""
        return self.users or []

    def concerned(self, users: Sequence[str], draw: Callable[[str], float]) -> Concerned:
        """Return which of the users change their behaviour; `draw` returns a random number for each user.

        A share consists of the users with the smallest numbers.
        """
        if self.users is not None:
            for user in self.users:
                require_user(user, users, "users")
            return frozenset(self.users).__contains__
        if self.share is None:
            return lambda _user: True
        count = max(1, round(self.share * len(users)))
        largest = np.partition(np.fromiter(map(draw, users), np.float64, len(users)), count - 1)[count - 1]
        return lambda user: draw(user) <= largest


class ShiftOfPlaces(ShiftOfPeople):
    """A change of the places that users visit, sudden or gradual, complete or partial."""

    changes_places: ClassVar[bool] = True

    over_queries: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Number of queries over which the share of the new places increases linearly; with 0, the change is sudden."""
    weight: SomeShare = 1.0
    """Final probability that a query is at the new places instead of the previous ones."""

    @property
    def ramp_queries(self) -> int:
        """Number of queries until the shift has its full weight."""
        return self.over_queries

    @abstractmethod
    def new_cells(self, life: ShiftedLife, start: int, context: ShiftContext, rng: Generator) -> IntArray:
        """Return the cells of all test queries as if all were at the new places; `start`, from 0, is the first."""


class ShiftOfRoads(ShiftParameters):
    """A change of the roads for all users: later departures take other routes."""

    at_day: Days
    """Start in days after the beginning of the test."""
    for_days: Days | None = None
    """Duration in days (default: permanent)."""

    @property
    def at_query(self) -> None:
        """None: the shift starts at the same time for all users."""

    @property
    def for_queries(self) -> None:
        """None: the shift ends at the same time for all users."""

    @abstractmethod
    def changed(self, roads: Roads, locations: Locations, rng: Generator) -> Roads:
        """Return the roads after the change."""


def require_user(user: str, users: Sequence[str], key: str) -> None:
    """Raise `InvalidValue` if a user given under a key does not exist."""
    if user not in users:
        first = ", ".join(users[:5]) + (f" and {len(users) - 5} more" if len(users) > 5 else "")
        similar = suggestion(user, users[:MOST_COMPARED])
        raise InvalidValue(f"`{key}`: unknown user {user!r}{similar}; the users are {first}", code="unknown-user")


def _require_mapping(value: Any) -> Any:
    if not isinstance(value, dict | ShiftParameters):
        raise InvalidValue(
            f"a shift must be a mapping such as {{kind: relocate, at_query: 301}}, found {described(value)}",
            code="wrong-type",
        )
    return value


AnyShift = ShiftOfPeople | ShiftOfRoads

ShiftField = Annotated[AnyShift, OneOf("shift", short=False), BeforeValidator(_require_mapping)]
