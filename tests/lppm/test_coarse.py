"""Cloaking, snapping and dropping compared with enumeration: outputs, losses and the adversary's error."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from sim.interfaces import FloatArray
from sim.lppm.calibration import BUDGET_TOLERANCE_KM, expected_loss_km
from sim.lppm.designs.cloaking import Cloaking, CloakingParameters, Quadtree
from sim.lppm.designs.dropping import Dropping, DroppingParameters
from sim.lppm.designs.snapping import Snapping, SnappingParameters
from sim.lppm.own_outputs import OwnMatrixChannel
from sim.world.distance import Distance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from tests.lppm.own_model import error_km, optimal_error_km
from tests.support import made

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.4, height_km=2.1)
DISTANCES = {"manhattan": manhattan(GRID), "euclidean": euclidean(GRID)}
SEEDS = st.integers(0, 10_000)


def sparse_prior(seed: int, n: int = 12) -> FloatArray:
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(n, 0.5)) * (rng.random(n) < 0.7)
    prior[0] += 0.1
    normalised: FloatArray = prior / prior.sum()
    return normalised


def make(kind: str, distance: Distance, **parameters: Any) -> Any:
    match kind:
        case "cloaking":
            return made(Cloaking, grid=GRID, distance=distance, **parameters)
        case "snapping":
            return made(Snapping, grid=GRID, distance=distance, **parameters)
    return made(Dropping, distance=distance, **parameters)


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("kind", ["cloaking", "snapping", "snapped", "dropping"])
@settings(max_examples=12, deadline=None)
@given(seed=SEEDS, share=st.floats(1e-9, 1.0) | st.just(0.0))
def test_expected_loss_under_the_prior_is_the_budget(kind: str, name: str, seed: int, share: float) -> None:
    distance, prior = DISTANCES[name], sparse_prior(seed)
    more: dict[str, Any] = {"remap": False} if kind == "snapped" else {}
    kind = "snapping" if kind == "snapped" else kind

    def loss_km(budget_km: float) -> float:
        design = make(kind, distance, quality_budget_km=budget_km, **more)
        return expected_loss_km(design(prior), prior, distance)

    budget_km = share * loss_km(1e3)
    assert loss_km(budget_km) == pytest.approx(budget_km, abs=BUDGET_TOLERANCE_KM)


@pytest.mark.parametrize("budget_km", [0.0, 0.3, 1.0])
def test_certain_corner_spends_at_most_the_budget(budget_km: float) -> None:
    """All region masses are attained within the corner: the next step is the whole grid."""
    distance, prior = DISTANCES["manhattan"], np.eye(12)[0]
    channel = Cloaking(CloakingParameters(quality_budget_km=budget_km), grid=GRID, distance=distance)(prior)
    assert expected_loss_km(channel, prior, distance) == pytest.approx(budget_km, abs=BUDGET_TOLERANCE_KM)


@pytest.mark.parametrize("name", DISTANCES)
@pytest.mark.parametrize("kind", ["cloaking", "snapping", "dropping"])
@settings(max_examples=6, deadline=None)
@given(seed=SEEDS, budget_km=st.floats(1e-9, 2.0) | st.just(0.0))
def test_optimal_attack_attains_the_minimum_error(kind: str, name: str, seed: int, budget_km: float) -> None:
    distance, prior = DISTANCES[name], sparse_prior(seed)
    channel = make(kind, distance, quality_budget_km=budget_km)(prior)
    least_km = optimal_error_km(channel.matrix(), prior, distance)
    assert error_km(channel, prior, distance) == pytest.approx(least_km, abs=1e-9)
    if kind != "cloaking":  # the optimal estimate is the cell that the service answers for
        assert least_km == pytest.approx(expected_loss_km(channel, prior, distance), abs=1e-9)


# Cloaking --------------------------------------------------------------------------------------------------------


def test_quadtree_halves_the_grid_down_to_cells() -> None:
    tree = Quadtree((3, 4))
    assert tree.regions[:5] == ((*range(12),), (0, 1, 4, 5), (2, 3, 6, 7), (8, 9), (10, 11))
    assert sorted(cells[0] for cells in tree.regions if len(cells) == 1) == list(range(12))
    assert len(set(tree.regions)) == len(tree.regions)
    for cell, chain in enumerate(tree.around.tolist()):
        around = [set(tree.regions[part]) for part in chain]
        assert around[0] == {cell}
        assert around[-1] == set(range(12))
        assert all(inner <= outer for inner, outer in pairwise(around))
    assert Quadtree((1, 1)).around.tolist() == [[0]]


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, k=st.integers(1, 40))
def test_smallest_region_with_enough_people_is_reported(seed: int, k: int) -> None:
    prior, distance = sparse_prior(seed), DISTANCES["manhattan"]
    design = Cloaking(CloakingParameters(k=k, population=40), grid=GRID, distance=distance)
    channel = design(prior)
    regions = design.space.regions
    for cell, row in enumerate(channel.matrix()):
        enough = [own for own in regions if cell in own and 40 * prior[list(own)].sum() >= k - 1e-9]
        smallest = min(enough, key=len)
        (output,) = np.flatnonzero(row)
        assert row[output] == 1
        assert design.space.cells(int(output)) == smallest


def test_loss_of_a_region_is_the_distance_to_its_centre() -> None:
    distance = DISTANCES["euclidean"]
    design = Cloaking(CloakingParameters(k=1), grid=GRID, distance=distance)
    channel: Any = design(np.full(12, 1 / 12))
    for output, cells in enumerate(design.space.regions):
        sums = {cell: sum(distance.matrix_km[x, cell] for x in cells) for cell in cells}
        centre = min(cell for cell in cells if sums[cell] <= min(sums.values()) + 1e-9)
        assert design.space.shown_at(output) == centre
        for cell in range(12):
            assert channel.loss_of_km(cell, output) == distance.matrix_km[cell, centre]


def test_adversary_excludes_subregions_that_would_be_reported() -> None:
    """Known weakness: 10 of 20 people are expected in the grid, but not where it is dense."""
    prior = np.full(12, 0.25 / 8)
    prior[[0, 1, 4, 5]] = 0.75 / 4
    channel = Cloaking(CloakingParameters(k=10, population=20), grid=GRID, distance=DISTANCES["manhattan"])(prior)
    assert np.flatnonzero(channel.likelihood(0)).tolist() == [2, 3, 6, 7, 8, 9, 10, 11]
    assert 20 * prior[channel.likelihood(0) > 0].sum() == pytest.approx(5)


def test_k_of_one_reports_cells_and_k_of_all_the_whole_grid() -> None:
    prior = np.full(12, 1 / 12)
    for k, size in ((1, 1), (12, 12)):
        design = Cloaking(CloakingParameters(k=k, population=12), grid=GRID, distance=DISTANCES["manhattan"])
        outputs, _ = design(prior).likelihoods()
        assert {len(design.space.regions[output]) for output in outputs} == {size}


# Snapping --------------------------------------------------------------------------------------------------------


def test_cells_snap_to_block_centres() -> None:
    design = Snapping(SnappingParameters(cells_per_side=2, remap=False), grid=GRID, distance=DISTANCES["manhattan"])
    assert not design.uses_prior
    reported = design(np.full(12, 1 / 12)).matrix().argmax(axis=1)
    assert reported.tolist() == [0, 0, 2, 2, 0, 0, 2, 2, 8, 8, 10, 10]
    whole = Snapping(SnappingParameters(cells_per_side=9, remap=False), grid=GRID, distance=DISTANCES["manhattan"])
    assert set(whole(np.full(12, 1 / 12)).matrix().argmax(axis=1)) == {5}
    alone = Snapping(SnappingParameters(cells_per_side=1), grid=GRID, distance=DISTANCES["manhattan"])
    assert (alone(sparse_prior(1)).matrix() == np.eye(12)).all()


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS, size=st.integers(1, 4))
def test_remapped_block_reports_its_best_cell(seed: int, size: int) -> None:
    distance, prior = DISTANCES["euclidean"], sparse_prior(seed)
    design = Snapping(SnappingParameters(cells_per_side=size), grid=GRID, distance=distance)
    reported = design(prior).matrix().argmax(axis=1)
    row, col = np.divmod(np.arange(12), 4)
    for cell in np.flatnonzero(prior):
        block = (row // size == row[cell] // size) & (col // size == col[cell] // size)
        costs = (prior * block) @ distance.matrix_km
        assert costs[reported[cell]] == pytest.approx(costs.min(), abs=1e-12)


def test_a_budget_mixes_two_neighbouring_sizes() -> None:
    distance, prior = DISTANCES["manhattan"], np.full(12, 1 / 12)
    two, three = (
        Snapping(SnappingParameters(cells_per_side=size, remap=False), grid=GRID, distance=distance)(prior).matrix()
        for size in (2, 3)
    )
    losses = [float((prior[:, None] * matrix * distance.matrix_km).sum()) for matrix in (two, three)]
    design = Snapping(
        SnappingParameters(quality_budget_km=0.75 * losses[0] + 0.25 * losses[1], remap=False),
        grid=GRID,
        distance=distance,
    )
    np.testing.assert_allclose(design(prior).matrix(), 0.75 * two + 0.25 * three, rtol=0, atol=1e-4)


# Dropping --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_loss_km", [None, 2.5])
def test_dropping_reports_the_true_cell_or_nothing(drop_loss_km: float | None) -> None:
    distance, prior = DISTANCES["manhattan"], sparse_prior(4)
    design = Dropping(DroppingParameters(drop_probability=0.3, drop_loss_km=drop_loss_km), distance=distance)
    channel: Any = design(prior)
    assert design.uses_prior == (drop_loss_km is None)
    expected = np.column_stack([0.7 * np.eye(12), np.full(12, 0.3)])
    np.testing.assert_allclose(channel.matrix(), expected, rtol=0, atol=1e-15)
    assert channel.space.nothing == 12
    assert np.ptp(channel.likelihood(12)) == 0, "a missing report is uninformative"
    best = int(np.argmin(prior @ distance.matrix_km))
    for cell in range(12):
        without = distance.matrix_km[cell, best] if drop_loss_km is None else drop_loss_km
        assert channel.loss_of_km(cell, 12) == without
        assert channel.loss_of_km(cell, cell) == 0
        assert channel.expected_loss_of_km(cell) == pytest.approx(0.3 * without)


@pytest.mark.parametrize(
    ("budget_km", "drop_loss_km", "probability"), [(1.0, 4.0, 0.25), (9.0, 4.0, 1.0), (0.0, 4.0, 0.0), (1.0, 0.0, 1.0)]
)
def test_budget_sets_the_drop_probability(budget_km: float, drop_loss_km: float, probability: float) -> None:
    design = Dropping(
        DroppingParameters(quality_budget_km=budget_km, drop_loss_km=drop_loss_km), distance=DISTANCES["manhattan"]
    )
    assert design(sparse_prior(4)).row(3)[12] == pytest.approx(probability)


# Invalid parameters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parameters", "pattern"),
    [
        ("cloaking", {"k": 3, "population": 2}, r"`k`.*`population`.*found 3\b.*\b2\b"),
        ("cloaking", {"k": 1, "population": 0}, r"(?s)population.*input_value=0"),
        ("cloaking", {"quality_budget_km": -1.0}, r"(?s)quality_budget_km.*input_value=-1.0"),
        ("snapping", {"cells_per_side": 0}, r"(?s)cells_per_side.*input_value=0"),
        ("snapping", {"cells_per_side": 2, "quality_budget_km": 1.0}, r"cells_per_side.*quality_budget_km"),
        ("dropping", {"drop_probability": 1.5}, r"(?s)drop_probability.*input_value=1.5"),
        ("dropping", {"drop_probability": 0.5, "drop_loss_km": -1.0}, r"(?s)drop_loss_km.*input_value=-1.0"),
        ("dropping", {"quality_budget_km": np.inf}, r"(?s)quality_budget_km.*input_value=inf"),
    ],
)
def test_invalid_parameters_are_rejected(kind: str, parameters: dict[str, Any], pattern: str) -> None:
    with pytest.raises(ValidationError, match=pattern):
        make(kind, DISTANCES["manhattan"], **parameters)


def test_losses_must_have_the_shape_of_the_matrix() -> None:
    space = Dropping(DroppingParameters(drop_probability=0.5), distance=DISTANCES["manhattan"]).space
    with pytest.raises(ValueError, match=r"^losses_km\b.*\(2, 3\).*\(2, 2\)$"):
        OwnMatrixChannel(np.full((2, 3), 1 / 3), space=space, losses_km=np.zeros((2, 2)))
