"""Independent named random streams, so that no part of a simulation can disturb another's draws."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, role: str, *key: str | int) -> np.random.Generator:
    """Return the random stream of a role, such as ``stream(7, "moves", user, replication)``.

    The stream depends on the names alone, never on the order in which streams are made: one more user,
    mechanism or attack leaves every other stream as it was.

    >>> stream(7, "moves", "ann", 0).integers(1000) == stream(7, "moves", "ann", 0).integers(1000)
    np.True_
    >>> stream(7, "moves", "ann", 0).integers(2**60) == stream(7, "moves", "bob", 0).integers(2**60)
    np.False_
    """
    text = "\x1f".join([role, *(f"{type(part).__name__}:{part}" for part in key)])
    words = np.frombuffer(hashlib.sha256(text.encode()).digest(), dtype="<u4")
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=tuple(words.tolist())))
