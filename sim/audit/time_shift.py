"""Constant shifts between the times of the true and the sent positions, such as a wrong time zone."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sim.audit.displacement import M_PER_DEGREE, SAME_PLACE_M, metres_per_degree_east
from sim.interfaces import FloatArray, IntArray
from sim.mobility.recorded.positions import Positions

_STEP_S = 900
_MOST_STEPS = 56
"""Time zones and daylight saving time are multiples of 15 minutes up to 14 hours."""
_MOST_DIFFERENCES = 20
"""Number of the most common differences of the first or last times of users that are tested."""
_SMALLER = 0.4
"""Ratio of the displacements with and without the shift below which the times look shifted."""
_FEWEST_PAIRS = 30
_MOVED_M = 100.0
"""Distance between the true positions of a row with and without the shift above which they differ."""
_NEAREST = 0.99
"""Share of the pairs, the nearest ones, whose mean displacement is compared."""
_MOST_ROWS = 20_000

Rows = tuple[IntArray, IntArray, FloatArray, FloatArray]
"""User, time in milliseconds, latitude and longitude, sorted by user and time."""


def time_shift_s(first: Positions, second: Positions) -> float:
    """Return the shift of the times of `second` that explains its positions much better than none; otherwise 0.

    Candidates are multiples of 15 minutes up to 14 hours and differences of the first and last times of users. The
    mean displacement must be less than 0.4 of that without a shift, over the rows whose true positions differ. Reports
    that are repeated for some time have on average half of that time as delay, and a ratio of at least 0.5.
    """
    if not (first.timed and second.timed):
        return 0.0
    common = sorted(set(first.users) & set(second.users))
    true, sent = _rows(first, common), _rows(second, common)
    if true[0].size == 0 or sent[0].size == 0:
        return 0.0
    unshifted = _matched(true, sent, 0)
    best, least = 0, _SMALLER
    for shift in _candidates(true, sent):
        ratio = _ratio(true, sent, unshifted, _matched(true, sent, shift))
        if ratio < least:
            best, least = shift, ratio
    return best / 1000


def time_shift_warning(shift_s: float) -> str:
    """Return a warning about a shift of the sent times."""
    return (
        f"The times of SENT look shifted by {shift_s:+,.10g} s: corrected by {-shift_s:+,.10g} s, the sent positions "
        "are much nearer to the true ones. The mechanism and all other results are wrong if so. Rows without a sent "
        "position are not counted as dropped. Correct the times (time zone, daylight saving time) and repeat the audit."
    )


def _rows(positions: Positions, common: list[str]) -> Rows:
    """Return the rows of the common users with a position, of the first users up to `_MOST_ROWS` rows."""
    number = {name: index for index, name in enumerate(common)}
    user = np.array([number.get(name, -1) for name in positions.users], dtype=np.int64)[positions.user]
    when = np.asarray(positions.when, dtype=np.float64)
    time_ms = np.round(1000 * (when + fractions_s(np.asarray(positions.rest, dtype=np.float64), when)))
    kept = (user >= 0) & np.isfinite(positions.lat) & np.isfinite(positions.lon)
    ends = np.cumsum(np.bincount(user[kept], minlength=len(common)))
    kept &= user < max(1, int(np.searchsorted(ends, _MOST_ROWS, side="right")))
    order = np.flatnonzero(kept)[np.lexsort((time_ms[kept], user[kept]))]
    return user[order], time_ms[order].astype(np.int64), positions.lat[order], positions.lon[order]


def fractions_s(rest: FloatArray, whole: FloatArray) -> FloatArray:
    """Return the fractions of a second of `rest`: fractions, exact times, or ticks of 1/1000 s or a power of it."""
    if (np.abs(rest - whole) < 1).all():
        return rest - whole
    most = float(rest.max(initial=0.0))
    return rest / next(unit for unit in (1, 1e3, 1e6, 1e9, np.inf) if most < unit)


def _candidates(true: Rows, sent: Rows) -> Iterator[int]:
    """Yield shifts in milliseconds, small ones first."""
    for step in range(1, _MOST_STEPS + 1):
        yield from (1000 * _STEP_S * step, -1000 * _STEP_S * step)
    differences = [
        np.array([sent_of[user] - true_of[user] for user in true_of.keys() & sent_of.keys()], dtype=np.int64)
        for true_of, sent_of in zip(_ends(true), _ends(sent), strict=True)
    ]
    values, counts = np.unique(np.concatenate(differences), return_counts=True)
    yield from (int(value) for value in values[np.argsort(-counts, kind="stable")][:_MOST_DIFFERENCES] if value)


def _ends(rows: Rows) -> tuple[dict[int, int], dict[int, int]]:
    """Return the first and the last time of each user."""
    user, time_ms = rows[0].tolist(), rows[1].tolist()
    return dict(zip(reversed(user), reversed(time_ms), strict=True)), dict(zip(user, time_ms, strict=True))


def _matched(true: Rows, sent: Rows, shift_ms: int) -> IntArray:
    """Return the true row of each sent row if the sent times are `shift_ms` late; -1 if there is none."""
    start = int(min(true[1].min(), sent[1].min() - shift_ms))
    span = int(max(true[1].max(), sent[1].max() - shift_ms)) - start + 1
    keys = [rows[0] * span + time_ms - start for rows, time_ms in ((true, true[1]), (sent, sent[1] - shift_ms))]
    row = np.searchsorted(keys[0], keys[1]).clip(max=keys[0].size - 1)
    return np.where(keys[0][row] == keys[1], row, -1)


def _ratio(true: Rows, sent: Rows, before: IntArray, after: IntArray) -> float:
    """Return the mean displacement after a shift over that before it, of rows whose true positions differ.

    The most distant 1 % are left out: a missing position may be 0, 0. Without enough rows the ratio is infinite.
    """
    both = np.flatnonzero((before >= 0) & (after >= 0))
    one, other = before[both], after[both]
    moved = _distance_m(true[2][one], true[3][one], true[2][other], true[3][other]) > _MOVED_M
    if moved.sum() < _FEWEST_PAIRS:
        return np.inf
    lat, lon = sent[2][both[moved]], sent[3][both[moved]]
    means = []
    for row in (one[moved], other[moved]):
        distance = np.sort(_distance_m(true[2][row], true[3][row], lat, lon))
        means.append(float(distance[: max(1, int(_NEAREST * distance.size))].mean()))
    return means[1] / means[0] if means[0] > SAME_PLACE_M else np.inf


def _distance_m(lat: FloatArray, lon: FloatArray, other_lat: FloatArray, other_lon: FloatArray) -> FloatArray:
    east = (other_lon - lon) * metres_per_degree_east(lat)
    return np.hypot(east, (other_lat - lat) * M_PER_DEGREE)
