"""Every design in a world with road, semantic and service distances for loss and error."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from sim.components.registry import OneOf, registry
from sim.interfaces import Channel, ChannelCapabilities, FloatArray, has_own_outputs
from sim.lppm.parameters import DesignParameters
from sim.lppm.theory import theory
from sim.world import Distance, Grid, World
from sim.world.distances.road import road
from sim.world.distances.semantic import semantic
from sim.world.distances.service import service_distance
from sim.world.roads.lattice import lattice
from sim.world.services.extra_travel import ExtraTravel
from sim.world.services.nearest_points import NearestPoints

GRID = Grid.region(rows=3, cols=4, south=48.85, north=48.877, west=2.33, east=2.3846)  # about 4 x 3 km
ROADS = lattice(GRID, spacing_km=0.7, one_way_share=0.6, rng=np.random.default_rng(1))
BY_ROAD = road(GRID, ROADS)
BY_KIND = semantic(["home", "food/pizza", "food/sushi", "work", "home", "park"] * 2, apart_km=2.0)
CAFES = np.random.default_rng(3).uniform(0, 3, (2, 9))
BY_RECALL = service_distance(NearestPoints(GRID, x_km=CAFES[0], y_km=CAFES[1], k=3), km_per_unit=2.0)
BY_TRAVEL = service_distance(ExtraTravel(GRID, roads=ROADS, x_km=CAFES[0], y_km=CAFES[1]))
PRIOR: FloatArray = np.random.default_rng(2).dirichlet(np.full(12, 0.8))
BUDGET_KM = 0.6

AnyDesign = Annotated[DesignParameters, OneOf("design")]


def designs() -> list[dict[str, Any]]:
    """Return each kind with its defaults and, if supported, with a budget."""
    parameters: list[dict[str, Any]] = []
    for kind, spec in registry.kinds("design").items():
        if kind != "module:Class":
            parameters.append({"kind": kind})
            parameters += (
                [{"kind": kind, "quality_budget_km": BUDGET_KM}] if "quality_budget_km" in spec.model_fields else []
            )
    return parameters


@pytest.mark.parametrize(
    "parameters", designs(), ids=lambda parameters: f"{parameters['kind']}{'-budget' if len(parameters) > 1 else ''}"
)
@pytest.mark.parametrize(
    ("quality", "privacy"),
    [(BY_ROAD, BY_KIND), (BY_KIND, BY_ROAD), (BY_RECALL, BY_ROAD), (BY_TRAVEL, BY_ROAD)],
    ids=["loss by road", "loss by kind", "points missing", "extra travel"],
)
def test_every_design_uses_the_distances_of_the_world(
    parameters: dict[str, Any], quality: Distance, privacy: Distance
) -> None:
    world = World(locations=GRID, roads=ROADS, privacy_distance=privacy, quality_distance=quality)
    channel = TypeAdapter(AnyDesign).validate_python(parameters).build(world)(PRIOR)
    if ChannelCapabilities.countless.of(channel):
        pytest.skip("too many outputs to enumerate")
    matrix = channel.matrix()
    assert matrix.sum(axis=1) == pytest.approx(np.ones(12))
    metrics = theory(channel, PRIOR, quality=quality, privacy=privacy)
    own = channel.loss_of_km if has_own_outputs(channel) else None
    loss = sum(
        PRIOR[x] * matrix[x, z] * (own(x, z) if own is not None else quality.matrix_km[x, z])
        for x, z in np.argwhere(matrix > 0)
    )
    assert metrics.quality_loss_km == pytest.approx(loss)
    if ChannelCapabilities.hidden_state.of(channel) is not None:
        assert metrics.adversary_error_km is None, "that of a single report would mislead"
        return
    error = sum(
        min((PRIOR * matrix[:, z]) @ privacy.matrix_km[:, y] for y in range(12)) for z in range(matrix.shape[1])
    )
    assert metrics.adversary_error_km == pytest.approx(error)
    without_report = min(PRIOR @ privacy.matrix_km[:, y] for y in range(12))
    assert -1e-12 <= error <= without_report + 1e-9
    if "quality_budget_km" in parameters:
        assert loss <= BUDGET_KM + 1e-4


@pytest.mark.parametrize("quality", [BY_RECALL, BY_TRAVEL], ids=["points missing", "extra travel"])
def test_designs_minimise_the_loss_of_a_service(quality: Distance) -> None:
    """No replacement of outputs loses less than the remap, and no channel protects better than the linear program."""
    world = World(locations=GRID, roads=ROADS, privacy_distance=BY_ROAD, quality_distance=quality)

    def channel(**design: Any) -> Channel:
        return TypeAdapter(AnyDesign).validate_python(design).build(world)(PRIOR)

    weights = PRIOR[:, None] * channel(kind="exponential", epsilon_per_km=0.4, remap=False).matrix()
    least_km = sum(min(weights[:, z] @ quality.matrix_km) for z in range(12))
    remapped = theory(channel(kind="exponential", epsilon_per_km=0.4), PRIOR, quality=quality, privacy=BY_ROAD)
    assert remapped.quality_loss_km == pytest.approx(least_km)
    assert least_km < 0.99 * float((weights * quality.matrix_km).sum())
    optimal = channel(kind="optimal_privacy", quality_budget_km=least_km)
    best = theory(optimal, PRIOR, quality=quality, privacy=BY_ROAD)
    assert best.quality_loss_km <= least_km + 1e-6
    assert best.adversary_error_km is not None
    assert remapped.adversary_error_km is not None
    assert best.adversary_error_km >= remapped.adversary_error_km - 1e-6
