"""The exponential mechanism between scattered locations without a matrix, compared with the matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.inference import scattered_kernel as kernel_module
from sim.inference.scattered_kernel import ScatteredKernel
from sim.inference.scattered_remap import ScatteredRemap
from sim.interfaces import FloatArray
from sim.lppm.calibration import expected_loss_km, remapped
from sim.lppm.channels import exponential as exponential_module
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.planar import PlanarRemappedChannel
from sim.lppm.channels.product import exponential_kernel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.channels.scattered import ScatteredExponentialChannel
from sim.world.distances.euclidean import EuclideanDistance
from tests.lppm.test_planar_channel import prior_of
from tests.support import raises_code


@pytest.fixture(autouse=True)
def channels_of_many_locations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few locations take the path of many."""
    monkeypatch.setattr(exponential_module, "MATRIX_CELLS", 0)


@st.composite
def cases(draw: st.DrawFn) -> tuple[EuclideanDistance, float, FloatArray]:
    """Draw locations, among them lines, lattices and repeated positions, rates and priors of all kinds."""
    n = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    x_km, y_km = rng.normal(0, 2, n), rng.normal(0, 2, n)
    match draw(st.sampled_from(("scattered", "line", "lattice", "repeated", "clusters"))):
        case "line":
            y_km = 2 * x_km
        case "lattice":
            x_km, y_km = np.round(x_km), np.round(y_km)
        case "repeated":
            x_km, y_km = np.repeat(x_km, 2)[:n], np.repeat(y_km, 2)[:n]
        case "clusters":
            x_km, y_km = np.round(x_km) + 1e-3 * rng.random(n), np.round(y_km) + 1e-3 * rng.random(n)
    kinds = ("dense", "steep", "sparse", "ties", "two", "uniform")
    prior = prior_of(draw(st.sampled_from(kinds)), n, rng)
    rate = draw(st.sampled_from((0.0, 0.1, 1.0, 5.0, 60.0)))
    return EuclideanDistance(x_km=x_km, y_km=y_km), rate, prior


