"""Laws of secrets: kernels by enumeration of signs, samples, and convergence to the Gaussian autoregressive process."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sim.attack.optimal import OptimalAttack
from sim.belief.fixed_profile import FixedProfile
from sim.errors import InvalidValue
from sim.events import Report
from sim.interfaces import FloatArray
from sim.lppm.hidden.clocks import Constant, Drifting
from sim.lppm.hidden.laws import GaussianOffsets, Redrawn, circle_offsets, disc_offsets, ehrenfest
from sim.lppm.hidden.secret import SecretChannel, SecretState, displaced
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.0, height_km=3.0)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9, 1.0])
@pytest.mark.parametrize("levels", [1, 2, 5])
def test_kernel_is_that_of_independent_signs(levels: int, correlation: float) -> None:
    stay, expected = (1 + correlation) / 2, np.zeros((levels + 1, levels + 1))
    for before in product((0, 1), repeat=levels):
        for after in product((0, 1), repeat=levels):
            chance = np.prod([stay if a == b else 1 - stay for a, b in zip(before, after, strict=True)])
            expected[sum(before), sum(after)] += chance
    expected /= expected.sum(axis=1, keepdims=True)
    assert ehrenfest(levels, correlation) == pytest.approx(expected)


def test_kernels_compose_and_keep_the_law() -> None:
    law = GaussianOffsets(std_km=1.0, levels=6)
    once = law.move(np.eye(49), 0.6 * 0.5)
    twice = law.move(law.move(np.eye(49), 0.6), 0.5)
    assert once == pytest.approx(twice)
    assert law.move(law.weights, 0.6) == pytest.approx(law.weights)


@pytest.mark.parametrize("levels", [1, 4, 16])
def test_offsets_have_the_stated_deviation_and_correlation(levels: int) -> None:
    law = GaussianOffsets(std_km=0.7, levels=levels)
    east, north = law.displacements_km.T
    assert law.weights @ east == pytest.approx(0.0)
    assert law.weights @ north**2 == pytest.approx(0.49)
    after = law.move(np.diag(law.weights), 0.4)
    assert east @ after @ east == pytest.approx(0.4 * 0.49)
    assert east @ after @ north == pytest.approx(0.0)


LAWS: dict[str, GaussianOffsets | Redrawn] = {
    "gaussian": GaussianOffsets(std_km=1.0, levels=2),
    "disc": disc_offsets(1.0, levels=4),
    "circle": circle_offsets(1.0, levels=2),
    "uneven": Redrawn([0.1, 0.6, 0.3]),
}


@pytest.mark.parametrize("name", LAWS)
def test_samples_have_the_law_and_the_kernel(name: str) -> None:
    law, rng, draws = LAWS[name], np.random.default_rng(1), 20_000
    first = np.array([law.draw(rng) for _ in range(draws)])
    second = np.array([law.step(int(state), 0.5, rng) for state in first])
    pairs = np.zeros((law.weights.size, law.weights.size))
    np.add.at(pairs, (first, second), 1 / draws)
    expected = law.move(np.diag(law.weights), 0.5)
    assert np.abs(pairs - expected).max() < 5 * np.sqrt(expected.max() / draws)
    assert np.abs(pairs.sum(axis=1) - law.weights).max() < 5 * np.sqrt(law.weights.max() / draws)


def last_likelihood(levels: int, std_km: float) -> FloatArray:
    """Return p(z^3 | x^3, z^1, z^2) of a sporadic user with a drifting offset."""
    law = GaussianOffsets(std_km=std_km, levels=levels)
    state = SecretState(displaced(GRID, law.displacements_km), law=law, clock=Drifting(7_200.0))
    channel, tracker = SecretChannel(state), state.tracker()
    prior: FloatArray = np.arange(1.0, 13.0) / 78
    likelihood = prior
    for index, (time_s, output) in enumerate([(0, 0), (1_800, 1), (3_000, 5)], start=1):
        likelihood = tracker.likelihood(Report("ann", index, time_s, output, channel), prior, None)
        tracker.condition(prior * likelihood / float(prior @ likelihood))
    return likelihood


def exact_likelihood(std_km: float) -> FloatArray:
    """Return the same for the Gaussian process in the plane, by integration over the steps of a fine grid."""
    axis = np.linspace(-5 * std_km, 5 * std_km, 361)
    weights = np.exp(-(axis**2) / (2 * std_km**2))
    weights /= weights.sum()
    prior = np.arange(1.0, 13.0) / 78
    emission = displaced_axes(axis)
    joint = np.outer(weights, weights)
    for place, (passed_s, output) in enumerate([(0, 0), (1_800, 1), (1_200, 5)]):
        if place:
            rho = np.exp(-passed_s / 7_200.0)
            kernel = np.exp(-((axis - rho * axis[:, None]) ** 2) / (2 * std_km**2 * (1 - rho**2)))
            kernel /= kernel.sum(axis=1, keepdims=True)
            joint = kernel.T @ joint @ kernel
        match = emission == output
        likelihood = np.array([joint[one].sum() for one in match])
        joint = joint * (prior[:, None, None] * match).sum(axis=0)
        joint /= joint.sum()
    return likelihood


def displaced_axes(axis: FloatArray) -> FloatArray:
    """Return the output of each cell for each north and east displacement, shape (n_cells, len(axis), len(axis))."""
    row = np.clip(np.floor(GRID.y_km[:, None] + axis), 0, GRID.rows - 1)
    col = np.clip(np.floor(GRID.x_km[:, None] + axis), 0, GRID.cols - 1)
    return np.asarray(row[:, :, None] * GRID.cols + col[:, None, :])


def test_tracking_converges_in_the_discretisation() -> None:
    """Finer offsets approach the Gaussian process in the plane; the mean over sizes removes effects of cell borders."""
    sizes_km = (0.71, 0.83, 0.97, 1.09)
    exact = [exact_likelihood(std_km) for std_km in sizes_km]

    def error(levels: int) -> float:
        tracked = [last_likelihood(levels, std_km) for std_km in sizes_km]
        return float(np.mean([np.abs(one - other).max() for one, other in zip(tracked, exact, strict=True)]))

    errors = [error(levels) for levels in (2, 24, 256)]
    assert errors[0] > 2 * errors[1] > 4 * errors[2]
    assert errors[2] < 0.02


def test_offsets_outside_the_grid_report_the_nearest_cell() -> None:
    far = displaced(GRID, np.array([[99.0, 0.0], [-99.0, 99.0]]))
    assert far.tolist() == [[row * 4 + 3, 8] for row in range(3) for _ in range(4)]


def test_contradicted_secret_becomes_unknown() -> None:
    """A report that no secret explains, under a wrong profile, restarts the tracker instead of excluding all cells."""
    law = Redrawn([0.5, 0.5], np.array([[0.0, 0.0], [1.0, 0.0]]))
    state = SecretState(displaced(GRID, law.displacements_km), law=law, clock=Constant())
    attack = OptimalAttack(
        belief_of=lambda _: FixedProfile(profile=np.eye(12)[0]), distance=manhattan(GRID), with_posterior=True
    )
    outputs = [0, 1, 1]
    posteriors = [
        attack.observe(Report("ann", index, index, output, SecretChannel(state))).posterior
        for index, output in enumerate(outputs, start=1)
    ]
    for posterior in posteriors:
        assert posterior is not None
        assert posterior.sum() == pytest.approx(1.0)


def test_too_many_pairs_are_refused() -> None:
    grid = Grid.rectangle(rows=100, cols=100, width_km=10.0, height_km=10.0)
    with pytest.raises(InvalidValue, match="20,000,000") as error:
        displaced(grid, np.zeros((2_001, 2)))
    assert error.value.code == "too-many-states"
