"""Designs: the budget is met, the function is pure, the prior matters only if `uses_prior` is true."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.interfaces import Design, FloatArray
from sim.lppm.calibration import expected_loss_km
from sim.lppm.channels.hiding import LocationHidingChannel
from sim.lppm.channels.matrix import MatrixChannel
from sim.lppm.channels.remapped import RemappedChannel
from sim.lppm.designs.exponential import Exponential, ExponentialParameters
from sim.lppm.designs.identity import Identity
from sim.lppm.designs.location_hiding import LocationHiding, LocationHidingParameters
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.support import made

pytestmark = pytest.mark.usefixtures("numpy_and_numba")

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.4, height_km=2.1)
DISTANCES = {"manhattan": manhattan(GRID), "euclidean": euclidean(GRID)}
DESIGNS: dict[str, type[Exponential] | type[LocationHiding]] = {"exp": Exponential, "lh": LocationHiding}


def sparse_prior(seed: int, n: int = 12) -> FloatArray:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n, 0.5)) * (rng.random(n) < 0.7)
    prior[0] += 0.1
    normalised: FloatArray = prior / prior.sum()
    return normalised


def loss_km(design: Design, prior: FloatArray, distance: Distance) -> float:
    """Sum prior(x) f(z|x) d(x, z) over the whole matrix."""
    return float((prior[:, None] * design(prior).matrix() * distance.matrix_km).sum())


@pytest.mark.parametrize("kind", DISTANCES)
@pytest.mark.parametrize("remap", [True, False])
@pytest.mark.parametrize("name", DESIGNS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(1e-9, 1.0) | st.just(0.0))
def test_expected_loss_under_the_prior_is_the_budget(
    kind: str, remap: bool, name: str, seed: int, share: float
) -> None:
    distance, prior = DISTANCES[kind], sparse_prior(seed)
    most_km = loss_km(made(DESIGNS[name], distance=distance, quality_budget_km=1e3, remap=remap), prior, distance)
    budget_km = share * most_km
    design = made(DESIGNS[name], distance=distance, quality_budget_km=budget_km, remap=remap)
    assert loss_km(design, prior, distance) == pytest.approx(budget_km, abs=1e-4)


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("kind", DISTANCES)
def test_excessive_budget_reveals_nothing(name: str, kind: str) -> None:
    distance, prior = DISTANCES[kind], sparse_prior(3)
    design = made(DESIGNS[name], distance=distance, quality_budget_km=50.0)
    matrix = design(prior).matrix()
    np.testing.assert_allclose(matrix, np.broadcast_to(matrix[0], matrix.shape), rtol=0, atol=1e-12)
    assert loss_km(design, prior, distance) == pytest.approx((prior @ distance.matrix_km).min(), abs=1e-12)


def test_location_hiding_without_remap_loses_most_at_alpha_zero() -> None:
    distance, prior = DISTANCES["manhattan"], sparse_prior(3)
    channel = LocationHiding(LocationHidingParameters(quality_budget_km=50.0, remap=False), distance=distance)(prior)
    assert isinstance(channel, LocationHidingChannel)
    assert channel.reveal_probability == 0.0


def test_location_hiding_with_two_cells_and_alpha_zero_reveals_the_cell() -> None:
    distance = manhattan(Grid.rectangle(rows=1, cols=2, width_km=2.0, height_km=1.0))
    prior = np.array([0.5, 0.5])
    assert (
        loss_km(LocationHiding(LocationHidingParameters(reveal_probability=0.0), distance=distance), prior, distance)
        == 0.0
    )
    assert (
        loss_km(LocationHiding(LocationHidingParameters(quality_budget_km=9.0), distance=distance), prior, distance)
        == 0.5
    )
    third = LocationHiding(LocationHidingParameters(quality_budget_km=0.3), distance=distance)
    assert loss_km(third, prior, distance) == pytest.approx(0.3, abs=1e-4)


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("remap", [True, False])
def test_zero_budget_reports_the_true_cell(name: str, remap: bool) -> None:
    channel = made(DESIGNS[name], distance=DISTANCES["manhattan"], quality_budget_km=0.0, remap=remap)(sparse_prior(1))
    assert channel.matrix().tolist() == np.eye(12).tolist()


@pytest.mark.parametrize("name", DESIGNS)
@pytest.mark.parametrize("budget_km", [0.0, 1.0])
def test_one_cell_or_a_certain_cell_has_no_loss(name: str, budget_km: float) -> None:
    alone = manhattan(Grid.rectangle(rows=1, cols=1, width_km=1.0, height_km=1.0))
    for distance, prior in ((alone, np.ones(1)), (DISTANCES["manhattan"], np.eye(12)[5])):
        design = made(DESIGNS[name], distance=distance, quality_budget_km=budget_km)
        assert loss_km(design, prior, distance) == pytest.approx(0.0, abs=1e-12)


def test_larger_budget_gives_smaller_epsilon() -> None:
    prior, distance = sparse_prior(8), DISTANCES["manhattan"]
    epsilons = [
        channel.base.epsilon_per_km  # type: ignore[attr-defined]
        for budget_km in (0.2, 0.4, 0.6)
        if isinstance(
            channel := Exponential(ExponentialParameters(quality_budget_km=budget_km), distance=distance)(prior),
            RemappedChannel,
        )
    ]
    assert len(epsilons) == 3
    assert epsilons == sorted(epsilons, reverse=True)


def test_expected_loss_accepts_any_channel() -> None:
    distance, prior = DISTANCES["euclidean"], sparse_prior(2)

    class Foreign:
        """A channel with the interface and nothing else."""

        n_outputs = 12

        def matrix(self) -> FloatArray:
            return MatrixChannel(np.full((12, 12), 1 / 12)).matrix()

        sample = likelihood = row = None

    want = float(prior @ distance.matrix_km.mean(axis=1))
    assert expected_loss_km(Foreign(), prior, distance) == pytest.approx(want)  # type: ignore[arg-type]
    exact = expected_loss_km(
        Exponential(ExponentialParameters(epsilon_per_km=0.0, remap=False), distance=distance)(prior), prior, distance
    )
    assert exact == pytest.approx(want)


@pytest.mark.parametrize(
    "design",
    [
        Exponential(ExponentialParameters(epsilon_per_km=0.4), distance=DISTANCES["manhattan"]),
        Exponential(ExponentialParameters(quality_budget_km=0.5), distance=DISTANCES["euclidean"]),
        LocationHiding(LocationHidingParameters(reveal_probability=0.2), distance=DISTANCES["manhattan"]),
        LocationHiding(LocationHidingParameters(quality_budget_km=0.5, remap=False), distance=DISTANCES["manhattan"]),
    ],
)
def test_design_is_a_pure_function_of_the_prior(design: Design) -> None:
    first, second = sparse_prior(1), sparse_prior(2)
    before = first.copy()
    expected = [design(prior).matrix().copy() for prior in (first, second)]
    assert np.abs(expected[0] - expected[1]).max() > 0 or not design.uses_prior  # type: ignore[attr-defined]
    assert first.tolist() == before.tolist()
    again = pickle.loads(pickle.dumps(design))
    buffer = np.empty(12)
    for one in (design, again):
        for prior, matrix in ((first, expected[0]), (second, expected[1]), (first, expected[0])):
            buffer[:] = prior
            assert one(buffer).matrix().tolist() == matrix.tolist()


def test_fixed_base_is_shared_and_irrelevant_priors_are_ignored() -> None:
    distance = DISTANCES["manhattan"]
    remapped = Exponential(ExponentialParameters(epsilon_per_km=0.4), distance=distance)
    one, two = remapped(sparse_prior(1)), remapped(sparse_prior(2))
    assert isinstance(one, RemappedChannel)
    assert isinstance(two, RemappedChannel)
    assert one.base is two.base
    assert remapped.uses_prior
    for plain in (
        Exponential(ExponentialParameters(epsilon_per_km=0.4, remap=False), distance=distance),
        LocationHiding(LocationHidingParameters(reveal_probability=0.4, remap=False), distance=distance),
        Identity(n_cells=12),
    ):
        assert not plain.uses_prior
        assert plain(sparse_prior(1)) is plain(sparse_prior(2))
    for budgeted in (Exponential, LocationHiding):
        assert made(budgeted, distance=distance, quality_budget_km=1.0, remap=False).uses_prior
    assert Identity(n_cells=3)(np.ones(3) / 3).matrix().tolist() == np.eye(3).tolist()


def test_invalid_parameters_are_rejected() -> None:
    distance = DISTANCES["manhattan"]
    with pytest.raises(ValidationError, match=r"reveal_probability.*quality_budget_km"):
        LocationHiding(LocationHidingParameters(reveal_probability=0.1, quality_budget_km=2.0), distance=distance)
    with pytest.raises(ValidationError, match=r"(?s)quality_budget_km.*input_value=-1.0"):
        LocationHiding(LocationHidingParameters(quality_budget_km=-1.0), distance=distance)
    with pytest.raises(ValidationError, match=r"(?s)epsilon_per_km.*input_value=nan"):
        Exponential(ExponentialParameters(epsilon_per_km=float("nan")), distance=distance)
