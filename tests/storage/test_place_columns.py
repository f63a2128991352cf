"""Columns of positions beside the rows of the log."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sim
from sim.storage.errors import NotApplicable
from sim.storage.export import export
from tests.storage.places import GRID, PLANE, POINTS, SPACES, a_run, row
from tests.support import raises_code

# Centres of the cells 0 to 3 of the region, worked out by hand.
CENTRES = {0: (0.5, 178.5), 1: (0.5, 179.5), 2: (1.5, 178.5), 3: (1.5, 179.5)}


@pytest.fixture
def frame(tmp_path: Path) -> pd.DataFrame:
    return pd.read_csv(export(a_run(tmp_path / "run"), tmp_path / "x.csv", "csv", places=True).path)


def test_true_and_estimated_positions_are_centres_of_cells(frame: pd.DataFrame) -> None:
    for name, cell in (("true", "cell"), ("estimated", "estimate")):
        known = frame.dropna(subset=[cell])
        expected = [CENTRES[int(value)] for value in known[cell]]
        np.testing.assert_allclose(known[[f"{name}_lat", f"{name}_lon"]].to_numpy(), expected, atol=1e-9)
        assert frame.loc[frame[cell].isna(), f"{name}_lat"].isna().all()


def test_each_output_space_has_its_positions(frame: pd.DataFrame) -> None:
    first = frame[(frame["event"] == "query") & (frame["index"] == 1)].groupby("lppm").first()
    shown = first.reindex(list(SPACES))[["reported_lat", "reported_lon", "reported_cells"]]
    nan = math.nan
    expected = [(1.5, 179.5, 1), (nan, nan, 0), (1.5, 179.5, 2), (nan, nan, 3), (0.0, -179.5, 1), (2.0, 178.0, 1)]
    np.testing.assert_allclose(shown.to_numpy(), expected, atol=1e-5)  # points are rounded to metres


def test_rows_without_a_report_of_their_own_are_empty(frame: pd.DataFrame) -> None:
    others = frame[(frame["event"] == "shift") | (frame["estimated_index"] < frame["index"])]
    assert len(others) == 4
    assert others[["reported_lat", "reported_cells"]].isna().all(axis=None)
    dropped = frame[frame["index"] == 3]
    assert dropped["reported_cells"].tolist() == [0, 0]
    assert dropped["reported_lat"].isna().all()


def test_a_plane_has_km(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", grid=PLANE)
    table = pd.read_parquet(export(run, tmp_path / "x.parquet", "parquet", places=True).path)
    assert "true_lat" not in table
    centres = {0: (0.5, 0.5), 2: (0.5, 1.5)}
    for what, cell in (("true", 0), ("estimated", 2)):
        assert [table[f"{what}_{end}"].iloc[1] for end in ("x_km", "y_km")] == list(centres[cell])


def test_positions_beyond_a_pole_are_empty_and_noted(tmp_path: Path) -> None:
    north = POINTS.output(0.0, GRID.height_km * 60)
    run = a_run(tmp_path / "run", log=[row("points", output=north)])
    exported = export(run, tmp_path / "x.csv", "csv", places=True)
    assert pd.read_csv(exported.path)["reported_lat"].isna().all()
    assert "2 rows" in exported.notes[0]


def test_a_summary_is_refused(tmp_path: Path) -> None:
    run = a_run(tmp_path / "run", log=[row("cells", event="summary", cell=-1, output=None, estimate=None)])
    with raises_code(NotApplicable, "needs-query-log"):
        export(run, tmp_path / "x.csv", "csv", places=True)
    assert export(run, tmp_path / "x.csv", "csv").rows == 2


def test_distances_between_positions_are_the_errors_of_the_log(tmp_path: Path) -> None:
    """Quality loss and adversary error of the simulator, computed again from the exported positions."""
    region = {"kind": "region", "rows": 4, "cols": 4, "south": 48.0, "north": 48.1, "west": 11.0, "east": 11.2}
    design = {"kind": "planar_laplace", "epsilon_per_km": 1.0}
    lppms = ["SP-Exp", {"name": "laplace", "belief": "fixed_profile", "design": design}]
    scenario = sim.make_scenario(
        users={"count": 2, "queries": 6, "mobility": "favourites"},
        world={"grid": region, "privacy_distance": "euclidean", "quality_distance": "euclidean"},
        lppms=lppms,
        attacks=["sporadic"],
        replications=1,
    )
    run = sim.run(scenario, out=tmp_path / "run", figures=False).run
    frame = pd.read_parquet(export(run, tmp_path / "x.parquet", "parquet", places=True).path)
    km_lat, km_lon = sim.Grid.region(**{k: v for k, v in region.items() if k != "kind"}).km_per_degree  # type: ignore[arg-type]
    for other, error in (("reported", "quality_loss_km"), ("estimated", "adversary_error_km")):
        north_km = (frame[f"{other}_lat"] - frame["true_lat"]) * km_lat
        east_km = (frame[f"{other}_lon"] - frame["true_lon"]) * km_lon
        np.testing.assert_allclose(np.hypot(north_km, east_km), frame[error], atol=1e-9)
    assert (frame["quality_loss_km"] > 0).any()
