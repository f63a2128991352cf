"""Rows of an event log, and what lies in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from sim.storage.backends import storage_at
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.run_directory import RunDirectory

SELDOM = EVENTS.names[EVENTS.names.index(MEASURES[-1]) + 1 :]
"""Columns that are empty unless a scenario asks for them."""


def events(n: int = 3, **changes: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "event": ["query"] * n,
        "shift": pa.nulls(n, pa.string()),
        "point": [0] * n,
        "replication": [0] * n,
        "user": ["ann"] * n,
        "index": list(range(1, n + 1)),
        "time_s": [10 * i for i in range(n)],
        "cell": [4] * n,
        "output": [5] * n,
        "lppm": ["SP-LH"] * n,
        "attack": ["markov"] * n,
        "estimated_index": list(range(1, n + 1)),
        "estimate": [4] * n,
        **dict.fromkeys(MEASURES, [1.5] * n),
        **{name: pa.nulls(n, EVENTS.field(name).type) for name in SELDOM},
    }
    return pa.table({**columns, **changes}, schema=EVENTS)


def listed(run: RunDirectory, folder: str = "events") -> list[str]:
    return storage_at(run.place).names(folder)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def flips(content: bytes, bits: tuple[int, ...] = (0, 5)) -> Iterator[bytes]:
    """Yield the content with one bit flipped: in every byte these bits, and one more that depends on its place."""
    changed = bytearray(content)
    for place in range(len(content)):
        for bit in {*bits, place % 8}:
            changed[place] ^= 1 << bit
            yield bytes(changed)
            changed[place] ^= 1 << bit
