"""Location Guard: noise with the deviation of each level, and a cache by time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from pydantic import ValidationError

from sim.checks import check
from sim.events import Release
from sim.lppm.designs.phones.location_guard import CachedPoint, LocationGuardParameters, last_draw
from sim.world import Grid, World, euclidean

GRID = Grid.rectangle(rows=10, cols=10, width_km=2.0, height_km=2.0)
WORLD = World(locations=GRID, roads=None, privacy_distance=euclidean(GRID), quality_distance=euclidean(GRID))
UNIFORM = np.full(GRID.n_cells, 1 / GRID.n_cells)


@pytest.mark.parametrize("level", ["low", "medium", "high"])
def test_contract(level: str) -> None:
    assert [result for result in check("location_guard", parameters={"level": level}) if result.problem] == []


@pytest.mark.parametrize(
    ("level", "radius_m", "cache_min", "accuracy_m"),
    [("low", 200, 10, 474), ("medium", 500, 30, 1186), ("high", 2000, 60, 4744)],
)
def test_noise_has_the_published_size(level: Any, radius_m: float, cache_min: int, accuracy_m: float) -> None:
    """The mean displacement is the radius, and 95 % are within the accuracy that the extension's settings show."""
    parameters = LocationGuardParameters(level=level)
    assert parameters.cache_s == 60 * cache_min
    assert parameters.epsilon_per_km == pytest.approx(2000 / radius_m)
    design, rng, cell = parameters.build(WORLD), np.random.default_rng(2), 44
    channel: Any = design(UNIFORM)
    places_m = 1000 * np.array([design.space.place_km(channel.sample(cell, rng)) for _ in range(6000)])
    away_m = np.hypot(places_m[:, 0] - 1000 * GRID.x_km[cell], places_m[:, 1] - 1000 * GRID.y_km[cell])
    assert away_m.mean() == pytest.approx(radius_m, rel=0.03)
    assert np.mean(away_m < accuracy_m) == pytest.approx(0.95, abs=0.012)
    z = accuracy_m / radius_m * 2  # its distribution function, which the extension inverts with Lambert's W
    assert 1 - (1 + z) * math.exp(-z) == pytest.approx(0.95, abs=1e-3)


def test_point_is_repeated_until_the_cache_expires() -> None:
    """As in `addNoise`: the time counts from the query that drew the point, not from the last one."""
    design = LocationGuardParameters(cache_min=10).build(WORLD)
    rng = np.random.default_rng(4)
    releases: list[Release] = []
    cache: tuple[int, int] | None = None  # time and point, as the extension stores them
    repeated = 0
    for time_s in np.cumsum(rng.integers(60, 500, 60)).tolist():
        channel: Any = design.channel_at(UNIFORM, time_s, releases)
        output = channel.sample(int(rng.integers(GRID.n_cells)), rng)
        if cache is not None and time_s - cache[0] < 600:
            assert output == cache[1]
            assert_allclose(channel.likelihood(output), 1)
            assert not channel.likelihood(output + 1).any()
            repeated += 1
        else:
            cache = time_s, output
            assert channel is design(UNIFORM)
        releases.append(Release(time_s, output))
    assert 20 < repeated < 50


def test_cache_expires_after_exactly_its_time() -> None:
    """The extension uses a cached point while its age is less than the cache time."""
    assert last_draw([0, 599], 600) == 0
    assert last_draw([0, 600], 600) == 600
    design = LocationGuardParameters(cache_min=10).build(WORLD)
    releases = [Release(0, 1), Release(600, 2)]
    assert isinstance(design.channel_at(UNIFORM, 1199, releases), CachedPoint)
    assert design.channel_at(UNIFORM, 1200, releases) is design(UNIFORM)


def test_cached_point_has_the_loss_of_the_present_cell() -> None:
    channel = CachedPoint(
        LocationGuardParameters().build(WORLD).space.output(0.1, 0.1), locations=GRID, distance=euclidean(GRID)
    )
    assert channel.loss_of_km(0, channel.sample(0, np.random.default_rng(0))) == pytest.approx(0)
    assert channel.expected_loss_of_km(99) == pytest.approx(1.8 * math.sqrt(2))


def test_without_cache_every_point_is_new() -> None:
    parameters = LocationGuardParameters(cache_min=0)
    design = parameters.build(WORLD)
    assert not parameters.sees_past
    assert design.channel_at(UNIFORM, 1, [Release(0, 5)]) is design(UNIFORM)


def test_radius_replaces_that_of_the_level() -> None:
    """The slider of the extension goes from 40 m to 3 km."""
    for radius_m in (40.0, 3000.0):
        assert LocationGuardParameters(radius_m=radius_m).epsilon_per_km == pytest.approx(2000 / radius_m)
    with pytest.raises(ValidationError, match="20"):  # points are rounded to metres
        LocationGuardParameters(radius_m=19.0)
