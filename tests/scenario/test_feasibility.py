"""Matrices over all pairs of cells that are too large are refused before anything is built."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import sim
from sim.errors import InvalidValue
from sim.execution.cost.estimate import estimate
from sim.execution.study import Study
from sim.lppm.parameters import WorldSize
from sim.scenario.feasibility import require_feasible
from sim.scenario.models import Scenario
from sim.scenario.reading.faults import ScenarioError
from tests.support import MakeScenario

SHAPE = {"kind": "rectangle", "rows": 62, "cols": 50, "width_km": 5.0, "height_km": 6.2}
CELLS = 3_100
MATRIX_BYTES = CELLS**2 * 8
STREET = {"kind": "san_francisco", "rows": 240, "cols": 140}
BUDGET = {"quality_budget_km": 0.3}
ON_GRIDS = ["manhattan", "euclidean"]


def scenario_with(make_scenario: MakeScenario, design: dict[str, Any], distance: str, grid: dict[str, Any]) -> Scenario:
    return make_scenario(
        world={"grid": grid, "quality_distance": distance},
        lppms=[{"name": "it", "belief": {"kind": "fixed_profile"}, "design": design}],
        attacks=[],
        record={"expected": False},
    )


@pytest.mark.parametrize("distance", ON_GRIDS)
@pytest.mark.parametrize(
    "design",
    [
        {"kind": "exponential"},
        {"kind": "exponential", "remap": False},
        {"kind": "exponential", **BUDGET},
        {"kind": "exponential", "remap": False, **BUDGET},
        {"kind": "location_hiding"},
        {"kind": "location_hiding", **BUDGET},
        {"kind": "planar_laplace", "remap": False},
        {"kind": "planar_laplace", "discretise": False},
        {"kind": "planar_laplace", "discretise": False, **BUDGET},
        {"kind": "planar_geometric", "metric": "manhattan"},
        {"kind": "planar_geometric", "metric": "manhattan", "remap": False},
        {"kind": "snapping", "cells_per_side": 20, "remap": False},
        {"kind": "cloaking"},
        {"kind": "dropping"},
        {"kind": "dummies"},
        {"kind": "identity"},
    ],
    ids=lambda design: "-".join(map(str, design.values())),
)
def test_designs_declare_whether_they_hold_a_matrix(
    design: dict[str, Any], distance: str, make_scenario: MakeScenario, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A design is refused if and only if it allocates at least a matrix over all pairs of cells, or refuses itself."""
    scenario = scenario_with(make_scenario, design, distance, SHAPE)
    world = scenario.build_world()
    spec = scenario.lppms[0].design
    prior = np.random.default_rng(1).dirichlet(np.full(CELLS, 0.01))
    tracemalloc.start()
    try:
        channel = spec.build(world)(prior)
        output = channel.sample(17, np.random.default_rng(2))
        channel.likelihood(output)
        dense = tracemalloc.get_traced_memory()[1] >= MATRIX_BYTES
    except InvalidValue:
        dense = True
    finally:
        tracemalloc.stop()
    monkeypatch.setattr("sim.inference.dense.DENSE_BYTES", MATRIX_BYTES - 1)
    if not dense:
        require_feasible([scenario])
        return
    with pytest.raises(ScenarioError) as refused:
        require_feasible([scenario])
    assert [fault.path for fault in refused.value.faults] == ["lppms.it.design"]


@pytest.mark.parametrize("name", ["SP-Opt", "SP-GeoOpt", "SP-PL", "SP-PG", "SP-Snap", "SP-Cloak", "Drop"])
def test_check_and_run_refuse_a_matrix_alike(name: str, make_scenario: MakeScenario) -> None:
    lppm = {"kind": name, "design": {"quality_budget_km": 1.0}} if name == "SP-Opt" else name
    scenario = make_scenario(world={"grid": STREET}, lppms=["SP-Exp", lppm])
    for refuse in (lambda: estimate(scenario, measure=False), lambda: Study.of(scenario), lambda: sim.run(scenario)):
        with pytest.raises(ScenarioError) as refused:
            refuse()
        assert refused.value.codes == ["matrix-too-large"]
        assert f"lppms.{name}.design: " in str(refused.value)
        assert "9.0 GB" in str(refused.value)


