"""The channels between grid cells equal those of the designs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sim
from sim.audit.grid_exponential import Border, Extent, Metric, channel

ROWS, COLS = 4, 5


@pytest.mark.parametrize(
    ("name", "border", "metric", "parameters"),
    [
        ("Exp", "normalised", "manhattan", {}),
        ("PG", "clamped", "euclidean", {}),
        ("PG", "clamped", "manhattan", {"metric": "manhattan"}),
    ],
)
def test_channel_equals_the_design(name: str, border: Border, metric: Metric, parameters: dict[str, Any]) -> None:
    world = sim.make_world("rectangle", rows=ROWS, cols=COLS, width_km=6.0, height_km=4.0, quality_distance="manhattan")
    mechanism = sim.make_lppm(name, world=world, epsilon_per_km=1.1, **parameters)
    expected = np.array(mechanism.design(np.full(20, 0.05)).matrix())
    extent = Extent(0, 0, ROWS, COLS, 1000.0, 1200.0)
    assert channel(extent, metric, border, 1.1) == pytest.approx(expected, abs=1e-6)
