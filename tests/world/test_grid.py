"""Grids: numbering of cells, borders, projection to degrees and back."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.world import Grid
from tests.support import raises_code

KM = st.floats(0.1, 500.0)
COUNT = st.integers(1, 40)


def haversine_km(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    p1, p2 = math.radians(lat1), math.radians(lat2)
    north, east = math.sin((p2 - p1) / 2), math.sin(math.radians(lon2 - lon1) / 2)
    return 2 * 6371.0088 * math.asin(math.sqrt(north**2 + math.cos(p1) * math.cos(p2) * east**2))


def test_cells_are_row_major_from_the_south_west() -> None:
    grid = Grid.rectangle(rows=2, cols=3, width_km=6.0, height_km=2.0)
    assert (grid.n_cells, grid.shape) == (6, (2, 3))
    assert grid.x_km.tolist() == [1, 3, 5, 1, 3, 5]
    assert grid.y_km.tolist() == [0.5, 0.5, 0.5, 1.5, 1.5, 1.5]
    assert grid.col_x_km.tolist() == [1, 3, 5]
    assert grid.row_y_km.tolist() == [0.5, 1.5]
    assert grid.cell_of_km(5.5, 0.1) == 2
    assert grid.cell_of_km(0.1, 1.9) == 3


def test_inner_borders_belong_to_the_north_and_east_cell() -> None:
    grid = Grid.rectangle(rows=2, cols=2, width_km=2.0, height_km=2.0)
    assert grid.cell_of_km([1.0, 0.0, 1.0], [0.0, 1.0, 1.0]).tolist() == [1, 2, 3]


def test_positions_outside_and_nan_give_minus_one() -> None:
    grid = Grid.rectangle(rows=2, cols=2, width_km=2.0, height_km=3.0)
    x_km = [-0.001, 2.001, 1.0, 1.0, math.nan, math.inf, 1.0]
    y_km = [1.0, 1.0, -0.001, 3.001, 1.0, 1.0, -math.inf]
    assert grid.cell_of_km(x_km, y_km).tolist() == [-1] * 7


def test_shapes_broadcast_and_arrays_are_read_only() -> None:
    grid = Grid.rectangle(rows=3, cols=2, width_km=2.0, height_km=3.0)
    cells = grid.cell_of_km(grid.col_x_km[None, :], grid.row_y_km[:, None])
    assert cells.shape == (3, 2)
    assert cells.ravel().tolist() == list(range(6))
    assert cells.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        grid.x_km[0] = 1.0


@given(rows=COUNT, cols=COUNT, width_km=KM, height_km=KM)
def test_centres_and_corners_are_in_the_expected_cells(rows: int, cols: int, width_km: float, height_km: float) -> None:
    grid = Grid.rectangle(rows=rows, cols=cols, width_km=width_km, height_km=height_km)
    np.testing.assert_array_equal(grid.cell_of_km(grid.x_km, grid.y_km), np.arange(grid.n_cells))
    corners = grid.cell_of_km([0, width_km, 0, width_km], [0, 0, height_km, height_km])
    assert corners.tolist() == [0, cols - 1, (rows - 1) * cols, rows * cols - 1]


CORNER = st.tuples(st.floats(-80.0, 79.0), st.floats(-180.0, 178.0))
SIZE = st.tuples(st.floats(0.01, 1.0), st.floats(0.01, 2.0))


@given(shape=st.tuples(COUNT, COUNT), corner=CORNER, size=SIZE)
def test_conversion_to_degrees_and_back_stays_in_the_cell(
    shape: tuple[int, int],
    corner: tuple[float, float],
    size: tuple[float, float],
) -> None:
    (rows, cols), (south, west), (high, wide) = shape, corner, size
    grid = Grid.region(rows=rows, cols=cols, south=south, north=south + high, west=west, east=west + wide)
    lat, lon = grid.to_degrees(grid.x_km, grid.y_km)
    np.testing.assert_array_equal(grid.cell_of(lat, lon), np.arange(grid.n_cells))
    np.testing.assert_allclose(grid.to_km(lat, lon), (grid.x_km, grid.y_km), atol=1e-9)
    last = grid.n_cells - 1
    assert grid.cell_of([south, south + high], [west, west + wide]).tolist() == [0, last]
    edge_lat, edge_lon = grid.to_degrees([0.0, grid.width_km], [0.0, grid.height_km])
    assert grid.cell_of(edge_lat, edge_lon).tolist() == [0, last]


def test_rounding_does_not_move_the_border_outside() -> None:
    rng = np.random.default_rng(0)
    for south, west in rng.uniform(-0.2, 0.2, size=(200, 2)).tolist():
        grid = Grid.region(rows=7, cols=3, south=south, north=south + 0.3, west=west, east=west + 0.7)
        lat, lon = grid.to_degrees([0.0, grid.width_km], [0.0, grid.height_km])
        assert grid.cell_of(lat, lon).tolist() == [0, 20]


def test_san_francisco_is_the_papers_region_with_distances_close_to_haversine() -> None:
    grid = Grid.san_francisco()
    assert grid.shape == (25, 10)
    assert (grid.south, grid.north, grid.west, grid.east) == (37.5500, 37.8010, -122.5153, -122.3789)
    assert grid.height_km / 25 == pytest.approx(haversine_km(37.55, -122.45, 37.801, -122.45) / 25, rel=1e-6)
    for at in (37.55, 37.6755, 37.801):
        across = haversine_km(at, -122.5153, at, -122.3789)
        assert grid.width_km == pytest.approx(across, rel=0.003)
    lat, lon = grid.to_degrees(grid.x_km, grid.y_km)
    rng = np.random.default_rng(1)
    for a, b in rng.integers(grid.n_cells, size=(200, 2)).tolist():
        on_earth = haversine_km(lat[a], lon[a], lat[b], lon[b])
        on_plane = math.hypot(grid.x_km[a] - grid.x_km[b], grid.y_km[a] - grid.y_km[b])
        assert on_plane == pytest.approx(on_earth, rel=0.003)


def test_borders_in_degrees_are_inside_and_positions_beyond_are_outside() -> None:
    grid = Grid.san_francisco()
    lat, lon = [37.55, 37.801, 37.801, 37.55], [-122.5153, -122.5153, -122.3789, -122.3789]
    assert grid.cell_of(lat, lon).tolist() == [0, 240, 249, 9]
    lat, lon = [37.5499, 37.8011, 37.6, 37.6], [-122.45, -122.45, -122.5154, -122.3788]
    assert grid.cell_of(lat, lon).tolist() == [-1] * 4


@pytest.mark.parametrize(
    "grid",
    [Grid.san_francisco(rows=5), Grid.rectangle(rows=1, cols=2, width_km=1, height_km=2)],
)
def test_a_grid_is_restored_from_its_description_in_json(grid: Grid) -> None:
    restored = Grid(**json.loads(json.dumps(grid.describe())))
    assert restored == grid
    np.testing.assert_array_equal(restored.x_km, grid.x_km)


def test_a_rectangle_has_no_coordinates() -> None:
    grid = Grid.rectangle(rows=1, cols=1, width_km=1.0, height_km=1.0)
    for method in (grid.cell_of, grid.to_km, grid.to_degrees):
        with raises_code(InvalidValue, "no-coordinates") as error:
            method(0.5, 0.5)
        assert "Grid.region" in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 0}, r"^rows\b.* \[1, inf\), got 0"),
        ({"cols": 2.5}, r"^cols\b.* \[1, inf\), got 2\.5"),
        ({"rows": True}, r"^rows\b.* \[1, inf\), got True"),
        ({"width_km": 0.0}, r"^width_km\b.* \(0, inf\), got 0\.0"),
        ({"height_km": math.nan}, r"^height_km\b.* \(0, inf\), got nan"),
        ({"south": 1.0}, r"^south, north, west and east\b.* \(1\.0, None, None, None\)"),
    ],
)
def test_invalid_sizes_are_rejected(change: dict[str, float], message: str) -> None:
    good = {"rows": 1, "cols": 1, "width_km": 1.0, "height_km": 1.0}
    with pytest.raises(ValueError, match=message):
        Grid(**(good | change))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "values"),
    [
        ({"south": 38.0}, "south=38.0, north=37.8"),
        ({"north": 91.0}, "north=91.0"),
        ({"west": -122.0}, "west=-122.0, east=-122.3"),
        ({"east": math.nan}, "east=nan"),
    ],
)
def test_invalid_regions_are_rejected(change: dict[str, float], values: str) -> None:
    good = {"south": 37.5, "north": 37.8, "west": -122.5, "east": -122.3}
    with raises_code(InvalidValue, "invalid-region") as error:
        Grid.region(rows=1, cols=1, **(good | change))
    assert values in str(error.value)
