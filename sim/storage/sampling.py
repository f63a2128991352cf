"""Deterministic samples of users, chosen by a hash of the user id.

The hash of a user is the same in every run, process and block, so a sample depends neither on how users are cut into
blocks nor on their order. Samples of different sizes are nested: a smaller one is part of every larger one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

MOST_USERS = 500
"""Number of users of a large population whose individual values are retained."""
MOST_SNAPSHOT_VALUES = 20_000_000
"""Largest number of values in the belief snapshots of a mechanism in one replication: 160 MB before compression."""
_BITS = 64


def sample_key(user: str) -> int:
    """Return the hash that orders users in samples, in [0, 2^64).

    >>> sample_key("ann") == sample_key("ann") != sample_key("bob")
    True
    """
    digest = hashlib.blake2b(user.encode("utf-8", "surrogatepass"), digest_size=_BITS // 8).digest()
    return int.from_bytes(digest, "big")


def in_sample(user: str, n_users: int, most: int = MOST_USERS) -> bool:
    """Return whether a user of a population of `n_users` is in its sample of about `most` users.

    The decision needs no other user, so that processes which simulate different users agree. All users of a population
    of at most `most` users are in the sample.

    >>> [in_sample(f"user {i}", 3) for i in range(3)]
    [True, True, True]
    >>> sum(in_sample(f"user {i}", 10_000, 100) for i in range(10_000))
    104
    """
    return n_users <= most or sample_key(user) * n_users < most << _BITS


def snapshot_users(n_cells: int, n_snapshots: int) -> int:
    """Return the number of users whose beliefs, of `n_cells` values each, are recorded at `n_snapshots` queries.

    A larger population records those of a sample: ``in_sample(user, n_users, snapshot_users(n_cells, n_snapshots))``.

    >>> snapshot_users(250, 4), snapshot_users(33_600, 4)
    (20000, 148)
    """
    return max(MOST_SNAPSHOT_VALUES // (n_cells * max(n_snapshots, 1)), 1)


def sampled(users: Iterable[str], most: int = MOST_USERS) -> list[str]:
    """Return the `most` users with the smallest hashes, in the given order; all if there are fewer.

    >>> sampled(["ann", "bob", "eve"], 2), sampled(["eve", "bob", "ann"], 2)
    (['bob', 'eve'], ['eve', 'bob'])
    """
    sample = UserSample(most)
    users = list(users)
    sample.add(users)
    return sample.of(users)


class UserSample:
    """The users with the smallest hashes among all users added so far."""

    def __init__(self, most: int = MOST_USERS) -> None:
        if most < 1:
            raise ValueError(f"most must be in [1, inf), got {most}")
        self._most = most
        self._keys: dict[str, int] = {}
        self._largest = 1 << _BITS

    def add(self, users: Iterable[str]) -> None:
        """Add users; a user may be added several times."""
        for user in users:
            if user not in self._keys and (key := sample_key(user)) < self._largest:
                self._keys[user] = key
        if len(self._keys) > self._most:
            order = sorted(self._keys.items(), key=lambda item: (item[1], item[0]))[: self._most]
            self._keys = dict(order)
            self._largest = order[-1][1]

    def of(self, users: Sequence[str]) -> list[str]:
        """Return the sampled ones among these users, in their order."""
        return [user for user in users if user in self._keys]

    def __contains__(self, user: object) -> bool:
        return user in self._keys

    def __len__(self) -> int:
        return len(self._keys)
