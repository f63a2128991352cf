"""Attraction of cells and sampling by weight."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from sim.mobility.synthetic.city import attraction, fading, numbered_users, pick, thresholds
from sim.world.grid import Grid
from sim.world.roads.lattice import lattice

GRID = Grid.rectangle(rows=20, cols=20, width_km=20, height_km=20)


def test_numbered_users() -> None:
    assert len(numbered_users(None)) == 10
    assert numbered_users(1200)[-1] == "user-1200"
    assert numbered_users(1200)[:10] == numbered_users(None)
    with pytest.raises(ValueError, match=r"^count\b.* \[1, inf\), got 0"):
        numbered_users(0)


def test_attraction_is_a_heavy_tailed_distribution() -> None:
    life = attraction(GRID, seed=1)
    assert life.sum() == pytest.approx(1)
    assert life.min() > 0
    assert np.sort(life)[-40:].sum() > 0.3  # a tenth of the cells
    assert not np.array_equal(life, attraction(GRID, seed=2))
    np.testing.assert_array_equal(life, attraction(GRID, seed=1))


def test_attraction_is_clustered() -> None:
    for seed in range(5):
        life = np.log(attraction(GRID, seed=seed)).reshape(20, 20)
        beside = np.corrcoef(life[:, 1:].ravel(), life[:, :-1].ravel())[0, 1]
        assert beside > 0.15  # for independent cells below 0.1 (two standard errors of 380 pairs)


def test_cells_without_roads_have_no_attraction() -> None:
    roads = lattice(GRID, spacing_km=3.0, rng=np.random.default_rng(0))
    life = attraction(GRID, seed=1, roads=roads)
    assert np.flatnonzero(life).tolist() == roads.cells().tolist()
    assert 0 < roads.cells().size < GRID.n_cells
    small = Grid.rectangle(rows=2, cols=2, width_km=20, height_km=20)
    with pytest.raises(ValueError, match=r"^roads\b.* 4 cells\b"):
        attraction(small, seed=1, roads=roads)


def test_fading_at_known_distances() -> None:
    assert fading(GRID, 0, 2.0)[[0, 1, 21]] == pytest.approx(np.exp([0, -0.5, -np.sqrt(2) / 2]))


@given(weights=arrays(np.float64, st.integers(1, 8), elements=st.sampled_from([0.0, 1e-300, 1e-17, 0.1, 3.0])))
def test_indices_of_weight_zero_are_never_drawn(weights: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    if weights.sum() == 0:
        weights[0] = 1.0
    limits = thresholds(weights)
    for uniform in (0.0, 0.1, 0.5, 1 - 2**-53):
        assert weights[pick(limits, uniform)] > 0


def test_draws_invert_the_cumulative_sum() -> None:
    limits = thresholds(np.array([1.0, 0.0, 2.0, 1.0]))
    assert [pick(limits, u) for u in (0.0, 0.2499, 0.25, 0.7499, 0.75, 0.9999)] == [0, 0, 2, 2, 3, 3]
