"""Frames of pandas, scikit-mobility, MovingPandas and trackintel, with the real packages where they are installed."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.errors import InputError
from tests.support import raises_code


def package(name: str) -> Any:
    """Import a package without its warnings, or skip the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError as error:
            pytest.skip(f"{name} is not installed: {error}")


@pytest.fixture
def rows() -> pd.DataFrame:
    """Five rows of two users, in order."""
    times = pd.to_datetime([1714543200, 1714543260, 1714543320, 1714543200, 1714543500], unit="s", utc=True)
    lat, lon = [48.1, 48.2, 48.3, -5.0, -5.5], [11.5, 11.6, 11.7, 100.0, 100.25]
    return pd.DataFrame({"user": ["2", "2", "2", "10", "10"], "time": times, "lat": lat, "lon": lon})


def same(ours: pd.DataFrame, theirs: pd.DataFrame) -> bool:
    times = [frame["time"].astype("datetime64[us, UTC]").tolist() for frame in (ours, theirs)]
    return (
        ours["user"].tolist() == theirs["user"].tolist()
        and times[0] == times[1]
        and np.allclose(ours[["lat", "lon"]], theirs[["lat", "lon"]], rtol=0, atol=1e-9)
    )


def test_pandas_goes_in_and_out(rows: pd.DataFrame, tmp_path: Path) -> None:
    path = sim.traces_from_frame(rows.iloc[::-1], tmp_path / "x.parquet")
    assert same(sim.traces_to_frame(path), rows)
    other = rows.rename(columns={"user": "who", "time": "datetime", "lon": "lng"}).assign(
        datetime=rows["time"].dt.tz_localize(None)
    )
    path = sim.traces_from_frame(other, tmp_path / "x.parquet", columns={"user": "who"}, overwrite=True)
    assert same(sim.traces_to_frame(path), rows)
    path = sim.traces_from_frame(other.drop(columns="who"), tmp_path / "y.parquet", user="me")
    assert set(sim.traces_to_frame(path)["user"]) == {"me"}


def test_order_without_times(rows: pd.DataFrame, tmp_path: Path) -> None:
    ordered = rows.drop(columns="time").assign(order=[3, 2, 1, 5, 4])
    frame = sim.traces_to_frame(sim.traces_from_frame(ordered, tmp_path / "x.parquet"))
    assert frame["order"].tolist() == [1, 2, 3, 4, 5]
    package("movingpandas")
    with raises_code(InputError, "times-missing"):
        sim.traces_to_frame(tmp_path / "x.parquet", "movingpandas")


def test_invalid_frames(rows: pd.DataFrame, tmp_path: Path) -> None:
    def code(frame: Any, **options: Any) -> str:
        with pytest.raises(InputError) as error:
            sim.traces_from_frame(frame, tmp_path / "x.parquet", **options)
        assert not (tmp_path / "x.parquet").exists()
        return error.value.code

    assert code([1, 2]) == "not-a-frame"
    assert code(rows.iloc[:0]) == "empty-file"
    assert code(rows.drop(columns="user")) == "no-such-column"
    assert code(rows.assign(lat=[1, 2, 3, 4, 95])) == "invalid-row"
    assert code(rows.assign(user=pd.Series(["a", None, "b", "c", "d"], dtype=object))) == "invalid-row"
    assert code(rows.assign(time=[10**12, 1, 2, 3, 4])) == "invalid-row"
    sim.traces_from_frame(rows, tmp_path / "x.parquet")
    with raises_code(InputError, "unknown-form"):
        sim.traces_to_frame(tmp_path / "x.parquet", "R")
    with raises_code(InputError, "file-not-found"):
        sim.traces_to_frame(tmp_path / "y.parquet")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of pandas, in MovingPandas
def test_movingpandas_goes_in_and_out(rows: pd.DataFrame, tmp_path: Path) -> None:
    mpd = package("movingpandas")
    path = sim.traces_from_frame(rows, tmp_path / "x.parquet")
    collection = sim.traces_to_frame(path, "movingpandas")
    assert isinstance(collection, mpd.TrajectoryCollection)
    assert len(collection) == 2
    back = sim.traces_from_frame(collection, tmp_path / "y.parquet")
    assert same(sim.traces_to_frame(back), rows)
    one = sim.traces_from_frame(collection.trajectories[0], tmp_path / "z.parquet")
    assert sim.traces_to_frame(one)["user"].nunique() == 1
    frame = pd.concat([one.df for one in collection.trajectories]).to_crs("EPSG:3857")
    assert same(sim.traces_to_frame(sim.traces_from_frame(frame, tmp_path / "w.parquet")), rows)
    with pytest.warns(UserWarning, match="1 of 2 users"):
        sim.traces_to_frame(rows.iloc[[0, 1, 4]], "movingpandas")


def test_trackintel_goes_in_and_out(rows: pd.DataFrame, tmp_path: Path) -> None:
    ti = package("trackintel")
    path = sim.traces_from_frame(rows, tmp_path / "x.parquet")
    fixes = sim.traces_to_frame(path, "trackintel")
    assert isinstance(fixes, ti.Positionfixes)
    back = sim.traces_from_frame(fixes, tmp_path / "y.parquet")
    assert same(sim.traces_to_frame(back), rows)


def test_scikit_mobility_goes_in_and_out(rows: pd.DataFrame, tmp_path: Path) -> None:
    skmob = package("skmob")
    path = sim.traces_from_frame(rows, tmp_path / "x.parquet")
    frame = sim.traces_to_frame(path, "scikit-mobility")
    assert isinstance(frame, skmob.TrajDataFrame)
    assert {"uid", "lat", "lng", "datetime"} <= set(frame.columns)
    back = sim.traces_from_frame(frame, tmp_path / "y.parquet")
    assert same(sim.traces_to_frame(back), rows)
