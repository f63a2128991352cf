"""Moves of a trace's cells, by hand and for any trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from sim.interfaces import IntArray
from sim.mobility.shifts.places import by_frequency
from sim.mobility.shifts.relocate import relocated
from tests.mobility.shifts.city import GRID, LIFE, at, only, rng, seeds, traces


def test_a_move_keeps_the_shape_of_a_life() -> None:
    home = at(1, 1)
    cells = np.array([home, at(1, 2), at(2, 1), home, at(0, 1)])
    moved = relocated(cells, grid=GRID, attraction=only(at(4, 4)) + 1e-12, place=home, apart_from=None, rng=rng())
    assert moved.tolist() == [at(4, 4), at(4, 5), at(5, 4), at(4, 4), at(3, 4)]


def test_a_life_is_mirrored_where_it_fits_better_then() -> None:
    home = at(1, 1)
    cells = np.array([home, at(1, 4), at(3, 1), home])
    moved = relocated(cells, grid=GRID, attraction=only(at(4, 5)) + 1e-12, place=home, apart_from=None, rng=rng())
    assert moved.tolist() == [at(4, 5), at(4, 2), at(2, 5), at(4, 5)]


def test_who_would_leave_the_grid_or_the_roads_stops_at_the_nearest_place() -> None:
    home = at(1, 3)
    cells = np.array([home, at(1, 0), at(1, 6)])
    roads = (np.arange(GRID.n_cells) // 7 == 4) & (np.arange(GRID.n_cells) % 7 < 6)
    moved = relocated(
        cells, grid=GRID, attraction=only(at(4, 4)) + 1e-12 * roads, place=home, apart_from=None, rng=rng()
    )
    assert moved.tolist() == [at(4, 4), at(4, 1), at(4, 5)]


def test_only_what_belongs_to_work_moves_with_it() -> None:
    home, work = at(0, 0), at(0, 4)
    cells = np.array([home, at(0, 1), at(0, 2), at(0, 3), work, at(1, 4)])
    moved = relocated(cells, grid=GRID, attraction=only(at(4, 3)) + 1e-12, place=work, apart_from=home, rng=rng())
    # Cell (0, 2) is as near to the one as to the other.
    assert moved.tolist() == [home, at(0, 1), at(0, 2), at(4, 2), at(4, 3), at(5, 3)]


@given(traces, seeds)
def test_nobody_moves_to_where_she_is(cells: IntArray, seed: int) -> None:
    home = int(by_frequency(cells)[0])
    moved = relocated(cells, grid=GRID, attraction=LIFE, place=home, apart_from=None, rng=rng(seed))
    assert (moved[cells == home] != home).all()
    assert len({(old, new) for old, new in zip(cells, moved, strict=True)}) == len(np.unique(cells)), "a map of cells"


def test_a_world_of_one_place_has_no_other() -> None:
    with pytest.raises(ValueError, match="there is no cell to move to but 3"):
        relocated(np.array([3]), grid=GRID, attraction=only(3), place=3, apart_from=None, rng=rng())
