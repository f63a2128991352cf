"""Rounding of coordinates by phones and apps, against published numbers and closed forms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from sim.checks import check
from sim.errors import InvalidValue
from sim.lppm import theory
from sim.lppm.designs.phones.browser import BrowserParameters
from sim.lppm.designs.phones.coarsening import Coarsening
from sim.lppm.designs.phones.decimals import DecimalsParameters, rounded
from sim.lppm.designs.phones.degrees import longitude_step, square_grid
from sim.lppm.designs.phones.meshtastic import MeshtasticParameters, with_bits
from sim.lppm.designs.phones.parameters import CoarseningParameters
from sim.lppm.designs.phones.webkit import WebKitParameters
from sim.lppm.outputs import Places
from sim.world import Grid, World, euclidean, manhattan
from sim.world.locations import EARTH_RADIUS_KM, KM_PER_DEGREE

CITY = Grid.region(rows=40, cols=30, south=47.3413, north=47.4201, west=8.4811, east=8.5707)
"""Zurich in cells of about 220 m."""
POSITIONS = np.random.default_rng(1).uniform([-80, -180], [80, 180], size=(500, 2)).T


def world_of(grid: Grid) -> World:
    return World(locations=grid, roads=None, privacy_distance=euclidean(grid), quality_distance=euclidean(grid))


def built(parameters: CoarseningParameters, grid: Grid = CITY) -> Coarsening:
    return parameters.build(world_of(grid))


def metres(lat: Any, lon: Any, other_lat: Any, other_lon: Any) -> Any:
    """Return great-circle distances in m by the haversine formula."""
    north, east = np.radians(lat), np.radians(lon)
    other_north, other_east = np.radians(other_lat), np.radians(other_lon)
    chord = (
        np.sin((north - other_north) / 2) ** 2
        + np.cos(north) * np.cos(other_north) * np.sin((east - other_east) / 2) ** 2
    )
    return 2 * EARTH_RADIUS_KM * 1000 * np.arcsin(np.sqrt(chord))


@pytest.mark.parametrize("kind", ["decimals", "meshtastic", "webkit", "browser", "privacy_zone"])
def test_contract(kind: str) -> None:
    assert [result for result in check(kind) if result.problem] == []


@pytest.mark.parametrize(
    "changes", [{"decimals": 0}, {"decimals": 4, "rounding": "truncate"}], ids=["coarsest", "truncated"]
)
def test_contract_of_decimals(changes: dict[str, Any]) -> None:
    assert [result for result in check("decimals", parameters=changes) if result.problem] == []


# Meshtastic's documentation and clients name half of a cell from south to north as the precision of 10 to 19 bits.
_PUBLISHED_M = {10: 23300, 11: 11700, 12: 5800, 13: 2900, 14: 1500, 15: 729, 16: 364, 17: 182, 18: 91, 19: 45}


@pytest.mark.parametrize(("bits", "metres_published"), _PUBLISHED_M.items())
def test_meshtastic_cells_have_the_published_size(bits: int, metres_published: float) -> None:
    lat, _ = with_bits(np.linspace(-60, 60, 200_001), np.zeros(200_001), precision_bits=bits)
    steps = np.diff(np.unique(lat))
    half_m = steps / 2 * KM_PER_DEGREE * 1000
    assert_allclose(half_m, metres_published, rtol=0.03)


def test_meshtastic_truncates_32_bit_integers() -> None:
    def in_c(units: int, bits: int) -> int:
        kept = (units % 2**32) & (0xFFFFFFFF << (32 - bits)) % 2**32  # `& (UINT32_MAX << (32 - precision))`
        kept += 1 << (31 - bits)
        return kept - 2**32 if kept >= 2**31 else kept

    for bits in (10, 13, 19, 31):
        lat, lon = with_bits(*POSITIONS, precision_bits=bits)
        for degrees, reported in zip(POSITIONS.ravel(), np.ravel([lat, lon]), strict=True):
            assert round(float(reported) * 1e7) == in_c(round(float(degrees) * 1e7), bits)
    assert_allclose(with_bits(*POSITIONS, precision_bits=32), POSITIONS, atol=0.51e-7)


@pytest.mark.parametrize("decimals", [0, 1, 2, 3, 5])
def test_decimals_are_those_of_decimal_numbers(decimals: int) -> None:
    lat, lon = rounded(*POSITIONS, decimals=decimals, rounding="nearest")
    assert_allclose(lat, [round(value, decimals) for value in POSITIONS[0]], atol=1e-9)
    assert_allclose(lon, [round(value, decimals) for value in POSITIONS[1]], atol=1e-9)
    lat, _ = rounded(*POSITIONS, decimals=decimals, rounding="truncate")
    texts = [f"{value:.12f}" for value in POSITIONS[0]]
    assert_allclose(lat, [float(text[: text.index(".") + 1 + decimals]) for text in texts], atol=1e-9)


def test_numbers_with_few_decimals_are_kept() -> None:
    numbers = np.array([0.29, -0.29, 1.13, 57.87])
    assert_allclose(rounded(numbers, numbers, decimals=2, rounding="truncate")[0], numbers, atol=1e-12)


@pytest.mark.parametrize("cell_m", [500, 5000])
def test_square_grid_has_square_cells_at_all_latitudes(cell_m: float) -> None:
    step = cell_m / 1000 / KM_PER_DEGREE
    lat, lon = square_grid(POSITIONS[0], POSITIONS[1], step)
    assert_allclose(lat / step, np.round(lat / step), atol=1e-6)
    width_m = metres(lat, lon, lat, lon + longitude_step(step, lat))
    assert_allclose(width_m, cell_m, rtol=1e-3)
    # No position is farther from its report than half of the diagonal, but for the curvature of the grid.
    away_m = metres(POSITIONS[0], POSITIONS[1], lat, lon)
    assert away_m.max() < cell_m / math.sqrt(2) * 1.02
    assert away_m.max() > cell_m / math.sqrt(2) * 0.9


def test_reported_longitude_does_not_depend_on_the_latitude_within_a_row() -> None:
    lat = np.linspace(47.00, 47.02, 50)
    snapped, lon = square_grid(lat, np.full(50, 8.54), 0.1)
    assert len(set(snapped)) == len(set(lon)) == 1


def test_longitude_step_is_finite_at_the_poles() -> None:
    assert np.isfinite(longitude_step(0.045, np.array([-90.0, 90.0]))).all()


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        (BrowserParameters(), ("accuracy_m", 2000.0, 2 * math.sqrt(2))),
        (WebKitParameters(), ("cell_m", 5000.0, 5.0)),
        (MeshtasticParameters(), ("precision_bits", 13, 5.83)),
        (DecimalsParameters(), ("decimals", 2, 1.112)),
    ],
)
def test_steps(parameters: CoarseningParameters, expected: tuple[str, float, float]) -> None:
    step = parameters.step(CITY)
    assert step is not None
    assert step[:2] == expected[:2]
    assert step[2] == pytest.approx(expected[2], abs=0.01)


def test_channel_is_the_rule_of_cell_centres() -> None:
    design = built(DecimalsParameters())
    channel = design(np.full(CITY.n_cells, 1 / CITY.n_cells))
    lat, lon = CITY.to_degrees(CITY.x_km, CITY.y_km)
    space = design.space
    assert isinstance(space, Places)
    rng = np.random.default_rng(0)
    for cell in (0, 417, CITY.n_cells - 1):
        output = channel.sample(cell, rng)
        place = CITY.to_degrees(*space.place_km(output))
        assert_allclose(place, (round(lat[cell], 2), round(lon[cell], 2)), atol=1e-7)
        assert_array_equal(np.flatnonzero(channel.likelihood(output)), _same_report(lat, lon, cell))
    assert channel.n_outputs == len({(round(a, 2), round(b, 2)) for a, b in zip(lat, lon, strict=True)})


def _same_report(lat: Any, lon: Any, cell: int) -> Any:
    same_lat = np.round(lat, 2) == round(float(lat[cell]), 2)
    return np.flatnonzero(same_lat & (np.round(lon, 2) == round(float(lon[cell]), 2)))


def test_loss_is_the_distance_to_the_reported_place() -> None:
    for distance in (euclidean(CITY), manhattan(CITY)):
        world = World(locations=CITY, roads=None, privacy_distance=distance, quality_distance=distance)
        design = DecimalsParameters(decimals=1).build(world)
        channel: Any = design(np.full(CITY.n_cells, 1 / CITY.n_cells))
        for cell in (3, 700):
            output = channel.sample(cell, np.random.default_rng(0))
            east, north = np.abs(np.subtract(design.space.place_km(output), (CITY.x_km[cell], CITY.y_km[cell])))
            expected = math.hypot(east, north) if distance.kind == "euclidean" else east + north
            assert channel.loss_of_km(cell, output) == pytest.approx(expected, rel=1e-12)
            assert channel.expected_loss_of_km(cell) == pytest.approx(expected, rel=1e-12)


def test_places_outside_the_grid_are_shown_at_its_border() -> None:
    design = built(WebKitParameters())
    outside = [z for z in range(design.space.count) if not _inside(design.space.place_km(z))]
    assert outside
    for output in outside:
        x_km, y_km = design.space.place_km(output)
        clipped = min(max(x_km, 0), CITY.width_km), min(max(y_km, 0), CITY.height_km)
        assert design.space.shown_at(output) == CITY.cell_of_km(*clipped)


def _inside(place_km: tuple[float, float]) -> bool:
    return 0 <= place_km[0] <= CITY.width_km and 0 <= place_km[1] <= CITY.height_km


def test_grid_without_coordinates_is_refused() -> None:
    plane = Grid.rectangle(rows=2, cols=2, width_km=1, height_km=1)
    with pytest.raises(InvalidValue) as error:
        built(WebKitParameters(), plane)
    assert error.value.code == "no-coordinates"


def test_large_grids_need_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 33,600 cells the likelihoods of all places would take 9 GB: other metrics than the loss are omitted."""
    design = built(DecimalsParameters(decimals=4))
    channel: Any = design(np.full(CITY.n_cells, 1 / CITY.n_cells))
    prior, distance = np.full(CITY.n_cells, 1 / CITY.n_cells), euclidean(CITY)
    complete = theory.theory(channel, prior, quality=distance, privacy=distance)
    monkeypatch.setattr(theory, "DENSE_BYTES", 1000)
    monkeypatch.delattr(type(channel), "likelihoods")
    metrics = theory.theory(channel, prior, quality=distance, privacy=distance)
    assert metrics.quality_loss_km == pytest.approx(complete.quality_loss_km)
    assert (metrics.adversary_error_km, metrics.entropy_bits) == (None, None)
    assert complete.adversary_error_km is not None
