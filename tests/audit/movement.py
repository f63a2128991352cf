"""True traces for the tests of the audit: people with homes, work, other places and trips."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd

from sim.audit.displacement import Sample
from sim.interfaces import FloatArray, Generator
from tests.support import DATA

M_PER_DEGREE = 111_194.93
CENTRE = (37.72, -122.44)
EAST = M_PER_DEGREE * math.cos(math.radians(CENTRE[0]))
DAY_S = 86_400.0
GPS_M = 5.0
SPEED_M_S = 8.0
RUN_M_PER_MINUTE = 170.0


def people(rng: Generator, *, users: int = 20, pairs: int = 2000, days: float = 21.0) -> Sample:
    """Return the true positions of people at random times; the reports are the true positions."""
    parts = [_person(rng, user, pairs // users, days) for user in range(users)]
    user, time_s, x, y = (np.concatenate([part[i] for part in parts]) for i in range(4))
    lat, lon = CENTRE[0] + y / M_PER_DEGREE, CENTRE[1] + x / EAST
    return Sample(user.astype(np.int64), time_s, lat, lon, lat.copy(), lon.copy())


def _person(rng: Generator, user: int, pairs: int, days: float) -> tuple[FloatArray, ...]:
    home, work = rng.normal(0, 4000, 2), rng.normal(0, 2500, 2)
    others = home + rng.normal(0, 2500, (12, 2))
    stops, leaves = _itinerary(rng, home, work, others, days)
    times = np.sort(rng.uniform(0, days * DAY_S, pairs * 3))
    awake = (times % DAY_S > 6.5 * 3600) | (rng.uniform(size=times.size) < 0.1)
    times = np.round(np.sort(rng.choice(times[awake], pairs, replace=False)), 3)
    at = np.searchsorted(leaves, times, side="right").clip(0, len(leaves) - 1)
    x, y = _along(stops, leaves, at, times)
    jitter = rng.normal(0, GPS_M, (2, pairs))
    return np.full(pairs, float(user)), times, x + jitter[0], y + jitter[1]


def _itinerary(
    rng: Generator, home: FloatArray, work: FloatArray, others: FloatArray, days: float
) -> tuple[FloatArray, FloatArray]:
    """Return the places in order and the times at which they are left."""
    stops, leaves = [], []
    for day in range(math.ceil(days) + 1):
        start = day * DAY_S
        plan = [(home, 8 + rng.normal(0, 0.5))]
        if day % 7 < 5:
            plan += [
                (work, 12 + rng.normal(0, 0.3)),
                (others[rng.integers(4)], 13.0),
                (work, 17.5 + rng.normal(0, 0.7)),
            ]
        plan += [(others[rng.integers(12)], 18.6 + k * 1.3 + rng.uniform(0, 0.5)) for k in range(rng.integers(0, 3))]
        if day % 7 >= 5:
            plan += [(others[rng.integers(12)], 14 + k + rng.uniform(0, 0.8)) for k in range(4)]
        plan.sort(key=lambda item: item[1])
        for place, hour in plan:
            stops.append(place)
            leaves.append(start + hour * 3600)
    return np.array(stops), np.maximum.accumulate(np.array(leaves))


def _along(stops: FloatArray, leaves: FloatArray, at: FloatArray, times: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return positions: on the straight way from the previous stop after it was left, then at the stop."""
    before = np.maximum(at - 1, 0).astype(int)
    here = at.astype(int)
    way = stops[here] - stops[before]
    length = np.hypot(way[:, 0], way[:, 1])
    travelled = np.where(at > 0, SPEED_M_S * (times - leaves[before]), np.inf)
    share = np.clip(travelled / np.maximum(length, 1.0), 0.0, 1.0)
    place = stops[before] + way * share[:, None]
    return place[:, 0], place[:, 1]


def runs(rng: Generator, *, users: int = 20, pairs: int = 2000) -> Sample:
    """Return recorded morning runs: closed loops from home by two places, as apps with privacy zones record them.

    There is a position each minute, from two minutes before the start.
    """
    parts = []
    for _ in range(users):
        home = rng.normal(0, 4000, 2)
        recorded: list[FloatArray] = []
        while sum(map(len, recorded)) < pairs // users:
            angle = rng.uniform(0, 2 * math.pi) + np.array([0.0, rng.uniform(0.5, 2.0)])
            away = rng.uniform(1000, 2500, 2)
            corners = home + np.array([[0, 0], *np.column_stack([away * np.cos(angle), away * np.sin(angle)]), [0, 0]])
            at = np.concatenate([[0.0], np.hypot(*np.diff(corners, axis=0).T).cumsum()])
            minutes = np.arange(-2, math.floor(at[-1] / RUN_M_PER_MINUTE) + 1)
            place = [np.interp(minutes * RUN_M_PER_MINUTE, at, corners[:, axis]) for axis in (0, 1)]
            recorded.append(np.column_stack([len(recorded) * DAY_S + 6 * 3600 + (minutes + 2) * 60.0, *place]))
        parts.append(np.concatenate(recorded)[: pairs // users])
    number = np.repeat(np.arange(users), pairs // users)
    time_s, x, y = np.concatenate(parts).T
    x, y = x + rng.normal(0, GPS_M, x.size), y + rng.normal(0, GPS_M, y.size)
    lat, lon = CENTRE[0] + y / M_PER_DEGREE, CENTRE[1] + x / EAST
    return Sample(number.astype(np.int64), time_s, lat, lon, lat.copy(), lon.copy())


def cabs(rng: Generator, *, users: int = 10, pairs: int = 2000) -> Sample | None:
    """Return positions of recorded cabs in a random week; None without the data."""
    file = DATA / "cabs_sf_points.csv.gz"
    if not file.exists():
        return None
    table = pd.read_csv(file).sort_values(["user", "unixtime"])
    names = rng.choice(table["user"].unique(), users, replace=False)
    parts = []
    for number, name in enumerate(sorted(names)):
        own = table[table["user"] == name]
        rows = np.sort(rng.choice(len(own), pairs // users, replace=False))
        parts.append(own.iloc[rows].assign(number=number))
    chosen = pd.concat(parts)
    lat, lon = chosen["lat"].to_numpy(float), chosen["lon"].to_numpy(float)
    return Sample(
        chosen["number"].to_numpy(np.int64), chosen["unixtime"].to_numpy(float), lat, lon, lat.copy(), lon.copy()
    )
