"""Notes on simulations: fallbacks, alarms, transition rows without data and the worst certified gap."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sim.mobility.statistics import Statistics

Notes = dict[str, Any]
"""Counts of fallbacks and alarms, number of transition rows without data, dropped probability of secrets, and the worst
certified gap of a profile."""


def merge_notes(one: Notes, other: Notes) -> Notes:
    """Merge the notes of two simulations: sums of fallbacks and alarms, maxima of all other values."""
    return {key: _merged(one[key], other[key], add=key.endswith(("fallbacks", "alarms"))) for key in one}


def _merged(one: Any, other: Any, *, add: bool) -> Any:
    if isinstance(one, dict):
        return {name: _merged(one[name], other[name], add=add) for name in one}
    if add:
        return one + other
    return max((value for value in (one, other) if value is not None), default=None)


def rows_without_data(known: Iterable[Statistics]) -> int:
    """Return the number of transition rows that fall back to the histogram without data, the maximum over users."""
    return max((statistics.fallback_rows for statistics in known), default=0)
