"""The figures of a channel on paper against plain loops over cells and outputs, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.interfaces import Channel, FloatArray, IntArray
from sim.lppm.channel import MatrixChannel, identity, location_hiding
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.designs.location_hiding import LocationHiding, LocationHidingParameters
from sim.lppm.outputs import CellsOrNothing
from sim.lppm.theory import Theory, conditional_entropy_bits, theory
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.0, height_km=2.0)
N = GRID.n_cells
MANHATTAN, EUCLIDEAN = manhattan(GRID), euclidean(GRID)
UPHILL = Distance(kind="file", matrix_km=EUCLIDEAN.matrix_km * (1 + np.triu(np.ones((N, N)))))
"""Longer one way than the other: taken the wrong way round, it is another distance."""
UNIFORM = np.full(N, 1 / N)
PROFILE = np.array([0.4, 0.25, 0.2, 0.1, 0.05, 0.0])
NOWHERE_KM = 7.0


class MaybeNothing(MatrixChannel):
    """A channel whose last output is no report at all, which costs so many km."""

    def __init__(self, matrix: FloatArray) -> None:
        super().__init__(matrix)
        self.space, self.countless = CellsOrNothing(N), False

    def loss_of_km(self, cell: int, output: int) -> float:
        return NOWHERE_KM if output == N else float(MANHATTAN.matrix_km[cell, output])

    def expected_loss_of_km(self, cell: int) -> float:
        return sum(float(mass) * self.loss_of_km(cell, output) for output, mass in enumerate(self.row(cell)))


class Countless(MaybeNothing):
    """One that cannot list its outputs, and knows its epsilon."""

    def __init__(self, matrix: FloatArray) -> None:
        super().__init__(matrix)
        self.countless, self.epsilon_per_km = True, 1.25

    def likelihoods(self) -> tuple[IntArray, FloatArray]:
        raise AssertionError("there are too many")


def plain(channel: Channel, prior: FloatArray, quality_km: FloatArray, privacy_km: FloatArray) -> Theory:
    """Return the figures in the plainest way; `quality_km` is [cell, output]."""
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
    """Return matrices [cell, output] with some zeros, and outputs that never come."""
    entry = st.integers(0, 3)
    return st.lists(st.lists(entry, min_size=N + 1, max_size=N + 1), min_size=N, max_size=N).map(_normalised)


def _normalised(weights: list[list[int]]) -> FloatArray:
    matrix = np.array(weights, dtype=np.float64)
    matrix[matrix.sum(axis=1) == 0, 0] = 1.0
    return np.asarray(matrix / matrix.sum(axis=1, keepdims=True))


@given(channels(), st.sampled_from([UNIFORM, PROFILE]), st.sampled_from([MANHATTAN, UPHILL]))
@settings(max_examples=25, deadline=None)
def test_figures_are_those_of_plain_loops(matrix: FloatArray, prior: FloatArray, privacy: Distance) -> None:
    with_nothing = np.column_stack([MANHATTAN.matrix_km, np.full(N, NOWHERE_KM)])
    found = theory(MaybeNothing(matrix), prior, quality=MANHATTAN, privacy=privacy)
    wanted = plain(MatrixChannel(matrix), prior, with_nothing, privacy.matrix_km)
    assert found[:4] == pytest.approx(wanted[:4], abs=1e-12)
    among_cells = matrix[:, :N] + np.outer(matrix[:, N], UNIFORM)
    found = theory(MatrixChannel(among_cells), prior, quality=UPHILL, privacy=privacy)
    wanted = plain(MatrixChannel(among_cells), prior, UPHILL.matrix_km, privacy.matrix_km)
    assert found[:4] == pytest.approx(wanted[:4], abs=1e-12)


def test_who_tells_the_truth_loses_nothing_and_hides_nothing() -> None:
    found = theory(identity(N), PROFILE, quality=MANHATTAN, privacy=EUCLIDEAN, epsilon_in=EUCLIDEAN)
    assert found == Theory(0.0, 0.0, 0.0, 0.0, math.inf)


def test_a_report_that_tells_nothing_leaves_all_of_the_prior() -> None:
    """Every output is as likely from everywhere: the best guess is that without any report."""
    found = theory(location_hiding(N, 1 / N), PROFILE, quality=MANHATTAN, privacy=EUCLIDEAN, epsilon_in=EUCLIDEAN)
    assert found.quality_loss_km == pytest.approx(float(PROFILE @ MANHATTAN.matrix_km.mean(axis=1)))
    assert found.adversary_error_km == pytest.approx(float((PROFILE @ EUCLIDEAN.matrix_km).min()))
    positive = PROFILE[PROFILE > 0]
    assert found.entropy_bits == pytest.approx(-float(positive @ np.log2(positive)))
    assert found.worst_loss_km == 3.0
    assert found.epsilon_per_km == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("distance", [MANHATTAN, EUCLIDEAN], ids=["manhattan", "euclidean"])
@pytest.mark.parametrize("prior", [UNIFORM, PROFILE], ids=["uniform", "profile"])
def test_a_remapped_mechanism_loses_what_the_adversary_errs(distance: Distance, prior: FloatArray) -> None:
    for design in (
        Exponential(ExponentialParameters(epsilon_per_km=0.8), distance=distance),
        LocationHiding(LocationHidingParameters(reveal_probability=0.3), distance=distance),
    ):
        found = theory(design(prior), prior, quality=distance, privacy=distance)
        assert found.adversary_error_km == pytest.approx(found.quality_loss_km, abs=1e-12)
        assert found.quality_loss_km > 0


def test_the_exact_epsilon_is_that_of_location_hiding() -> None:
    """The ratio is alpha by (1 - alpha) / (n - 1), and neighbours are nearest."""
    reveal = 0.4
    found = theory(location_hiding(N, reveal), UNIFORM, quality=MANHATTAN, privacy=MANHATTAN, epsilon_in=EUCLIDEAN)
    assert found.epsilon_per_km == pytest.approx(math.log(reveal * (N - 1) / (1 - reveal)))


def test_of_outputs_beyond_number_the_loss_is_known_and_a_promise_that_is_told() -> None:
    matrix = np.column_stack([0.5 * np.eye(N), np.full(N, 0.5)])
    found = theory(Countless(matrix), PROFILE, quality=MANHATTAN, privacy=EUCLIDEAN, epsilon_in=EUCLIDEAN)
    assert found.quality_loss_km == pytest.approx(0.5 * NOWHERE_KM)
    assert found[1:] == (None, None, None, 1.25)


def test_a_cell_without_mass_makes_no_loss_the_worst() -> None:
    """Only the last cell, where nobody is, has the loss of no report, or reports the other corner."""
    far = np.eye(N)
    far[N - 1] = far[0]
    assert theory(MatrixChannel(far), PROFILE, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == 0.0
    assert theory(MatrixChannel(far), UNIFORM, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == 3.0
    matrix = np.column_stack([np.eye(N), np.zeros(N)])
    matrix[N - 1] = np.eye(N + 1)[N]
    assert theory(MaybeNothing(matrix), PROFILE, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == 0.0
    assert theory(MaybeNothing(matrix), UNIFORM, quality=MANHATTAN, privacy=MANHATTAN).worst_loss_km == NOWHERE_KM


def test_entropy_never_falls_below_nought_by_rounding() -> None:
    joint = np.diag(np.random.default_rng(5).dirichlet(np.ones(50)))
    assert 0.0 <= conditional_entropy_bits(joint) < 1e-12
