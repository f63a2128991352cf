"""The command `services`: table, file, JSON and requests that it rejects."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pandas as pd
import pytest

import sim
from tests.support import done, refused

SPEC = "{kind: nearest_points, file: cafes.csv, columns: {x_km: x, y_km: y}, k: 2}"


@pytest.fixture
def study(a_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a run, with points of interest in the current folder."""
    (tmp_path / "cafes.csv").write_text("x,y\n0.5,0.5\n1.5,3.5\n4,2\n")
    monkeypatch.chdir(tmp_path)
    return a_run


def test_losses_are_printed_and_written(study: Path) -> None:
    printed = done("services", study, "--service", f"cafes-bars={SPEC}", "--service", SPEC)
    for text in ("cafes-bars", "nearest_points", "range over users", "share", "0.000", "epsilon"):
        assert text in printed, text
    table = pd.read_csv(study / "services.csv")
    assert table["service"].unique().tolist() == ["cafes-bars", "nearest_points"]
    result = sim.Result.open(study).services(
        {"one": {"kind": "nearest_points", "file": "cafes.csv", "k": 2, "columns": {"x_km": "x", "y_km": "y"}}}
    )
    assert table["loss"].tolist() == 2 * result.table["loss"].tolist()


def test_as_json(study: Path) -> None:
    content = json.loads(done("services", study, "--service", SPEC, "--service", SPEC, "--json"))
    assert {row["service"] for row in content["services"]} == {"nearest_points", "nearest_points 2"}
    assert {row["loss"] for row in content["services"] if row["lppm"] == "identity"} == {0.0}
    assert not (study / "services.csv").exists()


def test_other_formats(study: Path) -> None:
    def printed(form: str) -> str:
        return done("services", study, "--service", f"a_b={SPEC}", "--format", form)

    table = pd.read_csv(io.StringIO(printed("csv")))
    rows = [line for line in printed("markdown").splitlines() if line.startswith("| a\\_b |")]
    assert len(rows) == len(table)
    assert f"{table['loss'].max():.3f}" in "".join(rows)
    latex = printed("latex")
    assert latex.count(r"a\_b &") == len(table)
    assert r"\begin{tabular}" in latex
    assert not (study / "services.csv").exists()


def test_rejected_requests(study: Path) -> None:
    assert "[no-services]" in refused("services", study)
    assert "[unknown-key]" in refused("services", study, "--service", "{kind: nearest_points, fil: a.csv}")
    assert "[file-not-found]" in refused("services", study, "--service", SPEC.replace("cafes", "none"))
    assert "service nearest_points: k must be at most" in refused(
        "services", study, "--service", SPEC.replace("k: 2", "k: 4")
    )
    assert "two services" in refused("services", study, "--service", f"a={SPEC}", "--service", f"a={SPEC}")
    assert "[no-roads]" in refused(
        "services", study, "--service", SPEC.replace("nearest_points", "extra_travel").replace(", k: 2", "")
    )
