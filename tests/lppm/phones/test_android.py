"""Android's coarse location, against its source, closed forms and a simulation of the continuous mechanism."""

from __future__ import annotations

import itertools
import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sim.checks import check
from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.lppm.designs.phones import fudger
from sim.lppm.designs.phones.android import METRES_PER_DEGREE, grid_rule, moved
from sim.lppm.designs.phones.android_coarse import AndroidCoarseParameters
from sim.lppm.designs.phones.android_density import AndroidDensityParameters
from sim.lppm.designs.phones.s2 import s2_centres
from sim.lppm.hidden.laws import GaussianOffsets
from sim.world import Grid, World, euclidean

CITY = Grid.region(rows=9, cols=8, south=47.34, north=47.42, west=8.48, east=8.57)
"""Zurich in cells of about 1 km."""
WORLD = World(locations=CITY, roads=None, privacy_distance=euclidean(CITY), quality_distance=euclidean(CITY))
UNIFORM = np.full(CITY.n_cells, 1 / CITY.n_cells)
STEP = 2000 / METRES_PER_DEGREE


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("android_coarse", {}),
        ("android_density", {"levels": 8}),
        ("android_density", {"finest_level": 14, "levels": 4}),
    ],
)
def test_contract(kind: str, parameters: dict[str, Any]) -> None:
    assert [result for result in check(kind, parameters=parameters) if result.problem] == []


def test_defaults_are_those_of_the_source() -> None:
    parameters = AndroidCoarseParameters()
    assert (parameters.accuracy_m, parameters.update_interval_s, parameters.change_per_update) == (2000.0, 3600, 0.03)
    with pytest.raises(ValueError, match="200"):
        AndroidCoarseParameters(accuracy_m=199.0)


def test_law_has_the_published_deviation() -> None:
    """`nextRandomOffset` has a standard deviation of a quarter of the accuracy in each coordinate."""
    law = AndroidCoarseParameters().law
    for axis_km in law.displacements_km.T:
        assert law.weights @ axis_km == pytest.approx(0, abs=1e-12)
        assert law.weights @ axis_km**2 == pytest.approx(0.5**2)


def offsets_of(parameters: AndroidCoarseParameters, times_s: list[int], users: int) -> FloatArray:
    """Return the offsets in m of simulated users at some times, [time, user, (north, east)], without rounding."""
    unrounded = fudger.fudger(WORLD, lambda lat, lon: (lat, lon), law=parameters.law, clock=parameters.clock)
    cell, rng = 30, np.random.default_rng(5)
    lat, lon = CITY.to_degrees(CITY.x_km[cell], CITY.y_km[cell])
    metres_east = METRES_PER_DEGREE * math.cos(math.radians(float(lat)))
    offsets = np.empty((len(times_s), users, 2))
    space: Any = unrounded.space
    for user in range(users):
        secret = None
        for place, time_s in enumerate(times_s):
            output, secret = unrounded.hidden_state.draw(secret, unrounded(UNIFORM), time_s, cell, rng)
            other_lat, other_lon = CITY.to_degrees(*space.place_km(output))
            offsets[place, user] = (other_lat - lat) * METRES_PER_DEGREE, (other_lon - lon) * metres_east
    return offsets


def test_simulated_offset_has_the_published_deviation_and_correlation() -> None:
    """After k updates the correlation is w^k with w^2 = 1 - change^2, and the deviation is still that of the start."""
    parameters = AndroidCoarseParameters(change_per_update=0.6, levels=8)
    start, same_hour, one_update, also_one, two_updates = offsets_of(parameters, [0, 3599, 3600, 7199, 90_000], 3000)
    assert_array_equal(start, same_hour)
    assert_array_equal(one_update, also_one)
    for moment in (start, one_update, two_updates):
        assert_allclose(moment.std(axis=0), 500, rtol=0.04)
        assert abs(np.corrcoef(moment.T)[0, 1]) < 0.06
    for later, expected in ((one_update, 0.8), (two_updates, 0.64)):
        correlation = [np.corrcoef(start[:, axis], later[:, axis])[0, 1] for axis in (0, 1)]
        assert_allclose(correlation, expected, atol=0.05)


def test_offset_is_updated_once_after_any_gap() -> None:
    clock = AndroidCoarseParameters().clock
    correlation, due_s = clock.advance(clock.advance(None, 0)[1], 10 * 86_400)
    assert correlation == pytest.approx(math.sqrt(1 - 0.03**2))
    assert due_s == 10 * 86_400 + 3600


def test_longitude_of_an_offset_uses_the_latitude_before_it() -> None:
    lat, lon = moved(np.array([60.0]), np.array([10.0]), 50_000.0, 1000.0)
    assert lat[0] == pytest.approx(60 + 50 / 111)
    assert lon[0] == pytest.approx(10 + 1 / 111 / 0.5)


def test_reports_are_points_of_the_published_grid() -> None:
    space: Any = AndroidCoarseParameters().build(WORLD).space
    lat, lon = CITY.to_degrees(np.array(space.x_km), np.array(space.y_km))
    assert_allclose(lat / STEP, np.round(lat / STEP), atol=1e-5)
    lon_step = STEP / np.cos(np.radians(np.round(lat / STEP) * STEP))
    assert_allclose(lon / lon_step, np.round(lon / lon_step), atol=1e-5)


