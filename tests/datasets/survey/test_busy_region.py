"""The suggested region: the smallest rectangle by enumeration, and the shares and cells of suggestions."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.datasets.survey.busy_region import CITY_KM, MOST_CELLS, busy_box, smallest_rectangle, suggest
from sim.interfaces import FloatArray, IntArray
from sim.world.grids.region import RegionParameters

NO_STEPS = np.zeros(0)


def enumerated(counts: IntArray, least: int) -> tuple[int, int]:
    """Return the area and the negative sum of the best rectangle, by enumeration."""
    rows, cols = counts.shape
    return min(
        ((last - first) * (end - start), -int(counts[first:last, start:end].sum()))
        for first, last in combinations(range(rows + 1), 2)
        for start, end in combinations(range(cols + 1), 2)
        if counts[first:last, start:end].sum() >= least
    )


@settings(deadline=None, max_examples=200)
@given(seed=st.integers(0, 10**6), rows=st.integers(1, 6), cols=st.integers(1, 6), share=st.floats(0.01, 1))
def test_the_smallest_rectangle_is_that_of_enumeration(seed: int, rows: int, cols: int, share: float) -> None:
    counts = np.random.default_rng(seed).integers(0, 4, (rows, cols))
    counts[0, 0] += 1
    least = max(int(share * counts.sum()), 1)
    first, last, start, end = smallest_rectangle(counts, least)
    total = int(counts[first:last, start:end].sum())
    assert ((last - first) * (end - start), -total) == enumerated(counts, least)


def smallest_area(lat: FloatArray, lon: FloatArray, least: int) -> float:
    """Return the area of the smallest rectangle with `least` points: its sides pass through points."""
    areas: list[float] = []
    for south, north in combinations(np.unique(lat), 2):
        inside = np.sort(lon[(lat >= south) & (lat <= north)])
        if inside.size >= least:
            areas.append(float(north - south) * float((inside[least - 1 :] - inside[: inside.size - least + 1]).min()))
    return min(areas)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("share", [0.5, 0.8, 0.95])
def test_a_busy_box_has_the_share_and_is_hardly_larger_than_the_smallest(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    lat, lon = 40 + rng.normal(0, 0.1, 200), 116 + rng.normal(0, 0.2, 200)
    lat[:6] += 15  # far away
    south, north, west, east = busy_box(lat, lon, share)
    inside = (lat >= south) & (lat <= north) & (lon >= west) & (lon <= east)
    least = int(np.ceil(share * 200))
    assert inside.sum() >= least
    assert (north - south) * (east - west) <= 1.25 * smallest_area(lat, lon, least)


def test_a_region_of_two_cities_is_one_of_them_with_its_share() -> None:
    rng = np.random.default_rng(1)
    lat = np.concatenate([rng.normal(40, 0.05, 8500), rng.normal(31, 0.05, 1500)])
    lon = np.concatenate([rng.normal(116, 0.05, 8500), rng.normal(121, 0.05, 1500)])
    suggestion = suggest(np.zeros(lat.size, dtype=np.int64), lat, lon, NO_STEPS)
    assert 39.5 < suggestion.box[0] < suggestion.box[1] < 40.5
    assert 0.8 <= suggestion.share <= 0.85
    everywhere = suggest(
        np.zeros(1000, dtype=np.int64), rng.uniform(-60, 60, 1000), rng.uniform(-180, 180, 1000), NO_STEPS
    )
    assert everywhere.share >= 0.95, "no city has half of the rows"


@pytest.mark.parametrize("step_m", [0.0, 10.0, 300.0, 1e6])
@pytest.mark.parametrize("spread", [0.0, 1e-4, 0.02, 5.0])
def test_suggestions_are_valid_grids(step_m: float, spread: float) -> None:
    rng = np.random.default_rng(2)
    lat, lon = rng.normal(50, spread, 500), rng.normal(8, spread, 500)
    suggestion = suggest(np.zeros(lat.size, dtype=np.int64), lat, lon, np.full(9, step_m))
    south, north, west, east = suggestion.box
    grid = RegionParameters(south=south, north=north, west=west, east=east, cell_m=suggestion.cell_m)
    assert grid.n_cells <= 1.1 * MOST_CELLS
    assert (grid.build().cell_of(lat, lon) >= 0).mean() == pytest.approx(suggestion.share)
    assert suggestion.share >= 0.95
    assert yaml.safe_load(f"{suggestion.cell_m:g}") >= 100 or spread < 0.02


def test_cells_follow_the_movement_between_rows() -> None:
    rng = np.random.default_rng(3)
    lat, lon = rng.uniform(50, 50.05, 5000), rng.uniform(8, 8.05, 5000)
    steps = np.concatenate([np.zeros(900), np.full(100, 280.0)])
    assert suggest(np.zeros(lat.size, dtype=np.int64), lat, lon, steps).cell_m == 300.0
    assert suggest(np.zeros(lat.size, dtype=np.int64), lat, lon, NO_STEPS).cell_m == 100.0


def test_a_region_keeps_the_places_of_each_user() -> None:
    rng = np.random.default_rng(4)
    user = np.repeat(np.arange(3), [9000, 9000, 1000])
    lat, lon = rng.normal(45.75, 0.002, user.size), rng.normal(4.85, 0.002, user.size)
    lat[-170:] += 0.05  # the second place of the last user, 0.9 % of all rows
    lat[:30] += 3.0  # a journey, 0.3 % of the rows of the first user
    suggestion = suggest(user, lat, lon, NO_STEPS, ["a", "b", "c"])
    south, north, west, east = suggestion.box
    inside = (lat >= south) & (lat <= north) & (lon >= west) & (lon <= east)
    shares = np.array([inside[user == number].mean() for number in range(3)])
    assert (shares > 0.95).all()
    assert inside[-170:].mean() > 0.6
    assert north < 46
    assert dict(suggestion.users.lowest) == pytest.approx(dict(zip("abc", shares, strict=True)))
    assert suggestion.users.losing == 0


def test_rows_out_of_reach_do_not_prevent_that_a_region_is_extended() -> None:
    rng = np.random.default_rng(5)
    user = np.repeat(np.arange(2), [9000, 1000])
    lat, lon = rng.normal(45.75, 0.002, user.size), rng.normal(4.85, 0.002, user.size)
    lat[-300:] += 0.05
    lat[-100:] += 3.0
    suggestion = suggest(user, lat, lon, NO_STEPS)
    south, north, _, _ = suggestion.box
    assert south < 45.75
    assert 45.8 < north < 46
    assert max(suggestion.size_km) < CITY_KM
    user_name, share = suggestion.users.lowest[0]
    assert user_name == "1"
    assert share == pytest.approx(0.88, abs=0.05)
    assert suggestion.users.losing == (share < 0.9)
