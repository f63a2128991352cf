"""Independent named random streams: the draws of one part of a simulation do not affect those of another."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, role: str, *key: str | int) -> np.random.Generator:
    """Return a random generator that depends only on `seed`, `role` and `key`.

    The role names the purpose of the stream and the key its owner, for example
    ``stream(7, "moves", user, replication)``. Streams do not depend on the order in which they are created: an
    additional user, mechanism or attack does not change any other stream. Equal arguments give equal numbers: in your
    own code choose roles that lppm-sim does not use, such as ``"my_package.noise"``.

    >>> stream(7, "moves", "ann", 0).integers(1000) == stream(7, "moves", "ann", 0).integers(1000)
    np.True_
    >>> stream(7, "moves", "ann", 0).integers(2**60) == stream(7, "moves", "bob", 0).integers(2**60)
    np.False_
    """
    text = "\x1f".join([role, *(f"{type(part).__name__}:{part}" for part in key)])
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(words.tolist())))
