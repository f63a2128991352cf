"""Sessions of recorded rows: split at gaps, removal of short ones, and positions at a fixed period.

A session is a run of rows of one user in which no two consecutive rows are more than `max_gap_s` apart. Nothing is
known about the user between sessions, so nothing is carried from one to the next.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sim.interfaces import BoolArray, IntArray


def session_numbers(user: IntArray, times_s: IntArray, *, max_gap_s: int) -> IntArray:
    """Return the number of the session of each row, from 0; the rows are sorted by user and time, shape (n_rows,).

    >>> session_numbers(np.array([0, 0, 0, 1]), np.array([0, 60, 9000, 9001]), max_gap_s=7200).tolist()
    [0, 0, 1, 2]
    """
    if not user.size:
        return np.zeros(0, dtype=np.int64)
    starts = (np.diff(user) != 0) | (np.diff(times_s) > max_gap_s)
    return np.concatenate([[0], np.cumsum(starts)]).astype(np.int64)


def long_enough(session: IntArray, *, min_session: int) -> BoolArray:
    """Return a mask of the rows whose session has at least `min_session` rows.

    >>> long_enough(np.array([0, 0, 1]), min_session=2).tolist()
    [True, True, False]
    """
    return np.asarray(np.bincount(session)[session] >= min_session) if session.size else np.zeros(0, dtype=bool)


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Positions of one user in order of time; all arrays have shape (n_positions,)."""

    times_s: IntArray
    """Start of the slot of each position."""
    values: IntArray
    """Cell, or another integer, of the last row before the end of the slot."""
    carried: BoolArray
    """Mask of the slots without a row of their own, which repeat the position of an earlier row of the session."""
    cut: int
    """Number of slots between sessions, which have no position."""


def resample(times_s: IntArray, values: IntArray, session: IntArray, *, period_s: int) -> Positions:
    """Return one position per slot of `period_s` seconds from the first to the last row of each session of a user.

    Slot k covers k period <= t < (k + 1) period, as for `Periodic`: its position is that of the last row of the session
    before the end of the slot. If two sessions meet in a slot, it belongs to the later one. The rows are sorted by
    time; there must be at least one.

    >>> resample(np.array([10, 290, 905]), np.array([5, 6, 7]), np.array([0, 0, 0]), period_s=300).values.tolist()
    [6, 6, 6, 7]
    """
    slot = times_s // period_s
    first = np.flatnonzero(np.diff(session, prepend=session[0] - 1))
    starts, ends = slot[first], slot[np.append(first[1:], slot.size) - 1] + 1
    ends[:-1] = np.minimum(ends[:-1], starts[1:])
    lengths = ends - starts
    offsets = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    slots = np.repeat(starts - offsets, lengths) + np.arange(int(lengths.sum()))
    # Slots of an earlier session end before those of the next begin: the last row before the end of the slot is in it.
    last = np.searchsorted(slot, slots, side="right") - 1
    cut = int((slots[-1] - slots[0] + 1) - slots.size)
    return Positions(slots * period_s, values[last], slot[last] != slots, cut)
