"""Every shipped mechanism and attack on scattered points: it runs, or says that it needs the cells of a grid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.scenario.lppms import LPPMSpec, short_names
from sim.scenario.reading.faults import ScenarioError

LPPMS = sorted(short_names())
WORLD: dict[str, Any] = {"locations": {"kind": "points", "file": "points.csv"}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file of fifteen points."""
    made = tmp_path_factory.mktemp("points")
    rng = np.random.default_rng(5)
    rows = [f"p{i},{37.76 + rng.normal(0, 0.02):.6f},{-122.43 + rng.normal(0, 0.02):.6f}" for i in range(15)]
    (made / "points.csv").write_text("\n".join(["label,lat,lon", *rows]) + "\n")
    return made


def scenario(folder: Path, **changes: Any) -> sim.Scenario:
    base: dict[str, Any] = {
        "world": WORLD,
        "users": {"count": 2, "queries": 6, "mobility": "favourites"},
        "training": {"others": {"kind": "others", "count": 3, "queries": 20}},
        "attacks": ["sporadic", "markov", "face-value", "home"],
    }
    return sim.make_scenario(base | changes, folder=folder)


def needs_grid(name: str) -> bool:
    return LPPMSpec.model_validate({"kind": name}).design.needs_grid


def test_mechanisms(folder: Path) -> None:
    names = [name for name in LPPMS if not needs_grid(name)]
    assert {"SP-Exp", "PEB-LH", "PEB-SPMK-AMix", "SP-Opt", "SP-GeoOpt", "Android", "LG", "SP-HiddenZone"} < set(names)
    summary = sim.run(scenario(folder, lppms=names), figures=False).summary()
    assert set(summary["lppm"]) == set(names)
    for metric in ("quality_loss_km", "adversary_error_km"):
        assert summary[metric].between(0, 20).all()


@pytest.mark.parametrize("name", [name for name in LPPMS if needs_grid(name)])
def test_mechanisms_of_grids(name: str, folder: Path) -> None:
    with pytest.raises(ScenarioError) as error:
        sim.run(scenario(folder, lppms=[name]), figures=False)
    assert [fault.code for fault in error.value.faults] == ["needs-grid"]


def test_points_in_the_plane_replace_planar_laplace_on_cells(folder: Path) -> None:
    design = {"kind": "planar_laplace", "discretise": False}
    summary = sim.run(scenario(folder, lppms=[{"kind": "PL", "design": design}]), figures=False).summary()
    assert summary["quality_loss_km"].between(0, 20).all()
