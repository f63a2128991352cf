"""Stay points: the definition by brute force, other definitions where they must agree, and replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.interfaces import FloatArray, IntArray
from sim.mobility.recorded.replay import Replay
from sim.mobility.recorded.stay_points import StayPoints, distances_m, means, stays
from sim.world.grid import Grid
from sim.world.locations import KM_PER_DEGREE
from tests.support import made, raises_code

METRE = 1 / (1000 * KM_PER_DEGREE)
REGION = Grid.region(rows=4, cols=4, south=10.0, north=10.04, west=20.0, east=20.04)


def by_definition(
    times_s: IntArray, lat: FloatArray, lon: FloatArray, session: IntArray, distance_m: float, duration_s: int
) -> list[int]:
    """Return the stay of each point, from the definition of Li et al. 2008 point by point."""
    number, count, start = [-1] * times_s.size, 0, 0
    while start < times_s.size:
        end = start
        while (
            end + 1 < times_s.size
            and session[end + 1] == session[start]
            and distances_m(lat[start], lon[start], lat[end + 1 : end + 2], lon[end + 1 : end + 2])[0] <= distance_m
        ):
            end += 1
        if times_s[end] - times_s[start] >= duration_s:
            number[start : end + 1] = [count] * (end + 1 - start)
            count, start = count + 1, end + 1
        else:
            start += 1
    return number


def leaving_points(
    times_s: IntArray, lat: FloatArray, lon: FloatArray, distance_m: float, duration_s: int
) -> list[int]:
    """Return the arrivals of the sliding method of trackintel 1.4.2 (`_generate_staypoints_sliding_user`).

    The search continues at the first point that is too far, and the departure is the time of that point.
    """
    arrivals, start = [], 0
    for current in range(1, times_s.size):
        if distances_m(lat[start], lon[start], lat[[current]], lon[[current]])[0] >= distance_m:
            if times_s[current] - times_s[start] >= duration_s:
                arrivals.append(int(times_s[start]))
            start = current
    return arrivals


def detected(times_s: IntArray, lat: FloatArray, lon: FloatArray, **options: Any) -> IntArray:
    session = options.pop("session", np.zeros(times_s.size, dtype=np.int64))
    return stays(times_s, lat, lon, session, **({"distance_m": 200, "duration_s": 1200} | options))


@settings(deadline=None, max_examples=200)
@given(
    seed=st.integers(0, 10**6),
    size=st.integers(0, 150),
    distance_m=st.sampled_from([20, 60, 200]),
    duration_s=st.integers(1, 900),
)
def test_stays_agree_with_the_definition(seed: int, size: int, distance_m: int, duration_s: int) -> None:
    rng = np.random.default_rng(seed)
    times_s = np.cumsum(rng.integers(0, 60, size))
    lat, lon = (40 + np.cumsum(rng.normal(0, 15 * METRE, size) * (rng.random(size) < 0.5)) for _ in range(2))
    session = np.cumsum(rng.random(size) < 0.03).astype(np.int64)
    number = detected(times_s, lat, lon, session=session, distance_m=distance_m, duration_s=duration_s)
    assert number.tolist() == by_definition(times_s, lat, lon, session, distance_m, duration_s)
    if number.max(initial=-1) >= 0:
        expected = [lat[number == stay].mean() for stay in range(number.max() + 1)]
        np.testing.assert_allclose(means(number, lat), expected, rtol=1e-13)


def test_long_stays_of_many_points_end_at_the_first_far_point() -> None:
    lat = np.zeros(5000)
    lat[4321:] = 300 * METRE
    number = detected(np.arange(5000), lat, np.zeros(5000))
    assert np.flatnonzero(number == 0).tolist() == list(range(4321))
    lat[2000] = 300 * METRE  # a single far point splits a stay
    assert np.flatnonzero(np.diff(detected(np.arange(5000), lat, np.zeros(5000)))).tolist() == [1999, 2000, 4320]


def test_distances_are_great_circles() -> None:
    assert distances_m(0, 0, np.array([0.0]), np.array([180.0]))[0] == pytest.approx(np.pi * 6371008.8)
    assert distances_m(60, 10, np.array([60.0]), np.array([10.001]))[0] == pytest.approx(55.6, abs=0.05)


def day(seed: int) -> tuple[IntArray, FloatArray, FloatArray, list[int]]:
    """Return a day with stays of 30 to 60 minutes within 20 m, kilometres apart, and their arrivals."""
    rng = np.random.default_rng(seed)
    times, lats, lons, arrivals, now = [], [], [], [], 0
    for place in range(6):
        arrivals.append(now)
        for _ in range(int(rng.integers(60, 120))):
            times.append(now)
            lats.append(10.006 + 0.005 * place + rng.uniform(-10, 10) * METRE)
            lons.append(20.015 + rng.uniform(-10, 10) * METRE)
            now += 30
        for part in range(1, 10):  # on the way, one point every 5 s
            times.append(now)
            lats.append(10.006 + 0.005 * (place + part / 10))
            lons.append(20.025)
            now += 5
    return np.array(times), np.array(lats), np.array(lons), arrivals


@pytest.mark.parametrize("seed", range(5))
def test_clear_stays_are_those_of_other_definitions(seed: int) -> None:
    times_s, lat, lon, arrivals = day(seed)
    number = detected(times_s, lat, lon)
    first = np.flatnonzero(np.diff(number, prepend=-1) > 0)
    assert times_s[first].tolist() == arrivals
    assert leaving_points(times_s, lat, lon, 200, 1200) == arrivals
    assert means(number, lat) == pytest.approx(10.006 + 0.005 * np.arange(6), abs=10 * METRE)


def saved(folder: Path, seed: int = 0) -> Path:
    times_s, lat, lon, _ = day(seed)
    rows = "".join(f"a,{t},{y:.7f},{x:.7f}\n" for t, y, x in zip(times_s, lat, lon, strict=True))
    path = folder / "t.csv"
    path.write_text("user,time_s,lat,lon\n" + rows)
    return path


def test_a_replay_visits_stay_points_at_their_arrival(tmp_path: Path) -> None:
    replay = made(Replay, locations=REGION, file=saved(tmp_path), stay_points=StayPoints())
    visits = list(replay.visits("a", np.random.default_rng(0)))
    *_, arrivals = day(0)
    assert [visit.time_s for visit in visits] == arrivals
    cells = REGION.cell_of([10.006 + 0.005 * place for place in range(6)], [20.015] * 6)
    assert [visit.cell for visit in visits] == cells.tolist()
    report = replay.report()
    rows_staying = int((detected(*day(0)[:3]) >= 0).sum())
    assert (report["stays"], report["stays_outside"], report["rows_staying"]) == (6, 0, rows_staying)


def test_resampled_stays_have_positions_until_the_departure(tmp_path: Path) -> None:
    replay = made(Replay, locations=REGION, file=saved(tmp_path), stay_points=StayPoints(), resample_s=60)
    times_s, lat, lon, _ = day(0)
    number = detected(times_s, lat, lon)
    expected: dict[int, int] = {}
    for stay in range(6):
        own = times_s[number == stay] // 60
        cell = int(REGION.cell_of(lat[number == stay].mean(), lon[number == stay].mean()))
        expected |= dict.fromkeys(range(own[0], own[-1] + 1), cell)
    visits = {visit.time_s // 60: visit.cell for visit in replay.visits("a", np.random.default_rng(0))}
    assert visits == expected


def test_rows_outside_the_region_end_stays_and_stays_outside_are_counted(tmp_path: Path) -> None:
    """A user who leaves the region and returns has two stays at the same place."""
    path = tmp_path / "t.csv"
    home, away = (10.01, 20.01), (11.0, 20.01)
    places = [home] * 60 + [away] * 60 + [home] * 60
    path.write_text("user,time_s,lat,lon\n" + "".join(f"a,{60 * n},{y},{x}\n" for n, (y, x) in enumerate(places)))
    replay = made(Replay, locations=REGION, file=path, stay_points=StayPoints())
    assert replay.times_s("a").tolist() == [0, 7200]
    assert (replay.report()["stays"], replay.report()["stays_outside"]) == (2, 1)


def test_gaps_end_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    stamps = [*range(0, 1500, 60), *range(90_000, 91_500, 60)]
    path.write_text("user,time_s,lat,lon\n" + "".join(f"a,{t},10.01,20.01\n" for t in stamps))
    assert made(Replay, locations=REGION, file=path, stay_points=StayPoints()).times_s("a").tolist() == [0, 90_000]
    uncut = made(Replay, locations=REGION, file=path, stay_points=StayPoints(), max_gap_s=10**6)
    assert uncut.times_s("a").tolist() == [0]


def test_files_without_stay_points_or_degrees_are_rejected(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with raises_code(InvalidValue, "no-stay-points"):
        made(Replay, locations=REGION, file=path, stay_points=StayPoints(duration_s=86_400))
    path.write_text("user,time_s,cell\na,0,1\n")
    with raises_code(InvalidValue, "no-coordinates"):
        made(
            Replay,
            locations=Grid.rectangle(rows=2, cols=2, width_km=1, height_km=1),
            file=path,
            stay_points=StayPoints(),
        )
