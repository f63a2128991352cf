"""Recorded data sets, where available: known numbers of the paper's experiments."""

from __future__ import annotations

import csv
import gzip
from collections import Counter
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.recorded.replay import RecordedDays, Replay, Selection
from sim.mobility.statistics import statistics
from sim.mobility.traces import live
from sim.world.grid import Grid
from tests.support import DATA, made

GRID = Grid.san_francisco()
TWENTY = Selection(min_visits=300, first=20)
RNG = np.random.default_rng(0)

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not (DATA / "gowalla_sf_ccs17.csv.gz").exists(), reason=f"no real data in {DATA}"),
]


def counted(name: str) -> Counter[str]:
    """Count the check-ins in the region without the code under test."""
    with gzip.open(DATA / f"{name}_sf_ccs17.csv.gz", "rt") as file:
        return Counter(
            row["user"]
            for row in csv.DictReader(file)
            if 37.55 <= float(row["lat"]) <= 37.801 and -122.5153 <= float(row["lon"]) <= -122.3789
        )


@pytest.mark.parametrize(("name", "able", "rich"), [("gowalla", 57, 120_680), ("brightkite", 44, 60_036)])
def test_user_sets_of_the_paper(name: str, able: int, rich: int) -> None:
    file = DATA / f"{name}_sf_ccs17.csv.gz"
    counts = counted(name)
    twenty = sorted((user for user in counts if counts[user] >= 300), key=int)[:20]
    test = made(Replay, locations=GRID, file=file, select=Selection(min_visits=300, first=20, last=5), visits=300)
    assert list(test.users(None)) == twenty[-5:]
    assert test.report()["visits"] == 1500
    trace = live(test, EveryVisit(), twenty[-1], moves=RNG, moments=RNG).test
    assert trace.times_s.tolist() == list(range(300))
    scarce = made(Replay, locations=GRID, file=file, select=Selection(min_visits=300, first=15), visits=300)
    assert list(scarce.users(None)) == twenty[:15]
    everybody_else = made(Replay, locations=GRID, file=file, select=Selection(exclude=TWENTY))
    assert everybody_else.report()["visits"] == rich == sum(counts.values()) - sum(counts[u] for u in twenty)
    assert made(Replay, locations=GRID, file=file, select=Selection(min_visits=300)).report()["users"] == able


@pytest.mark.parametrize(("name", "left"), [("gowalla", 114_070), ("brightkite", 55_549)])
def test_known_numbers_without_the_twenty_most_active(name: str, left: int) -> None:
    most_active = [user for user, _ in counted(name).most_common(20)]
    select = Selection(exclude=Selection(users=most_active))
    replay = made(Replay, locations=GRID, file=DATA / f"{name}_sf_ccs17.csv.gz", select=select)
    assert replay.report()["visits"] == left


def test_training_statistics_of_gowalla() -> None:
    replay = made(Replay, locations=GRID, file=DATA / "gowalla_sf_ccs17.csv.gz", select=Selection(exclude=TWENTY))
    traces = [live(replay, EveryVisit(), user, moves=RNG, moments=RNG).test for user in replay.users(None)]
    result = statistics(traces, n_cells=GRID.n_cells, restart_s=86_400)
    assert result.n_visits == 120_680
    assert result.n_transitions == 120_680 - len(traces)  # no user has 86,400 check-ins
    np.testing.assert_allclose(result.transition.sum(axis=1), 1)


def test_visits_and_queries_of_the_cabs() -> None:
    replay = made(Replay, locations=GRID, file=DATA / "cabs_sf_points.csv.gz", utc_offset_h=-7)
    assert replay.report() == {
        "rows": 915_219,
        "rows_outside": 0,
        "users_in_region": 37,
        "users": 37,
        "visits": 915_219,
        "rows_backward": 0,
        "users_backward": 0,
        "rows_same_time": 0,
        "users_same_time": 0,
        "rows_repeated": 0,
        "users_repeated": 0,
    }
    first = replay.users(1)[0]
    assert first == "etalrab"  # in the order of the file
    visits = list(replay.visits(first, RNG))
    midnight = 14_016 * 86_400
    assert visits[0].time_s == midnight + 3 * 3600 + 9  # 2008-05-17 10:00:09 UTC, in California
    cut = live(replay, Periodic(PeriodicParameters()), first, moves=RNG, moments=RNG, until_s=2 * 86_400).test
    replay.max_gap_s = 86_400
    trace = live(replay, Periodic(PeriodicParameters()), first, moves=RNG, moments=RNG, until_s=2 * 86_400).test
    assert len(trace) == 2 * 288 - 36
    times_s = replay.times_s(first)
    gap = next(after for before, after in pairwise(times_s) if after - before > 7200)
    silent = (trace.times_s // 300 > times_s[times_s < gap][-1] // 300) & (trace.times_s // 300 < gap // 300)
    assert silent.sum() == len(trace) - len(cut) == 27
    np.testing.assert_array_equal(cut.times_s, trace.times_s[~silent])
    np.testing.assert_array_equal(cut.cells, trace.cells[~silent])
    assert np.all(np.diff(trace.times_s) == 300)
    for slot in (36, 100, 400, 575):
        before = [visit.cell for visit in visits if visit.time_s < midnight + (slot + 1) * 300]
        assert trace.cells[slot - 36] == before[-1]


def test_ten_cabs_with_ten_good_days() -> None:
    """Compare the paper's set of cabs with the days listed in data/cabs_good_days.csv."""
    replay = made(
        Replay,
        locations=GRID,
        file=DATA / "cabs_sf_points.csv.gz",
        utc_offset_h=-7,
        days=RecordedDays(first=10),
        select=Selection(first=10),
    )
    listed = pd.read_csv(DATA / "cabs_good_days.csv").query("day_def == 'pdt' and points_used == 'region'")
    points = pd.read_csv(DATA / "cabs_sf_points.csv.gz", usecols=["user"])
    many = listed.groupby("user").size()
    assert list(replay.users()) == [user for user in points["user"].unique() if many.get(user, 0) >= 10][:10]
    for user in replay.users():
        visits = list(replay.visits(user, RNG))
        assert len(visits) == 2880
        dates = [str(np.datetime64(visit.time_s, "s").astype("datetime64[D]")) for visit in visits[::288]]
        assert dates == sorted(listed.loc[listed["user"] == user, "date"])[:10]
