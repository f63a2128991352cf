"""Every design in a world where errors and losses are counted by roads and by the kinds of places."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from sim.components.registry import OneOf, registry
from sim.interfaces import FloatArray
from sim.lppm.parameters import DesignParameters
from sim.lppm.theory import theory
from sim.world import Distance, Grid, World
from sim.world.distances.road import road
from sim.world.distances.semantic import semantic
from sim.world.roads.lattice import lattice

GRID = Grid.rectangle(rows=3, cols=4, width_km=4.0, height_km=3.0)
ROADS = lattice(GRID, spacing_km=0.7, one_way_share=0.6, rng=np.random.default_rng(1))
BY_ROAD = road(GRID, ROADS)
BY_KIND = semantic(["home", "food/pizza", "food/sushi", "work", "home", "park"] * 2, apart_km=2.0)
PRIOR: FloatArray = np.random.default_rng(2).dirichlet(np.full(12, 0.8))
BUDGET_KM = 0.6

AnyDesign = Annotated[DesignParameters, OneOf("design")]


def designs() -> list[dict[str, Any]]:
    """Return each kind with its defaults and, if it has one, with a budget."""
    found: list[dict[str, Any]] = []
    for kind, spec in registry.kinds("design").items():
        if kind != "module:Class":
            found.append({"kind": kind})
            found += (
                [{"kind": kind, "quality_budget_km": BUDGET_KM}] if "quality_budget_km" in spec.model_fields else []
            )
    return found


@pytest.mark.parametrize("said", designs(), ids=lambda said: f"{said['kind']}{'-budget' if len(said) > 1 else ''}")
@pytest.mark.parametrize(
    ("quality", "privacy"), [(BY_ROAD, BY_KIND), (BY_KIND, BY_ROAD)], ids=["lost on roads", "lost in kind"]
)
def test_every_design_counts_by_the_distances_of_the_world(
    said: dict[str, Any], quality: Distance, privacy: Distance
) -> None:
    world = World(grid=GRID, roads=ROADS, privacy_distance=privacy, quality_distance=quality)
    channel = TypeAdapter(AnyDesign).validate_python(said).build(world)(PRIOR)
    matrix = channel.matrix()
    assert matrix.sum(axis=1) == pytest.approx(np.ones(12))
    figures = theory(channel, PRIOR, quality=quality, privacy=privacy)
    own = getattr(channel, "loss_of_km", None)
    loss = sum(
        PRIOR[x] * matrix[x, z] * (own(x, z) if own is not None else quality.matrix_km[x, z])
        for x, z in np.argwhere(matrix > 0)
    )
    assert figures.quality_loss_km == pytest.approx(loss)
    error = sum(
        min((PRIOR * matrix[:, z]) @ privacy.matrix_km[:, y] for y in range(12)) for z in range(matrix.shape[1])
    )
    assert figures.adversary_error_km == pytest.approx(error)
    nothing_told = min(PRIOR @ privacy.matrix_km[:, y] for y in range(12))
    assert -1e-12 <= error <= nothing_told + 1e-9
    if "quality_budget_km" in said:
        assert loss <= BUDGET_KM + 1e-4
