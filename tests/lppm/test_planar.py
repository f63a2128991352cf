"""Geo-indistinguishable designs meet their guarantee, by matrix and by samples; reported points are scaled in km."""

from __future__ import annotations

import math
import pickle
from functools import partial
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import gamma, kstest

import sim
from sim.errors import InvalidValue
from sim.interfaces import Design, FloatArray
from sim.lppm.calibration import expected_loss_km
from sim.lppm.designs.exponential import Exponential
from sim.lppm.designs.planar_geometric import PlanarGeometric, PlanarGeometricParameters
from sim.lppm.designs.planar_laplace import (
    EPSILON_OF_POINTS_PER_KM,
    LaplacePointsChannel,
    PlanarLaplace,
    PlanarLaplaceParameters,
)
from sim.lppm.epsilon import exact_epsilon_per_km
from sim.lppm.outputs import Points
from sim.world import World
from sim.world.distance import Distance, MatrixDistance
from sim.world.distances.euclidean import euclidean
from sim.world.distances.manhattan import manhattan
from sim.world.grid import Grid
from sim.world.locations import EARTH_RADIUS_KM
from tests.lppm.validation import codes
from tests.support import made, raises_code

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.4, height_km=2.1)
EUCLIDEAN, MANHATTAN = euclidean(GRID), manhattan(GRID)
HOPS = MatrixDistance(kind="file", matrix_km=np.where(MANHATTAN.matrix_km > 0, 3.0, 0.0))
"""A distance that is defined between cells only."""


def prior(seed: int = 0) -> FloatArray:
    return np.random.default_rng(seed).dirichlet(np.full(12, 0.5))


MAKE: dict[str, Any] = {
    "laplace": partial(made, PlanarLaplace, locations=GRID),
    "laplace drawn again": partial(made, PlanarLaplace, locations=GRID, truncate="renormalise"),
    "geometric": partial(made, PlanarGeometric, grid=GRID),
    "geometric by blocks": partial(made, PlanarGeometric, grid=GRID, metric="manhattan"),
    "exponential": partial(made, Exponential),
}
GUARANTEES = [
    ("laplace", EUCLIDEAN, 1.0),
    ("laplace", MANHATTAN, 1.0),
    ("laplace drawn again", EUCLIDEAN, 2.0),
    ("geometric", EUCLIDEAN, 1.0),
    ("geometric by blocks", MANHATTAN, 1.0),
    ("geometric by blocks", EUCLIDEAN, math.sqrt(2)),
    ("exponential", EUCLIDEAN, 2.0),
    ("exponential", MANHATTAN, 2.0),
]
"""Guaranteed multiple of epsilon by mechanism and distance; the exponential mechanism uses that distance."""

each_guarantee = pytest.mark.parametrize(
    ("name", "distance", "times"), GUARANTEES, ids=[f"{name} in {distance.kind}" for name, distance, _ in GUARANTEES]
)


@each_guarantee
@pytest.mark.parametrize("remap", [False, True])
def test_matrix_meets_the_guarantee(name: str, distance: Distance, times: float, remap: bool) -> None:
    for epsilon in (0.05, 1.0, 8.0):
        channel = MAKE[name](distance=distance, epsilon_per_km=epsilon, remap=remap)(prior())
        assert exact_epsilon_per_km(channel, distance) <= times * epsilon * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 8.0])
def test_exact_epsilon_of_each_mechanism(epsilon: float) -> None:
    def exact(name: str, distance: Distance) -> float:
        channel = MAKE[name](distance=distance, epsilon_per_km=epsilon, remap=False)(prior())
        return exact_epsilon_per_km(channel, distance) / epsilon

    assert exact("geometric", EUCLIDEAN) == pytest.approx(1, rel=1e-9)
    assert exact("geometric by blocks", MANHATTAN) == pytest.approx(1, rel=1e-9)
    assert 1.2 < exact("geometric by blocks", EUCLIDEAN) < math.sqrt(2)
    assert 0.9 < exact("laplace", EUCLIDEAN) < 1
    # Normalising each row separately reveals the border; the effect grows with the share of noise outside the grid.
    for name in ("laplace drawn again", "exponential"):
        assert (exact(name, EUCLIDEAN) > 1.2) == (epsilon < 1 or (name, epsilon) == ("exponential", 1.0))


