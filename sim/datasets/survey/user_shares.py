"""Shares of the rows of each user that are in a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sim.interfaces import FloatArray, IntArray

KEPT_SHARE = 0.9
"""Share of the rows of a user in a region below which the user loses many."""
FEW_USERS = 5
"""Number of users whose shares are stated, those who lose most."""


@dataclass(frozen=True, slots=True)
class UserShares:
    """Shares of the rows of users in a region."""

    users: int
    losing: int
    """Number of users with less than `KEPT_SHARE` of their rows in the region."""
    lowest: tuple[tuple[str, float], ...]
    """The users with the smallest shares, and their shares, in ascending order."""


def user_shares(
    inside: IntArray | FloatArray, rows: IntArray | FloatArray, names: Sequence[str] | None = None
) -> UserShares:
    """Return the shares of users from their numbers of rows in the region and in total; both have shape (n_users,).

    Users without rows are ignored. `names` defaults to the index of the user.

    >>> user_shares(np.array([8, 0, 5]), np.array([10, 0, 5]), ["a", "b", "c"])
    UserShares(users=2, losing=1, lowest=(('a', 0.8), ('c', 1.0)))
    """
    present = np.flatnonzero(rows)
    shares = inside[present] / rows[present]
    lowest = np.argsort(shares, kind="stable")[:FEW_USERS]
    named = ((present[at], shares[at]) for at in lowest)
    return UserShares(
        users=int(present.size),
        losing=int((shares < KEPT_SHARE).sum()),
        lowest=tuple((str(at) if names is None else names[at], float(share)) for at, share in named),
    )
