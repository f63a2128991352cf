"""The exponential mechanism under the Euclidean distance without a matrix, compared with the matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.inference import planar_kernel as kernel_module
from sim.inference import planar_remap as remap_module
from sim.inference.compact_rows import CompactRows
from sim.inference.groups import equal_columns
from sim.interfaces import FloatArray
from sim.lppm.calibration import expected_loss_km, remapped
from sim.lppm.channels import exponential as exponential_module
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.planar import PlanarExponentialChannel, PlanarRemappedChannel
from sim.lppm.channels.product import exponential_kernel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.designs.exponential import Exponential
from sim.lppm.remap import remap_matrix
from sim.world import Grid
from sim.world.distances.euclidean import EuclideanDistance, euclidean
from tests.support import made, raises_code

pytestmark = pytest.mark.usefixtures("numpy_and_numba")


@pytest.fixture(autouse=True)
def channels_of_large_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small grids take the path of large ones."""
    monkeypatch.setattr(exponential_module, "MATRIX_CELLS", 0)


PATHS = {"direct sums": (10**9, 0), "convolutions, then direct sums": (0, 10**9), "convolutions": (0, 0)}
"""Limits of the paths of `PlanarRemap.sources`: cells with weight, and open outputs."""


def prior_of(kind: str, n: int, rng: np.random.Generator) -> FloatArray:
    """Return a prior: dense, steep, sparse, with ties, or of two cells."""
    weights = {
        "dense": rng.random(n),
        "steep": rng.random(n) ** 20,
        "sparse": rng.random(n) * (rng.random(n) < 0.15),
        "ties": rng.integers(0, 2, n).astype(np.float64),
        "two": np.bincount(rng.integers(0, n, 2), minlength=n).astype(np.float64),
        "uniform": np.ones(n),
    }[kind]
    weights[rng.integers(n)] += 1e-3
    return np.asarray(weights / weights.sum())


@st.composite
def cases(draw: st.DrawFn) -> tuple[EuclideanDistance, float, FloatArray]:
    """Draw grids, among them lines and single cells, rates from almost none to revealing, and priors of all kinds."""
    rows, cols = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    row_km, col_km = (draw(st.sampled_from((0.1, 0.25, 1.0))) for _ in range(2))
    grid = Grid.rectangle(rows=rows, cols=cols, width_km=cols * col_km, height_km=rows * row_km)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(("dense", "steep", "sparse", "ties", "two", "uniform")))
    epsilon = draw(st.sampled_from((0.0, 0.05, 0.4, 1.0, 3.0, 8.0, 500.0)))
    return euclidean(grid), epsilon, prior_of(kind, grid.n_cells, rng)


def by_matrix(distance: EuclideanDistance, epsilon: float, prior: FloatArray) -> RemappedChannel:
    matrix = exponential_kernel(distance.matrix_km, epsilon)
    return RemappedChannel(MatrixChannel(matrix), remap_matrix(matrix, prior, distance))


@pytest.mark.parametrize("path", PATHS)
@settings(deadline=None, max_examples=150)
@given(case=cases())
def test_the_outputs_that_become_a_cell_are_those_of_the_table(
    path: str, case: tuple[EuclideanDistance, float, FloatArray]
) -> None:
    distance, epsilon, prior = case
    reference = by_matrix(distance, epsilon, prior)
    base = exponential(distance, epsilon)
    assert isinstance(base, PlanarExponentialChannel)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remap_module, "_SPARSE", PATHS[path][0])
        patch.setattr(remap_module, "_MANY", PATHS[path][1])
        remap = PlanarRemappedChannel(base, prior, distance)._remap
        for cell in range(distance.n_cells):
            assert np.flatnonzero(remap.sources(cell)).tolist() == np.flatnonzero(reference.table == cell).tolist()
        assert [remap.cell(output) for output in range(distance.n_cells)] == reference.table.tolist()


