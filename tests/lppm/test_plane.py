"""Remap to the best point of the plane: by enumeration, and as the optimal report."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.interfaces import FloatArray
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import location_hiding
from sim.lppm.channels.plane import PlaneRemappedChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.parameters import WorldSize
from sim.world import Distance, LocationSet, euclidean, manhattan
from tests.support import MakeScenario, raises_code

RNG = np.random.default_rng(4)
SCATTERED = LocationSet(
    kind="points", x_km=RNG.uniform(0, 5, 12), y_km=RNG.uniform(0, 4, 12), width_km=5.0, height_km=4.0
)
METRES = 1.5e-3
"""Rounding to metres moves a point by at most half a diagonal, and a sum of distances by as much."""


def loss_km(matrix: FloatArray, prior: FloatArray, losses: FloatArray) -> float:
    return float(np.einsum("x,xz,xz->", prior, matrix, losses))


@pytest.mark.parametrize("kind", ["euclidean", "manhattan"])
@settings(deadline=None, max_examples=40)
@given(st.lists(st.one_of(st.just(0.0), st.floats(0.01, 1)), min_size=12, max_size=12).filter(any), st.floats(0, 5))
def test_no_report_loses_less(kind: str, weights: list[float], epsilon: float) -> None:
    """The loss is at most that of the remap to locations, and that of any other table of points."""
    distance: Distance = euclidean(SCATTERED) if kind == "euclidean" else manhattan(SCATTERED)
    prior = np.array(weights) / sum(weights)
    base = exponential(distance, epsilon)
    channel = PlaneRemappedChannel(base, prior, locations=SCATTERED, distance=distance)
    to_locations = RemappedChannel.optimal(base, prior, distance)
    assert channel.loss_km(prior) <= to_locations.loss_km(prior, distance) + METRES
    grid = np.stack(np.meshgrid(np.linspace(0, 5, 26), np.linspace(0, 4, 21)), axis=-1).reshape(-1, 2)
    east, north = grid[:, 0] - SCATTERED.x_km[:, None], grid[:, 1] - SCATTERED.y_km[:, None]
    away = np.hypot(east, north) if kind == "euclidean" else np.abs(east) + np.abs(north)
    joint = prior[:, None] * base.matrix()
    assert channel.loss_km(prior) <= (joint.T @ away).min(axis=1).sum() + METRES


def test_likelihoods_are_those_of_the_outputs_that_become_the_point() -> None:
    distance = euclidean(SCATTERED)
    prior = np.zeros(12)
    prior[[2, 5, 6]] = 0.8, 0.1, 0.1  # most outputs become location 2
    base = location_hiding(12, 0.6)
    channel = PlaneRemappedChannel(base, prior, locations=SCATTERED, distance=distance)
    rng = np.random.default_rng(1)
    draws = np.array([[channel.sample(cell, rng) for _ in range(4000)] for cell in (2, 7)])
    reports, counts = np.unique(draws, return_counts=True)
    assert 1 < reports.size < 12
    total = np.zeros(12)
    for report in reports.tolist():
        likelihood = channel.likelihood(report)
        total += likelihood
        for place, cell in enumerate((2, 7)):
            share = (draws[place] == report).mean()
            assert share == pytest.approx(likelihood[cell], abs=0.04)
    np.testing.assert_allclose(total, 1.0, rtol=0, atol=1e-12)
    assert counts.sum() == 8000
    assert not channel.likelihood(channel.space.output(99.0, 99.0)).any()


def test_expected_losses_are_sums_over_the_reports() -> None:
    distance, prior = euclidean(SCATTERED), np.full(12, 1 / 12)
    channel = PlaneRemappedChannel(exponential(distance, 1.0), prior, locations=SCATTERED, distance=distance)
    rng = np.random.default_rng(2)
    reports = {channel.sample(cell, rng) for cell in range(12) for _ in range(300)}
    for cell in (0, 11):
        exact = sum(channel.likelihood(report)[cell] * channel.loss_of_km(cell, report) for report in reports)
        assert channel.expected_loss_of_km(cell) == pytest.approx(exact, rel=1e-3)


def test_budgets_hold_on_the_plane(make_scenario: MakeScenario) -> None:
    design = {"kind": "exponential", "quality_budget_km": 0.7, "remap": "plane"}
    scenario = make_scenario(lppms=[{"kind": "SP-Exp", "design": design}], world={"quality_distance": "euclidean"})
    world = scenario.build_world()
    prior = np.full(world.n_cells, 1 / world.n_cells)
    channel = scenario.lppms[0].design.build(world)(prior)
    assert isinstance(channel, PlaneRemappedChannel)
    assert channel.loss_km(prior) == pytest.approx(0.7, abs=1e-4)


def test_distances_that_are_not_defined_on_the_plane_are_refused() -> None:
    with raises_code(InvalidValue, "needs-plane"):
        WorldSize(n_cells=4, quality="road", privacy="road").require_plane()
