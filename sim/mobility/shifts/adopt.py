"""Shift to the behaviour of another user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from sim.components.registry import component
from sim.errors import InvalidValue
from sim.interfaces import Generator, IntArray
from sim.mobility.shifts.context import ShiftContext
from sim.mobility.shifts.life import ShiftedLife
from sim.mobility.shifts.parameters import Concerned, ShiftOfPlaces, require_user
from sim.mobility.shifts.places import drawn


@component("shift")
class AdoptParameters(ShiftOfPlaces):
    """Behaviour of another user, as it would be without any shift."""

    kind: Literal["adopt"] = "adopt"
    of: str | None = None
    """Id of the other user (default: the next user, cyclically)."""
    what: Literal["profile", "trace"] = "profile"
    """`profile`: independent draws from the other user's test histogram; `trace`: the other user's cells in order."""

    @property
    def named_users(self) -> list[str]:
        """Ids of users in the parameters."""
        return [*super().named_users, *([] if self.of is None else [self.of])]

    def concerned(self, users: Sequence[str], draw: Callable[[str], float]) -> Concerned:
        """Return which of the users change their behaviour, without the user whose behaviour is adopted."""
        concerned = super().concerned(users, draw)
        if len(users) < 2:
            raise InvalidValue(
                "adopting the behaviour of another user requires at least two users, found one", code="too-few-users"
            )
        if self.of is None:
            return concerned
        require_user(self.of, users, "of")
        if not any(user != self.of and concerned(user) for user in users):
            raise InvalidValue(
                f"`users` must contain another user than {self.of}, whose behaviour is adopted", code="no-users"
            )
        return lambda user: user != self.of and concerned(user)

    def new_cells(self, life: ShiftedLife, start: int, context: ShiftContext, rng: Generator) -> IntArray:  # noqa: ARG002
        """Return the cells of all test queries with the behaviour of the other user."""
        users, n_queries = context.users, len(life.cells)
        following = users[(users.index(life.user) + 1) % len(users)]
        other = life.unshifted[self.of or following].test.cells
        if self.what == "trace":
            return np.resize(other, n_queries)
        profile = np.bincount(other, minlength=context.world.n_cells).astype(np.float64)
        return drawn(profile, n_queries, rng)
