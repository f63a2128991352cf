"""Recorded days: selection of days without long gaps, and the cell in each time slot."""

from __future__ import annotations

import numpy as np

from sim.interfaces import IntArray
from sim.mobility.intervals import require
from sim.mobility.traces import DAY_S

LONGEST_SILENCE_S = 2 * 3600
"""Longest gap in s on a day, as in the paper for cabs."""

SLOT_S = 300
"""Length of a time slot in s, as in the paper for cabs."""
PACIFIC_DAYLIGHT_H = -7
"""UTC offset of San Francisco in hours, in the months of the cab traces."""


def good_days(
    times_s: IntArray, *, utc_offset_s: int = 0, longest_silence_s: int = LONGEST_SILENCE_S, day_s: int = DAY_S
) -> IntArray:
    """Return the days without a gap longer than `longest_silence_s`, as numbers of local days since 1970, in order.

    `times_s` are the times of one user's points in Unix seconds, in order. The gaps of a day are those between its
    points, from midnight to the first point, and from the last point to the next midnight.

    >>> good_days(np.array([3, 6, 9, 14, 19, 28]), longest_silence_s=5, day_s=10).tolist()
    [0, 1]
    """
    require("longest_silence_s", longest_silence_s, 0, float("inf"), ends="[)")
    local_s = np.asarray(times_s, dtype=np.int64) + utc_offset_s
    if not local_s.size:
        return local_s
    if np.any(np.diff(local_s) < 0):
        raise ValueError("times_s must not decrease")
    days, first = np.unique(local_s // day_s, return_index=True)
    silence_s = np.diff(local_s, prepend=0)
    silence_s[first] = local_s[first] - days * day_s
    last = np.append(first[1:], local_s.size) - 1
    longest_s = np.maximum(np.maximum.reduceat(silence_s, first), (days + 1) * day_s - local_s[last])
    return np.asarray(days[longest_s <= longest_silence_s], dtype=np.int64)


def slots(
    times_s: IntArray,
    cells: IntArray,
    days: IntArray,
    *,
    utc_offset_s: int = 0,
    slot_s: int = SLOT_S,
    day_s: int = DAY_S,
) -> IntArray:
    """Return the cell of one user in each slot of each of these local days, shape (n_days, day_s / slot_s).

    The cell of a slot is the last of `cells` before the end of the slot. Without a point in the slot, this is an
    earlier point, possibly of the day before. Slots before the first point have the cell of that point. `times_s` (in
    order) and `days` are as in `good_days`. The values may also be other integers than cells, such as rows of a table.

    >>> slots(np.array([12, 16, 29]), np.array([7, 8, 9]), np.array([1, 2]), slot_s=5, day_s=10).tolist()
    [[7, 8], [8, 9]]
    """
    require("slot_s", slot_s, 1, day_s)
    if day_s % slot_s:
        raise ValueError(f"slot_s must be a divisor of the {day_s} s of a day, got {slot_s}")
    points, values = np.asarray(times_s, dtype=np.int64), np.asarray(cells, dtype=np.int64)
    if points.shape != values.shape or not points.size:
        raise ValueError(f"times_s and cells must have the same length, at least 1, got {points.size}, {values.size}")
    if np.any(np.diff(points) < 0):
        raise ValueError("times_s must not decrease")
    ends_s = np.arange(slot_s, day_s + 1, slot_s) + np.asarray(days, dtype=np.int64)[:, None] * day_s - utc_offset_s
    return np.asarray(values[np.maximum(np.searchsorted(points, ends_s, side="left") - 1, 0)], dtype=np.int64)
