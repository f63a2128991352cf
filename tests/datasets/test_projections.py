"""Inverse projections against pyproj 3.7.2, and PROJ strings of SUMO."""

from __future__ import annotations

import numpy as np
import pytest

from sim.datasets import projections
from sim.errors import InputError
from sim.interfaces import FloatArray
from sim.world.grid import Grid
from sim.world.roads.sumo import projection
from tests.support import raises_code


def one(x: float, y: float) -> tuple[FloatArray, FloatArray]:
    return np.array([x]), np.array([y])


@pytest.mark.parametrize(
    ("crs", "x", "y", "lat", "lon"),
    [
        ("EPSG:32633", 300000, 0.0, 0.0, 13.202947187648316),
        ("epsg:32633", 833000, 9000000, 80.58053991598204, 33.530525935942805),
        ("EPSG:32733", 166000, 1200000, -78.86472960153647, -0.6725324588639597),
        ("EPSG:25831", 500000, 4649776.22, 41.99999995764448, 3.0),
        ("EPSG:4326", 11.5, 48.1, 48.1, 11.5),
    ],
)
def test_degrees_equal_those_of_pyproj(crs: str, x: float, y: float, lat: float, lon: float) -> None:
    ours = projections.of_crs(crs).to_degrees(*one(x, y))
    assert np.ravel(ours) == pytest.approx([lat, lon], abs=2e-9)


@pytest.mark.parametrize("crs", ["EPSG:31468", "EPSG:32661", "UTM 33", ""])
def test_other_reference_systems_are_rejected(crs: str) -> None:
    with raises_code(InputError, "unsupported-crs"):
        projections.of_crs(crs)


def test_exported_projection_is_that_of_the_grid() -> None:
    grid = Grid.san_francisco()
    plane = projections.of_proj(projection(grid), (0.0, 0.0))
    assert plane is not None
    x_km, y_km = np.array([0.0, 3.0, grid.width_km]), np.array([0.0, 9.0, grid.height_km])
    ours, theirs = plane.to_degrees(x_km * 1000, y_km * 1000), grid.to_degrees(x_km, y_km)
    assert np.allclose(ours, theirs, rtol=0, atol=1e-12)
    assert projection(Grid.rectangle(rows=2, cols=2, width_km=1, height_km=1)) == "!"


def test_offset_of_a_network_is_subtracted() -> None:
    utm = projections.of_crs("EPSG:32633")
    moved = projections.of_proj("+proj=utm +zone=33 +ellps=WGS84 +units=m", (-300000.0, -5000000.0))
    assert moved is not None
    assert np.allclose(moved.to_degrees(*one(1000, 2000)), utm.to_degrees(*one(301000, 5002000)))
    assert projections.of_proj("!", (0, 0)) is None
    assert projections.of_proj("+proj=utm +zone=99", (0, 0)) is None
    assert projections.of_proj("+proj=lcc +lat_1=4", (0, 0)) is None
