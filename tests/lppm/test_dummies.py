"""Dummies compared with enumeration of all sets: probabilities, samples and posteriors."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.lppm.designs import dummies
from sim.lppm.designs.dummies import Dummies, DummiesChannel, DummiesParameters, Members, log_symmetric
from sim.lppm.outputs import Sets
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.lppm.own_model import error_km, optimal_error_km
from tests.support import made, raises_code

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
N = GRID.n_cells


def some_prior(seed: int) -> FloatArray:
    return np.random.default_rng(seed).dirichlet(np.full(N, 0.7))


def enumerated(weights: FloatArray, k: int) -> FloatArray:
    """Return f[cell, set] by its definition: products over dummies, normalised over all sets of dummies."""
    space = Sets(N, k + 1)
    matrix = np.zeros((N, space.count))
    for cell in range(N):
        for others in combinations([other for other in range(N) if other != cell], k):
            matrix[cell, space.output([cell, *others])] = math.prod(weights[list(others)])
    normalised: FloatArray = matrix / matrix.sum(axis=1, keepdims=True)
    return normalised


@pytest.mark.parametrize("k", range(N))
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000))
def test_probability_of_a_set_is_proportional_to_the_product_of_weights(k: int, seed: int) -> None:
    prior = some_prior(seed)
    for source, weights in (("belief", np.maximum(prior, 1e-3 / N)), ("uniform", np.full(N, 1 / N))):
        channel = Dummies(DummiesParameters(dummies=k, dummies_from=source), n_cells=N)(prior)  # type: ignore[arg-type]
        np.testing.assert_allclose(channel.matrix(), enumerated(weights, k), rtol=1e-9, atol=0)
        assert channel.n_outputs == math.comb(N, k + 1)


def test_symmetric_polynomials_are_accurate() -> None:
    weights = [1.0, 1e-12, 0.5, 1e-9, 1e-15, 0.25, 1e-3, 1e-6]
    sums = np.exp(log_symmetric(np.log(weights), 6))
    for count in range(len(weights) + 1):
        for degree in range(7):
            exact = sum(math.prod(map(Fraction, some)) for some in combinations(weights[:count], degree))
            assert sums[count, degree] == pytest.approx(float(exact), rel=1e-12, abs=0)
    assert math.exp(log_symmetric(np.zeros(40), 20)[-1, -1]) == pytest.approx(math.comb(40, 20), rel=1e-12)


@pytest.mark.parametrize("k", [1, 3])
def test_sample_frequencies_match_the_row(k: int) -> None:
    channel = Dummies(DummiesParameters(dummies=k), n_cells=N)(some_prior(5))
    rng, draws = np.random.default_rng(1), 3000
    for cell in (0, 3, 5):
        row = channel.row(cell)
        drawn = np.bincount([channel.sample(cell, rng) for _ in range(draws)], minlength=channel.n_outputs) / draws
        assert not drawn[row == 0].any()
        assert (np.abs(drawn - row) <= 5 * np.sqrt(row * (1 - row) / draws) + 1 / draws).all()


def test_uniform_dummies_leave_the_prior_restricted_to_the_set() -> None:
    prior = some_prior(2)
    channel: Any = Dummies(DummiesParameters(dummies=2, dummies_from="uniform"), n_cells=N)(prior)
    for output in range(channel.n_outputs):
        cells = list(channel.space.cells(output))
        posterior = prior * channel.likelihood(output)
        np.testing.assert_allclose(posterior[cells] / posterior.sum(), prior[cells] / prior[cells].sum(), rtol=1e-9)
        assert np.flatnonzero(posterior).tolist() == cells


def test_dummies_from_the_prior_leave_a_nearly_uniform_posterior() -> None:
    """p(x | S) is proportional to 1 / e_k(pi without x): with one dummy, to 1 / (1 - pi(x))."""
    prior = np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.1])
    channel: Any = Dummies(DummiesParameters(dummies=1), n_cells=N)(prior)
    for output in range(channel.n_outputs):
        cells = list(channel.space.cells(output))
        posterior = prior * channel.likelihood(output)
        expected = 1 / (1 - prior[cells])
        np.testing.assert_allclose(posterior[cells] / posterior.sum(), expected / expected.sum(), rtol=1e-9)
        assert np.abs(posterior[cells] / posterior.sum() - 0.5).max() < 0.07


@pytest.mark.parametrize("source", ["belief", "uniform"])
@pytest.mark.parametrize("listed", [True, False])
def test_optimal_attack_attains_the_minimum_error(source: Any, listed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    prior, distance = some_prior(7), manhattan(GRID)
    matrix = Dummies(DummiesParameters(dummies=2, dummies_from=source), n_cells=N)(prior).matrix()
    if not listed:
        monkeypatch.setattr(dummies, "LISTED", 0)
    channel = Dummies(DummiesParameters(dummies=2, dummies_from=source), n_cells=N)(prior)
    least_km = optimal_error_km(matrix, prior, distance)
    assert error_km(channel, prior, distance, matrix) == pytest.approx(least_km, abs=1e-9)


def test_too_many_sets_cannot_be_enumerated() -> None:
    channel: Any = Dummies(DummiesParameters(dummies=7), n_cells=250)(np.full(250, 1 / 250))
    assert channel.countless
    output = channel.sample(17, np.random.default_rng(0))
    cells = channel.space.cells(output)
    assert 17 in cells
    expected = np.zeros(250)
    expected[list(cells)] = 1 / math.comb(249, 7)
    np.testing.assert_allclose(channel.likelihood(output), expected, rtol=1e-9, atol=0)
    for ask in (channel.matrix, channel.likelihoods, lambda: channel.row(0)):
        with raises_code(InvalidValue, "too-many-outputs") as error:
            ask()
        assert "8 of 250 cells" in str(error.value)


def test_quality_loss_is_zero() -> None:
    channel: Any = Dummies(DummiesParameters(dummies=2), n_cells=N)(some_prior(1))
    assert channel.loss_of_km(3, 0) == channel.expected_loss_of_km(3) == 0


@pytest.mark.parametrize(
    ("parameters", "pattern"),
    [
        ({"dummies": -1}, r"(?s)dummies.*input_value=-1"),
        ({"dummies_from": "somewhere"}, r"(?s)dummies_from.*somewhere"),
    ],
)
def test_invalid_parameters_are_rejected(parameters: dict[str, Any], pattern: str) -> None:
    with pytest.raises(ValidationError, match=pattern):
        made(Dummies, n_cells=N, **parameters)


def test_more_dummies_than_other_cells_are_rejected() -> None:
    with raises_code(InvalidValue, "too-many-dummies") as error:
        made(Dummies, n_cells=N, dummies=N)
    assert f"[0, {N - 1}]" in str(error.value)
    assert str(error.value).endswith(f"got {N}")


def test_weights_must_be_positive() -> None:
    with pytest.raises(ValueError, match=r"^weights\b.*\(6,\), 0.0$"):
        DummiesChannel(np.eye(6)[0], members=Members(Sets(6, 2)))
