"""Kernels of the gravity model without matrices between all cells, compared with the matrices."""

from __future__ import annotations

import numpy as np
import pytest

from sim.belief import gravity_kernels as module
from sim.belief.gravity_kernels import EuclideanKernels, GravityKernels, MatrixKernels, RoadKernels, kernels_of
from sim.world import Distance, Grid
from sim.world.distances import road as road_module
from sim.world.distances.euclidean import euclidean
from sim.world.distances.road import RoadDistance, road
from sim.world.roads.graph import Roads
from sim.world.roads.lattice import lattice

GRID = Grid.rectangle(rows=9, cols=12, width_km=4.2, height_km=3.6)
REACHES_KM = np.array([0.4, 2.5, 12.0])


def by_road(understated: float = 1.0) -> RoadDistance:
    graph = lattice(GRID, spacing_km=0.7, one_way_share=0.6, rng=np.random.default_rng(3)).graph.copy()
    for _, _, data in graph.edges(data=True):
        data["length_km"] *= understated
    return road(GRID, Roads(graph=graph, locations=GRID))


DISTANCES: dict[str, tuple[Distance, type]] = {
    "euclidean": (euclidean(GRID), EuclideanKernels),
    "road": (by_road(), RoadKernels),
    "understated road": (by_road(0.7), RoadKernels),
}


@pytest.fixture(autouse=True)
def structure_instead_of_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small grids take the path of large ones."""
    monkeypatch.setattr(module, "MATRIX_CELLS", 0)


@pytest.mark.parametrize("name", DISTANCES)
def test_kernels_are_those_of_the_matrix(name: str) -> None:
    distance, kind = DISTANCES[name]
    kernels, reference = kernels_of(distance, REACHES_KM), MatrixKernels(distance, REACHES_KM)
    assert isinstance(kernels, kind)
    rng = np.random.default_rng(0)
    for weights in (rng.random(GRID.n_cells), rng.random(GRID.n_cells) * (rng.random(GRID.n_cells) < 0.1)):
        np.testing.assert_allclose(kernels.from_each(weights), reference.from_each(weights), rtol=1e-10)
        each = rng.random((3, 1)) * weights
        np.testing.assert_allclose(kernels.to_each(each), reference.to_each(each), rtol=1e-10)


def test_too_many_pairs_off_the_path_need_the_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(road_module, "_MOST_PAIRS", 10)
    assert isinstance(kernels_of(by_road(0.7), REACHES_KM), MatrixKernels)
    assert isinstance(kernels_of(by_road(), REACHES_KM), RoadKernels)


def test_sums_far_from_all_weights_stay_positive() -> None:
    distance = euclidean(Grid.rectangle(rows=2, cols=300, width_km=300.0, height_km=2.0))
    weights = np.zeros(distance.n_cells)
    weights[0] = 1.0
    sums = kernels_of(distance, np.array([2.0])).to_each(weights[None])
    assert sums.min() > 0


def test_the_cache_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels = GravityKernels(by_road(), REACHES_KM.tolist())
    monkeypatch.setattr(module, "_CACHED_BYTES", 2 * kernels.at(1.0).nbytes)
    for growth in (1.0, 2.0, 4.0):
        kernels.at(growth)
    assert list(kernels._cached) == [2.0, 4.0]
