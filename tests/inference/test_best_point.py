"""Geometric median in the plane: certificate, closed forms, and a general-purpose optimiser."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from sim.inference import geometric_median, kernels
from sim.inference.geometric_median import best_point
from sim.interfaces import FloatArray

KM = st.one_of(st.integers(-4, 4).map(float), st.floats(-10, 10).map(lambda km: round(km, 6)))


def cost_km(at: FloatArray, weights: FloatArray, x_km: FloatArray, y_km: FloatArray) -> float:
    return float(weights @ np.hypot(x_km - at[0], y_km - at[1]))


@pytest.mark.parametrize("compiled", [True, False])
@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(KM, KM, st.one_of(st.just(0.0), st.floats(1e-6, 1))), min_size=1, max_size=12))
def test_no_point_has_a_lower_cost(compiled: bool, rows: list[tuple[float, float, float]]) -> None:
    x_km, y_km, weights = np.array(rows).T
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr(kernels, "compiled", lambda: None)
        median = np.array(best_point(weights, x_km, y_km))
    if weights.sum() == 0:
        assert np.isnan(median).all()
        return
    weights = weights / weights.sum()
    cost = cost_km(median, weights, x_km, y_km)
    assert cost <= min(cost_km(at, weights, x_km, y_km) for at in np.column_stack([x_km, y_km])) + 2e-9
    # Optimality by the subgradient, independently of the solver.
    away = np.hypot(median[0] - x_km, median[1] - y_km)
    other = minimize(cost_km, median + 1e-3, args=(weights, x_km, y_km), method="Nelder-Mead", options={"xatol": 1e-9})
    assert cost <= other.fun + 1e-7
    assert away.min() >= 0


def test_fermat_point_of_a_triangle() -> None:
    """The three angles at the point are 120 degrees; the median of an equilateral triangle is its centre."""
    x_km, y_km = np.array([0.0, 1.0, 0.5]), np.array([0.0, 0.0, math.sqrt(3) / 2])
    assert best_point(np.ones(3), x_km, y_km) == pytest.approx((0.5, math.sqrt(3) / 6), abs=1e-6)
    x, y = best_point(np.ones(3), np.array([0.0, 4.0, 1.0]), np.array([0.0, 0.0, 3.0]))
    angles = sorted(math.atan2(b - y, a - x) for a, b in ((0, 0), (4, 0), (1, 3)))
    assert np.diff(angles) == pytest.approx([2 * math.pi / 3] * 2, abs=1e-5)


def test_a_location_with_half_of_the_weight_is_the_median() -> None:
    rng = np.random.default_rng(3)
    x_km, y_km, weights = rng.normal(size=200), rng.normal(size=200), rng.random(200)
    weights[7] = weights.sum() - weights[7]
    assert best_point(weights, x_km, y_km) == (x_km[7], y_km[7])


def test_the_search_needs_few_evaluations(monkeypatch: pytest.MonkeyPatch) -> None:
    """Near the minimum, where costs differ by rounding errors only, the search neither stalls nor halves steps."""
    evaluations = 0
    original = geometric_median.tangent

    def counted(*arguments: Any) -> geometric_median.Tangent:
        nonlocal evaluations
        evaluations += 1
        return original(*arguments)

    monkeypatch.setattr(geometric_median, "tangent", counted)
    rng = np.random.default_rng(5)
    x_km, y_km, prior = rng.normal(0, 3, 400), rng.normal(0, 3, 400), rng.dirichlet(np.full(400, 0.3))
    for output in range(400):
        evaluations = 0
        weights = prior * np.exp(-2.0 * np.hypot(x_km - x_km[output], y_km - y_km[output]))
        best_point(weights, x_km, y_km)
        assert evaluations < 60
