"""The exact epsilon of a channel compared with its definition, for any channel and distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.interfaces import FloatArray
from sim.lppm.channels.exponential import exponential
from sim.lppm.channels.hiding import identity, location_hiding
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.epsilon import exact_epsilon_per_km, spent_per_km
from sim.lppm.planar_noise import geometric_matrix, laplace_matrix
from sim.world.distance import MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid

GRID = Grid.rectangle(rows=2, cols=3, width_km=3.6, height_km=1.4)


def of_matrix(*rows: list[float], between_km: Any) -> float:
    distance = MatrixDistance(kind="file", matrix_km=np.array(between_km, dtype=np.float64))
    return exact_epsilon_per_km(MatrixChannel(np.array(rows)), distance)


def by_definition(matrix: FloatArray, distance_km: FloatArray) -> float:
    """Try every output and every ordered pair of cells."""
    least = 0.0
    for output in range(matrix.shape[1]):
        for x, one in enumerate(matrix[:, output]):
            for other, also in enumerate(matrix[:, output]):
                if one > also:
                    away = distance_km[x, other]
                    least = max(least, math.log(one / also) / away if also > 0 and away > 0 else math.inf)
    return least


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), n=st.integers(1, 5), outputs=st.integers(1, 5), zeros=st.booleans())
def test_exact_epsilon_matches_the_definition(seed: int, n: int, outputs: int, zeros: bool) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.dirichlet(np.ones(outputs), size=n)
    if zeros:
        matrix = np.column_stack([matrix, np.zeros(n)])  # an output that never occurs is uninformative
    distance_km = rng.uniform(0.1, 3.0, size=(n, n))  # asymmetric
    np.fill_diagonal(distance_km, 0.0)
    distance = MatrixDistance(kind="file", matrix_km=distance_km)
    want = by_definition(matrix, distance_km)
    assert exact_epsilon_per_km(MatrixChannel(matrix), distance) == pytest.approx(want, rel=1e-9)


def test_each_direction_uses_its_distance() -> None:
    rows = [0.6, 0.4], [0.3, 0.7]
    assert of_matrix(*rows, between_km=[[0, 1], [2, 0]]) == pytest.approx(math.log(2))
    assert of_matrix(*rows, between_km=[[0, 2], [1, 0]]) == pytest.approx(math.log(0.7 / 0.4))


def test_impossible_outputs_give_an_infinite_epsilon() -> None:
    assert of_matrix([1.0, 0.0], [0.5, 0.5], between_km=[[0, 1], [1, 0]]) == math.inf
    assert exact_epsilon_per_km(identity(6), manhattan(GRID)) == math.inf
    assert exact_epsilon_per_km(exponential(manhattan(GRID), 1e4), manhattan(GRID)) == math.inf  # underflow


def test_cells_at_distance_zero_may_differ_by_rounding_only() -> None:
    nowhere = [[0, 0], [0, 0]]
    assert of_matrix([0.5, 0.5], [0.5 + 1e-15, 0.5 - 1e-15], between_km=nowhere) == 0.0
    assert of_matrix([0.5, 0.5], [0.5 + 1e-9, 0.5 - 1e-9], between_km=nowhere) == math.inf


def test_uninformative_channel_has_epsilon_zero() -> None:
    assert exact_epsilon_per_km(exponential(manhattan(GRID), 0.0), manhattan(GRID)) == 0.0
    everything_to_one = RemappedChannel(exponential(manhattan(GRID), 2.0), np.full(6, 3))
    assert exact_epsilon_per_km(everything_to_one, manhattan(GRID)) == 0.0
    assert exact_epsilon_per_km(identity(1), euclidean(Grid.rectangle(rows=1, cols=1, width_km=1, height_km=1))) == 0.0


def test_location_hiding_has_a_closed_form() -> None:
    want = math.log(0.5 / 0.1) / 0.7  # the nearest cells are 0.7 km apart
    assert exact_epsilon_per_km(location_hiding(6, 0.5), euclidean(GRID)) == pytest.approx(want)


class Countless:
    """A channel with too many outputs to enumerate, which states its epsilon in either form or not at all."""

    countless = True

    def __init__(self, **attributes: Any) -> None:
        vars(self).update(attributes)


def test_channel_with_too_many_outputs_states_its_epsilon() -> None:
    distance = manhattan(GRID)

    def of(**attributes: Any) -> float:
        return exact_epsilon_per_km(Countless(**attributes), distance)  # type: ignore[arg-type]

    assert of() == math.inf
    assert of(epsilon_per_km=0.7) == 0.7
    assert of(epsilon_per_km=0.7, epsilon_in_per_km=lambda given: 0.3 if given is distance else 0.4) == 0.3


def test_epsilon_of_a_trace_is_at_most_the_sum() -> None:
    """The joint channel of two reports has at most the sum of their epsilons, in the larger of both distances."""
    channels = [MatrixChannel(geometric_matrix(GRID, epsilon)) for epsilon in (0.4, 0.9)]
    joint = MatrixChannel(np.asarray(np.kron(channels[0].matrix(), channels[1].matrix()), dtype=np.float64))
    one = euclidean(GRID).matrix_km
    larger = MatrixDistance(
        kind="file", matrix_km=np.maximum(np.kron(one, np.ones((6, 6))), np.kron(np.ones((6, 6)), one))
    )
    spent = spent_per_km([exact_epsilon_per_km(channel, euclidean(GRID)) for channel in channels])
    assert spent == pytest.approx([0.4, 1.3])
    assert exact_epsilon_per_km(joint, larger) == pytest.approx(spent[-1])
    assert spent_per_km([]).size == 0


@pytest.mark.parametrize("remapped", [False, True])
def test_qif_computes_the_same_epsilon(remapped: bool) -> None:
    qif = pytest.importorskip("qif", reason="qif is not installed")
    for distance in (euclidean(GRID), manhattan(GRID)):
        for matrix in (laplace_matrix(GRID, 0.8), exponential(distance, 0.8).matrix()):
            base = MatrixChannel(matrix)
            channel = RemappedChannel(base, np.array([0, 1, 1, 4, 4, 4])) if remapped else base
            listed = channel.matrix()[:, channel.likelihoods()[0]]
            other = qif.measure.d_privacy.smallest_epsilon(
                np.asfortranarray(listed), lambda x, y, km=distance.matrix_km: km[x, y]
            )
            assert exact_epsilon_per_km(channel, distance) == pytest.approx(other, rel=1e-6)
