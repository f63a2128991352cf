"""Random generators of a protected stream, a new one for each report."""

from __future__ import annotations

import secrets

import numpy as np

from sim.interfaces import Generator
from sim.rng import stream

_BITS = 256


def generator(seed: int | None, user: str, index: int) -> Generator:
    """Return the generator of a report: from the operating system, or from a seed, which is for tests only.

    A generator is never stored, so the state file does not help to predict a report or to repeat its draw.
    """
    if seed is None:
        return np.random.default_rng(np.random.SeedSequence(secrets.randbits(_BITS)))
    return stream(seed, "protection", user, index)
