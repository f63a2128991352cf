"""Check-ins are independent draws from `profile`."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy import stats

from sim.interfaces import FloatArray, IntArray
from sim.mobility.synthetic.favourites import Favourites, FavouritesParameters
from sim.world.grid import Grid
from sim.world.roads.lattice import lattice
from tests.support import made

GRID = Grid.rectangle(rows=8, cols=6, width_km=9, height_km=12)


def cells_and_times(model: Favourites, user: str, seed: int, number: int) -> tuple[IntArray, IntArray]:
    visits = list(islice(model.visits(user, np.random.default_rng(seed)), number))
    return np.array([v.cell for v in visits]), np.array([v.time_s for v in visits])


def chi_square(counts: IntArray, expected: FloatArray) -> float:
    """Return the p-value; cells with an expected count below five are pooled."""
    rare = expected < 5
    if rare.any():
        counts = np.append(counts[~rare], counts[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)


@pytest.mark.parametrize("user", ["user-001", "user-002", "somebody else"])
def test_draws_follow_the_profile(user: str) -> None:
    model = Favourites(FavouritesParameters(explore=0.3), locations=GRID, seed=5)
    cells, _ = cells_and_times(model, user, 11, 20_000)
    counts = np.bincount(cells, minlength=GRID.n_cells)
    assert chi_square(counts, 20_000 * model.profile(user)) > 0.01
    other = Favourites(FavouritesParameters(explore=0.3), locations=GRID, seed=6).profile(user)
    assert chi_square(counts, 20_000 * other + 1e-9) < 1e-6  # the test can fail


def test_draws_are_independent() -> None:
    model = Favourites(FavouritesParameters(places=3), locations=GRID, seed=5)
    cells, _ = cells_and_times(model, "user-001", 12, 20_000)
    top = int(np.argmax(model.profile("user-001")))
    now, then = cells[1:] == top, cells[:-1] == top
    table = np.histogram2d(now, then, bins=2)[0]
    assert stats.chi2_contingency(table).pvalue > 0.01


def test_gaps_are_exponential() -> None:
    _, times = cells_and_times(
        Favourites(FavouritesParameters(visits_per_day=2.0), locations=GRID, seed=5), "user-001", 13, 5000
    )
    assert stats.kstest(np.diff(times, prepend=0), "expon", args=(0, 43_200)).pvalue > 0.01


def test_a_profile_has_zipf_weights_on_about_ten_places() -> None:
    model = Favourites(FavouritesParameters(explore=0.0, taste=1.2), locations=GRID, seed=5)
    sizes = []
    for user in model.users(200):
        weights = np.sort(model.profile(user)[model.profile(user) > 0])[::-1]
        zipf = np.arange(1, weights.size + 1) ** -1.2
        np.testing.assert_allclose(weights, zipf / zipf.sum())
        sizes.append(weights.size)
    assert np.mean(sizes) == pytest.approx(10, abs=1)


def test_pure_exploration_with_a_wide_kernel_follows_the_attraction() -> None:
    model = made(Favourites, unchecked=True, explore=1.0, spread_km=1e9, locations=GRID, seed=5)
    np.testing.assert_allclose(model.profile("user-001"), model.attraction)


def test_exploration_decays_four_times_slower_than_favourites() -> None:
    model = Favourites(FavouritesParameters(explore=1.0, spread_km=0.7), locations=GRID, seed=5)
    pull = model.profile("user-001") / model.attraction
    home = int(np.argmax(pull))
    away_km = np.hypot(GRID.x_km - GRID.x_km[home], GRID.y_km - GRID.y_km[home])
    np.testing.assert_allclose(pull / pull[home], np.exp(-away_km / 2.8))


def test_the_distance_of_the_favourite_from_home_has_the_expected_mean() -> None:
    exploring = Favourites(FavouritesParameters(explore=1.0, spread_km=1.5), locations=GRID, seed=5)
    settled = Favourites(FavouritesParameters(explore=0.0, spread_km=1.5, taste=50.0), locations=GRID, seed=5)
    surplus_km, variance = 0.0, 0.0
    for user in settled.users(400):
        home = int(np.argmax(exploring.profile(user) / exploring.attraction))
        away_km = np.hypot(GRID.x_km - GRID.x_km[home], GRID.y_km - GRID.y_km[home])
        law = settled.attraction * np.exp(-away_km / 1.5)
        law /= law.sum()
        surplus_km += away_km[int(np.argmax(settled.profile(user)))] - law @ away_km
        variance += law @ away_km**2 - (law @ away_km) ** 2
    assert abs(surplus_km) < 3 * np.sqrt(variance)


def test_users_are_reproducible_and_independent_of_each_other() -> None:
    model, again = (
        Favourites(FavouritesParameters(), locations=GRID, seed=5),
        Favourites(FavouritesParameters(), locations=GRID, seed=5),
    )
    alone = cells_and_times(model, "user-002", 1, 300)
    next(again.visits("user-001", np.random.default_rng(9)))
    np.testing.assert_array_equal(cells_and_times(again, "user-002", 1, 300), alone)
    assert not np.array_equal(cells_and_times(model, "user-002", 2, 300)[0], alone[0])
    np.testing.assert_array_equal(model.profile("user-002"), again.profile("user-002"))
    assert not np.array_equal(model.profile("user-001"), model.profile("user-002"))


def test_with_roads_all_visits_are_in_cells_with_roads() -> None:
    roads = lattice(GRID, spacing_km=2.5, rng=np.random.default_rng(0))
    profile = Favourites(FavouritesParameters(), locations=GRID, seed=5, roads=roads).profile("user-001")
    assert roads.cells().size < GRID.n_cells
    assert set(np.flatnonzero(profile)) <= set(roads.cells())


def test_with_a_tiny_spread_only_home_is_visited() -> None:
    profile = Favourites(FavouritesParameters(spread_km=1e-4), locations=GRID, seed=5).profile("user-001")
    assert profile.sum() == pytest.approx(1)
    assert np.count_nonzero(profile) == 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"places": 0}, r"(?s)places.*input_value=0"),
        ({"taste": -1.0}, r"(?s)taste.*input_value=-1.0"),
        ({"explore": 1.5}, r"(?s)explore.*input_value=1.5"),
        ({"spread_km": 0.0}, r"(?s)spread_km.*input_value=0.0"),
        ({"visits_per_day": float("nan")}, r"(?s)visits_per_day.*input_value=nan"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(Favourites, locations=GRID, seed=5, **parameters)


# ------------------------------------------------------------------------------------------------ moves

HOME = Favourites(FavouritesParameters(), locations=GRID, seed=4)


@pytest.mark.parametrize("user", [f"user-{i:03d}" for i in range(1, 9)])
def test_a_new_home_has_new_places_around_it(user: str) -> None:
    moved = HOME.elsewhere("home", "move")
    assert moved is not None
    assert moved.home(user) != HOME.home(user)
    assert moved.profile(user).tolist() != HOME.profile(user).tolist()
    again = moved.elsewhere("home", "again")
    assert again is not None
    assert again.home(user) != moved.home(user)


def test_new_places_do_not_change_the_home() -> None:
    other, third = HOME.elsewhere("places", "taste"), HOME.elsewhere("places", "whim")
    assert other is not None
    assert third is not None
    for user in HOME.users(5):
        assert other.home(user) == HOME.home(user)
        assert len({model.profile(user).tobytes() for model in (HOME, other, third)}) == 3
    moved = HOME.elsewhere("home", "move")
    assert moved is not None
    later = moved.elsewhere("places", "taste")
    assert later is not None
    assert later.home("user-001") == moved.home("user-001")


def test_visits_after_a_move_have_the_same_times() -> None:
    moved = HOME.elsewhere("home", "move")
    assert moved is not None
    cells, times = cells_and_times(HOME, "user-002", 3, 200)
    other_cells, other_times = cells_and_times(moved, "user-002", 3, 200)
    assert times.tolist() == other_times.tolist()
    assert (cells != other_cells).mean() > 0.5
    assert HOME.elsewhere("work", "job") is None, "the model has no work places"
