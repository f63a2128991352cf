"""Markov chain: transitions by formula, stationary start, and visits that follow both."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sim.interfaces import FloatArray
from sim.mobility.synthetic.city import attraction
from sim.mobility.synthetic.markov import MarkovChain, MarkovChainParameters, stationary
from sim.world.grid import Grid
from sim.world.roads.lattice import lattice
from tests.support import made

GRID = Grid.rectangle(rows=3, cols=2, width_km=4, height_km=6)


def test_the_transitions_agree_with_the_formula() -> None:
    chain = MarkovChain(MarkovChainParameters(stay=0.25, reach_km=1.5), locations=GRID, seed=3)
    life = attraction(GRID, seed=3)
    for x in range(6):
        pull = [
            life[y] * np.exp(-np.hypot(GRID.x_km[x] - GRID.x_km[y], GRID.y_km[x] - GRID.y_km[y]) / 1.5)
            for y in range(6)
        ]
        for y in range(6):
            expected = 0.25 * (x == y) + 0.75 * pull[y] / sum(pull)
            assert chain.transition[x, y] == pytest.approx(expected)


@pytest.mark.parametrize("with_roads", [False, True])
def test_the_start_is_the_stationary_distribution(with_roads: bool) -> None:
    grid = Grid.san_francisco()
    roads = lattice(grid, spacing_km=2.2, rng=np.random.default_rng(0)) if with_roads else None
    chain = MarkovChain(
        MarkovChainParameters(reach_km=0.05 if with_roads else 2.0), locations=grid, seed=3, roads=roads
    )
    np.testing.assert_allclose(chain.transition.sum(axis=1), 1.0)
    np.testing.assert_allclose(chain.start @ chain.transition, chain.start, atol=1e-14)
    if roads is not None:
        assert np.flatnonzero(chain.start).tolist() == roads.cells().tolist()


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), n_cells=st.integers(1, 8))
def test_stationary_distribution_of_random_chains(seed: int, n_cells: int) -> None:
    matrix = np.random.default_rng(seed).dirichlet(np.ones(n_cells), size=n_cells)
    solution = stationary(matrix)
    np.testing.assert_allclose(solution @ matrix, solution, atol=1e-6)
    assert solution.sum() == pytest.approx(1)


def test_stationary_distribution_of_reducible_and_periodic_chains() -> None:
    np.testing.assert_allclose(stationary(np.eye(4)), 0.25, atol=1e-6)
    np.testing.assert_allclose(stationary(np.roll(np.eye(3), 1, axis=1)), 1 / 3, atol=1e-6)
    trap = np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    np.testing.assert_allclose(stationary(trap), [0.0, 0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize("given_matrix", [None, np.random.default_rng(8).dirichlet(np.ones(6), size=6)])
def test_visits_follow_the_chain(given_matrix: FloatArray | None) -> None:
    chain = MarkovChain(MarkovChainParameters(), locations=GRID, seed=3, transition=given_matrix)
    if given_matrix is not None:
        np.testing.assert_array_equal(chain.transition, given_matrix)
    walk = [v.cell for v in islice(chain.visits("user-001", np.random.default_rng(2)), 30_001)]
    counts = np.zeros((6, 6))
    np.add.at(counts, (walk[:-1], walk[1:]), 1)
    for row in range(6):
        expected = counts[row].sum() * chain.transition[row]
        assert stats.chisquare(counts[row], expected).pvalue > 0.001
    firsts = [next(chain.visits("x", np.random.default_rng(s))).cell for s in range(3000)]
    assert stats.chisquare(np.bincount(firsts, minlength=6), 3000 * chain.start).pvalue > 0.01


def test_steps_are_regular_and_reproducible() -> None:
    chain = MarkovChain(MarkovChainParameters(step_s=60), locations=GRID, seed=3)
    walk = list(islice(chain.visits("user-001", np.random.default_rng(2)), 600))
    assert [visit.time_s for visit in walk] == [60 * step for step in range(600)]
    assert walk == list(islice(chain.visits("user-001", np.random.default_rng(2)), 600))
    assert chain.users(3) == ("user-001", "user-002", "user-003")


def test_with_stay_one_users_never_move() -> None:
    walk = islice(
        MarkovChain(MarkovChainParameters(stay=1.0), locations=GRID, seed=3).visits("a", np.random.default_rng(0)), 500
    )
    assert len({visit.cell for visit in walk}) == 1


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.eye(5), r"^transition\b.* \(6, 6\), got \(5, 5\)"),
        (np.eye(6) * 0.5, r"^transition must sum to 1\b.* 0\.5 in row 0"),
        (np.eye(6) * 2 - np.roll(np.eye(6), 1, axis=1), r"^transition\b.* \[0, 1\] .* -1\.0 at \[0, 1\]"),
        (np.full((6, 6), np.nan), r"^transition\b.* nan at \[0, 0\]"),
    ],
)
def test_invalid_matrices_are_rejected(matrix: FloatArray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarkovChain(MarkovChainParameters(), locations=GRID, seed=3, transition=matrix)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"stay": -0.1}, r"(?s)stay.*input_value=-0.1"),
        ({"reach_km": 0}, r"(?s)reach_km.*input_value=0"),
        ({"step_s": 0}, r"(?s)step_s.*input_value=0"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(MarkovChain, locations=GRID, seed=3, **parameters)
