"""Mode of the posterior compared with closed forms, an independent optimiser and EM."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, minimize

from sim.inference.em import em
from sim.inference.estimate import Estimate, certified_gap
from sim.inference.groups import equal_columns
from sim.inference.newton import constrained_newton
from sim.inference.posterior_mode import posterior_mode
from sim.interfaces import FloatArray
from tests.inference.problems import every_problem

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

MODES: list[Callable[..., Estimate]] = [em, posterior_mode]
both_modes = pytest.mark.parametrize("solve", MODES)


@both_modes
def test_the_mode_for_true_cells_is_counts_plus_pseudo_counts(solve: Callable[..., Estimate]) -> None:
    counts, pseudo = np.array([1.0, 0.0, 4.0, 3.0]), np.array([0.4, 0.3, 0.2, 2.1])
    expected = (counts + pseudo) / 11
    rows = np.eye(4)[[0, 2, 2, 3, 3, 3, 2, 2]]
    assert solve(rows, pseudo_counts=pseudo, gap=1e-9).profile == pytest.approx(expected, abs=1e-7)
    weighted = solve(np.eye(4), weights=counts, pseudo_counts=pseudo, gap=1e-9)
    assert weighted.profile == pytest.approx(expected, abs=1e-7)
    assert weighted.log_likelihood == pytest.approx(float(counts @ np.log(expected)) / 8, abs=1e-7)


@both_modes
@every_problem
@pytest.mark.parametrize("amount", [1e-3, 1.0, 50.0])
def test_the_mode_is_certified(solve: Callable[..., Estimate], rows: FloatArray, amount: float) -> None:
    n_cells = rows.shape[1]
    pseudo = amount * np.random.default_rng(n_cells).dirichlet(np.full(n_cells, 0.3)) + 1e-4 * amount
    estimate = solve(rows, pseudo_counts=pseudo, gap=1e-5)
    assert estimate.gap <= 1e-5
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile, pseudo_counts=pseudo), abs=1e-12)
    total = len(rows) + pseudo.sum()
    slopes = (rows / (rows @ estimate.profile)[:, None]).sum(axis=0) + pseudo / estimate.profile
    assert estimate.gap == pytest.approx(slopes.max() / total - 1, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.1, 1.0, 10.0]))
def test_an_independent_optimiser_finds_no_better_mode(seed: int, amount: float) -> None:
    rng = np.random.default_rng(seed)
    rows, weights = rng.random((8, 4)) + 0.01, rng.random(8) + 0.1
    pseudo = amount * (rng.dirichlet(np.ones(4)) + 0.01)
    total = weights.sum() + pseudo.sum()

    def value(pi: FloatArray) -> float:
        return float(weights @ np.log(rows @ pi) + pseudo @ np.log(pi)) / float(total)

    def loss(pi: FloatArray) -> float:
        return -value(pi)

    optimum = minimize(
        loss,
        [0.25] * 4,
        bounds=Bounds(1e-9, 1.0),
        constraints=LinearConstraint(np.ones((1, 4)), 1.0, 1.0),
        method="SLSQP",
        tol=1e-12,
    )
    for solve in MODES:
        estimate = solve(rows, weights=weights, pseudo_counts=pseudo)
        assert value(estimate.profile) >= -optimum.fun - 2e-6


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 30),
    st.integers(1, 30),
    st.sampled_from([0.0, 1.0, 20.0, 100.0]),
    st.sampled_from([1e-2, 1.0, 100.0]),
)
def test_no_profile_beats_a_mode_by_more_than_its_gap(
    seed: int, count: int, n: int, spread: float, amount: float
) -> None:
    rng = np.random.default_rng(seed)
    rows = np.exp(-spread * rng.random((count, n))) * (rng.random((count, n)) < 0.7)
    rows[np.arange(count), rng.integers(0, n, count)] = 1.0
    weights = np.power(0.8, np.arange(float(count)))
    pseudo = amount * (0.999 * rng.dirichlet(np.full(n, 0.2)) + 0.001 / n)

    def value(pi: FloatArray) -> float:
        return float(weights @ np.log(rows @ pi) + pseudo @ np.log(pi)) / float(weights.sum() + pseudo.sum())

    for limit, start in ((200, None), (200, np.eye(n)[rng.integers(n)]), (2, rng.dirichlet(np.ones(n)))):
        mode = posterior_mode(rows, weights=weights, pseudo_counts=pseudo, start=start, max_iterations=limit)
        assert mode.gap <= 1e-6 or limit == 2
        assert mode.iterations <= limit
        others = [rng.dirichlet(np.ones(n)), posterior_mode(rows, weights=weights, pseudo_counts=pseudo).profile]
        for other in (np.maximum(other, 1e-300) for other in others):
            assert value(other) <= value(mode.profile) + mode.gap + 1e-9


@every_problem
def test_with_a_negligible_prior_the_mode_has_maximum_likelihood(rows: FloatArray) -> None:
    pseudo = np.full(rows.shape[1], 1e-7 / rows.shape[1])
    mode, likeliest = posterior_mode(rows, pseudo_counts=pseudo), constrained_newton(rows)
    assert mode.log_likelihood == pytest.approx(likeliest.log_likelihood, abs=5e-6)


@every_problem
def test_equal_columns_split_their_mass_as_their_pseudo_counts(rows: FloatArray) -> None:
    doubled = np.repeat(rows, 2, axis=1)
    pseudo = np.random.default_rng(5).random((1, doubled.shape[1]))[0] + 0.01
    for start in (None, np.full(len(pseudo), 1 / len(pseudo))):
        merged = posterior_mode(doubled, pseudo_counts=pseudo, groups=equal_columns(doubled), start=start, gap=1e-9)
        apart = posterior_mode(doubled, pseudo_counts=pseudo, gap=1e-9)
        assert merged.profile == pytest.approx(apart.profile, abs=1e-6)
        assert merged.gap == pytest.approx(certified_gap(doubled, merged.profile, pseudo_counts=pseudo), abs=1e-12)
        assert merged.profile[::2] * pseudo[1::2] == pytest.approx(merged.profile[1::2] * pseudo[::2])


@both_modes
def test_without_reports_the_mode_is_the_prior(solve: Callable[..., Estimate]) -> None:
    assert solve(np.empty((0, 3)), pseudo_counts=np.array([1.0, 2.0, 1.0])).profile == pytest.approx([0.25, 0.5, 0.25])


@pytest.mark.parametrize(
    ("pseudo", "message"),
    [
        ([0.0, 1.0, 1.0], r"^pseudo_counts\b.* above 0 .* got 0\.0"),
        ([-1.0, 1.0, 1.0], r"\bpseudo_counts\b.* \[0, inf\), got -1\.0"),
        ([np.inf, 1.0, 1.0], r"^total weight\b.* \(0, inf\), got inf"),
    ],
)
def test_invalid_pseudo_counts_are_rejected(pseudo: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        posterior_mode(np.eye(3), pseudo_counts=np.array(pseudo))


def test_a_profile_must_have_mass_wherever_the_prior_has() -> None:
    with pytest.raises(ValueError, match=r"^profile\b.* pseudo-count, got 0\.0"):
        certified_gap(np.ones((1, 2)), np.array([1.0, 0.0]), pseudo_counts=np.array([1.0, 1.0]))
