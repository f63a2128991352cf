"""Distances as operators, compared with their matrices: estimates, costs, rows and columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.inference.bayes import cheapest
from sim.inference.geometric_median import best_location, tangent
from sim.interfaces import FloatArray
from sim.world import Distance, Grid
from sim.world import distance as distance_module
from sim.world.distances import euclidean as euclidean_module
from sim.world.distances import road as road_module
from sim.world.distances.euclidean import EuclideanDistance, euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.distances.road import road
from sim.world.roads.graph import Roads
from sim.world.roads.lattice import lattice
from tests.support import raises_code

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

GRID = Grid.rectangle(rows=7, cols=9, width_km=4.5, height_km=4.2)


@pytest.fixture(autouse=True)
def structure_instead_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small grids take the path of large ones."""
    for module in (distance_module, euclidean_module, road_module):
        monkeypatch.setattr(module, "MATRIX_CELLS", 0)


@pytest.fixture(params=(0, 10**9), ids=("from all costs", "by search"))
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Find Euclidean estimates from the costs of all cells, and by search."""
    monkeypatch.setattr(euclidean_module, "_DENSE", request.param)


def by_road(understated: float = 1.0) -> Distance:
    roads = lattice(GRID, spacing_km=0.9, one_way_share=0.6, rng=np.random.default_rng(3))
    graph = roads.graph.copy()
    for _, _, data in graph.edges(data=True):
        data["length_km"] *= understated
    return road(GRID, Roads(graph=graph, locations=GRID))


DISTANCES = {
    "manhattan": manhattan(GRID),
    "euclidean": euclidean(GRID),
    "road": by_road(),
    "understated road": by_road(0.8),
}


def weights_of(seed: int) -> Iterator[FloatArray]:
    """Yield weights of all kinds: dense, sparse, with ties, on a line, a single cell, tiny, none."""
    rng = np.random.default_rng(seed)
    n = GRID.n_cells
    yield rng.random(n)
    yield rng.random(n) * (rng.random(n) < 0.1)
    yield rng.integers(0, 2, n).astype(np.float64)
    for cells in ([4], [3, 40], [0, 8], [0, 20, 40], [0, 8, 54, 62]):
        weights = np.zeros(n)
        weights[cells] = 0.25
        yield weights
    yield np.exp(-rng.random(n) * 40) * 1e-250
    yield np.zeros(n)


@pytest.mark.parametrize("name", DISTANCES)
def test_rows_columns_and_pairs_are_those_of_the_matrix(name: str) -> None:
    distance = DISTANCES[name]
    matrix_km = distance.matrix_km
    assert np.array_equal(distance.row_km(5), matrix_km[5])
    assert np.array_equal(distance.column_km(5), matrix_km[:, 5])
    start, end = np.random.default_rng(0).integers(GRID.n_cells, size=(2, 30))
    assert np.array_equal(distance.between_km(start, end), matrix_km[start, end])
    assert np.array_equal(distance.between_km(start[:, None], end), matrix_km[start[:, None], end])
    assert matrix_km.max() <= distance.longest_km


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("both_ways")
def test_estimates_and_costs_are_those_of_the_matrix(name: str, seed: int) -> None:
    distance = DISTANCES[name]
    for weights in weights_of(seed):
        costs = weights @ distance.matrix_km
        np.testing.assert_allclose(distance.costs_km(weights), costs, rtol=1e-12, atol=0)
        (best,) = cheapest(costs[None], weights.sum(keepdims=True), longest_km=distance.longest_km)
        assert distance.best_cell(weights) == best
        assert distance.best_cells(weights[None]).tolist() == [best]
        assert distance.best_cell_each(weights, np.ones((2, weights.size))).tolist() == [best, best]


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from((1.0, 1e-3, 0.0)))
def test_the_geometric_median_of_any_points_is_found_by_enumeration(seed: int, count: int, flatness: float) -> None:
    rng = np.random.default_rng(seed)
    x_km, y_km = rng.random(count).round(2), (flatness * rng.random(count)).round(4)
    weights = rng.random(count) * (rng.random(count) < 0.7)
    matrix_km = np.hypot(x_km[:, None] - x_km, y_km[:, None] - y_km)
    points = EuclideanDistance(x_km=x_km, y_km=y_km)
    (best,) = cheapest((weights @ matrix_km)[None], weights.sum(keepdims=True), longest_km=points.longest_km)
    assert best_location(weights, x_km, y_km, longest_km=points.longest_km) == best


def test_a_tangent_is_a_lower_bound_with_finite_difference_slopes() -> None:
    rng = np.random.default_rng(1)
    x_km, y_km, weights = rng.random((3, 40))

    def cost(x: float, y: float) -> float:
        return float(weights @ np.hypot(x_km - x, y_km - y))

    cut, step = tangent(x_km, y_km, weights, 0.31, 0.62), 1e-5
    assert cut.cost_km == pytest.approx(cost(0.31, 0.62))
    assert cut.slope_x == pytest.approx((cost(0.31 + step, 0.62) - cost(0.31 - step, 0.62)) / (2 * step), rel=1e-6)
    assert cut.slope_y == pytest.approx((cost(0.31, 0.62 + step) - cost(0.31, 0.62 - step)) / (2 * step), rel=1e-6)
    higher, lower = (tangent(x_km, y_km, weights, 0.31, 0.62 + by) for by in (step, -step))
    assert cut.bend_yy == pytest.approx((higher.slope_y - lower.slope_y) / (2 * step), rel=1e-4)
    assert cut.bend_xy == pytest.approx((higher.slope_x - lower.slope_x) / (2 * step), rel=1e-4)
    at_point = tangent(x_km, y_km, weights, float(x_km[7]), float(y_km[7]))
    assert at_point.own == weights[7]
    for x, y in rng.random((50, 2)):
        east, north = x - x_km[7], y - y_km[7]
        bound = (
            at_point.cost_km + at_point.slope_x * east + at_point.slope_y * north + at_point.own * np.hypot(east, north)
        )
        assert cost(x, y) >= bound - 1e-12


def test_road_distances_without_a_table_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with_table = DISTANCES["road"]
    monkeypatch.setattr(road_module, "_TABLE_BYTES", 0)
    monkeypatch.setattr(road_module, "_CACHED_BYTES", 2000)
    on_demand = by_road()
    assert np.array_equal(on_demand.matrix_km, with_table.matrix_km)
    weights = np.random.default_rng(0).random(GRID.n_cells)
    assert on_demand.best_cell(weights) == with_table.best_cell(weights)


def test_a_matrix_that_does_not_fit_is_an_error_with_its_size() -> None:
    distance = manhattan(Grid.san_francisco(rows=240, cols=140))
    assert distance.n_cells == 33_600
    with raises_code(InvalidValue, "matrix-too-large") as error:
        _ = distance.matrix_km
    assert "9.0 GB" in str(error.value)
