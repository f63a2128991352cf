"""The command `export`: the event log in three formats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from click.testing import Result

import sim
from tests.support import QUERIES, done, refused

READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "csv": pd.read_csv,
    "jsonl": lambda path: pd.read_json(path, lines=True),
    "parquet": pd.read_parquet,
}


@pytest.mark.parametrize("form", READERS)
def test_export(form: str, finished: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert done("export", finished[0], "--format", form) == f"wrote {2 * QUERIES} rows to run.{form}\n"
    events = sim.Result.open(finished[0]).events()
    pd.testing.assert_frame_equal(READERS[form](Path(f"run.{form}")), events, check_dtype=False, rtol=1e-12)
    before = Path(f"run.{form}").read_bytes()
    assert f"run.{form} exists" in refused("export", finished[0], "--format", form)
    done("export", finished[0], "--format", form, "--overwrite")
    done("export", finished[0], "--format", form, "-o", "another")
    assert Path("another").read_bytes() == Path(f"run.{form}").read_bytes() == before


def test_unknown_format_is_rejected(finished: tuple[Path, Result]) -> None:
    assert "'xlsx' is not one of 'csv', 'jsonl', 'parquet', 'geoparquet'" in refused(
        "export", finished[0], "--format", "xlsx"
    )


def test_places_are_columns_and_features(
    finished: tuple[Path, Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert done("export", finished[0], "--places").startswith(f"wrote {2 * QUERIES} rows")
    frame = pd.read_csv("run.csv")
    assert frame["true_x_km"].between(0, 5).all()  # the world is a plane of 5 km x 4 km
    assert frame["estimated_y_km"].between(0, 4).all()
    assert done("export", finished[0], "--format", "geoparquet") == f"wrote {4 * QUERIES} features to run.geo.parquet\n"
    assert "[no-coordinates]" in refused("export", finished[0], "--format", "geojson")
    assert not Path("run.geojson").exists()
