"""What all tests share: small scenarios, and the real data where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim.scenario.files import VARIABLE, data_folder
from sim.scenario.models import Scenario

MakeScenario = Callable[..., Scenario]


@pytest.fixture
def make_scenario() -> MakeScenario:
    """Return a function that makes a small, quick scenario with changes."""

    def make(**changes: Any) -> Scenario:
        data: dict[str, Any] = {
            "name": "small",
            "seed": 3,
            "replications": 1,
            "world": {"grid": {"kind": "rectangle", "rows": 4, "cols": 5, "width_km": 5.0, "height_km": 4.0}},
            "users": {
                "count": 3,
                "queries": 25,
                "mobility": {"kind": "favourites", "places": 4},
            },
            "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
            "lppms": ["SP-Exp", "PEB-LH"],
            "attacks": ["sporadic", "markov"],
        }
        return Scenario.model_validate(data | changes)

    return make


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real data sets, or skip."""
    folder = data_folder()
    if folder is None:
        pytest.skip(f"the real data sets are not here: set {VARIABLE} or put them into ../shared/data")
    return folder
