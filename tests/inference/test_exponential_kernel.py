"""The exponential kernel by recursive filters, compared with its matrix and with enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.inference.exponential_kernel import ExponentialKernel
from sim.inference.source_sets import contains, gather, joined, scatter, source_set
from sim.interfaces import FloatArray
from sim.lppm.remap import remap_matrix
from sim.world.distances.manhattan import ManhattanDistance
from tests.support import numpy_kernels

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

RATES = (0.0, 1e-6, 0.05, 0.7, 3.0, 40.0, 2000.0)


@st.composite
def cases(draw: st.DrawFn) -> tuple[ManhattanDistance, ExponentialKernel, FloatArray]:
    """Draw small grids with uneven spacing, rates from none to revealing, and priors with zeros and ties."""
    rows, cols = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    row_km, col_km = (
        np.cumsum(draw(st.lists(st.sampled_from((0.1, 0.4, 1.0)), min_size=k, max_size=k))) for k in (rows, cols)
    )
    n = rows * cols
    prior = np.array(draw(st.lists(st.sampled_from((0, 0, 1, 1, 2, 5, 1000)), min_size=n, max_size=n)), dtype=float)
    prior[draw(st.integers(0, n - 1))] += 1
    kernel = ExponentialKernel(row_km=row_km, col_km=col_km, rate_per_km=draw(st.sampled_from(RATES)))
    return ManhattanDistance(row_y_km=row_km, col_x_km=col_km), kernel, prior / prior.sum()


def matrix_of(distance: ManhattanDistance, kernel: ExponentialKernel) -> FloatArray:
    weights = np.exp(-kernel.rate_per_km * distance.matrix_km)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


@settings(deadline=None, max_examples=200)
@given(cases(), st.integers(0, 10_000))
def test_the_kernel_agrees_with_its_matrix(
    case: tuple[ManhattanDistance, ExponentialKernel, FloatArray], seed: int
) -> None:
    distance, kernel, prior = case
    matrix = matrix_of(distance, kernel)
    image = np.random.default_rng(seed).random(prior.size)
    np.testing.assert_allclose(kernel.apply(image), matrix @ image, rtol=1e-12)
    np.testing.assert_allclose(kernel.adjoint(prior), prior @ matrix, rtol=1e-12, atol=1e-300)
    masks = [image > limit for limit in (0.2, 0.6, 0.9)] + [prior > 0]
    sets = joined([source_set(mask, kernel.shape[1]) for mask in masks])
    cells = np.arange(prior.size)
    sums = np.array([matrix[:, mask].sum(axis=1) for mask in masks]).T
    np.testing.assert_allclose(kernel.entries(cells, sets), sums, rtol=1e-11, atol=1e-300)


@settings(deadline=None, max_examples=300)
@given(cases())
def test_the_remap_is_that_of_the_matrix(case: tuple[ManhattanDistance, ExponentialKernel, FloatArray]) -> None:
    distance, kernel, prior = case
    assert kernel.remap(prior).tolist() == remap_matrix(matrix_of(distance, kernel), prior, distance).tolist()


@settings(deadline=None, max_examples=200)
@given(cases(), st.integers(0, 10_000))
def test_the_loss_is_the_sum_over_the_matrix(
    case: tuple[ManhattanDistance, ExponentialKernel, FloatArray], seed: int
) -> None:
    distance, kernel, prior = case
    row_km, col_km = distance.row_y_km, distance.col_x_km
    for table in (kernel.remap(prior), np.random.default_rng(seed).integers(0, prior.size, prior.size)):
        expected = (prior[:, None] * matrix_of(distance, kernel) * distance.matrix_km[:, table]).sum()
        loss_km = kernel.loss_km(prior, table, row_km, col_km)
        assert loss_km == pytest.approx(expected, rel=1e-11, abs=1e-14)
        with numpy_kernels():
            assert kernel.loss_km(prior, table, row_km, col_km) == loss_km  # to the bit: results do not change


@pytest.mark.parametrize("shape", [(1, 70), (45, 1), (31, 24)])
@pytest.mark.parametrize("rate", [0.02, 0.5, 4.0])
def test_larger_grids_agree_with_the_matrix(shape: tuple[int, int], rate: float) -> None:
    rng = np.random.default_rng(5)
    row_km, col_km = (np.cumsum(0.1 + rng.random(size)) for size in shape)
    distance = ManhattanDistance(row_y_km=row_km, col_x_km=col_km)
    kernel = ExponentialKernel(row_km=row_km, col_km=col_km, rate_per_km=rate)
    for share in (1.0, 0.1, 0.005):
        prior = rng.random(distance.n_cells) ** 4 * (rng.random(distance.n_cells) < share) + 1e-30
        prior /= prior.sum()
        assert kernel.remap(prior).tolist() == remap_matrix(matrix_of(distance, kernel), prior, distance).tolist()


@settings(deadline=None, max_examples=100)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 10_000))
def test_sets_of_runs_are_the_masks_they_come_from(rows: int, cols: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    masks = rng.random((4, rows * cols)) < np.array([[0.0], [0.3], [0.7], [1.0]])
    sets = joined([source_set(mask, cols) for mask in masks])
    values, image = rng.random(4), rng.random(rows * cols)
    np.testing.assert_allclose(scatter(values, sets, rows * cols), values @ masks)
    np.testing.assert_allclose(gather(image, sets), masks @ image)
    assert np.array_equal(contains(sets, np.arange(rows * cols)), masks.T)
    assert (sets.first // cols == (sets.stop - 1) // cols).all()
