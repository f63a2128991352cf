"""Weights of cells during a holiday."""

from __future__ import annotations

import numpy as np
import pytest

from sim.mobility.shifts.holiday import holiday
from tests.mobility.shifts.city import EVEN, GRID, at, only, rng


@pytest.mark.parametrize("seed", range(8))
def test_a_holiday_is_far_from_home(seed: int) -> None:
    home = at(0, 0)
    away = np.hypot(GRID.x_km - GRID.x_km[home], GRID.y_km - GRID.y_km[home])
    weights = holiday(locations=GRID, attraction=EVEN, home=home, away_km=5, spread_km=0.3, rng=rng(seed))
    place = int(weights.argmax())
    assert away[place] >= 5
    from_place = np.hypot(GRID.x_km - GRID.x_km[place], GRID.y_km - GRID.y_km[place])
    np.testing.assert_allclose(weights / weights[place], np.exp(-from_place / 0.3))


def test_the_farthest_place_is_used_if_none_is_far_enough() -> None:
    weights = holiday(locations=GRID, attraction=only(1, 2, 30), home=0, away_km=100, spread_km=1, rng=rng())
    assert weights.argmax() == 30
    assert (weights > 0).tolist() == (only(1, 2, 30) > 0).tolist()
