"""Replacement of the cells of a trace by new places, by hand and for random traces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from sim.interfaces import IntArray
from sim.mobility.shifts.new_places import with_new_places
from sim.mobility.shifts.places import by_frequency
from sim.world.grid import Grid
from tests.mobility.shifts.city import GRID, LIFE, only, rng, seeds, traces


@given(traces, seeds)
def test_every_place_except_home_is_replaced_by_another_one(cells: IntArray, seed: int) -> None:
    home = int(by_frequency(cells)[0])
    new = with_new_places(cells, locations=GRID, attraction=LIFE, home=home, rng=rng(seed))
    assert (new == home).tolist() == (cells == home).tolist()
    assert (new[cells != home] != cells[cells != home]).all()
    assert len(np.unique(new)) == len(np.unique(cells))
    assert len({(old, other) for old, other in zip(cells, new, strict=True)}) == len(np.unique(cells))


def test_new_places_are_as_far_from_home_as_the_old_ones() -> None:
    grid = Grid.rectangle(rows=90, cols=90, width_km=90, height_km=90)
    home = 45 * 90 + 45
    near, far = home + np.array([0, 1, -1, 90]), home + np.array([0, 12, -900, 9])
    away = np.hypot(grid.x_km - grid.x_km[home], grid.y_km - grid.y_km[home])
    even = np.full(grid.n_cells, 1 / grid.n_cells)

    def mean_km(cells: IntArray) -> float:
        lives = [
            with_new_places(cells, locations=grid, attraction=even, home=home, rng=rng(seed)) for seed in range(60)
        ]
        return float(np.mean([away[life[life != home]].mean() for life in lives]))

    assert mean_km(far) == pytest.approx(float(away[far[1:]].mean()), rel=0.25)
    assert mean_km(near) < 4


def test_places_without_a_replacement_do_not_change() -> None:
    cells = np.array([3, 3, 3, 9, 9, 20])
    new = with_new_places(cells, locations=GRID, attraction=only(3, 11), home=3, rng=rng())
    assert new.tolist() == [3, 3, 3, 11, 11, 20]
