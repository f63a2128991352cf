"""Relocation of the cells of a trace, by hand and for random traces."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from sim.errors import InvalidValue
from sim.interfaces import IntArray
from sim.mobility.shifts.places import by_frequency
from sim.mobility.shifts.relocate import relocated
from tests.mobility.shifts.city import GRID, LIFE, at, only, rng, seeds, traces
from tests.support import raises_code


def test_a_relocation_preserves_relative_positions() -> None:
    home = at(1, 1)
    cells = np.array([home, at(1, 2), at(2, 1), home, at(0, 1)])
    moved = relocated(cells, locations=GRID, attraction=only(at(4, 4)) + 1e-12, place=home, apart_from=None, rng=rng())
    assert moved.tolist() == [at(4, 4), at(4, 5), at(5, 4), at(4, 4), at(3, 4)]


def test_positions_are_mirrored_if_they_fit_better() -> None:
    home = at(1, 1)
    cells = np.array([home, at(1, 4), at(3, 1), home])
    moved = relocated(cells, locations=GRID, attraction=only(at(4, 5)) + 1e-12, place=home, apart_from=None, rng=rng())
    assert moved.tolist() == [at(4, 5), at(4, 2), at(2, 5), at(4, 5)]


def test_cells_outside_the_grid_or_the_roads_become_the_nearest_place() -> None:
    home = at(1, 3)
    cells = np.array([home, at(1, 0), at(1, 6)])
    roads = (np.arange(GRID.n_cells) // 7 == 4) & (np.arange(GRID.n_cells) % 7 < 6)
    moved = relocated(
        cells, locations=GRID, attraction=only(at(4, 4)) + 1e-12 * roads, place=home, apart_from=None, rng=rng()
    )
    assert moved.tolist() == [at(4, 4), at(4, 1), at(4, 5)]


def test_only_places_closer_to_work_move_with_it() -> None:
    home, work = at(0, 0), at(0, 4)
    cells = np.array([home, at(0, 1), at(0, 2), at(0, 3), work, at(1, 4)])
    moved = relocated(cells, locations=GRID, attraction=only(at(4, 3)) + 1e-12, place=work, apart_from=home, rng=rng())
    # Cell (0, 2) is equally far from both.
    assert moved.tolist() == [home, at(0, 1), at(0, 2), at(4, 2), at(4, 3), at(5, 3)]


@given(traces, seeds)
def test_the_new_home_is_in_another_cell(cells: IntArray, seed: int) -> None:
    home = int(by_frequency(cells)[0])
    moved = relocated(cells, locations=GRID, attraction=LIFE, place=home, apart_from=None, rng=rng(seed))
    assert (moved[cells == home] != home).all()
    assert len({(old, new) for old, new in zip(cells, moved, strict=True)}) == len(np.unique(cells)), "a map of cells"


def test_relocation_requires_another_place() -> None:
    with raises_code(InvalidValue, "no-other-place") as error:
        relocated(np.array([3]), locations=GRID, attraction=only(3), place=3, apart_from=None, rng=rng())
    assert "cell than 3 " in str(error.value)
