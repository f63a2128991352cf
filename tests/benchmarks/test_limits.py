"""Limits of rows are computed correctly, and imprecise results do not count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import limits, mechanisms, queries
from benchmarks.people import DESIGNS, City
from sim.inference.bayes import decide_many
from sim.interfaces import FloatArray
from tests.benchmarks.support import TINY


@pytest.mark.parametrize("name", DESIGNS)
def test_the_cost_of_the_textbook_remap_is_a_sum_over_cells(name: str) -> None:
    city = City((3, 4))
    prior = np.random.default_rng(1).dirichlet(np.ones(12))
    channel, distance_km = city.base_matrix(name), city.distance.matrix_km
    np.testing.assert_allclose(channel.sum(axis=1), 1)
    cost = limits.textbook_cost(channel, prior, distance_km)
    output, guess = 7, 2
    assert cost[output, guess] == pytest.approx(
        sum(prior[x] * channel[x, output] * distance_km[x, guess] for x in range(12))
    )
    table = limits.textbook_remap(channel, prior, distance_km)
    ours = decide_many((prior[:, None] * channel).T, distance_km, None)
    each = np.arange(12)
    np.testing.assert_allclose(cost[each, table], cost[each, ours], atol=1e-15)


def test_a_remap_that_is_not_optimal_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def worse(channel: FloatArray, prior: FloatArray, distance_km: FloatArray) -> Any:
        return limits.textbook_cost(channel, prior, distance_km).argmax(axis=1)

    assert mechanisms.measure_remap(TINY).fault == ""
    monkeypatch.setattr(limits, "textbook_remap", worse)
    assert "not optimal" in mechanisms.measure_remap(TINY).fault


def test_an_estimate_with_a_larger_gap_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert queries.measure_peb(TINY).fault == ""
    monkeypatch.setattr(queries, "GAP", 0.0)
    assert "gap" in queries.measure_peb(TINY).fault


def test_a_gradient_has_one_value_per_cell() -> None:
    gradient = limits.gradient_pass(7, 5)()
    assert gradient.shape == (5,)
    assert gradient.mean() == pytest.approx(1)  # at the uniform profile the gradient's mean under it is 1
    assert limits.prediction(5)().shape == (5,)