def excess(channel: Any, epsilon: float, cells: tuple[int, int], draws: int = 4000) -> FloatArray:
    """Return, per output, the excess of the first cell's frequency over epsilon's bound, in standard errors."""
    rng = np.random.default_rng(7)
    one, other = (
        np.bincount([channel.sample(cell, rng) for _ in range(draws)], minlength=12) / draws for cell in cells
    )
    bound = math.exp(epsilon * EUCLIDEAN.matrix_km[cells])
    error = np.sqrt((one * (1 - one) + bound**2 * other * (1 - other) + 1 / draws) / draws)
    return np.asarray((one - bound * other) / error)


@each_guarantee
@pytest.mark.parametrize("remap", [False, True])
def test_samples_meet_the_guarantee(name: str, distance: Distance, times: float, remap: bool) -> None:
    channel = MAKE[name](distance=distance, epsilon_per_km=0.8, remap=remap)(prior())
    for cells in ((5, 6), (6, 5), (1, 9)):  # along an axis, where all distances are the same
        assert excess(channel, times * 0.8, cells).max() < 4
    assert remap or excess(channel, 0.4 * 0.8, (5, 6)).max() > 5, "a violated guarantee must be detected"


@pytest.mark.parametrize(("distance", "remap"), [(EUCLIDEAN, True), (MANHATTAN, False), (HOPS, True)])
@pytest.mark.parametrize("name", list(MAKE)[:4])
def test_expected_loss_under_the_prior_is_the_budget(name: str, remap: bool, distance: Distance) -> None:
    design = MAKE[name](distance=distance, quality_budget_km=0.4, remap=remap)
    assert design.uses_prior
    assert expected_loss_km(design(prior(1)), prior(1), distance) == pytest.approx(0.4, abs=2e-5)


@pytest.mark.parametrize("name", list(MAKE)[:4])
def test_zero_and_excessive_budgets(name: str) -> None:
    assert MAKE[name](distance=MANHATTAN, quality_budget_km=0.0)(prior()).matrix().tolist() == np.eye(12).tolist()
    nothing = MAKE[name](distance=MANHATTAN, quality_budget_km=1e3)(prior())
    assert exact_epsilon_per_km(nothing, EUCLIDEAN) == 0
    assert expected_loss_km(nothing, prior(), MANHATTAN) == pytest.approx((prior() @ MANHATTAN.matrix_km).min())


@pytest.mark.parametrize("name", list(MAKE)[:4])
def test_remap_lowers_the_loss_and_keeps_epsilon(name: str) -> None:
    plain, remapped = (
        MAKE[name](distance=MANHATTAN, epsilon_per_km=0.7, remap=remap)(prior()) for remap in (False, True)
    )
    assert expected_loss_km(remapped, prior(), MANHATTAN) < expected_loss_km(plain, prior(), MANHATTAN)
    assert exact_epsilon_per_km(remapped, EUCLIDEAN) <= exact_epsilon_per_km(plain, EUCLIDEAN) * (1 + 1e-12)


def test_prior_matters_only_for_remap_and_budget() -> None:
    for name in list(MAKE)[:4]:
        design: Design = MAKE[name](distance=MANHATTAN, epsilon_per_km=1.0, remap=False)
        assert design.uses_prior is False  # type: ignore[attr-defined]
        assert design(prior(1)) is design(prior(2))
        again = pickle.loads(pickle.dumps(design))
        assert again(prior(1)).matrix().tolist() == design(prior(2)).matrix().tolist()


# Points -------------------------------------------------------------------------------------------------------------


def points(distance: Distance = EUCLIDEAN, grid: Grid = GRID, **parameters: Any) -> LaplacePointsChannel:
    channel = made(PlanarLaplace, discretise=False, locations=grid, distance=distance, **parameters)(prior())
    assert isinstance(channel, LaplacePointsChannel)
    return channel


def haversine_km(lat: FloatArray, lon: FloatArray, from_lat: float, from_lon: float) -> FloatArray:
    across, along = np.radians(lat - from_lat), np.radians(lon - from_lon)
    parallels = np.cos(np.radians(lat)) * np.cos(np.radians(from_lat))
    half = np.sin(across / 2) ** 2 + parallels * np.sin(along / 2) ** 2
    return np.asarray(2 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(half)))


