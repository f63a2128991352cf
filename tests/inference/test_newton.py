"""Constrained Newton method: certificates from any start, warm starts, stalls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.inference import newton
from sim.inference.estimate import certified_gap
from sim.inference.likelihoods import Likelihoods
from sim.inference.newton import constrained_newton
from tests.inference.problems import PROBLEMS, exponential_rows

pytestmark = pytest.mark.usefixtures("numpy_and_numba")


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 30), st.integers(1, 30), st.sampled_from([0.0, 1.0, 20.0, 100.0]))
def test_newton_certifies_badly_scaled_problems_from_any_start(seed: int, count: int, n: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    rows = np.exp(-spread * rng.random((count, n))) * (rng.random((count, n)) < 0.7)
    rows[np.arange(count), rng.integers(0, n, count)] = 1.0
    for start in (None, np.eye(n)[rng.integers(n)], rng.dirichlet(np.ones(n))):
        estimate = constrained_newton(rows, start=start, weights=np.power(0.8, np.arange(float(count))))
        assert estimate.gap <= 1e-6
        assert np.isfinite(estimate.profile).all()


def test_a_warm_start_may_make_a_new_report_impossible() -> None:
    rows = np.eye(4)[[0, 0, 0, 3]]
    estimate = constrained_newton(rows, start=np.array([1.0, 0, 0, 0]))
    assert estimate.profile == pytest.approx([0.75, 0, 0, 0.25])


def test_proportions_take_precedence_over_the_start() -> None:
    rows = np.array([[0.1, 0.5, 0.5], [0.2, 0.1, 0.1]])
    split = constrained_newton(rows, start=np.array([0.0, 1.0, 0.0]), proportions=np.array([0.5, 0.1, 0.4])).profile
    assert split[2] / split[1] == pytest.approx(4)


def test_updating_row_by_row_gives_the_same_fit_as_all_rows_together() -> None:
    rows = exponential_rows(40, 5, 5, 1.0)
    seen, warm = Likelihoods(25), None
    for count, row in enumerate(rows, start=1):
        seen.append(row)
        warm = constrained_newton(seen.rows, start=warm, groups=seen.groups, gap=1e-9).profile
        cold = constrained_newton(rows[:count], gap=1e-9).profile
        assert rows[:count] @ warm == pytest.approx(rows[:count] @ cold, rel=1e-3)


def test_the_least_squares_step_equals_the_closed_form_if_that_is_positive() -> None:
    model = np.random.default_rng(0).normal(size=(500, 6)) - 1
    level = np.linalg.solve(model.T @ model, np.ones(6))
    assert level.min() > 0
    assert newton._simplex_minimiser(model) == pytest.approx(level / level.sum(), abs=1e-12)


def test_em_continues_after_newton_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = PROBLEMS["exponential 1"]
    monkeypatch.setattr(newton, "newton_step", lambda *_: None)
    estimate = constrained_newton(rows)
    assert estimate.gap <= 1e-6
    assert estimate.gap == pytest.approx(certified_gap(rows, estimate.profile), abs=1e-12)


def test_weighted_newton_converges_quadratically() -> None:
    """Count iterations: without the weights in its second-order model, the method would converge more slowly."""
    weights = np.power(0.9, np.arange(60.0))
    for name in ("exponential 1", "exponential 2", "hiding 0.4"):
        estimate = constrained_newton(PROBLEMS[name], weights=weights, gap=1e-10)
        assert estimate.gap <= 1e-10
        assert estimate.iterations <= 15
