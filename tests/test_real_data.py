"""The paper's first claim for learning mechanisms, on real check-ins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.analysis import curves
from sim.scenario.models import Scenario

TWENTY = {"min_visits": 300, "first": 20}


@pytest.mark.slow
@pytest.mark.data
def test_peb_exp_lies_above_sp_exp_on_gowalla_at_one_kilometre(real_data: Path, tmp_path: Path) -> None:
    file = "data:gowalla_sf_ccs17.csv.gz"
    data: dict[str, Any] = {
        "name": "gowalla",
        "seed": 1,
        "replications": 2,
        "world": {"grid": "san_francisco"},
        "users": {
            "mobility": {
                "kind": "replay",
                "file": file,
                "select": {**TWENTY, "last": 5},
                "visits": 300,
                "shuffle": True,
            }
        },
        "training": {
            "rich": {"kind": "others", "mobility": {"kind": "replay", "file": file, "select": {"exclude": TWENTY}}}
        },
        "lppms": ["SP-Exp", "PEB-Exp"],
        "attacks": ["sporadic"],
        "sweep": {"lppms.*.design.epsilon_per_km": [0.6, 1.0, 1.5, 2.5]},
    }
    scenario = Scenario.model_validate(data).at(Path(), real_data)
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    events = result.events()
    assert events["user"].nunique() == 5
    assert events.groupby(["lppm", "point", "replication", "user"]).size().eq(300).all()
    at_one = curves(result.per_user(), [1.0])
    assert at_one["users"].eq(5).all()
    error_km = dict(zip(at_one["lppm"], at_one["mean_km"].tolist(), strict=True))
    assert error_km["PEB-Exp"] > error_km["SP-Exp"]
