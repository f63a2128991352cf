"""Sets of locations: assignment of positions, projection, description in the manifest."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.world import Bounds, Grid, LocationSet, World, euclidean, manhattan, restore
from tests.support import raises_code

KM = st.integers(-40, 40).map(lambda quarter: quarter / 4)
POSITIONS = st.lists(st.tuples(KM, KM), min_size=1, max_size=12)


def points(positions: list[tuple[float, float]], **keys: object) -> LocationSet:
    x_km, y_km = np.array(positions, dtype=float).T
    return LocationSet(kind="points", x_km=x_km, y_km=y_km, width_km=20.0, height_km=20.0, **keys)  # type: ignore[arg-type]


def away_km(locations: LocationSet, x_km: float, y_km: float) -> FloatArray:
    return np.hypot(locations.x_km - x_km, locations.y_km - y_km)


@settings(deadline=None)
@given(POSITIONS, KM, KM, st.sampled_from([0.25, 1.0, 3.0, math.inf]))
def test_positions_belong_to_the_nearest_location_within_reach(
    positions: list[tuple[float, float]], x_km: float, y_km: float, reach_km: float
) -> None:
    locations = points(positions, reach_km=reach_km)
    cell = int(locations.cell_of_km(x_km, y_km))
    away = away_km(locations, x_km, y_km)
    if cell < 0:
        assert away.min() > reach_km
    else:
        assert away[cell] == away.min() <= reach_km
    assert away[int(locations.nearest(x_km, y_km))] == away.min()


def test_of_locations_at_the_same_position_the_lowest_is_found() -> None:
    locations = points([(1, 1), (0, 0), (1, 1), (0, 0)])
    assert locations.cell_of_km([1.1, -1.0], [1.0, 0.0]).tolist() == [0, 1]


def test_positions_that_are_not_numbers_are_outside() -> None:
    assert points([(0, 0)]).cell_of_km([math.nan, math.inf, 0.0], [0.0, 0.0, 5.0]).tolist() == [-1, -1, 0]


def test_degrees_are_projected_as_on_a_grid() -> None:
    grid = Grid.san_francisco()
    assert grid.bounds is not None
    locations = LocationSet(
        kind="points",
        x_km=grid.x_km,
        y_km=grid.y_km,
        width_km=grid.width_km,
        height_km=grid.height_km,
        bounds=grid.bounds,
    )
    lat, lon = grid.to_degrees(grid.x_km, grid.y_km)
    assert locations.to_degrees(grid.x_km, grid.y_km)[0].tolist() == lat.tolist()
    assert locations.cell_of(lat, lon).tolist() == list(range(250))
    assert locations.km_per_degree == grid.km_per_degree
    with raises_code(InvalidValue, "no-coordinates"):
        points([(0, 0)]).to_km(37.0, -122.0)


def test_typical_size_is_the_distance_to_the_next_location() -> None:
    assert points([(0, 0), (0, 0), (3, 0), (3, 4)]).cell_size_km == (3.0, 3.0)
    assert points([(0, 0)]).cell_size_km == (20.0, 20.0)
    assert Grid.rectangle(rows=2, cols=4, width_km=2.0, height_km=3.0).cell_size_km == (0.5, 1.5)


def test_manifest_entries_restore_sets_exactly() -> None:
    locations = points(
        [(0.1, 0.2), (math.pi, 1 / 3)],
        labels=("a", "b"),
        weights=np.array([0.5, 3.0]),
        bounds=Bounds(37.0, 38.0, -122.0, -121.0),
        outlines=(np.array([[0.0, 0.0], [1.0, 0.0]]), np.array([[1.0, 1.0], [2.0, 2.0]])),
        reach_km=0.5,
    )
    restored = restore(json.loads(json.dumps(locations.describe())))
    assert isinstance(restored, LocationSet)
    assert restored.describe() == locations.describe()
    assert restored.x_km.tolist() == locations.x_km.tolist()
    grid = Grid.san_francisco()
    assert restore(json.loads(json.dumps(grid.describe()))) == grid


@pytest.mark.parametrize(
    "keys",
    [
        {"labels": ("a",)},
        {"weights": np.array([1.0, -1.0])},
        {"weights": np.array([1.0, math.nan])},
        {"outlines": ()},
        {"x_km": np.array([0.0, math.inf])},
        {"x_km": np.zeros((2, 1))},
    ],
)
def test_faulty_sets_are_rejected(keys: dict[str, object]) -> None:
    valid: dict[str, object] = {"kind": "points", "x_km": [0.0, 1.0], "y_km": [0.0, 1.0], "width_km": 1, "height_km": 1}
    with pytest.raises(ValueError, match="must"):
        LocationSet(**valid | keys)  # type: ignore[arg-type]


def test_components_that_need_a_grid_say_so() -> None:
    locations = points([(0, 0), (1, 1)])
    world = World(
        locations=locations,
        roads=None,
        privacy_distance=euclidean(locations),
        quality_distance=manhattan(locations),
    )
    assert world.n_cells == 2
    with raises_code(InvalidValue, "needs-grid"):
        _ = world.grid


@settings(deadline=None)
@given(POSITIONS, st.data())
def test_manhattan_distances_of_scattered_locations(positions: list[tuple[float, float]], data: st.DataObject) -> None:
    """Costs along sorted axes and optimal estimates agree with the matrix of all distances."""
    distance = manhattan(points(positions))
    n_cells = len(positions)
    weights = np.array(data.draw(st.lists(st.floats(0, 1), min_size=n_cells, max_size=n_cells)))
    x_km, y_km = np.array(positions).T
    matrix = np.abs(x_km - x_km[:, None]) + np.abs(y_km - y_km[:, None])
    assert distance.matrix_km.tolist() == matrix.tolist()
    np.testing.assert_allclose(distance.costs_km(weights), weights @ matrix, rtol=1e-12, atol=1e-12)
    best = distance.best_cell(weights)
    if weights.sum() > 1e-9:
        costs = weights @ matrix
        assert costs[best] <= costs.min() + 1e-9
        assert (costs[:best] > costs[best] - 1e-9).all()