@settings(deadline=None, max_examples=150)
@given(cases())
def test_remaps_and_likelihoods_are_those_of_the_matrix(case: tuple[EuclideanDistance, float, FloatArray]) -> None:
    distance, rate, prior = case
    matrix = MatrixChannel(exponential_kernel(distance.matrix_km, rate))
    expected = RemappedChannel.optimal(matrix, prior, distance)
    base = exponential(distance, rate)
    assert isinstance(base, ScatteredExponentialChannel)
    np.testing.assert_allclose(base.matrix(), matrix.matrix(), rtol=1e-11, atol=1e-300)
    channel = remapped(base, prior, distance)
    assert isinstance(channel, PlanarRemappedChannel)
    assert base.remap(prior, distance).tolist() == expected.table.tolist()
    for cell in range(distance.n_cells):
        sources = base.single_remap(prior, distance).sources(cell)
        assert np.flatnonzero(sources).tolist() == np.flatnonzero(expected.table == cell).tolist()
        np.testing.assert_allclose(channel.likelihood(cell), expected.likelihood(cell), rtol=1e-11, atol=1e-300)
        np.testing.assert_allclose(channel.row(cell), expected.row(cell), rtol=1e-11, atol=1e-300)
    for seed in range(5):
        draws = [one.sample(seed % distance.n_cells, np.random.default_rng(seed)) for one in (channel, expected)]
        assert draws[0] == draws[1]
    for one, other in ((base, matrix), (channel, expected)):
        losses = [expected_loss_km(each, prior, distance) for each in (one, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("skipped", ["_excluded", "_proven"])
def test_each_proof_alone_gives_the_same_remap(skipped: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Outputs without a proof are searched, so that a wrong proof of the other kind would show."""
    method = {"_excluded": lambda self, nodes, terms: np.zeros(nodes.first.size, dtype=bool)}  # noqa: ARG005
    method["_proven"] = lambda self, outputs, cell: np.zeros(outputs.size, dtype=bool)  # noqa: ARG005
    monkeypatch.setattr(ScatteredRemap, skipped, method[skipped])
    rng = np.random.default_rng(6)
    for n, rate in ((3, 0.0), (5, 0.3), (30, 1.0), (60, 3.0)) * 10:
        x_km, y_km, prior = rng.normal(size=n), rng.normal(size=n), rng.dirichlet(np.full(n, 0.3))
        distance = EuclideanDistance(x_km=x_km, y_km=y_km)
        base = ScatteredExponentialChannel(distance, epsilon_per_km=rate)
        table = base.remap(prior, distance)
        for cell in range(n):
            sources = base.single_remap(prior, distance).sources(cell)
            assert np.flatnonzero(sources).tolist() == np.flatnonzero(table == cell).tolist()


def test_most_outputs_are_excluded_without_a_search() -> None:
    rng = np.random.default_rng(8)
    x_km, y_km, prior = rng.uniform(0, 20, 1500), rng.uniform(0, 20, 1500), rng.dirichlet(np.full(1500, 0.1))
    distance = EuclideanDistance(x_km=x_km, y_km=y_km)
    kernel = ScatteredKernel(x_km=x_km, y_km=y_km, rate_per_km=1.0)
    remap = ScatteredRemap(kernel, prior, best_cell=distance.best_cell, longest_km=distance.longest_km)
    cell = remap.cell(700)
    count = int(remap.sources(cell).sum())
    assert remap.sources(cell)[700]
    assert remap.searched < 2 * count + 30


@pytest.mark.parametrize("block_numbers", [1, 50, 2**20])
def test_kernels_do_not_depend_on_blocks(block_numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_module, "_BLOCK_NUMBERS", block_numbers)
    rng = np.random.default_rng(1)
    x_km, y_km = rng.random(23), rng.random(23)
    kernel = ScatteredKernel(x_km=x_km, y_km=y_km, rate_per_km=2.0)
    decay = np.exp(-2.0 * np.hypot(x_km[:, None] - x_km, y_km[:, None] - y_km))
    np.testing.assert_allclose(kernel.norm, decay.sum(axis=1), rtol=1e-13)
    outputs = np.array([3, 4, 20])
    expected = decay[:, outputs].sum(axis=1) / decay.sum(axis=1)
    np.testing.assert_allclose(kernel.column(outputs), expected, rtol=1e-13)
    assert not kernel.column(outputs[:0]).any()


def test_the_tree_has_every_location_once_on_every_level() -> None:
    rng = np.random.default_rng(3)
    x_km, y_km = np.round(rng.random(37), 1), np.round(rng.random(37), 1)
    kernel = ScatteredKernel(x_km=x_km, y_km=y_km, rate_per_km=1.0)
    assert sorted(kernel.order.tolist()) == list(range(37))
    for nodes in kernel.levels:
        assert nodes.first[0] == 0
        assert nodes.stop[-1] == 37
        assert (nodes.first[1:] == nodes.stop[:-1]).all()
        for x, y, radius, first, stop in zip(*nodes, strict=True):
            members = kernel.order[first:stop]
            assert np.hypot(x_km[members] - x, y_km[members] - y).max() <= radius
    assert (kernel.levels[-1].stop - kernel.levels[-1].first == 1).all()
    assert not kernel.levels[-1].radius_km.any()


def test_all_outputs_of_many_locations_are_refused() -> None:
    distance = EuclideanDistance(x_km=np.arange(3001.0), y_km=np.zeros(3001))
    channel = remapped(exponential(distance, 1.0), np.full(3001, 1 / 3001), distance)
    with raises_code(InvalidValue, "budget-needs-remap"):
        channel.likelihoods()
    with pytest.raises(ValueError, match="epsilon_per_km"):
        exponential(distance, np.inf)
