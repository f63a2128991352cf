"""Another life for the same queries: how much of it, and where it leads, by hand and for any trace."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.interfaces import FloatArray, IntArray
from sim.mobility.shifts.holiday import holiday
from sim.mobility.shifts.new_places import with_new_places
from sim.mobility.shifts.places import by_frequency, drawn, mixed, share_of_new
from sim.mobility.shifts.relocate import relocated
from sim.mobility.synthetic.city import attraction
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=6, cols=7, width_km=7, height_km=6)
LIFE = attraction(GRID, seed=5)
EVEN = np.full(GRID.n_cells, 1 / GRID.n_cells)

traces = st.lists(st.integers(0, GRID.n_cells - 1), min_size=1, max_size=40).map(np.array)
seeds = st.integers(0, 1000)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def at(row: int, col: int) -> int:
    return row * GRID.cols + col


def only(*cells: int) -> FloatArray:
    """Return a city where people go to these cells alone."""
    life = np.zeros(GRID.n_cells)
    life[list(cells)] = 1 / len(cells)
    return life


@pytest.mark.parametrize(
    ("said", "share"),
    [
        ({"start": 2, "stop": 6}, [0, 0, 1, 1, 1, 1]),
        ({"start": 2, "stop": 4}, [0, 0, 1, 1, 0, 0]),
        ({"start": 2, "stop": 4, "weight": 0.4}, [0, 0, 0.4, 0.4, 0, 0]),
        ({"start": 1, "stop": 6, "over": 3}, [0, 0.25, 0.5, 0.75, 1, 1]),
        ({"start": 1, "stop": 4, "over": 3, "weight": 0.4}, [0, 0.1, 0.2, 0.3, 0, 0]),
        ({"start": 0, "stop": 6, "over": 0}, [1, 1, 1, 1, 1, 1]),
    ],
)
def test_how_much_of_the_new_life(said: dict[str, float], share: list[float]) -> None:
    np.testing.assert_allclose(share_of_new(6, **said), share, atol=1e-15)  # type: ignore[arg-type]


def test_a_mixture_takes_the_new_life_as_often_as_it_says() -> None:
    n = 40_000
    share = share_of_new(n, start=n // 4, stop=3 * n // 4, over=n // 4, weight=0.6)
    cells = mixed(np.zeros(n, dtype=int), np.ones(n, dtype=int), share, rng())
    quarters = cells.reshape(4, -1).mean(axis=1)
    assert quarters[0] == quarters[3] == 0
    np.testing.assert_allclose(quarters[1:3], [0.3, 0.6], atol=4 * 0.5 / np.sqrt(n / 4))


def test_what_is_sure_needs_no_draw() -> None:
    generator = rng()
    mixed(np.arange(4), np.arange(4), np.array([0.0, 0, 1, 1]), generator)
    assert generator.random() == rng().random()


def test_independent_draws_follow_the_weights() -> None:
    found = np.bincount(drawn(np.array([1.0, 0.0, 3.0]), 20_000, rng()), minlength=3) / 20_000
    assert found[1] == 0
    np.testing.assert_allclose(found, [0.25, 0, 0.75], atol=0.015)


# ------------------------------------------------------------------------------------------------ moves


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


# ------------------------------------------------------------------------------------------------ new places


@given(traces, seeds)
def test_new_places_are_others_one_for_one(cells: IntArray, seed: int) -> None:
    home = int(by_frequency(cells)[0])
    new = with_new_places(cells, grid=GRID, attraction=LIFE, home=home, rng=rng(seed))
    assert (new == home).tolist() == (cells == home).tolist()
    assert (new[cells != home] != cells[cells != home]).all()
    assert len(np.unique(new)) == len(np.unique(cells))
    assert len({(old, other) for old, other in zip(cells, new, strict=True)}) == len(np.unique(cells))


def test_new_places_lie_as_far_from_home_as_the_old_ones() -> None:
    grid = Grid.rectangle(rows=90, cols=90, width_km=90, height_km=90)
    home = 45 * 90 + 45
    near, far = home + np.array([0, 1, -1, 90]), home + np.array([0, 12, -900, 9])
    away = np.hypot(grid.x_km - grid.x_km[home], grid.y_km - grid.y_km[home])
    even = np.full(grid.n_cells, 1 / grid.n_cells)

    def mean_km(cells: IntArray) -> float:
        lives = [with_new_places(cells, grid=grid, attraction=even, home=home, rng=rng(seed)) for seed in range(60)]
        return float(np.mean([away[life[life != home]].mean() for life in lives]))

    assert mean_km(far) == pytest.approx(float(away[far[1:]].mean()), rel=0.25)
    assert mean_km(near) < 4


def test_places_that_run_out_stay() -> None:
    cells = np.array([3, 3, 3, 9, 9, 20])
    new = with_new_places(cells, grid=GRID, attraction=only(3, 11), home=3, rng=rng())
    assert new.tolist() == [3, 3, 3, 11, 11, 20]


# ------------------------------------------------------------------------------------------------ holidays


@pytest.mark.parametrize("seed", range(8))
def test_a_holiday_is_far_from_home(seed: int) -> None:
    home = at(0, 0)
    away = np.hypot(GRID.x_km - GRID.x_km[home], GRID.y_km - GRID.y_km[home])
    there = holiday(grid=GRID, attraction=EVEN, home=home, away_km=5, spread_km=0.3, rng=rng(seed))
    place = int(there.argmax())
    assert away[place] >= 5
    from_there = np.hypot(GRID.x_km - GRID.x_km[place], GRID.y_km - GRID.y_km[place])
    np.testing.assert_allclose(there / there[place], np.exp(-from_there / 0.3))


def test_where_nothing_is_so_far_the_farthest_place_will_do() -> None:
    there = holiday(grid=GRID, attraction=only(1, 2, 30), home=0, away_km=100, spread_km=1, rng=rng())
    assert there.argmax() == 30
    assert (there > 0).tolist() == (only(1, 2, 30) > 0).tolist()
