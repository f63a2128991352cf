"""The locations of the world of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sim.analysis.result import Result
from tests.storage.places import PLANE, a_run


def test_locations_are_centres_of_cells_in_km_and_degrees(tmp_path: Path) -> None:
    frame = Result(a_run(tmp_path / "run")).locations()
    assert frame["cell"].tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(frame["lat"], [0.5, 0.5, 1.5, 1.5])
    np.testing.assert_allclose(frame["lon"], [178.5, 179.5, 178.5, 179.5])
    east_km = 0.5 * np.pi / 180 * 6371.0088 * np.cos(np.radians(1.0))
    np.testing.assert_allclose(frame["x_km"], [east_km, 3 * east_km, east_km, 3 * east_km])


def test_a_plane_has_no_degrees(tmp_path: Path) -> None:
    frame = Result(a_run(tmp_path / "run", grid=PLANE)).locations()
    assert frame[["lat", "lon"]].isna().all(axis=None)
    assert frame["y_km"].tolist() == [0.5, 0.5, 1.5, 1.5]
