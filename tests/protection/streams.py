"""Streams of queries for the tests of protection."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import sim
from sim.protection.protector import Answer, Protector

REGION: dict[str, Any] = {
    "grid": {"kind": "region", "rows": 4, "cols": 5, "south": 37.6, "north": 37.64, "west": -122.5, "east": -122.44}
}
QUERIES = 24
Position = tuple[int, float, float]


def positions(count: int = QUERIES, seed: int = 1) -> list[Position]:
    """Return times and positions around three places, the seventh outside the region."""
    rng = np.random.default_rng(seed)
    places = rng.uniform([37.6, -122.5], [37.64, -122.44], size=(3, 2))
    drawn = [(3_600 * number, *places[rng.integers(3)].tolist()) for number in range(count)]
    return [
        (time_s, 10.0, lon) if number == 6 else (time_s, lat, lon) for number, (time_s, lat, lon) in enumerate(drawn)
    ]


def begin(state: Path, lppm: Any = "PEB-Exp", **changes: Any) -> Protector:
    """Open or continue the protection of a stream with a seed."""
    options: dict[str, Any] = {"state": state, "world": REGION, "seed": 5} | changes
    return sim.protect(options.pop("lppm", lppm), **options)


def answers(state: Path, lppm: Any, queries: Sequence[Position], **changes: Any) -> list[Answer]:
    """Return the answers to some queries, without the mark of a repetition."""
    with begin(state, lppm, **changes) as protector:
        return [protector.report(*query)._replace(repeated=False) for query in queries]


def records(state: Path) -> list[bytes]:
    """Return the lines of a state without their checksums."""
    return [line.rpartition(b" ")[0] for line in state.read_bytes().splitlines()[1:]]


def in_killed_process(work: Callable[[], None]) -> None:
    """Run a function in a forked process that ends by SIGKILL, at the latest when the function returns."""
    child = os.fork()
    if child == 0:
        try:
            work()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