@pytest.mark.parametrize("latitude", [0.0, 64.0, -78.0])
def test_noise_has_the_right_size_at_any_latitude(latitude: float) -> None:
    grid = Grid.region(rows=3, cols=3, south=latitude - 0.05, north=latitude + 0.05, west=20.0, east=20.3)
    channel, rng = points(euclidean(grid), grid, epsilon_per_km=4.0), np.random.default_rng(5)
    drawn = np.array([channel.space.place_km(channel.sample(4, rng)) for _ in range(3000)])
    lat, lon = grid.to_degrees(*drawn.T)
    here = (float(angle) for angle in grid.to_degrees(grid.x_km[4], grid.y_km[4]))
    radius_km = haversine_km(lat, lon, *here)
    assert kstest(radius_km, gamma(2, scale=1 / 4.0).cdf).pvalue > 0.01
    assert radius_km.mean() == pytest.approx(2 / 4.0, rel=0.04)
    angle = np.arctan2(drawn[:, 1] - grid.y_km[4], drawn[:, 0] - grid.x_km[4])
    assert kstest(angle / (2 * np.pi) + 0.5, "uniform").pvalue > 0.01


def test_likelihood_of_points_is_the_density_per_square_metre() -> None:
    channel = points(epsilon_per_km=2.0)
    output = channel.space.output(GRID.x_km[5] + 0.3, GRID.y_km[5] - 0.4)
    x_km, y_km = channel.space.place_km(output)
    away = np.hypot(x_km - GRID.x_km, y_km - GRID.y_km)
    np.testing.assert_allclose(channel.likelihood(output), 4 / (2 * np.pi) * np.exp(-2 * away) * 1e-6, rtol=1e-12)
    every_120_m = (channel.space.output(x, y) for x in np.arange(-5, 8, 0.12) for y in np.arange(-5, 7, 0.12))
    assert sum(channel.likelihood(place)[5] for place in every_120_m) * 120**2 == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("distance", [EUCLIDEAN, MANHATTAN, HOPS], ids=lambda distance: distance.kind)
def test_expected_loss_of_points_matches_samples(distance: Distance) -> None:
    channel, rng = points(distance, epsilon_per_km=3.0), np.random.default_rng(1)
    lost = [channel.loss_of_km(0, channel.sample(0, rng)) for _ in range(4000)]
    assert np.mean(lost) == pytest.approx(channel.expected_loss_of_km(0), abs=5 * float(np.std(lost)) / math.sqrt(4000))
    here = channel.space.output(1.65, 1.05)
    x_km, y_km = 1.65 - GRID.x_km[0], 1.05 - GRID.y_km[0]
    want = {"euclidean": math.hypot(x_km, y_km), "manhattan": x_km + y_km, "file": 3.0}
    assert channel.loss_of_km(0, here) == pytest.approx(want[distance.kind])


def test_expected_loss_of_points_has_closed_forms() -> None:
    assert points(EUCLIDEAN, epsilon_per_km=4.0).expected_loss_of_km(3) == 0.5
    assert points(MANHATTAN, epsilon_per_km=4.0).expected_loss_of_km(3) == pytest.approx(2 / math.pi)
    for distance in (EUCLIDEAN, MANHATTAN):
        design = PlanarLaplace(
            PlanarLaplaceParameters(quality_budget_km=0.7, discretise=False), locations=GRID, distance=distance
        )
        assert not design.uses_prior
        assert points(distance, quality_budget_km=0.7).expected_loss_of_km(0) == pytest.approx(0.7)
    by_cell = points(HOPS, quality_budget_km=0.7)
    lost = sum(p * by_cell.expected_loss_of_km(cell) for cell, p in enumerate(prior()))
    assert lost == pytest.approx(0.7, abs=2e-5)
    assert PlanarLaplace(
        PlanarLaplaceParameters(quality_budget_km=0.7, discretise=False), locations=GRID, distance=HOPS
    ).uses_prior
    assert points(HOPS, quality_budget_km=2.9).epsilon_per_km == EPSILON_OF_POINTS_PER_KM[0]


def test_points_have_an_exact_epsilon_in_any_distance() -> None:
    channel = points(epsilon_per_km=1.5)
    assert exact_epsilon_per_km(channel, EUCLIDEAN) == pytest.approx(1.5)
    assert exact_epsilon_per_km(channel, MANHATTAN) == pytest.approx(1.5)
    farthest_km = EUCLIDEAN.matrix_km.max()
    assert exact_epsilon_per_km(channel, HOPS) == pytest.approx(1.5 * farthest_km / 3)
    for output in (channel.space.output(40.0, 1.0), channel.space.output(0.5, -20.0), channel.space.output(1.0, 1.0)):
        logs = np.log(channel.likelihood(output))
        assert np.all(logs[:, None] - logs <= 1.5 * EUCLIDEAN.matrix_km + 1e-9)


