"""Unicity: users singled out by their most visited reported places (Zang & Bolot 2011, MobiCom).

A user's key is the set of the N places that they report most often. The anonymity set of a user has everybody with the
same key; a user who is alone in it is singled out by these places.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sim.interfaces import FloatArray

Key = frozenset[int]


def top_key(places: ArrayLike, count: int) -> Key | None:
    """Return the set of the `count` most frequent places (integers), the first reported ones if tied.

    None if the user has fewer places: they cannot be singled out by more than they have.

    >>> sorted(top_key([4, 4, 7, 9, 9], 2)), top_key([4, 4], 2)
    ([4, 9], None)
    """
    distinct, first, counts = np.unique(np.asarray(places), return_index=True, return_counts=True)
    if len(distinct) < count:
        return None
    return frozenset(distinct[np.lexsort((first, -counts))[:count]].tolist())


def key_number(key: Key) -> int:
    """Return a number of 64 bits for a key; among millions of different keys, hardly ever two have the same one.

    >>> key_number(frozenset([4, 9])) == key_number(frozenset([9, 4])) != key_number(frozenset([4, 8]))
    True
    """
    content = np.array(sorted(key), dtype="<i8").tobytes()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


def anonymity_sets(keys: Sequence[Hashable]) -> FloatArray:
    """Return the size of each user's anonymity set.

    >>> anonymity_sets(["a", "b", "a"]).tolist()
    [2.0, 1.0, 2.0]
    """
    sizes = Counter(keys)
    return np.array([sizes[key] for key in keys], dtype=float)


def singled_out(sizes: Mapping[Any, int]) -> tuple[int, int]:
    """Return the number of users who are alone in their anonymity set, and of all users, from the sizes by key.

    >>> singled_out(Counter("abac"))
    (2, 4)
    """
    return sum(size == 1 for size in sizes.values()), sum(sizes.values())
