"""Maximum likelihood solvers compared with closed forms, an independent optimiser and each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, minimize

from sim.inference.em import em
from sim.inference.estimate import Estimate, certified_gap
from sim.inference.newton import constrained_newton
from sim.interfaces import FloatArray
from tests.inference.problems import PROBLEMS, every_problem, exponential_rows

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

SOLVERS: list[Callable[..., Estimate]] = [em, constrained_newton]
both = pytest.mark.parametrize("solve", SOLVERS)


@both
@every_problem
def test_the_requested_gap_is_reached_and_reported(solve: Callable[..., Estimate], rows: FloatArray) -> None:
    estimate = solve(rows, gap=1e-6)
    assert estimate.gap <= 1e-6
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile), abs=1e-12)
    assert estimate.profile.sum() == pytest.approx(1, abs=1e-12)
    assert estimate.profile.min() >= 0
    assert estimate.log_likelihood == pytest.approx(np.log(rows @ estimate.profile).mean(), abs=1e-12)


@every_problem
def test_newton_and_em_reach_the_same_fit(rows: FloatArray) -> None:
    fast, plain = constrained_newton(rows, gap=1e-9), em(rows, gap=1e-9)
    assert abs(fast.log_likelihood - plain.log_likelihood) <= 1e-9
    assert rows @ fast.profile == pytest.approx(rows @ plain.profile, rel=2e-3)


@both
def test_reporting_the_true_cells_gives_the_histogram(solve: Callable[..., Estimate]) -> None:
    cells = [0, 2, 2, 3, 3, 3, 2, 2]
    assert solve(np.eye(5)[cells]).profile == pytest.approx([1 / 8, 0, 4 / 8, 3 / 8, 0], abs=1e-6)


@both
def test_the_closed_form_of_two_cells(solve: Callable[..., Estimate]) -> None:
    """Check pi_0 = (h - q) / (p - q), with p = P(report 0 | cell 0), q = P(report 0 | cell 1) and share h of zeros."""
    p, q, zeros, ones = 0.8, 0.3, 11, 9
    rows = np.array([[p, q]] * zeros + [[1 - p, 1 - q]] * ones)
    expected = (zeros / (zeros + ones) - q) / (p - q)
    assert solve(rows, gap=1e-10).profile[0] == pytest.approx(expected, abs=1e-4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_an_independent_optimiser_finds_nothing_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.random((8, 4)) + 0.01

    def loss(pi: FloatArray) -> float:
        return float(-np.log(rows @ pi).mean())

    optimum = minimize(
        loss,
        [0.25] * 4,
        bounds=Bounds(0.0, 1.0),
        constraints=LinearConstraint(np.ones((1, 4)), 1.0, 1.0),
        method="SLSQP",
        tol=1e-12,
    )
    for solve in SOLVERS:
        assert solve(rows).log_likelihood == pytest.approx(-optimum.fun, abs=2e-6)


def test_the_gap_bounds_the_loss() -> None:
    rows = PROBLEMS["exponential 1"]
    best = constrained_newton(rows, gap=1e-11).log_likelihood
    rng = np.random.default_rng(0)
    for profile in rng.dirichlet(np.ones(rows.shape[1]), size=50):
        loss = best - np.log(rows @ profile).mean()
        assert 0 < loss <= certified_gap(rows, profile)


@both
def test_early_stopping_reports_the_gap_reached(solve: Callable[..., Estimate]) -> None:
    rows = PROBLEMS["exponential 0.3"]
    estimate = solve(rows, gap=1e-9, max_iterations=1)
    assert estimate.iterations == 1
    assert estimate.gap > 1e-9
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile), rel=1e-9)


@both
def test_a_cell_with_zero_start_mass_can_gain_mass(solve: Callable[..., Estimate]) -> None:
    rows = exponential_rows(40, 4, 4, 1.0)
    start = np.zeros(16)
    start[0] = 1.0
    estimate = solve(rows, start=start)
    assert estimate.gap <= 1e-6
    assert estimate.profile[1:].sum() > 0.1


@both
def test_equal_columns_split_their_mass_as_the_start_does(solve: Callable[..., Estimate]) -> None:
    rows = np.array([[0.6, 0.2, 0.2, 0.2], [0.1, 0.5, 0.5, 0.1], [0.1, 0.5, 0.5, 0.1]])
    shared = solve(rows, start=np.array([0.3, 0.6, 0.1, 0.0])).profile
    assert shared[1] / shared[2] == pytest.approx(6)
    even = solve(rows, start=np.array([0.9, 0.0, 0.0, 0.1])).profile
    assert even[1] == pytest.approx(even[2])
    assert even[1] > 0.1


@both
@pytest.mark.parametrize("name", ["exponential 1", "hiding 0.4"])
def test_weights_are_equivalent_to_repeated_rows(solve: Callable[..., Estimate], name: str) -> None:
    rows = PROBLEMS[name][:10]
    counts = np.array([3, 1, 0, 2, 1, 5, 1, 1, 0, 4])
    weighted = solve(rows, weights=counts.astype(float), gap=1e-9)
    repeated = solve(np.repeat(rows, counts, axis=0), gap=1e-9)
    assert weighted.log_likelihood == pytest.approx(repeated.log_likelihood, abs=2e-9)
    positive = rows[counts > 0]
    assert positive @ weighted.profile == pytest.approx(positive @ repeated.profile, rel=1e-3)
    assert certified_gap(rows, weighted.profile, counts.astype(float)) <= 1e-9


@both
def test_a_row_of_zeros_raises_an_error(solve: Callable[..., Estimate]) -> None:
    with pytest.raises(ValueError, match=r"^profile\b.* got 0\.0"):
        solve(np.array([[0.5, 0.5], [0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"^likelihoods\b"):
        solve(np.empty((0, 3)))


@both
def test_negative_weights_are_rejected(solve: Callable[..., Estimate]) -> None:
    with pytest.raises(ValueError, match=r"^weights\b.* \[0, inf\), got -1"):
        solve(np.eye(2), weights=np.array([2.0, -1.0]))
