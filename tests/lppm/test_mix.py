"""Mix and coin: the mixture compared with its definition, fixed points of the remap, budgets, large grids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.belief.estimated_profile import EstimatedProfileParameters
from sim.inference.compact_rows import CompactRows
from sim.interfaces import Channel, FloatArray
from sim.lppm.calibration import expected_loss_km
from sim.lppm.channels.constant import ConstantChannel
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import location_hiding
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.mix import MixChannel
from sim.lppm.channels.planar import PlanarExponentialChannel, PlanarRemappedChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.designs.coin import Coin, CoinParameters
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.lppm.estimates import estimates_from, expected_distance_km
from sim.lppm.theory import theory
from sim.mobility.statistics import statistics
from sim.mobility.traces import Trace
from sim.world import World
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import EuclideanDistance, euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import numpy_kernels, raises_code

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.4, height_km=2.1)
MANHATTAN, EUCLIDEAN = manhattan(GRID), euclidean(GRID)
_FAR = EUCLIDEAN.matrix_km.copy()
_FAR[5], _FAR[:, 5] = _FAR[0], _FAR[:, 0]
TWINS = MatrixDistance(kind="file", matrix_km=_FAR)
"""A distance with two cells at distance 0, as roads have them."""

SHARES = st.sampled_from([1e-9, 0.05, 0.3, 0.5, 1 - 1e-9, 1.0])
EPSILONS = st.sampled_from([0.0, 1e-3, 0.3, 1.0, 8.0, 500.0])
SHAPES = st.sampled_from([(1, 1), (1, 5), (5, 1), (2, 3), (4, 4), (6, 2)])


@st.composite
def priors(draw: st.DrawFn, n_cells: int) -> FloatArray:
    """Draw a profile with many zeros and many ties, or with one cell."""
    counts = draw(st.lists(st.integers(0, 3), min_size=n_cells, max_size=n_cells).filter(any))
    return np.array(counts, dtype=np.float64) / sum(counts)


def design_of(distance: Distance, **parameters: Any) -> Exponential:
    return Exponential(ExponentialParameters(**parameters), distance=distance)


def coin_of(distance: Distance, **parameters: Any) -> Coin:
    return Coin(CoinParameters(**parameters), distance=distance)


def reference(reveal: float, other: FloatArray) -> FloatArray:
    """Return a 1{z = x} + (1 - a) f(z | x)."""
    return np.asarray(reveal * np.eye(len(other)) + (1 - reveal) * other)


OTHERS: dict[str, Callable[[FloatArray], Any]] = {
    "product": lambda prior: RemappedChannel.optimal(exponential(MANHATTAN, 0.7), prior, MANHATTAN),
    "matrix": lambda prior: RemappedChannel.optimal(exponential(EUCLIDEAN, 0.7), prior, EUCLIDEAN),
    "hiding": lambda prior: RemappedChannel.optimal(location_hiding(12, 0.2), prior, MANHATTAN),
    "planar": lambda prior: PlanarRemappedChannel(
        PlanarExponentialChannel(_planar(), epsilon_per_km=0.7), prior, _euclidean()
    ),
    "constant": lambda prior: ConstantChannel(n_cells=12, output=MANHATTAN.best_cell(prior)),
}


def _euclidean() -> EuclideanDistance:
    assert isinstance(EUCLIDEAN, EuclideanDistance)
    return EUCLIDEAN


def _planar() -> Any:
    return _euclidean().planar


@pytest.mark.usefixtures("numpy_and_numba")
@pytest.mark.parametrize("reveal", [0.3, 1.0])
@pytest.mark.parametrize("other", OTHERS)
def test_all_parts_of_the_channel_match_the_definition(other: str, reveal: float) -> None:
    prior = np.array([0, 3, 1, 0, 5, 5, 0, 1, 0, 2, 2, 1]) / 20
    inner = OTHERS[other](prior)
    channel = MixChannel(inner, reveal_probability=reveal)
    matrix = reference(reveal, inner.matrix())
    np.testing.assert_allclose(channel.matrix(), matrix, rtol=0, atol=1e-15)
    outputs, rows = channel.likelihoods()
    assert outputs.tolist() == list(range(12))
    np.testing.assert_allclose(rows, matrix.T, rtol=0, atol=1e-15)
    before = inner.matrix().copy()
    for cell in range(12):
        np.testing.assert_allclose(channel.row(cell), matrix[cell], rtol=0, atol=1e-14)
        np.testing.assert_allclose(channel.likelihood(cell), matrix[:, cell], rtol=0, atol=1e-14)
        if (compact := channel.compact_likelihood(cell)) is not None:
            np.testing.assert_allclose(compact.dense(12), matrix[:, cell], rtol=0, atol=1e-14)
        assert (compact is None) == (other == "matrix")
    assert inner.matrix().tolist() == before.tolist()
    for distance in (MANHATTAN, EUCLIDEAN):
        loss_km = float(prior @ np.einsum("xz,xz->x", matrix, distance.matrix_km))
        assert channel.loss_km(prior, distance) == pytest.approx(loss_km, abs=1e-12)
        assert expected_loss_km(channel, prior, distance) == channel.loss_km(prior, distance)
    rng = np.random.default_rng(4)
    counts = np.bincount([channel.sample(2, rng) for _ in range(4000)], minlength=12) / 4000
    assert not counts[matrix[2] == 0].any()
    assert np.abs(counts - matrix[2]).max() < 5 * np.sqrt(0.25 / 4000)


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_fast_estimates_equal_those_from_all_likelihoods(data: st.DataObject) -> None:
    """Zeros, ties, one row, one cell, own and other priors, with NumPy and numba."""
    rows, cols = data.draw(SHAPES)
    grid = Grid.rectangle(rows=rows, cols=cols, width_km=0.9 * cols, height_km=1.1 * rows)
    measures = [manhattan(grid), euclidean(grid)]
    reveal, quality = data.draw(SHARES), data.draw(st.sampled_from(measures))
    prior, known = data.draw(priors(grid.n_cells)), data.draw(priors(grid.n_cells))
    epsilon = data.draw(EPSILONS)
    channels: list[Any] = [design_of(quality, epsilon_per_km=epsilon, reveal_probability=reveal)(prior)]
    channels += [coin_of(quality, reveal_probability=reveal)(prior)] if reveal < 1 else []
    for channel in channels:
        for believed in (prior, known, np.zeros(grid.n_cells), np.full(grid.n_cells, 1e-310)):
            for privacy in measures:
                expected, missing = estimates_from(channel.likelihoods(), grid.n_cells, believed, privacy)
                fast, counted = channel.estimates(believed, privacy)
                with numpy_kernels():
                    plain, plain_counted = channel.estimates(believed, privacy)
                assert fast.tolist() == plain.tolist() == expected.tolist()
                assert counted == plain_counted == missing
                assert not fast.flags.writeable


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_outputs_are_fixed_points_of_the_optimal_remap(data: st.DataObject) -> None:
    """With d_P = d_Q and the belief of the mechanism, every output with mass is its own estimate: P_AE = Q-bar."""
    rows, cols = data.draw(SHAPES)
    grid = Grid.rectangle(rows=rows, cols=cols, width_km=0.9 * cols, height_km=1.1 * rows)
    distance = data.draw(st.sampled_from([manhattan(grid), euclidean(grid)]))
    reveal, prior = data.draw(SHARES), data.draw(priors(grid.n_cells))
    for design in (
        design_of(distance, epsilon_per_km=data.draw(EPSILONS), reveal_probability=reveal),
        coin_of(distance, reveal_probability=reveal),
    ):
        channel = design(prior)
        matrix = channel.matrix()
        outputs = np.flatnonzero(prior @ matrix > 1e-280)
        posteriors = (prior[:, None] * matrix).T[outputs]
        assert distance.best_cells(posteriors).tolist() == outputs.tolist()
        loss_km = float(np.vdot(posteriors, distance.matrix_km.T[outputs]))
        error_km = float((posteriors @ distance.matrix_km).min(axis=1).sum())
        assert error_km == pytest.approx(loss_km, abs=1e-12)
        metrics = theory(channel, prior, quality=distance, privacy=distance)
        assert metrics.quality_loss_km == pytest.approx(loss_km, abs=1e-12)
        assert metrics.adversary_error_km == pytest.approx(loss_km, abs=1e-12)


@pytest.mark.usefixtures("numpy_and_numba")
def test_cells_at_distance_zero_share_their_estimate() -> None:
    prior = np.full(12, 1 / 12)
    for channel in (
        design_of(TWINS, epsilon_per_km=0.8, reveal_probability=0.4)(prior),
        coin_of(TWINS, reveal_probability=0.4)(prior),
    ):
        estimates, _ = channel.estimates(prior, TWINS)  # type: ignore[attr-defined]
        expected, _ = estimates_from(channel.likelihoods(), 12, prior, TWINS)
        assert estimates.tolist() == expected.tolist()
        assert estimates[5] == 0
    assert EUCLIDEAN.certain_cells.tolist() == MANHATTAN.certain_cells.tolist() == list(range(12))


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN], ids=["manhattan", "euclidean"])
def test_without_revealing_the_mix_is_the_exponential_mechanism(distance: Distance) -> None:
    prior = np.random.default_rng(3).dirichlet(np.ones(12))
    plain = design_of(distance, epsilon_per_km=0.5)(prior)
    assert isinstance(design_of(distance, epsilon_per_km=0.5, reveal_probability=0.0)(prior), type(plain))
    mix = design_of(distance, epsilon_per_km=0.5, reveal_probability=0.25)(prior)
    np.testing.assert_allclose(mix.matrix(), reference(0.25, plain.matrix()), rtol=0, atol=1e-15)
    whole = design_of(distance, epsilon_per_km=0.5, reveal_probability=1.0)(prior)
    assert whole.matrix().tolist() == np.eye(12).tolist()


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN], ids=["manhattan", "euclidean"])
@pytest.mark.parametrize("reveal", [0.05, 0.3, 0.9])
def test_a_budget_is_met_for_a_given_reveal_probability(distance: Distance, reveal: float) -> None:
    prior = np.random.default_rng(7).dirichlet(np.full(12, 0.6))
    largest_km = (1 - reveal) * float((prior @ distance.matrix_km).min())
    for share in (0.1, 0.5, 0.95):
        design = design_of(distance, quality_budget_km=share * largest_km, reveal_probability=reveal)
        assert expected_loss_km(design(prior), prior, distance) == pytest.approx(share * largest_km, abs=2e-5)
    above = design_of(distance, quality_budget_km=1.2 * largest_km, reveal_probability=reveal)(prior)
    assert expected_loss_km(above, prior, distance) == pytest.approx(largest_km, abs=1e-9)
    coin = coin_of(distance, reveal_probability=reveal)(prior)
    np.testing.assert_allclose(above.matrix(), coin.matrix(), rtol=0, atol=1e-12)
    exact = design_of(distance, quality_budget_km=0.0, reveal_probability=reveal)(prior)
    np.testing.assert_allclose(exact.matrix(), np.eye(12), rtol=0, atol=1e-15)


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN, TWINS], ids=["manhattan", "euclidean", "twins"])
@settings(deadline=None, max_examples=50)
@given(prior=priors(12), reveal=SHARES)
def test_the_coin_is_the_mix_at_epsilon_zero(distance: Distance, prior: FloatArray, reveal: float) -> None:
    coin = coin_of(distance, reveal_probability=reveal)(prior)
    mix = design_of(distance, epsilon_per_km=0.0, reveal_probability=reveal)(prior)
    np.testing.assert_allclose(coin.matrix(), mix.matrix(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN], ids=["manhattan", "euclidean"])
def test_the_coin_meets_its_budget_in_closed_form(distance: Distance) -> None:
    prior = np.random.default_rng(11).dirichlet(np.full(12, 0.6))
    costs = [sum(prior[x] * distance.matrix_km[x, y] for x in range(12)) for y in range(12)]
    best, nothing_km = int(np.argmin(costs)), min(costs)
    for budget_km in (0.1 * nothing_km, 0.7 * nothing_km, nothing_km, 3 * nothing_km):
        channel = coin_of(distance, quality_budget_km=budget_km)(prior)
        reveal = max(0.0, 1 - budget_km / nothing_km)
        expected = np.zeros((12, 12))
        expected[:, best] = 1 - reveal
        expected += reveal * np.eye(12)
        np.testing.assert_allclose(channel.matrix(), expected, rtol=0, atol=1e-15)
        assert expected_loss_km(channel, prior, distance) == pytest.approx(min(budget_km, nothing_km), abs=1e-12)
        metrics = theory(channel, prior, quality=distance, privacy=distance)
        assert metrics.adversary_error_km == pytest.approx(min(budget_km, nothing_km), abs=1e-12)
    assert coin_of(distance, quality_budget_km=0.0)(prior).matrix().tolist() == np.eye(12).tolist()
    certain = coin_of(distance, quality_budget_km=1.0)(np.eye(12)[3])
    assert certain.row(7).tolist() == np.eye(12)[3].tolist()


def test_the_coin_has_a_lower_entropy_than_the_exponential_mechanism_at_equal_error() -> None:
    """The warning of Oya et al., CCS 2017: equal average errors, different conditional entropies."""
    prior = np.random.default_rng(2).dirichlet(np.ones(12))
    coin, noise = (
        theory(design(prior), prior, quality=MANHATTAN, privacy=MANHATTAN)
        for design in (coin_of(MANHATTAN, quality_budget_km=0.5), design_of(MANHATTAN, quality_budget_km=0.5))
    )
    assert coin.adversary_error_km == pytest.approx(noise.adversary_error_km, abs=2e-5)
    assert coin.entropy_bits is not None
    assert noise.entropy_bits is not None
    assert coin.entropy_bits < 0.8 * noise.entropy_bits


def test_revealing_guarantees_no_epsilon() -> None:
    prior = np.full(12, 1 / 12)
    assert exact_epsilon_per_km(design_of(MANHATTAN, epsilon_per_km=0.5)(prior), MANHATTAN) < 2
    mix = design_of(MANHATTAN, epsilon_per_km=0.5, reveal_probability=0.3)(prior)
    assert exact_epsilon_per_km(mix, MANHATTAN) == np.inf


def test_expected_metrics_average_over_all_outputs() -> None:
    prior = np.random.default_rng(5).dirichlet(np.full(12, 0.5))
    known = np.random.default_rng(6).dirichlet(np.full(12, 0.5))
    channel = design_of(MANHATTAN, epsilon_per_km=0.6, reveal_probability=0.3)(prior)
    estimates, _ = channel.estimates(known, EUCLIDEAN)  # type: ignore[attr-defined]
    matrix = channel.matrix()
    for cell in range(12):
        expected = 0.0
        for output in range(12):
            costs = [float((known * matrix[:, output]) @ EUCLIDEAN.matrix_km[:, guess]) for guess in range(12)]
            expected += matrix[cell, output] * EUCLIDEAN.matrix_km[cell, int(np.argmin(costs))]
        error_km = expected_distance_km(channel.row(cell), estimates, EUCLIDEAN.row_km(cell))
        assert error_km == pytest.approx(expected, abs=1e-12)


def test_invalid_parameters_are_rejected() -> None:
    with raises_code(ValidationError, "exclusive-keys"):
        ExponentialParameters(reveal_probability=0.3, remap=False)
    assert ExponentialParameters(reveal_probability=0.0, remap=False).reveal_probability == 0
    with pytest.raises(ValidationError, match="reveal_probability"):
        ExponentialParameters(reveal_probability=1.5)
    with raises_code(ValidationError, "exclusive-keys"):
        CoinParameters(reveal_probability=0.3, quality_budget_km=1.0)
    for reveal in (0.0, -0.1, 1.1, np.nan):
        with pytest.raises(ValueError, match=f"reveal_probability .* got {reveal}"):
            MixChannel(ConstantChannel(n_cells=2, output=0), reveal_probability=reveal)
    with pytest.raises(ValueError, match=r"output .* got 2"):
        ConstantChannel(n_cells=2, output=2)


@pytest.mark.parametrize("other", OTHERS)
def test_an_output_that_only_reveals_the_cell_is_possible_nowhere_else(other: str) -> None:
    prior = np.array([0, 3, 1, 0, 5, 5, 0, 1, 0, 2, 2, 1]) / 20
    channel = MixChannel(OTHERS[other](prior), reveal_probability=0.3)
    cells, matrix = channel.only_cells(), channel.matrix()
    revealed = np.flatnonzero(np.count_nonzero(matrix, axis=0) == 1)
    assert np.flatnonzero(cells >= 0).tolist() == cells[revealed].tolist() == revealed.tolist()
    assert 0 < revealed.size < 12


STREET = Grid.rectangle(rows=210, cols=160, width_km=16.0, height_km=21.0)


@pytest.mark.parametrize("kind", ["mix", "mix euclidean", "coin"])
def test_no_matrix_is_built_on_a_large_grid(kind: str) -> None:
    """PEB learns from reports at 33,600 cells, where a matrix is an error; compact rows equal the likelihoods."""
    distance = euclidean(STREET) if "euclidean" in kind else manhattan(STREET)
    n, rng = STREET.n_cells, np.random.default_rng(0)
    design: Any = coin_of(distance) if kind == "coin" else design_of(distance, reveal_probability=0.3)
    world = World(locations=STREET, roads=None, privacy_distance=distance, quality_distance=distance)
    past = Trace("ann", np.arange(200), np.sort(rng.integers(0, n, 200)))
    belief = EstimatedProfileParameters().build(statistics([past], n_cells=n), None, world)
    store, full = CompactRows(n), []
    for time_s in range(5 if "euclidean" in kind else 12):
        channel: Channel = design(belief.prior(time_s))
        assert "_listed" not in vars(getattr(channel, "other", None))
        output = channel.sample(int(past.cells[7 * time_s]), rng)
        likelihood = channel.likelihood(output)
        compact = channel.compact_likelihood(output)  # type: ignore[attr-defined]
        assert compact.sources.nbytes < 10_000_000
        store.append(compact, likelihood)
        full.append(likelihood)
        belief.observe_compact(time_s, likelihood, lambda compact=compact: compact)  # type: ignore[attr-defined]
        assert belief.prior(time_s + 1).sum() == pytest.approx(1.0)
    rows, profile = np.array(full), rng.dirichlet(np.ones(n))
    np.testing.assert_allclose(store.fitted(profile), rows @ profile, rtol=1e-9)
    weights = rng.random(len(rows))
    np.testing.assert_allclose(store.gradient(weights), weights @ rows, rtol=1e-9, atol=1e-15)
    cells = np.array([compact.cell, 3, n - 1])
    np.testing.assert_allclose(store.columns(cells), rows[:, cells], rtol=1e-9, atol=1e-15)
    assert channel.loss_km(belief.prior(99), distance) > 0 if "euclidean" not in kind else True  # type: ignore[attr-defined]


def test_matrix_channels_can_be_mixed() -> None:
    matrix = np.random.default_rng(1).dirichlet(np.ones(12), size=12)
    prior = np.random.default_rng(2).dirichlet(np.ones(12))
    inner = RemappedChannel.optimal(MatrixChannel(matrix), prior, MANHATTAN)
    channel = MixChannel(inner, reveal_probability=0.2)
    expected, _ = estimates_from(channel.likelihoods(), 12, prior, MANHATTAN)
    assert channel.estimates(prior, MANHATTAN)[0].tolist() == expected.tolist() == list(range(12))


@settings(deadline=None)
@given(prior=priors(12), share=st.sampled_from([0.2, 0.5, 1.0]), epsilon=EPSILONS)
def test_the_adaptive_mix_reveals_a_share_of_a_coin_of_the_same_loss(
    prior: FloatArray, share: float, epsilon: float
) -> None:
    plain = design_of(MANHATTAN, epsilon_per_km=epsilon)(prior)
    mixed = design_of(MANHATTAN, epsilon_per_km=epsilon, coin_share=share)(prior)
    loss_km = expected_loss_km(plain, prior, MANHATTAN)
    nothing_km = MANHATTAN.costs_km(prior).min()
    reveal = share if loss_km <= 1e-5 else share * max(0.0, 1 - loss_km / nothing_km)
    np.testing.assert_allclose(mixed.matrix(), reference(reveal, plain.matrix()), atol=1e-12)
    if loss_km > 1e-5:
        coin = coin_of(MANHATTAN, quality_budget_km=loss_km)(prior)
        assert reference(1 - loss_km / nothing_km, np.eye(12)[[MANHATTAN.best_cell(prior)] * 12]) == pytest.approx(
            coin.matrix(), abs=1e-9
        )


@pytest.mark.parametrize("budget_km", [0.1, 0.5, 0.9])
def test_the_adaptive_mix_meets_a_budget(budget_km: float) -> None:
    prior = np.random.default_rng(4).dirichlet(np.ones(12))
    assert MANHATTAN.costs_km(prior).min() > budget_km
    for share in (0.3, 1.0):
        channel = design_of(MANHATTAN, quality_budget_km=budget_km, coin_share=share)(prior)
        assert expected_loss_km(channel, prior, MANHATTAN) == pytest.approx(budget_km, abs=1e-4)
        assert isinstance(channel, MixChannel)


def test_the_coin_share_excludes_other_keys() -> None:
    for parameters in ({"remap": False}, {"reveal_probability": 0.1}):
        with raises_code(ValidationError, "exclusive-keys"):
            ExponentialParameters.model_validate({"coin_share": 0.5, **parameters})
