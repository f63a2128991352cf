"""The remap of location hiding by bounds, compared with the matrix of all costs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.lppm import remap as remap_module
from sim.lppm.remap import remap_hiding
from sim.world import Distance, Grid
from sim.world.distances.euclidean import euclidean
from sim.world.distances.road import road
from sim.world.roads.graph import Roads
from sim.world.roads.lattice import lattice

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

GRID = Grid.rectangle(rows=7, cols=9, width_km=4.5, height_km=4.2)
DISTANCES: dict[str, Distance] = {
    "euclidean": euclidean(GRID),
    "line": euclidean(Grid.rectangle(rows=1, cols=40, width_km=4.0, height_km=1.0)),
    "road": road(
        GRID,
        Roads(
            graph=lattice(GRID, spacing_km=0.9, one_way_share=0.6, rng=np.random.default_rng(3)).graph, locations=GRID
        ),
    ),
}


@pytest.mark.parametrize("name", DISTANCES)
@settings(deadline=None, max_examples=150)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(("dense", "steep", "sparse", "ties", "one")),
    reveal=st.sampled_from((0.0, 0.005, 0.03, 0.1, 0.3, 0.5, 0.9, 1.0)),
)
def test_the_remap_by_bounds_is_that_of_the_matrix(name: str, seed: int, kind: str, reveal: float) -> None:
    distance = DISTANCES[name]
    n, rng = distance.n_cells, np.random.default_rng(seed)
    prior = {
        "dense": rng.random(n),
        "steep": rng.random(n) ** 30,
        "sparse": rng.random(n) * (rng.random(n) < 0.1),
        "ties": rng.integers(0, 2, n).astype(np.float64),
        "one": np.zeros(n),
    }[kind]
    prior[rng.integers(n)] += 0.5
    prior /= prior.sum()
    other = (1 - reveal) / (n - 1)
    expected = remap_hiding(reveal, other, prior, distance)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remap_module, "MATRIX_CELLS", 0)
        assert remap_hiding(reveal, other, prior, distance).tolist() == expected.tolist()
