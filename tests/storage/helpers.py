"""Helpers: rows of an event log, listings of folders, flipped bits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from sim.storage.backends import storage_at
from sim.storage.event_schema import EVENTS, MEASURES
from sim.storage.run_directory import RunDirectory

OPTIONAL = EVENTS.names[EVENTS.names.index(MEASURES[-1]) + 1 :]
"""Columns that are empty by default."""


def events(n: int = 3, **changes: Any) -> pa.Table:
    """Return n rows of an event log, with some columns replaced."""
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
        **{name: pa.nulls(n, EVENTS.field(name).type) for name in OPTIONAL},
    }
    return pa.table({**columns, **changes}, schema=EVENTS)


def listed(run: RunDirectory, folder: str = "events") -> list[str]:
    """Return the names in a folder of a run."""
    return storage_at(run.place).names(folder)


def names(folder: Path) -> list[str]:
    """Return the sorted names in a folder."""
    return sorted(path.name for path in folder.iterdir())


def flips(content: bytes, bits: tuple[int, ...] = (0, 5)) -> Iterator[bytes]:
    """Yield the content with one bit flipped: in each byte these bits, and one that depends on its position."""
    changed = bytearray(content)
    for place in range(len(content)):
        for bit in {*bits, place % 8}:
            changed[place] ^= 1 << bit
            yield bytes(changed)
            changed[place] ^= 1 << bit
