"""Channels compared with their matrices: rows, columns and samples; privacy guarantees of the mechanisms."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import chisquare

import sim.lppm.channels.remapped as remapped_module
from sim.inference.bayes import decide_many
from sim.interfaces import FloatArray
from sim.lppm.channels.base import BaseChannel
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import LocationHidingChannel, identity, location_hiding
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.product import ExponentialChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.channels.sampling import draw
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.4, height_km=2.1)
MANHATTAN, EUCLIDEAN = manhattan(GRID), euclidean(GRID)
PRIOR = np.array([0, 3, 1, 0, 5, 5, 0, 1, 0, 2, 2, 1]) / 20
SPARSE = MatrixChannel(np.array([[0.0, 0.3, 0.0, 0.7, 0.0], [1.0, 0, 0, 0, 0], [0, 0, 0.25, 0.25, 0.5]]))

MADE: dict[str, Callable[[], BaseChannel]] = {
    "matrix": lambda: MatrixChannel(np.random.default_rng(1).dirichlet(np.ones(12), size=12)),
    "wide matrix": lambda: SPARSE,
    "exponential": lambda: exponential(MANHATTAN, 0.9),
    "exponential, epsilon 0": lambda: exponential(MANHATTAN, 0.0),
    "exponential, large epsilon": lambda: exponential(MANHATTAN, 80.0),
    "exponential, euclidean": lambda: exponential(EUCLIDEAN, 0.9),
    "exponential, one row": lambda: exponential(line(7), 0.5),
    "exponential, one cell": lambda: exponential(line(1), 0.5),
    "hiding": lambda: location_hiding(12, 0.3),
    "hiding, alpha 0": lambda: location_hiding(12, 0.0),
    "hiding, two cells": lambda: location_hiding(2, 0.4),
    "hiding, one cell": lambda: location_hiding(1, 0.0),
    "identity": lambda: identity(5),
    "remapped exponential": lambda: remapped(exponential(MANHATTAN, 0.4)),
    "remapped, euclidean": lambda: remapped(exponential(EUCLIDEAN, 0.4), EUCLIDEAN),
    "remapped hiding": lambda: remapped(location_hiding(12, 0.2)),
    "remapped twice": lambda: remapped(remapped(exponential(MANHATTAN, 0.4)), EUCLIDEAN),
}


def line(cols: int) -> Distance:
    return manhattan(Grid.rectangle(rows=1, cols=cols, width_km=cols, height_km=1.0))


def remapped(base: BaseChannel, distance: Distance = MANHATTAN) -> RemappedChannel:
    return RemappedChannel(base, base.remap(PRIOR, distance))


@pytest.fixture(params=MADE)
def channel(request: pytest.FixtureRequest) -> BaseChannel:
    return MADE[request.param]()


def test_row_likelihood_and_columns_match_the_matrix(channel: BaseChannel) -> None:
    matrix = channel.matrix()
    assert matrix.shape == (channel.n_cells, channel.n_outputs)
    assert (matrix >= 0).all()
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    rows = [channel.row(cell) for cell in range(channel.n_cells)]
    np.testing.assert_allclose(rows, matrix, rtol=0, atol=1e-15)
    likelihoods = [channel.likelihood(output) for output in range(channel.n_outputs)]
    np.testing.assert_allclose(np.transpose(likelihoods), matrix, rtol=0, atol=1e-15)
    for seed in range(5):
        table = np.random.default_rng(seed).integers(0, min(channel.n_cells, seed + 1), channel.n_outputs)
        outputs = np.arange(channel.n_cells)
        sums = [matrix[:, table == output].sum(axis=1) for output in outputs]
        np.testing.assert_allclose(channel.columns(table, outputs), sums, rtol=0, atol=1e-14)
        np.testing.assert_allclose(channel.columns(table, outputs[:1]), sums[:1], rtol=0, atol=1e-14)


def test_sample_frequencies_match_the_row(channel: BaseChannel) -> None:
    rng = np.random.default_rng(5)
    for cell in {0, channel.n_cells // 2, channel.n_cells - 1}:
        outputs = [channel.sample(cell, rng) for _ in range(2000)]
        assert {type(output) for output in outputs} == {int}
        counts, row = np.bincount(outputs, minlength=channel.n_outputs), channel.row(cell)
        assert not counts[row == 0].any()
        common = row * len(outputs) >= 5
        observed = np.append(counts[common], counts[~common].sum())
        expected = np.append(row[common], row[~common].sum()) * len(outputs)
        if not row[~common].sum():
            observed, expected = observed[:-1], expected[:-1]
        if observed.size > 1 and expected.min() > 1:
            assert chisquare(observed, expected * observed.sum() / expected.sum()).pvalue > 1e-3


class FixedRandom(np.random.Generator):
    """A generator that always draws the same number."""

    def __init__(self, number: float) -> None:
        super().__init__(np.random.PCG64(0))
        self.number = number

    def random(self, *args: object, **kwargs: object) -> float:  # type: ignore[override]
        return self.number


@pytest.mark.parametrize("number", [0.0, 0.3, 0.5, np.nextafter(1.0, 0.0), 1.0])
@pytest.mark.parametrize("weights", [[0, 0.3, 0, 0.7, 0], [0.1] * 10, [0.3, 0.3, 0.4, 0], [1.0], [0, 1e-300]])
def test_no_draw_is_out_of_range_or_without_weight(number: float, weights: list[float]) -> None:
    cumulative = np.cumsum(weights)
    drawn = draw(cumulative.tolist(), FixedRandom(number))
    assert weights[drawn] > 0
    if number * cumulative[-1] < cumulative[-1]:
        assert drawn == cumulative.searchsorted(number * cumulative[-1], side="right")


@pytest.mark.parametrize("number", [0.0, 0.3, 0.5, np.nextafter(1.0, 0.0)])
def test_no_sample_is_out_of_range_or_impossible(channel: BaseChannel, number: float) -> None:
    for cell in range(channel.n_cells):
        assert channel.row(cell)[channel.sample(cell, FixedRandom(number))] > 0


@pytest.mark.parametrize("alpha", [0.0, 0.2, 0.7, 1.0])
def test_location_hiding_draws_other_cells_uniformly(alpha: float) -> None:
    matrix = location_hiding(6, alpha).matrix()
    assert np.diag(matrix).tolist() == [alpha] * 6
    np.testing.assert_allclose(matrix[~np.eye(6, dtype=bool)], (1 - alpha) / 5, rtol=1e-15)


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1 / 3, 0.7, 1.0])
def test_likelihoods_of_remapped_location_hiding_take_two_values(alpha: float) -> None:
    channel = remapped(location_hiding(12, alpha))
    for output in range(12):
        inside = channel.table == output
        for cells in (inside, ~inside):
            assert len(set(channel.likelihood(output)[cells].tolist())) <= 1


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 2.0, 8.0])
def test_fast_and_generic_exponential_agree(epsilon: float) -> None:
    fast = ExponentialChannel(distance=MANHATTAN, epsilon_per_km=epsilon)
    kernel = np.exp(-epsilon * MANHATTAN.matrix_km)
    np.testing.assert_allclose(fast.matrix(), kernel / kernel.sum(axis=1, keepdims=True), rtol=1e-12)
    assert isinstance(exponential(MANHATTAN, epsilon), ExponentialChannel)
    assert isinstance(exponential(EUCLIDEAN, epsilon), MatrixChannel)


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN], ids=lambda distance: distance.kind)
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 4.0])
def test_exponential_guarantees_twice_epsilon_also_when_remapped(distance: Distance, epsilon: float) -> None:
    # f(z|x) / f(z|x') is e^(eps (d(x',z) - d(x,z))) times a ratio of normalisations, each at most e^(eps d(x,x')).
    bound = np.exp(2 * epsilon * distance.matrix_km)
    base = exponential(distance, epsilon)
    for channel in (base, remapped(base, distance)):
        matrix = channel.matrix()
        for output in range(12):
            ratio_limit = bound * matrix[None, :, output]
            assert (matrix[:, None, output] <= ratio_limit * (1 + 1e-12)).all()


def test_normalisation_requires_the_factor_two() -> None:
    likelihood = exponential(line(3), 1.0).likelihood(0)
    assert math.e < likelihood[0] / likelihood[1] < math.e**2


def test_the_fast_path_builds_no_matrix() -> None:
    base = ExponentialChannel(distance=MANHATTAN, epsilon_per_km=1.0)
    channel = remapped(base)
    channel.sample(3, np.random.default_rng(0))
    channel.likelihood(4)
    channel.row(2)
    channel.loss_km(PRIOR, MANHATTAN)
    assert "_matrix" not in vars(base)


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN], ids=lambda distance: distance.kind)
@pytest.mark.parametrize("seed", range(4))
def test_under_the_same_prior_the_optimal_estimate_is_the_output(distance: Distance, seed: int) -> None:
    sparse = np.random.default_rng(seed).dirichlet(np.full(12, 0.3)).round(2)
    prior = sparse / sparse.sum()
    for base in (
        *(exponential(distance, epsilon) for epsilon in (0.0, 0.2, 1.0, 5.0)),
        *(location_hiding(12, alpha) for alpha in (0.0, 0.1, 0.5, 1.0)),
        MatrixChannel(np.random.default_rng(seed).dirichlet(np.ones(12), size=12)),
    ):
        channel = RemappedChannel(base, base.remap(prior, distance))
        joint: FloatArray = (prior[:, None] * channel.matrix()).T
        error_km = (joint @ distance.matrix_km).min(axis=1).sum()
        assert error_km == pytest.approx(channel.loss_km(prior, distance), abs=1e-9)
        assert channel.loss_km(prior, distance) <= base.loss_km(prior, distance) + 1e-12
        guesses = decide_many(joint, distance.matrix_km, distance.shape)
        sent = joint.sum(axis=1) > 1e-12
        assert guesses[sent].tolist() == np.flatnonzero(sent).tolist()


def test_shared_arrays_are_read_only() -> None:
    channel = remapped(exponential(MANHATTAN, 0.4))
    for shared in (channel.table, channel.likelihood(4), exponential(EUCLIDEAN, 1.0).matrix()):
        with pytest.raises(ValueError, match="read-only"):
            shared[0] = 0
    given = np.full((2, 2), 0.5)
    held = MatrixChannel(given)
    given[:] = 7
    assert held.matrix().tolist() == [[0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: exponential(MANHATTAN, -1.0), r"epsilon_per_km must be in \[0, inf\), got -1.0"),
        (lambda: exponential(EUCLIDEAN, np.inf), r"epsilon_per_km must be in \[0, inf\), got inf"),
        (lambda: exponential(EUCLIDEAN, np.nan), "got nan"),
        (lambda: ExponentialChannel(distance=EUCLIDEAN, epsilon_per_km=1.0), "Manhattan .* got kind 'euclidean'"),
        (lambda: location_hiding(3, 1.1), r"reveal_probability must be in \[0, 1\], got 1.1"),
        (lambda: LocationHidingChannel(n_cells=0, reveal_probability=1.0), r"n_cells must be in \[1, inf\), got 0"),
        (
            lambda: MatrixChannel(np.array([[0.5, 0.4], [0.5, 0.5]])),
            r"matrix must sum to 1 \(within 1e-09\), got 0.9 in row 0",
        ),
        (
            lambda: MatrixChannel(np.array([[1.5, -0.5]])),
            r"matrix must be in \[0, 1\] everywhere, got -0.5 at \[0, 1\]",
        ),
        (lambda: MatrixChannel(np.array([[np.nan, 1.0]])), "got nan"),
        (lambda: MatrixChannel(np.array([1.0])), r"got \(1,\)"),
        (lambda: MatrixChannel(np.ones((1, 1, 1))), r"got \(1, 1, 1\)"),
        (lambda: MatrixChannel(np.ones((0, 3))), r"got shape \(0, 3\)"),
        (lambda: RemappedChannel(identity(2), np.array([0])), r"shape \(2,\), got \(1,\)"),
        (lambda: RemappedChannel(identity(2), np.array([0, 2])), r"in \[0, 1\], got 0 to 2"),
    ],
)
def test_invalid_arguments_are_rejected(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def test_likelihoods_are_cached_for_a_few_channels_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The likelihoods of a large population would fill the memory."""
    base = location_hiding(6, 0.5)
    channels = [RemappedChannel(base, np.arange(6)) for _ in range(20)]
    size = channels[0].likelihoods()[1].nbytes
    monkeypatch.setattr("sim.lppm.channels.remapped.LIKELIHOODS_BYTES", 5 * size)
    for made in channels:
        assert made.likelihoods() is made.likelihoods()
    assert [made in remapped_module._LIKELIHOODS for made in channels] == [False] * 15 + [True] * 5
    assert channels[0].likelihoods()[1] == pytest.approx(base.matrix().T)