PEB = {"belief": {"kind": "estimated_profile"}, "design": "location_hiding", "name": "it"}


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"world": {"grid": STREET, "quality_distance": "road", "roads": "lattice"}}, "lppms.SP-Exp.design"),
        ({"lppms": [{**PEB, "belief": {"kind": "markov_em"}}]}, "lppms.it.belief"),
        (
            {"lppms": [{**PEB, "belief": {"kind": "estimated_profile", "regularise": {"smooth_km": 1.0}}}]},
            "lppms.it.belief",
        ),
        (
            {"lppms": [{**PEB, "belief": {"kind": "estimated_profile", "regularise": "cross_validated"}}]},
            "lppms.it.belief",
        ),
        ({"attacks": [{"kind": "sporadic", "assumes": {"kind": "snapping"}}]}, "attacks.sporadic.assumes"),
        ({"users": {"count": 2, "queries": 3, "mobility": "markov"}}, "users.mobility"),
        (
            {"training": {"o": {"kind": "others", "count": 2, "queries": 3, "mobility": "markov"}}},
            "training.o.mobility",
        ),
        ({"record": {"epsilon": "quality"}}, "record.epsilon"),
        ({"sweep": {"lppms": [["SP-Exp"], ["SP-Cloak"]]}}, "lppms.SP-Cloak.design"),
    ],
)
def test_other_parts_are_refused_with_their_path(
    changes: dict[str, Any], path: str, make_scenario: MakeScenario
) -> None:
    settings: dict[str, Any] = {"world": {"grid": STREET}, "lppms": ["SP-Exp"], **changes}
    with pytest.raises(ScenarioError) as refused:
        Study.of(make_scenario(**settings))
    assert [(fault.path, fault.code) for fault in refused.value.faults] == [(path, "matrix-too-large")]


def test_a_euclidean_budget_with_remap_is_refused(make_scenario: MakeScenario) -> None:
    world = {"grid": STREET, "quality_distance": "euclidean"}
    lppm = {"kind": "SP-Exp", "design": {"quality_budget_km": 1.0}}
    with pytest.raises(ScenarioError) as refused:
        estimate(make_scenario(world=world, lppms=[lppm]), measure=False)
    assert refused.value.codes == ["budget-needs-remap"]
    Study.of(make_scenario(world={"grid": STREET}, lppms=[lppm]))


def test_a_matrix_from_a_file_is_refused_before_it_is_read(make_scenario: MakeScenario) -> None:
    distance = {"kind": "matrix", "file": "missing.npy"}
    scenario = make_scenario(world={"grid": STREET, "privacy_distance": distance}, lppms=["identity"])
    with pytest.raises(ScenarioError) as refused:
        Study.of(scenario)
    assert [fault.path for fault in refused.value.faults] == ["world.privacy_distance"]


def test_the_street_level_designs_are_accepted(make_scenario: MakeScenario) -> None:
    for distance in ON_GRIDS:
        world = {"grid": STREET, "quality_distance": distance, "privacy_distance": distance}
        names = ["SP-Exp", "MK-LH", "PEB-Exp", "PEB-MK-LH", "RPEB-Exp", "identity", "Dummies"]
        require_feasible([make_scenario(world=world, lppms=names, training={})])


def test_a_custom_size_is_refused_by_its_own_limit() -> None:
    small = WorldSize(n_cells=11_180, quality="manhattan", privacy="manhattan")
    small.require_dense()
    with pytest.raises(InvalidValue):
        WorldSize(n_cells=11_181, quality="manhattan", privacy="manhattan").require_dense()


@pytest.mark.parametrize("kind", ["android_coarse", "android_density", "browser", "decimals", "meshtastic", "webkit"])
def test_designs_that_need_coordinates_are_refused_on_a_plane(kind: str, make_scenario: MakeScenario) -> None:
    plane = {"kind": "rectangle", "rows": 3, "cols": 3, "width_km": 3.0, "height_km": 3.0}
    with pytest.raises(ScenarioError) as error:
        require_feasible([scenario_with(make_scenario, {"kind": kind}, "manhattan", plane)])
    (fault,) = error.value.faults
    assert (fault.path, fault.code) == ("lppms.it.design", "no-coordinates")
    require_feasible([scenario_with(make_scenario, {"kind": kind}, "manhattan", {"kind": "san_francisco"})])
