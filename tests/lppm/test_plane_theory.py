"""Metrics of remaps to the plane: by enumeration of the joint distribution, closed forms, and exact sums of noise."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from sim.inference.geometric_median import best_point
from sim.interfaces import FloatArray
from sim.lppm import plane_theory as module
from sim.lppm.channels.exponential import exponential
from sim.lppm.plane_theory import (
    Noise,
    PlaneOutput,
    coin_theory,
    exponential_outputs,
    laplace,
    plane_theory,
    posterior_metrics,
    sampled_plane_theory,
)
from sim.lppm.theory import conditional_entropy_bits, theory
from sim.world import LocationSet, euclidean

RNG = np.random.default_rng(7)
X_KM, Y_KM = RNG.uniform(0, 5, 9), RNG.uniform(0, 4, 9)
PRIOR = RNG.dirichlet(np.full(9, 4.0))
PRIOR[3] = 0.0
PRIOR /= PRIOR.sum()
SCATTERED = LocationSet(kind="points", x_km=X_KM, y_km=Y_KM, width_km=5.0, height_km=4.0)


def lowest_cost_km(weights: FloatArray) -> float:
    """Return the lowest expected distance of any point, by a general-purpose optimiser from the heaviest locations."""

    def cost_km(at: FloatArray) -> float:
        return float(weights @ np.hypot(X_KM - at[0], Y_KM - at[1]))

    starts = np.column_stack([X_KM, Y_KM])[weights.argsort()[-3:]]
    return min(
        float(minimize(cost_km, at, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-13}).fun)
        for at in starts
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
@pytest.mark.parametrize("block_numbers", [1, 20, 2**20])
def test_exponential_by_enumeration(epsilon: float, block_numbers: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_BLOCK_NUMBERS", block_numbers)
    metrics = plane_theory(exponential_outputs(X_KM, Y_KM, epsilon_per_km=epsilon), PRIOR, X_KM, Y_KM)
    distance = euclidean(SCATTERED)
    base = exponential(distance, epsilon)
    joint = (PRIOR[:, None] * base.matrix()).T
    expected = theory(base, PRIOR, quality=distance, privacy=distance)
    assert metrics.loss_without_remap_km == pytest.approx(expected.quality_loss_km, rel=1e-12)
    assert metrics.loss_km == pytest.approx(sum(map(lowest_cost_km, joint)), rel=1e-8)
    assert metrics.entropy_bits == pytest.approx(conditional_entropy_bits(joint), rel=1e-12)
    assert expected.adversary_error_km is not None
    assert metrics.loss_km <= expected.adversary_error_km * (1 + 1e-12), (
        "estimates in the plane are at least as good as locations"
    )


def test_replacing_points_are_their_own_optimal_estimates() -> None:
    """P_AE of the replaced outputs, with those of the same point added up, equals the loss."""
    joint = np.array([PRIOR * output.likelihood for output in exponential_outputs(X_KM, Y_KM, epsilon_per_km=1.0)])
    joint = np.vstack([joint[:4] / 2, joint[:4] / 2, joint[4:]])  # pairs of outputs with the same point
    points = np.round([best_point(row, X_KM, Y_KM) for row in joint], 6)
    distinct, which = np.unique(points, axis=0, return_inverse=True)
    merged = np.array([joint[which.ravel() == place].sum(axis=0) for place in range(len(distinct))])
    assert len(merged) < len(joint)
    metrics = plane_theory(exponential_outputs(X_KM, Y_KM, epsilon_per_km=1.0), PRIOR, X_KM, Y_KM)
    assert sum(map(lowest_cost_km, merged)) == pytest.approx(metrics.loss_km, rel=1e-8)


def test_coin_by_enumeration() -> None:
    at = best_point(PRIOR, X_KM, Y_KM)
    nothing_km = lowest_cost_km(PRIOR)
    for share in (0.0, 0.3, 1.0):
        coin = coin_theory(PRIOR, X_KM, Y_KM, loss_km=share * nothing_km)
        certain = [PlaneOutput(X_KM[cell], Y_KM[cell], (1 - share) * np.eye(9)[cell]) for cell in range(9)]
        expected = plane_theory([*certain, PlaneOutput(*at, np.full(9, share))], PRIOR, X_KM, Y_KM)
        np.testing.assert_allclose(coin, expected, rtol=1e-7, atol=1e-12)
    with pytest.raises(ValueError, match="loss_km"):
        coin_theory(PRIOR, X_KM, Y_KM, loss_km=1.01 * nothing_km)


def test_coin_whose_best_point_is_a_location() -> None:
    """Location 0 is reported as the best point always, so that this report is more likely from there."""
    prior, x_km = np.array([0.6, 0.4]), np.array([0.0, 2.0])
    coin = coin_theory(prior, x_km, np.zeros(2), loss_km=0.4)
    outputs = [PlaneOutput(0.0, 0.0, np.array([1.0, 0.5])), PlaneOutput(2.0, 0.0, np.array([0.0, 0.5]))]
    np.testing.assert_allclose(coin, plane_theory(outputs, prior, x_km, np.zeros(2)), rtol=1e-12)


def test_sampled_laplace_agrees_with_integrals() -> None:
    """Means are within four standard errors of sums over a fine lattice of outputs."""
    epsilon, step_km = 1.5, 0.15
    lattice = np.arange(-8.0, 13.0, step_km)
    outputs = []
    for x in lattice.tolist():
        away_km = np.hypot(x - X_KM, lattice[:, None] - Y_KM)
        density = epsilon**2 / (2 * np.pi) * np.exp(-epsilon * away_km) * step_km**2
        outputs += [PlaneOutput(x, y, row) for y, row in zip(lattice.tolist(), density, strict=True)]
    exact = plane_theory(outputs, PRIOR, X_KM, Y_KM)
    rng = np.random.default_rng(11)
    sampled = sampled_plane_theory(laplace(epsilon), PRIOR, X_KM, Y_KM, draws=4000, rng=rng)
    assert exact.loss_without_remap_km == pytest.approx(2 / epsilon, rel=1e-3)
    for mean, error, expected in zip(sampled.mean, sampled.error, exact, strict=True):
        assert abs(mean - expected) < 4 * error
        assert 0 < error < 0.05 * expected


def test_density_of_noise_is_that_of_its_distances() -> None:
    """Shares of drawn distances are those of density times circumference, in cells of the distance."""
    noise = laplace(2.0)
    radii = noise.radii_km(np.random.default_rng(5), 40_000)
    edges = np.linspace(0, 5, 5001)
    middle = (edges[:-1] + edges[1:]) / 2
    mass = np.exp(noise.log_density(middle)) * middle
    expected = (mass / mass.sum()).reshape(20, -1).sum(axis=1)
    shares = np.histogram(radii, edges[::250])[0] / radii.size
    assert np.abs(shares - expected).max() < 4 * np.sqrt(0.25 / radii.size)


def test_certain_outputs_have_no_error() -> None:
    noise = Noise(radii_km=lambda rng, draws: np.zeros(draws), log_density=lambda away_km: -1e9 * away_km)  # noqa: ARG005
    sampled = sampled_plane_theory(noise, PRIOR, X_KM, Y_KM, draws=50, rng=np.random.default_rng(0))
    assert sampled.mean == pytest.approx((0.0, 0.0, 0.0), abs=1e-12)
    assert posterior_metrics(np.zeros(9), X_KM, Y_KM, at_x_km=0.0, at_y_km=0.0) == (0.0, 0.0, 0.0)
