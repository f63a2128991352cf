"""Days without long gaps and their slots, compared with slow reference implementations."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.mobility.demand.periodic import Periodic, PeriodicParameters
from sim.mobility.recorded.days import PACIFIC_DAYLIGHT_H, good_days, slots
from sim.mobility.recorded.replay import Replay
from sim.world.grid import Grid
from tests.support import made

OFFSET_S = PACIFIC_DAYLIGHT_H * 3600
TIMES = st.lists(st.integers(-60, 60), min_size=1, max_size=40).map(sorted)


@given(TIMES, st.integers(-30, 30), st.integers(0, 20))
def test_good_days_agree_with_a_slow_search(times: list[int], offset: int, silence: int) -> None:
    local = {time + offset for time in times}
    good = []
    for day in range(-10, 10):
        points = [day * 20, *sorted(time for time in local if time // 20 == day), (day + 1) * 20]
        if len(points) > 2 and max(b - a for a, b in pairwise(points)) <= silence:
            good.append(day)
    days = good_days(np.array(times), utc_offset_s=offset, longest_silence_s=silence, day_s=20)
    assert days.tolist() == good


@given(TIMES, st.integers(-30, 30))
def test_a_slot_has_the_last_point_before_its_end(times: list[int], offset: int) -> None:
    cells = np.arange(len(times))
    by_slot = slots(np.array(times), cells, np.array([-1, 2]), utc_offset_s=offset, slot_s=5, day_s=20)
    assert by_slot.shape == (2, 4)
    for row, day in zip(by_slot.tolist(), (-1, 2), strict=True):
        for slot, cell in enumerate(row):
            before = [i for i, time in enumerate(times) if time + offset < day * 20 + (slot + 1) * 5]
            assert cell == (before[-1] if before else 0)


def test_without_points_there_are_no_days() -> None:
    assert good_days(np.array([], dtype=np.int64)).tolist() == []
    with pytest.raises(ValueError, match=r"^times_s and cells\b.* got 0, 0$"):
        slots(np.array([]), np.array([]), np.array([0]))


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"^times_s\b.* decrease"):
        good_days(np.array([2, 1]))
    with pytest.raises(ValueError, match=r"^times_s\b.* decrease"):
        slots(np.array([2, 1]), np.array([0, 0]), np.array([0]))
    with pytest.raises(ValueError, match=r"^slot_s\b.* 86400 s\b.* got 7$"):
        slots(np.array([1]), np.array([0]), np.array([0]), slot_s=7)
    with pytest.raises(ValueError, match=r"^times_s and cells\b.* got 2, 1$"):
        slots(np.array([1, 2]), np.array([0]), np.array([0]))


@pytest.mark.data
@pytest.mark.parametrize(("zone", "offset_s"), [("pdt", OFFSET_S), ("utc", 0)])
def test_good_days_of_the_recorded_cabs(real_data: Path, zone: str, offset_s: int) -> None:
    points = pd.read_csv(real_data / "cabs_sf_points.csv.gz")
    listed = pd.read_csv(real_data / "cabs_good_days.csv")
    listed = listed[(listed["day_def"] == zone) & (listed["points_used"] == "region")]
    for cab, own in points.groupby("user", sort=False):
        days = good_days(own["unixtime"].to_numpy(), utc_offset_s=offset_s)
        dates = [str(date(1970, 1, 1) + timedelta(days=int(day))) for day in days]
        assert dates == listed.loc[listed["user"] == cab, "date"].tolist()


@pytest.mark.data
def test_slots_of_recorded_days_agree_with_a_periodic_demand(real_data: Path) -> None:
    file = real_data / "cabs_sf_points.csv.gz"
    replay = made(Replay, locations=Grid.san_francisco(), file=file, utc_offset_h=PACIFIC_DAYLIGHT_H)
    rng = np.random.default_rng(0)
    for cab in replay.users(2):
        visits = list(replay.visits(cab, rng))
        local_s, cells = np.array([(visit.time_s, visit.cell) for visit in visits]).T
        demand = Periodic(PeriodicParameters(period_s=300))
        queries = {query.time_s: query.cell for query in demand.queries(visits, None)}
        days = good_days(local_s)
        assert days.size >= 10
        by_slot = slots(local_s, cells, days)
        assert by_slot.shape == (days.size, 288)
        np.testing.assert_array_equal(slots(local_s - OFFSET_S, cells, days, utc_offset_s=OFFSET_S), by_slot)
        for day, row in zip(days.tolist(), by_slot.tolist(), strict=True):
            known = {slot: queries[time] for slot in range(288) if (time := day * 86_400 + slot * 300) in queries}
            assert len(known) >= 288 - 24  # a trace may begin or end up to two hours inside a good day
            assert [row[slot] for slot in known] == list(known.values())
