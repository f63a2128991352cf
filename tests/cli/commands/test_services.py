"""The command `services`: table, file, JSON and requests that it rejects."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import sim
from tests.support import done, refused

SPEC = "{kind: nearest_points, file: cafes.csv, columns: {x_km: x, y_km: y}, k: 2}"


@pytest.fixture
def asked(a_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run, with points of interest in the current folder."""
    (tmp_path / "cafes.csv").write_text("x,y\n0.5,0.5\n1.5,3.5\n4,2\n")
    monkeypatch.chdir(tmp_path)
    return a_run


def test_losses_are_printed_and_written(asked: Path) -> None:
    printed = done("services", asked, "--service", f"cafes & bars={SPEC}".replace(" & ", "-"), "--service", SPEC)
    for text in ("cafes-bars", "nearest_points", "range over users", "share", "0.000", "epsilon"):
        assert text in printed, text
    table = pd.read_csv(asked / "services.csv")
    assert table["service"].unique().tolist() == ["cafes-bars", "nearest_points"]
    result = sim.Result.open(asked).services(
        {"one": {"kind": "nearest_points", "file": "cafes.csv", "k": 2, "columns": {"x_km": "x", "y_km": "y"}}}
    )
    assert table["loss"].tolist() == 2 * result.table["loss"].tolist()


def test_as_json(asked: Path) -> None:
    content = json.loads(done("services", asked, "--service", SPEC, "--service", SPEC, "--json"))
    assert {row["service"] for row in content["services"]} == {"nearest_points", "nearest_points 2"}
    assert {row["loss"] for row in content["services"] if row["lppm"] == "identity"} == {0.0}
    assert not (asked / "services.csv").exists()


def test_rejected_requests(asked: Path) -> None:
    assert "[no-services]" in refused("services", asked)
    assert "[unknown-key]" in refused("services", asked, "--service", "{kind: nearest_points, fil: a.csv}")
    assert "[file-not-found]" in refused("services", asked, "--service", SPEC.replace("cafes", "none"))
    assert "[out-of-range]" in refused("services", asked, "--service", SPEC.replace("k: 2", "k: 4"))
    assert "two services" in refused("services", asked, "--service", f"a={SPEC}", "--service", f"a={SPEC}")
    assert "[no-roads]" in refused(
        "services", asked, "--service", SPEC.replace("nearest_points", "extra_travel").replace(", k: 2", "")
    )
