"""Recorded users and counted profiles for the tests of populations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.mobility.traces import Trace

DAY_S = 86_400


N_CELLS = 20


FAVOURITES = {"kind": "favourites", "places": 4}


def counted(trace: Trace, restart_s: int | None = None) -> tuple[FloatArray, FloatArray]:
    """Count a trace by hand: its profile, and its transitions with the profile in the rows without data."""
    profile = np.zeros(N_CELLS)
    pairs = np.zeros((N_CELLS, N_CELLS))
    for cell in trace.cells:
        profile[cell] += 1 / len(trace)
    for i in range(len(trace) - 1):
        if restart_s is None or trace.times_s[i] // restart_s == trace.times_s[i + 1] // restart_s:
            pairs[trace.cells[i], trace.cells[i + 1]] += 1
    transition = np.array([row / row.sum() if row.sum() else profile for row in pairs])
    return profile, transition


def replay(tmp_path: Path, table: dict[str, Any], **settings: Any) -> dict[str, Any]:
    pd.DataFrame(table).to_csv(tmp_path / "t.csv", index=False)
    return {"mobility": {"kind": "replay", "file": str(tmp_path / "t.csv")} | settings}


def error_of(make: Callable[[], Any]) -> InputError:
    """Return the error that a call raises."""
    with pytest.raises(InputError) as raised:
        make()
    return raised.value


def trips(days: Sequence[int], user: str = "a", minutes: int = 90) -> dict[str, list[Any]]:
    """Return rows as in Geolife: a trip with one row per minute on each of these days."""
    times = [day * 86_400 + 28_800 + minute * 60 for day in days for minute in range(minutes)]
    return {"user": [user] * len(times), "time": times, "cell": [number % 20 for number in range(len(times))]}


def both(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> dict[str, list[Any]]:
    return {name: one[name] + other[name] for name in one}
