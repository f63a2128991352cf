"""Theoretical metrics of a channel compared with loops over cells and outputs, and with closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.channels.hiding import identity, location_hiding
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.designs.location_hiding import LocationHiding, LocationHidingParameters
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.theory import Theory, conditional_entropy_bits, joint_metrics, theory
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
N = GRID.n_cells
MANHATTAN, EUCLIDEAN = manhattan(GRID), euclidean(GRID)
UPHILL = MatrixDistance(kind="file", matrix_km=EUCLIDEAN.matrix_km * (1 + np.triu(np.ones((N, N)))))
"""An asymmetric distance, which detects swapped arguments."""
UNIFORM = np.full(N, 1 / N)
PROFILE = np.array([0.4, 0.25, 0.2, 0.1, 0.05, 0.0])
NOWHERE_KM = 7.0


class MaybeNothing(MatrixChannel):
    """A channel whose last output means no report, at a loss of `NOWHERE_KM`."""

    def __init__(self, matrix: FloatArray) -> None:
        super().__init__(matrix)
        self.space, self.countless = CellsOrNothing(N), False

    def loss_of_km(self, cell: int, output: int) -> float:
        return NOWHERE_KM if output == N else float(MANHATTAN.matrix_km[cell, output])

    def expected_loss_of_km(self, cell: int) -> float:
        return sum(float(mass) * self.loss_of_km(cell, output) for output, mass in enumerate(self.row(cell)))


class Countless(MaybeNothing):
    """A channel that cannot enumerate its outputs and states its epsilon."""

    def __init__(self, matrix: FloatArray) -> None:
        super().__init__(matrix)
        self.countless, self.epsilon_per_km = True, 1.25

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        raise AssertionError("too many outputs")


def summed(channel: Channel, prior: FloatArray, quality_km: FloatArray, privacy_km: FloatArray) -> Theory:
    """Return the metrics by direct summation; `quality_km` is [cell, output]."""
    matrix = channel.matrix()
    loss = error = left_bits = worst = 0.0
    for output in range(channel.n_outputs):
        mass = sum(float(prior[x] * matrix[x, output]) for x in range(N))
        for x in range(N):
            joint = float(prior[x] * matrix[x, output])
            if joint > 0:
                loss += joint * float(quality_km[x, output])
                worst = max(worst, float(quality_km[x, output]))
                left_bits -= joint * math.log2(joint / mass)
        error += min(
            sum(float(prior[x] * matrix[x, output] * privacy_km[x, guess]) for x in range(N)) for guess in range(N)
        )
    return Theory(loss, error, left_bits, worst)


def channels() -> st.SearchStrategy[FloatArray]:
    """Return matrices [cell, output] with zeros and with outputs that never occur."""
    entry = st.integers(0, 3)
    return st.lists(st.lists(entry, min_size=N + 1, max_size=N + 1), min_size=N, max_size=N).map(_normalised)


def _normalised(weights: list[list[int]]) -> FloatArray:
    matrix = np.array(weights, dtype=np.float64)
    matrix[matrix.sum(axis=1) == 0, 0] = 1.0
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


@given(channels(), st.sampled_from([UNIFORM, PROFILE]), st.sampled_from([MANHATTAN, UPHILL]))
@settings(max_examples=25, deadline=None)
def test_metrics_match_direct_summation(matrix: FloatArray, prior: FloatArray, privacy: Distance) -> None:
    with_nothing = np.column_stack([MANHATTAN.matrix_km, np.full(N, NOWHERE_KM)])
    metrics = theory(MaybeNothing(matrix), prior, quality=MANHATTAN, privacy=privacy)
    expected = summed(MatrixChannel(matrix), prior, with_nothing, privacy.matrix_km)
    assert metrics[:4] == pytest.approx(expected[:4], abs=1e-12)
    among_cells = matrix[:, :N] + np.outer(matrix[:, N], UNIFORM)
    metrics = theory(MatrixChannel(among_cells), prior, quality=UPHILL, privacy=privacy)
    expected = summed(MatrixChannel(among_cells), prior, UPHILL.matrix_km, privacy.matrix_km)
    assert metrics[:4] == pytest.approx(expected[:4], abs=1e-12)


def test_identity_has_no_loss_and_no_privacy() -> None:
    metrics = theory(identity(N), PROFILE, quality=MANHATTAN, privacy=EUCLIDEAN, epsilon_in=EUCLIDEAN)
    assert metrics == Theory(0.0, 0.0, 0.0, 0.0, math.inf)


def test_uninformative_report_leaves_the_prior() -> None:
    """Every output is equally likely from every cell: the optimal estimate is that without a report."""
    metrics = theory(location_hiding(N, 1 / N), PROFILE, quality=MANHATTAN, privacy=EUCLIDEAN, epsilon_in=EUCLIDEAN)
    assert metrics.quality_loss_km == pytest.approx(float(PROFILE @ MANHATTAN.matrix_km.mean(axis=1)))
    assert metrics.adversary_error_km == pytest.approx(float((PROFILE @ EUCLIDEAN.matrix_km).min()))
    positive = PROFILE[PROFILE > 0]
    assert metrics.entropy_bits == pytest.approx(-float(positive @ np.log2(positive)))
    assert metrics.worst_loss_km == 3.0
    assert metrics.epsilon_per_km == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN], ids=["manhattan", "euclidean"])
@pytest.mark.parametrize("prior", [UNIFORM, PROFILE], ids=["uniform", "profile"])
def test_loss_of_a_remapped_mechanism_is_the_adversary_error(distance: Distance, prior: FloatArray) -> None:
    for design in (
        Exponential(ExponentialParameters(epsilon_per_km=0.8), distance=distance),
        LocationHiding(LocationHidingParameters(reveal_probability=0.3), distance=distance),
    ):
        metrics = theory(design(prior), prior, quality=distance, privacy=distance)
        assert metrics.adversary_error_km == pytest.approx(metrics.quality_loss_km, abs=1e-12)
        assert metrics.quality_loss_km is not None
        assert metrics.quality_loss_km > 0


def test_exact_epsilon_of_location_hiding() -> None:
    """The ratio is alpha to (1 - alpha) / (n - 1); neighbouring cells have the smallest distance."""
    reveal = 0.4
    metrics = theory(location_hiding(N, reveal), UNIFORM, quality=MANHATTAN, privacy=MANHATTAN, epsilon_in=EUCLIDEAN)
    assert metrics.epsilon_per_km == pytest.approx(math.log(reveal * (N - 1) / (1 - reveal)))


def test_too_many_outputs_leave_the_loss_and_the_stated_epsilon() -> None:
    matrix = np.column_stack([0.5 * np.eye(N), np.full(N, 0.5)])
    metrics = theory(Countless(matrix), PROFILE, quality=MANHATTAN, privacy=EUCLIDEAN, epsilon_in=EUCLIDEAN)
    assert metrics.quality_loss_km == pytest.approx(0.5 * NOWHERE_KM)
    assert metrics[1:] == (None, None, None, 1.25)


def test_worst_loss_ignores_cells_without_mass() -> None:
    """Only the last cell, which has no mass, loses by a missing report or reports the opposite corner."""
    far = np.eye(N)
    far[N - 1] = far[0]
    assert theory(MatrixChannel(far), PROFILE, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == 0.0
    assert theory(MatrixChannel(far), UNIFORM, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == 3.0
    matrix = np.column_stack([np.eye(N), np.zeros(N)])
    matrix[N - 1] = np.eye(N + 1)[N]
    assert theory(MaybeNothing(matrix), PROFILE, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == 0.0
    assert theory(MaybeNothing(matrix), UNIFORM, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == NOWHERE_KM


def test_entropy_is_never_negative() -> None:
    joint = np.diag(np.random.default_rng(5).dirichlet(np.ones(50)))
    assert 0.0 <= conditional_entropy_bits(joint) < 1e-12


def test_an_output_outside_the_distance_matrix_is_an_error() -> None:
    with pytest.raises(IndexError):
        joint_metrics(np.full((1, N), 1.0), UNIFORM, np.array([N]), MANHATTAN.matrix_km)
