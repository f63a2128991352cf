"""Holidays in whole lives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sim.events import Shift
from sim.mobility.shifts.places import by_frequency
from sim.mobility.traces import DAY_S
from sim.world.grid import Grid
from tests.simulation.shifts.lives import (
    AT,
    Build,
    after,
)


@pytest.mark.parametrize("length", [{"for_queries": 20}, {"for_days": 0.1}], ids=["queries", "days"])
@pytest.mark.parametrize("who", ["replay", "favourites", "taxis"])
def test_a_holiday_is_far_away_and_ends(who: str, length: dict[str, Any], population: Build) -> None:
    if who == "favourites" and "for_days" in length:
        length = {"for_days": 3.0}
    spec = {"kind": "holiday", "at_query": AT, "away_km": 8, "spread_km": 0.5} | length
    base, shifted = population(who).lives, population(who, spec).lives
    grid = Grid.rectangle(rows=8, cols=8, width_km=16, height_km=16)
    for user, life in shifted.items():
        begins, ends = life.shifts
        assert (begins, ends) == (Shift(user, "holiday", AT), Shift(user, "holiday", ends.index, True))
        if "for_queries" in length:
            assert ends.index == AT + 20
        else:
            over_s = life.test.times_s[AT - 1] + int(length["for_days"] * DAY_S)
            assert life.test.times_s[ends.index - 2] < over_s <= life.test.times_s[ends.index - 1]
        assert life.borders == (AT, ends.index)
        assert after(life, ends.index).tolist() == after(base[user], ends.index).tolist()
        away = life.test.cells[AT - 1 : ends.index - 1]
        home = by_frequency(base[user].test.cells[: AT - 1])[0]
        from_home = np.hypot(grid.x_km - grid.x_km[home], grid.y_km - grid.y_km[home])
        assert np.median(from_home[away]) > 6
