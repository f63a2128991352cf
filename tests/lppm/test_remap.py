"""Remapping and expected loss compared with enumeration; fast paths compared with the generic one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.interfaces import FloatArray, IntArray
from sim.lppm.channels.base import BaseChannel
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import LocationHidingChannel
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.product import ExponentialChannel
from sim.lppm.remap import remap_matrix
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.manhattan import ManhattanDistance

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

EPSILONS = (0.0, 0.05, 0.7, 3.0, 8.0, 500.0)
ALPHAS = (0.0, 1e-9, 0.1, 0.25, 0.5, 0.9, 1.0)


def world(rows: int, cols: int, kind: str = "manhattan") -> Distance:
    """Return a distance on a grid with different spacing of rows and columns."""
    y_km = np.cumsum(0.3 + 0.17 * (np.arange(rows) % 3)).repeat(cols)
    x_km = np.tile(np.cumsum(0.4 + 0.11 * (np.arange(cols) % 2)), rows)
    north, east = np.abs(y_km[:, None] - y_km), np.abs(x_km[:, None] - x_km)
    if kind == "manhattan":
        return ManhattanDistance(row_y_km=y_km[::cols], col_x_km=x_km[:cols])
    return MatrixDistance(kind=kind, matrix_km=np.hypot(north, east))


@st.composite
def grids_and_priors(draw: st.DrawFn) -> tuple[Distance, FloatArray]:
    """Draw small grids, including single rows and cells, with priors that have many zeros and ties."""
    rows, cols = draw(st.integers(1, 4)), draw(st.integers(1, 5))
    n = rows * cols
    counts = draw(st.lists(st.sampled_from((0, 0, 1, 1, 2, 5, 1000)), min_size=n, max_size=n))
    counts[draw(st.integers(0, n - 1))] += 1
    prior = np.array(counts, dtype=np.float64)
    return world(rows, cols), prior / prior.sum()


def channels(distance: Distance) -> st.SearchStrategy[BaseChannel]:
    """Draw a base channel that has a fast path."""
    return st.one_of(
        st.sampled_from(EPSILONS).map(lambda e: ExponentialChannel(distance=distance, epsilon_per_km=e)),
        st.sampled_from(ALPHAS).map(lambda a: LocationHidingChannel(n_cells=distance.n_cells, reveal_probability=a)),
    )


def costs(matrix: FloatArray, prior: FloatArray, distance: Distance) -> FloatArray:
    """Enumerate sum_x prior(x) f(z~ | x) d(x, y) for each output z~ and cell y."""
    n = prior.size
    table = np.zeros((matrix.shape[1], n))
    for output in range(matrix.shape[1]):
        for y in range(n):
            table[output, y] = sum(prior[x] * matrix[x, output] * distance.matrix_km[x, y] for x in range(n))
    return table


def random_prior(n: int, seed: int) -> FloatArray:
    return np.random.default_rng(seed).dirichlet(np.full(n, 0.5))


def at(table: FloatArray, choice: IntArray) -> FloatArray:
    chosen: FloatArray = table[np.arange(len(choice)), choice]
    return chosen


@settings(deadline=None)
@given(st.data())
def test_cost_of_the_fast_remap_matches_enumeration(data: st.DataObject) -> None:
    distance, prior = data.draw(grids_and_priors())
    channel = data.draw(channels(distance))
    cost = costs(channel.matrix(), prior, distance)
    fast = channel.remap(prior, distance)
    slow = remap_matrix(channel.matrix(), prior, distance)
    np.testing.assert_allclose(at(cost, fast), cost.min(axis=1), rtol=0, atol=1e-12)
    np.testing.assert_allclose(at(cost, slow), at(cost, fast), rtol=0, atol=1e-12)


@settings(deadline=None)
@given(st.data())
def test_fast_and_generic_path_break_ties_equally(data: st.DataObject) -> None:
    distance, prior = data.draw(grids_and_priors())
    channel = data.draw(channels(distance))
    slow = remap_matrix(channel.matrix(), prior, distance)
    assert channel.remap(prior, distance).tolist() == slow.tolist()


@pytest.mark.parametrize("kind", ["manhattan", "euclidean"])
@pytest.mark.parametrize("seed", range(5))
def test_all_paths_agree_without_ties(kind: str, seed: int) -> None:
    distance = world(3, 4, kind)
    prior = random_prior(12, seed)
    for base in (
        *(exponential(distance, epsilon) for epsilon in (0.0, 0.4, 1.0, 3.0)),
        *(LocationHidingChannel(n_cells=12, reveal_probability=alpha) for alpha in (0.0, 0.1, 0.6)),
    ):
        best = costs(base.matrix(), prior, distance).argmin(axis=1)
        assert base.remap(prior, distance).tolist() == best.tolist()
        assert MatrixChannel(base.matrix()).remap(prior, distance).tolist() == best.tolist()


@st.composite
def distances_and_priors(draw: st.DrawFn) -> tuple[Distance, FloatArray]:
    """Draw arbitrary asymmetric distances with many ties, and priors as on grids."""
    grid, prior = draw(grids_and_priors())
    n = prior.size
    lengths = draw(st.lists(st.sampled_from((0.3, 1.0, 1.0, 2.5, 40.0)), min_size=n * n, max_size=n * n))
    far = np.array(lengths).reshape(n, n) * (1 - np.eye(n))
    matrix_km = draw(st.sampled_from((far, far + far.T, grid.matrix_km)))
    return MatrixDistance(kind="road", matrix_km=matrix_km), prior


@settings(deadline=None, max_examples=200)
@given(distances_and_priors(), st.sampled_from(ALPHAS))
def test_location_hiding_matches_the_generic_path_for_any_distance(
    case: tuple[Distance, FloatArray], alpha: float
) -> None:
    distance, prior = case
    channel = LocationHidingChannel(n_cells=prior.size, reveal_probability=alpha)
    table = channel.remap(prior, distance)
    assert table.tolist() == remap_matrix(channel.matrix(), prior, distance).tolist()
    cost = costs(channel.matrix(), prior, distance)
    np.testing.assert_allclose(at(cost, table), cost.min(axis=1), rtol=0, atol=1e-10)


@pytest.mark.parametrize("shape", [(1, 90), (60, 2), (3, 41), (40, 3)])
def test_long_axes_match_the_generic_path(shape: tuple[int, int]) -> None:
    distance = world(*shape)
    for seed, epsilon in enumerate((0.0, 0.3, 2.0)):
        channel, prior = exponential(distance, epsilon), random_prior(distance.n_cells, seed)
        slow = remap_matrix(channel.matrix(), prior, distance)
        assert channel.remap(prior, distance).tolist() == slow.tolist()


def test_tie_goes_to_the_lowest_cell() -> None:
    distance = world(2, 2)
    nothing = ExponentialChannel(distance=distance, epsilon_per_km=0.0)
    assert nothing.remap(np.full(4, 0.25), distance).tolist() == [0, 0, 0, 0]
    assert nothing.remap(np.array([0.0, 0.5, 0.5, 0.0]), distance).tolist() == [0, 0, 0, 0]
    assert nothing.remap(np.array([0.0, 0.5, 0.0, 0.5]), distance).tolist() == [1, 1, 1, 1]


def test_output_without_posterior_mass_is_unchanged() -> None:
    distance = world(2, 3)
    prior = np.array([0.5, 0.0, 0.0, 0.0, 0.5, 0.0])
    own = list(range(6))
    assert LocationHidingChannel(n_cells=6, reveal_probability=1.0).remap(prior, distance).tolist() == own
    assert ExponentialChannel(distance=distance, epsilon_per_km=1e5).remap(prior, distance).tolist() == own
    assert MatrixChannel(np.eye(6)).remap(prior, distance).tolist() == own
    assert MatrixChannel(np.eye(6)).remap(prior, world(2, 3, "euclidean")).tolist() == own


@pytest.mark.parametrize("kind", ["manhattan", "euclidean"])
@pytest.mark.parametrize("share", [1e-289, 1e-291, 1e-320, 5e-324])
def test_location_hiding_has_the_same_floor_for_every_distance(share: float, kind: str) -> None:
    # Without noise, output 2 has the weight of its own cell only.
    distance, prior = world(1, 5, kind), np.array([1.0, 0.0, share, 0.0, 0.0])
    never = LocationHidingChannel(n_cells=5, reveal_probability=0.0)
    truth = LocationHidingChannel(n_cells=5, reveal_probability=1.0)
    for channel in (never, truth):
        assert channel.remap(prior, distance).tolist() == remap_matrix(channel.matrix(), prior, distance).tolist()
    assert truth.remap(prior, distance).tolist() == [0, 1, 2, 3, 4]
    assert never.remap(prior, distance)[0] == (2 if share == 1e-289 else 0)


@pytest.mark.parametrize("exponent", [600.0, 700.0, 740.0, 744.4, 745.0, 746.0])
def test_denormal_weights_count_as_no_posterior_mass(exponent: float) -> None:
    # Around exp(-745) half of the total rounds to zero, and the first cell would become the median.
    distance = world(1, 5)
    prior = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    channel = ExponentialChannel(distance=distance, epsilon_per_km=exponent / distance.matrix_km[2, 4])
    for table in (channel.remap(prior, distance), remap_matrix(channel.matrix(), prior, distance)):
        assert table[4] == (2 if exponent == 600.0 else 4)


@pytest.mark.parametrize("kind", ["manhattan", "euclidean"])
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
def test_location_hiding_is_exact_for_an_almost_certain_cell(alpha: float, kind: str) -> None:
    # Excluding the likely cell leaves tiny probabilities, which a difference of sums would lose to rounding.
    distance = world(3, 3, kind)
    prior = np.array([1e-30, 3e-30, 1e-30, 2e-30, 1.0, 1e-30, 9e-30, 2e-30, 2e-30])
    channel = LocationHidingChannel(n_cells=9, reveal_probability=alpha)
    assert channel.remap(prior, distance).tolist() == remap_matrix(channel.matrix(), prior, distance).tolist()


def test_outputs_other_than_cells_fall_back_to_the_best_cell_of_the_prior() -> None:
    distance = world(1, 3)
    wide = MatrixChannel(np.array([[0.5, 0.5, 0, 0, 0], [0, 0.5, 0.5, 0, 0], [0, 0, 0.5, 0, 0.5]]))
    prior = np.array([0.2, 0.5, 0.3])
    assert wide.remap(prior, distance).tolist() == [0, 1, 1, 1, 2]


@settings(deadline=None)
@given(st.data())
def test_loss_is_the_sum_over_cells_and_outputs(data: st.DataObject) -> None:
    distance, prior = data.draw(grids_and_priors())
    channel = data.draw(channels(distance))
    n = prior.size
    table = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n)))
    for cells, given_table in ((range(n), None), (table.tolist(), table)):
        cost = costs(channel.matrix(), prior, distance)
        want = sum(cost[output, cell] for output, cell in enumerate(cells))
        assert channel.loss_km(prior, distance, given_table) == pytest.approx(want, abs=1e-12)
        generic = MatrixChannel(channel.matrix()).loss_km(prior, distance, given_table)
        assert generic == pytest.approx(want, abs=1e-12)


@settings(max_examples=60)
@given(st.data())
def test_likelihood_after_remap_sums_over_the_mapped_outputs(data: st.DataObject) -> None:
    distance, _ = data.draw(grids_and_priors())
    n = distance.n_cells
    channel = data.draw(channels(distance))
    table = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n)), dtype=np.int64)
    matrix = channel.matrix()
    expected = [sum((matrix[:, z] for z in range(n) if table[z] == output), np.zeros(n)) for output in range(n)]
    columns = channel.columns(table, np.arange(n))
    np.testing.assert_allclose(columns, expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(columns.sum(axis=0), 1.0, rtol=1e-12)
