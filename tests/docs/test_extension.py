"""The extensions of the documentation site: tables that match the code, pages that load nothing over the network."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

import sim
from benchmarks.rows import ROWS
from sim.analysis.metrics import METRICS
from sim.analysis.statistics import ENDS
from sim.storage.event_schema import COLUMNS
from tests.support import ROOT

DOCS = ROOT / "docs"

STUDY = """
world: {grid: {kind: rectangle, rows: 4, cols: 5, width_km: 5, height_km: 4}}
users: {count: 5, queries: 24, mobility: {kind: favourites, places: 4}}
shifts: [{kind: relocate, name: move, at_query: 13}]
training: {others: {kind: others, count: 4, queries: 8}}
lppms: [SP-LH, Exp, SP-Exp]
attacks: [sporadic, markov, smoothing]
sweep: {"lppms.*.design.remap": [true, false]}
record: {expected: true}
"""


@pytest.fixture(scope="module")
def extensions() -> Iterator[dict[str, ModuleType]]:
    """Return the modules of docs/_ext by name."""
    names = [path.stem for path in (DOCS / "_ext").glob("*.py")]
    sys.path.insert(0, str(DOCS / "_ext"))
    try:
        yield {name: importlib.import_module(name) for name in names}
    finally:
        sys.path.remove(str(DOCS / "_ext"))
        for name in names:
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run that writes all tables."""
    folder = tmp_path_factory.mktemp("tables")
    (folder / "study.yaml").write_text(STUDY)
    sim.run(sim.load(folder / "study.yaml"), out=folder / "run", figures=False)
    adaptation = sim.Result.open(folder / "run").adaptation(window=4, before=8).summary
    adaptation.to_csv(folder / "run" / "adaptation.csv", index=False)
    answers = sim.Result.open(folder / "run").answers()
    answers.table.to_csv(folder / "run" / "answers.csv", index=False)
    answers.home_exposure.to_csv(folder / "run" / "home_exposure.csv", index=False)
    (folder / "points.csv").write_text("x,y\n1,1\n4,3\n")
    nearest = {"kind": "nearest_points", "file": "points.csv", "columns": {"x_km": "x", "y_km": "y"}}
    services = sim.Result.open(folder / "run").services({"nearest": nearest}, folder=folder)
    services.table.to_csv(folder / "run" / "services.csv", index=False)
    return folder / "run"


def test_every_column_of_every_table_is_explained(extensions: dict[str, ModuleType], run_directory: Path) -> None:
    explained = extensions["table_columns"].COLUMNS
    assert set(explained) == {path.name for path in run_directory.glob("*.csv")}
    for name, columns in explained.items():
        table = pd.read_csv(run_directory / name)
        bounds = {column + end for column in columns for end in ENDS if end}
        attacks = {"sporadic", "markov", "smoothing"} if name == "tournament.csv" else set()
        assert [c for c in table.columns if c not in bounds and c not in attacks and "." not in c] == list(columns)


def test_generated_tables_have_a_row_for_everything(extensions: dict[str, ModuleType]) -> None:
    tables = extensions["tables"]
    assert [name for name in METRICS if f"| `{name}` |" not in tables.metrics()] == []
    assert [column.name for column in COLUMNS if f"| `{column.name}` |" not in tables.event_columns()] == []
    assert "| `conclude` | attack |" in tables.capabilities()
    assert "| `PEB-Exp` |" in tables.short_names()


def test_the_benchmark_of_the_site_has_all_rows(extensions: dict[str, ModuleType]) -> None:
    document = json.loads((DOCS / "benchmark.json").read_text(encoding="utf-8"))
    assert [row["name"] for row in document["rows"]] == [row.name for row in ROWS]
    assert extensions["tables"].benchmark("peb mk").count("\n") == 4
    assert "| `peb` |" in extensions["tables"].benchmark_comparison()
    with pytest.raises(KeyError, match="nothing"):
        extensions["tables"].benchmark("nothing")


def test_every_marker_of_generated_content_is_known(extensions: dict[str, ModuleType]) -> None:
    generated = extensions["generated_content"]
    markers = [
        match["name"]
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts
        for match in generated.MARKER.finditer(page.read_text(encoding="utf-8"))
    ]
    assert set(markers) == set(generated.CONTENT)


def test_every_public_name_is_in_the_python_api(extensions: dict[str, ModuleType]) -> None:
    listing = extensions["api_listing"]
    page = "\n".join(listing.section(group) for group in listing.GROUPS)
    assert [name for name in sim.__all__ if f":: sim.{name}\n" not in page and name != "__version__"] == []
    assert ".. autofunction:: sim.run\n" in page
    assert ".. autoclass:: sim.interfaces.LPPM\n" in page


def test_resources_of_the_network_are_found(extensions: dict[str, ModuleType], tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(
        '<link rel="canonical" href="https://example.org/"><a href="https://example.org/">link</a>'
        '<script src="//cdn.example.org/x.js"></script><img src="local.png"><img src="http://example.org/x.png">'
    )
    (tmp_path / "site.css").write_text("@import 'https://fonts.example.org/a.css'; b {background: url(local.png)}")
    addresses = [address for _, address in extensions["offline_check"].remote_resources(tmp_path)]
    assert addresses == ["//cdn.example.org/x.js", "http://example.org/x.png", "https://fonts.example.org/a.css"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Size of |X| and M(x'|x).", r"Size of \|X\| and M(x'\|x)."),
        ("`a|b` and ``*args`` stay, x_ does not.", r"`a|b` and ``*args`` stay, x\_ does not."),
        ("f(*) of snake_case", r"f(\*) of snake_case"),
    ],
)
def test_docstrings_are_plain_text(extensions: dict[str, ModuleType], line: str, expected: str) -> None:
    assert extensions["plain_docstrings"].escaped(line) == expected
