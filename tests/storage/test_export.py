"""Export of the event log as one file."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.storage import export as module
from sim.storage.errors import RequestError, RunError
from sim.storage.event_schema import EVENTS, MEASURES, POSTERIOR_WITHIN_KM
from sim.storage.export import Format, export
from sim.storage.run_directory import RunDirectory
from tests.support import a_manifest, raises_code

LOG_FORMATS: tuple[Format, ...] = ("csv", "jsonl", "parquet")
HOSTILE = ["=cmd|' /C calc'!A0", "+1", "-2", "@x", 'quo"te', "comma,", "new\nline", "<script>", "007", "é"]


def rows(point: int) -> list[dict[str, Any]]:
    """Return rows with hostile names and with missing values."""
    return [
        {
            "event": "shift" if i == 2 else "query",
            "shift": "=move" if i == 2 else None,
            "point": point,
            "replication": 0,
            "user": user,
            "index": i + 1,
            "time_s": 2**40 + i,
            "cell": i,
            "output": None if i == 0 else i,
            "lppm": "SP",
            "attack": None if i == 1 else "markov",
            "estimated_index": i + 1,
            "estimate": i,
            **dict.fromkeys(MEASURES, 0.1 + 0.2 * i),
            "expected_quality_loss_km": None,
            "posterior_entropy_bits": 0.5 * i,
            "posterior_at_truth": 0.25,
            "epsilon_per_km": None if i == 3 else 1.0,
            "identity": None if i == 2 else user,
            "prior_error_km": 0.75,
            **dict.fromkeys(POSTERIOR_WITHIN_KM.values(), 0.5),
        }
        for i, user in enumerate(HOSTILE)
    ]


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    """Return a run with two parts."""
    run = RunDirectory.create(tmp_path / "run")
    run.write_manifest(a_manifest(scenario={"name": "exported"}))
    for point in (0, 1):
        run.write_part(f"p{point}", pa.Table.from_pylist(rows(point), schema=EVENTS))
    return run


def test_csv_has_every_value(run: RunDirectory, tmp_path: Path) -> None:
    done = export(run, tmp_path / "x.csv", "csv")
    assert done.rows == 20
    assert "manifest.json" in done.hint
    with done.path.open(newline="", encoding="utf-8") as file:
        exported = list(csv.DictReader(file))
    assert [row["user"] for row in exported] == HOSTILE * 2
    assert exported[0]["output"] == ""
    assert exported[1]["attack"] == ""
    expected = [row["quality_loss_km"] for row in rows(0) + rows(1)]
    assert [float(row["quality_loss_km"]) for row in exported] == expected
    assert list(exported[0]) == EVENTS.names


def test_jsonl_has_every_value(run: RunDirectory, tmp_path: Path) -> None:
    done = export(run, tmp_path / "x.jsonl", "jsonl")
    lines = done.path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == rows(0) + rows(1)


@pytest.mark.parametrize("kind", LOG_FORMATS)
def test_an_infinite_epsilon_is_preserved(run: RunDirectory, tmp_path: Path, kind: Format) -> None:
    infinite = [row | {"epsilon_per_km": math.inf if row["index"] < 3 else None} for row in rows(1)]
    run.write_part("p1", pa.Table.from_pylist(infinite, schema=EVENTS))
    path = export(run, tmp_path / "x", kind).path
    epsilons = {
        "csv": lambda: pd.read_csv(path)["epsilon_per_km"],
        "jsonl": lambda: pd.DataFrame([_strict(line) for line in path.read_text().splitlines()])["epsilon_per_km"],
        "parquet": lambda: pd.read_parquet(path)["epsilon_per_km"],
    }[kind]()
    expected = [row["epsilon_per_km"] for row in rows(0) + infinite]
    pd.testing.assert_series_equal(epsilons.astype(float), pd.Series(expected, dtype=float), check_names=False)


def _strict(line: str) -> Any:
    """Parse a line as standard JSON, without Infinity or NaN as numbers."""
    return json.loads(line, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_parquet_has_every_value_and_the_manifest(run: RunDirectory, tmp_path: Path) -> None:
    done = export(run, tmp_path / "x.parquet", "parquet")
    table = pq.read_table(done.path)
    assert table.to_pylist() == rows(0) + rows(1)
    assert json.loads(table.schema.metadata[b"lppm-sim"])["scenario"]["name"] == "exported"
    assert pq.ParquetFile(done.path).num_row_groups == 1
    assert len(pd.read_parquet(done.path)) == 20


def test_large_runs_get_several_row_groups(run: RunDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROW_GROUP", 10)
    done = export(run, tmp_path / "x.parquet", "parquet")
    assert pq.ParquetFile(done.path).num_row_groups == 2
    assert done.rows == 20


@pytest.mark.parametrize("kind", LOG_FORMATS)
def test_same_bytes_twice_and_no_silent_overwrite(run: RunDirectory, tmp_path: Path, kind: Format) -> None:
    path = tmp_path / "x"
    export(run, path, kind)
    first = path.read_bytes()
    with raises_code(RequestError, "file-exists") as error:
        export(run, path, kind)
    assert str(path) in str(error.value)
    assert "--overwrite" in str(error.value)
    path.write_bytes(b"other")
    export(run, path, kind, overwrite=True)
    assert path.read_bytes() == first


def test_bad_requests(run: RunDirectory, tmp_path: Path) -> None:
    with raises_code(RequestError, "unsupported-format") as error:
        export(run, tmp_path / "x", "xls")  # type: ignore[arg-type]
    assert "csv, jsonl, parquet, geoparquet, geojson, kml, got 'xls'" in str(error.value)
    with raises_code(RequestError, "not-a-local-file"):
        export(run, "-", "csv")
    with raises_code(RequestError, "is-a-folder"):
        export(run, tmp_path, "csv")
    with raises_code(RequestError, "folder-not-found") as error:
        export(run, tmp_path / "no" / "x.csv", "csv")
    assert str(tmp_path / "no") in str(error.value)
    with raises_code(RequestError, "inside-run-directory"):
        export(run, run.path / "events" / "x.parquet", "parquet")
    assert run.parts() == ["p0", "p1"]


@pytest.mark.parametrize("kind", LOG_FORMATS)
def test_a_damaged_part_leaves_no_file(run: RunDirectory, tmp_path: Path, kind: Format) -> None:
    run.part_path("p1").write_bytes(b"PAR1")
    with raises_code(RunError, "damaged-part") as error:
        export(run, tmp_path / "x", kind)
    assert "p1.parquet" in str(error.value)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