def closed_form(std_km: float) -> dict[tuple[int, int], FloatArray]:
    """Return f(z | .) of a new offset in every report, by the indices of the grid point."""
    lat, lon = CITY.to_degrees(CITY.x_km, CITY.y_km)
    std = 1000 * std_km / METRES_PER_DEGREE
    probability = {}
    north = _steps(lat, STEP, std)
    for row in north:
        lon_step = STEP / math.cos(math.radians(row * STEP))
        east = _steps(lon, lon_step, std / np.cos(np.radians(lat)))
        for col in east:
            probability[row, col] = north[row] * east[col]
    return probability


def _steps(degrees: FloatArray, step: float, std: FloatArray | float) -> dict[int, FloatArray]:
    """Return the probability that each position, after a normal offset, is nearest to each multiple of a step."""

    def below(border: float) -> FloatArray:
        return np.asarray(np.vectorize(NormalDist().cdf)((border - degrees) / std))

    reach = range(round(float(degrees.min()) / step) - 3, round(float(degrees.max()) / step) + 4)
    return {index: below((index + 0.5) * step) - below((index - 0.5) * step) for index in reach}


def errors_of(levels: int) -> FloatArray:
    """Return the total variation between the channel and the closed form in each cell."""
    design = AndroidCoarseParameters(levels=levels).build(WORLD)
    channel = design(UNIFORM)
    expected = closed_form(0.5)
    space: Any = design.space
    difference = dict(expected)
    for output in range(space.count):
        lat, lon = (float(degrees) for degrees in CITY.to_degrees(*space.place_km(output)))
        row = round(lat / STEP)
        col = round(lon / (STEP / math.cos(math.radians(row * STEP))))
        difference[row, col] = expected[row, col] - channel.likelihood(output)
    return np.asarray(sum(np.abs(column) for column in difference.values()) / 2)


def test_channel_converges_to_the_closed_form() -> None:
    errors = [float(errors_of(levels).mean()) for levels in (4, 16, 64)]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.03


def test_outputs_are_those_of_the_continuous_mechanism() -> None:
    """Normal offsets instead of the discretised ones, step by step as in `createCoarse`."""
    rng = np.random.default_rng(8)
    cell, draws = 27, 4000
    lat, lon = (np.full(draws, float(degrees)) for degrees in CITY.to_degrees(CITY.x_km[cell], CITY.y_km[cell]))
    north_m, east_m = rng.normal(0, 2000 / 4, (2, draws))
    lon = lon + east_m / METRES_PER_DEGREE / np.cos(np.radians(lat))
    lat = lat + north_m / METRES_PER_DEGREE
    lat = np.floor(lat / STEP + 0.5) * STEP
    lon_step = STEP / np.cos(np.radians(lat))
    lon = np.floor(lon / lon_step + 0.5) * lon_step
    design = AndroidCoarseParameters(levels=64).build(WORLD)
    channel, space = design(UNIFORM), design.space
    assert space is not None
    for output in range(channel.n_outputs):
        place = CITY.to_degrees(*space.place_km(output))  # type: ignore[attr-defined]
        share = np.mean((np.abs(lat - place[0]) < 1e-6) & (np.abs(lon - place[1]) < 1e-6))
        assert share == pytest.approx(channel.likelihood(output)[cell], abs=0.07)


def test_density_chooses_the_level() -> None:
    levels = {
        density: AndroidDensityParameters(people_per_km2=density, least_people=1000).level
        for density in (0.0, 0.001, 10.0, 100.0, 190.0, 210.0, 1e6)
    }
    assert levels == {0.0: 0, 0.001: 3, 10.0: 9, 100.0: 11, 190.0: 11, 210.0: 12, 1e6: 12}
    assert AndroidDensityParameters().level == 12


def test_density_reports_centres_of_s2_cells() -> None:
    design = AndroidDensityParameters(levels=4).build(WORLD)
    space: Any = design.space
    lat, lon = CITY.to_degrees(np.array(space.x_km), np.array(space.y_km))
    assert_allclose(s2_centres(lat, lon, 12), (lat, lon), atol=1e-6)
    assert len(set(itertools.pairwise(sorted(space.x_km)))) > 4


def test_rounding_alone_is_the_rule() -> None:
    """Without offsets the cells of one grid square share a report."""
    law = GaussianOffsets(std_km=1e-9, levels=1)
    space, emission = fudger.emissions(CITY, grid_rule(2000), law.displacements_km)
    lat, lon = grid_rule(2000)(*CITY.to_degrees(CITY.x_km, CITY.y_km))
    for cell in range(CITY.n_cells):
        (output,) = set(emission[cell].tolist())
        assert_allclose(CITY.to_degrees(*space.place_km(output)), (lat[cell], lon[cell]), atol=1e-6)


def test_too_many_places_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fudger, "DENSE_BYTES", 1000)
    with pytest.raises(InvalidValue) as error:
        AndroidCoarseParameters(levels=2).build(WORLD)
    assert error.value.code == "matrix-too-large"