def test_points_cannot_be_enumerated() -> None:
    channel = points(epsilon_per_km=1.0)
    assert isinstance(channel.space, Points)
    assert channel.n_outputs == 2**52
    for attempt in (channel.matrix, channel.likelihoods, lambda: channel.row(0)):
        with raises_code(InvalidValue, "too-many-outputs"):
            attempt()


# Invalid parameters -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "pattern"),
    [
        ({"epsilon_per_km": 1.0, "quality_budget_km": 1.0}, r"epsilon_per_km.*quality_budget_km"),
        ({"epsilon_per_km": 1.0, "truncate": "wrap"}, r"(?s)truncate.*input_value='wrap'"),
        ({"epsilon_per_km": -1.0}, r"(?s)epsilon_per_km.*input_value=-1"),
    ],
)
def test_invalid_laplace_parameters_are_rejected(parameters: dict[str, Any], pattern: str) -> None:
    with pytest.raises(ValidationError, match=pattern):
        made(PlanarLaplace, locations=GRID, distance=EUCLIDEAN, **parameters)


def test_budget_of_points_that_needs_an_epsilon_out_of_range_is_rejected() -> None:
    with raises_code(InvalidValue, "epsilon-out-of-range") as error:
        points(quality_budget_km=0.01)
    assert "[0.001, 100], got 200" in str(error.value)


def test_unknown_metric_is_rejected() -> None:
    with pytest.raises(ValidationError, match=r"(?s)metric.*input_value='road'"):
        PlanarGeometric(PlanarGeometricParameters(epsilon_per_km=1.0, metric="road"), grid=GRID, distance=EUCLIDEAN)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("parameters", "code", "value"),
    [
        ({"remap": True}, "exclusive-keys", "`remap: true`"),
        ({"truncate": "renormalise"}, "exclusive-keys", "`truncate: renormalise`"),
        ({"epsilon_per_km": 101}, "epsilon-out-of-range", "[0.001, 100], found 101"),
        ({"epsilon_per_km": 0.0}, "epsilon-out-of-range", "[0.001, 100], found 0"),
        ({"quality_budget_km": 0}, "infeasible-budget", "`quality_budget_km`"),
    ],
)
def test_invalid_parameters_of_points_have_codes(parameters: dict[str, Any], code: str, value: str) -> None:
    with pytest.raises(ValidationError) as error:
        PlanarLaplaceParameters.model_validate({"kind": "planar_laplace", "discretise": False, **parameters})
    assert codes(error.value) == [code]
    assert value in str(error.value)


def test_parameters_and_design_agree() -> None:
    world = World(locations=GRID, roads=None, privacy_distance=EUCLIDEAN, quality_distance=EUCLIDEAN)
    for parameters in ({}, {"remap": False}, {"discretise": False}, {"quality_budget_km": 0.5, "remap": False}):
        spec = PlanarLaplaceParameters.model_validate({"kind": "planar_laplace", **parameters})
        design: Any = spec.build(world)
        assert design.uses_prior == spec.uses_prior
        assert (design.space is None) == spec.discretise
    by_default: Any = PlanarLaplaceParameters(discretise=False).build(world)
    assert by_default(prior()).epsilon_per_km == 1.0


def test_points_pass_through_a_whole_simulation(tmp_path: Any, make_scenario: Any) -> None:
    scenario = make_scenario(
        users={"count": 2, "queries": 20, "mobility": "favourites"},
        lppms=[{"kind": "PL", "design": {"discretise": False, "epsilon_per_km": 3}}],
        attacks=["sporadic", "markov"],
        record={"epsilon": "euclidean"},
    )
    events = sim.run(scenario, out=tmp_path / "run", figures=False).events()
    grid = scenario.build_world().grid
    space = Points(grid)
    x_km, y_km = np.array([space.place_km(output) for output in events["output"]]).T
    cell = events["cell"].to_numpy()
    lost_km = np.abs(x_km - grid.x_km[cell]) + np.abs(y_km - grid.y_km[cell])
    assert events["quality_loss_km"].to_numpy() == pytest.approx(lost_km)
    assert events["expected_quality_loss_km"].to_numpy() == pytest.approx(8 / (3 * math.pi))
    assert events["epsilon_per_km"].to_numpy() == pytest.approx(3)
    assert events["adversary_error_km"].mean() < events["quality_loss_km"].mean()