@settings(deadline=None, max_examples=60)
@given(case=cases(), runs=st.sampled_from((0, 10**6)))
def test_the_channel_is_that_of_the_matrix(case: tuple[EuclideanDistance, float, FloatArray], runs: int) -> None:
    distance, epsilon, prior = case
    reference = by_matrix(distance, epsilon, prior)
    base = exponential(distance, epsilon)
    channel = remapped(base, prior, distance)
    assert isinstance(channel, PlanarRemappedChannel)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_module, "_DIRECT_RUNS", runs)
        total = np.zeros(distance.n_cells)
        for output in np.unique(reference.table).tolist():
            expected = reference.likelihood(output)
            np.testing.assert_allclose(channel.likelihood(output), expected, rtol=2e-8, atol=1e-300)
            np.testing.assert_allclose(channel.likelihood(output), expected, rtol=0, atol=1e-9 * expected.max())
            compact = channel.compact_likelihood(output)
            assert compact is not None
            np.testing.assert_array_equal(compact.dense(distance.n_cells), channel.likelihood(output))
            total += channel.likelihood(output)
        np.testing.assert_allclose(total, 1.0, atol=1e-9)
    for cell in {0, distance.n_cells // 2}:
        draws = [base.sample(cell, np.random.default_rng(seed)) for seed in range(20)]
        assert draws == [reference.base.sample(cell, np.random.default_rng(seed)) for seed in range(20)]
        draws = [channel.sample(cell, np.random.default_rng(seed)) for seed in range(20)]
        assert draws == [reference.sample(cell, np.random.default_rng(seed)) for seed in range(20)]
        np.testing.assert_allclose(channel.row(cell), reference.row(cell), atol=1e-12)
    np.testing.assert_allclose(base.matrix(), reference.base.matrix(), rtol=1e-11, atol=1e-300)
    np.testing.assert_allclose(channel.matrix(), reference.matrix(), rtol=1e-9, atol=1e-300)
    np.testing.assert_array_equal(channel.likelihoods()[0], reference.likelihoods()[0])
    for own, other in ((base, reference.base), (channel, reference)):
        loss_km = expected_loss_km(other, prior, distance)
        assert expected_loss_km(own, prior, distance) == pytest.approx(loss_km, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("shape", [(1, 60), (40, 1), (24, 31)])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
def test_larger_grids_agree_with_the_matrix(shape: tuple[int, int], epsilon: float) -> None:
    rng = np.random.default_rng(3)
    grid = Grid.rectangle(rows=shape[0], cols=shape[1], width_km=0.1 * shape[1], height_km=0.12 * shape[0])
    distance = euclidean(grid)
    for kind in ("dense", "steep", "sparse"):
        prior = prior_of(kind, grid.n_cells, rng)
        reference = by_matrix(distance, epsilon, prior)
        channel = remapped(exponential(distance, epsilon), prior, distance)
        for output in rng.choice(reference.table, 12).tolist():
            expected = reference.likelihood(output)
            np.testing.assert_allclose(channel.likelihood(output), expected, rtol=2e-8, atol=1e-300)


def test_compact_rows_of_the_kernel_are_the_rows_in_full() -> None:
    distance = euclidean(Grid.rectangle(rows=8, cols=7, width_km=2.1, height_km=1.6))
    n, rng = distance.n_cells, np.random.default_rng(0)
    base = exponential(distance, 2.0)
    store, full = CompactRows(n), []
    for count in range(12):
        channel = remapped(base, prior_of("sparse", n, rng), distance) if count % 3 else base
        assert isinstance(channel, PlanarExponentialChannel | PlanarRemappedChannel)
        output = channel.sample(int(rng.integers(n)), rng)
        full.append(channel.likelihood(output))
        compact = channel.compact_likelihood(output)
        assert compact is not None
        store.append(compact, full[-1])
    store.forget(4)
    rows = np.array(full[4:])
    coefficients, profile, cells = rng.random(len(rows)), rng.dirichlet(np.ones(n)), rng.permutation(n)[:9]
    np.testing.assert_allclose(store.gradient(coefficients), coefficients @ rows, rtol=1e-12)
    np.testing.assert_allclose(store.fitted(profile), rows @ profile, rtol=1e-12)
    np.testing.assert_allclose(store.columns(cells), rows[:, cells], rtol=1e-12)
    assert store.groups.tolist() == equal_columns(rows).tolist()


def test_street_level_channels_need_no_matrix() -> None:
    grid = Grid.san_francisco(rows=240, cols=140)
    distance = euclidean(grid)
    rng = np.random.default_rng(1)
    prior = np.zeros(grid.n_cells)
    prior[rng.integers(grid.n_cells, size=200)] = 1 / 200
    prior = 0.99 * prior / prior.sum() + 0.01 / grid.n_cells
    channel = made(Exponential, distance=distance, epsilon_per_km=1.0)(prior)
    assert isinstance(channel, PlanarRemappedChannel)
    output = channel.base.sample(20_000, rng)
    cell = channel._remap.cell(output)
    assert channel._remap.sources(cell)[output]
    likelihood = channel.likelihood(cell)
    assert likelihood.min() > 0
    for other in rng.choice(np.flatnonzero(channel._remap.sources(cell)), 5).tolist():
        assert channel._remap.cell(other) == cell
    with raises_code(InvalidValue, "budget-needs-remap"):
        channel.matrix()
    with raises_code(InvalidValue, "matrix-too-large"):
        channel.base.matrix()


def test_a_budget_on_a_large_grid_needs_a_design_without_remap() -> None:
    distance = euclidean(Grid.rectangle(rows=60, cols=60, width_km=12.0, height_km=12.0))
    prior = np.full(distance.n_cells, 1 / distance.n_cells)
    with raises_code(InvalidValue, "budget-needs-remap"):
        made(Exponential, distance=distance, epsilon_per_km=None, quality_budget_km=1.0)(prior)
    channel = made(Exponential, distance=distance, epsilon_per_km=None, quality_budget_km=1.0, remap=False)(prior)
    assert expected_loss_km(channel, prior, distance) == pytest.approx(1.0, abs=1e-4)
