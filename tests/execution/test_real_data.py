"""Claims about learning mechanisms on real check-ins: that of the paper, and those for mechanisms beyond it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.analysis.curves import loss_curves
from sim.scenario.lppms import RECOMMENDED
from sim.scenario.models import Scenario
from sim.storage.load import load
from tests.support import ROOT

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
    at_one = loss_curves(result.per_user(), [1.0])
    assert at_one["users"].eq(5).all()
    error_km = dict(zip(at_one["lppm"], at_one["mean_km"].tolist(), strict=True))
    assert error_km["PEB-Exp"] > error_km["SP-Exp"]


@pytest.mark.slow
@pytest.mark.data
def test_learning_mechanisms_beyond_the_paper_lie_above_peb_exp_on_gowalla(real_data: Path, tmp_path: Path) -> None:
    text = (ROOT / "scenarios" / "beyond" / "mk-gowalla.yaml").read_text()
    path = tmp_path / "mk-gowalla.yaml"
    path.write_text(text.replace("data:gowalla.parquet", "data:gowalla_sf_ccs17.csv.gz"))
    settings = {
        "users.mobility.select.first": 8,
        "replications": 1,
        "lppms": ["PEB-Exp", "MK-Exp", "RPEB-Exp", RECOMMENDED],
        "sweep": {"lppms.*.design.epsilon_per_km": [0.2, 0.7, 2]},
    }
    scenario = load(path, settings=settings, data=real_data)
    table = sim.run(scenario, out=tmp_path / "run", figures=False).at_loss([1.0], against="PEB-Exp")
    differences_km = dict(zip(table["lppm"], table["difference_km"].tolist(), strict=True))
    assert min(differences_km["RPEB-Exp"], differences_km[RECOMMENDED]) > 0.02
    assert differences_km[RECOMMENDED] > differences_km["MK-Exp"]
