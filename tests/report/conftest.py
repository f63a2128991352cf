"""Runs and rendered reports shared by the tests of the report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import sim
from sim import report
from sim.analysis.result import Result
from sim.scenario.models import Scenario
from sim.storage.run_directory import RunDirectory
from tests.support import rename_hostile

ROWS, COLS = 4, 5
SCENARIO: dict[str, Any] = {
    "name": "small",
    "seed": 3,
    "replications": 1,
    "world": {
        "grid": {"kind": "rectangle", "rows": ROWS, "cols": COLS, "width_km": 5.0, "height_km": 4.0},
        "roads": "lattice",
        "privacy_distance": "road",
    },
    "users": {"count": 3, "queries": 25, "mobility": {"kind": "favourites", "places": 4}},
    "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
    "lppms": ["SP-Exp", "PEB-LH"],
    "attacks": ["sporadic", "markov"],
    "shifts": [{"kind": "new_places", "at_query": 13}],
    "record": {"snapshots": [1, 10, 20]},
}


def run(folder: Path, **changes: Any) -> Result:
    """Run the small scenario with changes."""
    return sim.run(Scenario.model_validate(SCENARIO | changes), out=folder, figures=False)


def write(file: Path, *results: Result) -> Path:
    """Write the report of some runs."""
    file.write_text(report.page(results), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def small_run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return a small run with three users, roads, a shift and snapshots."""
    return run(tmp_path_factory.mktemp("small") / "run")


@pytest.fixture(scope="session")
def small_report(small_run: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of the small run."""
    return write(tmp_path_factory.mktemp("small-report") / "report.html", small_run)


@pytest.fixture(scope="session")
def hostile_report(small_run: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of the small run with names that would do harm if they were interpreted as markup."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(small_run.run.path, folder / "run")
    return write(folder / "report.html", Result(rename_hostile(RunDirectory.open(folder / "run"))))


@pytest.fixture(scope="session")
def comparison(small_run: Result, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the comparison of three runs: the small one, one with two users, and one with a summarized log."""
    folder = tmp_path_factory.mktemp("comparison")
    fewer = {"lppms": ["SP-Exp"], "attacks": ["sporadic"], "shifts": []}
    users = SCENARIO["users"] | {"count": 2, "queries": 8}
    other = run(folder / "other", name="other", users=users, **fewer)
    summarized = run(folder / "summarized", name="summarized", users=users, **fewer | {"record": "summary"})
    return write(folder / "compare.html", small_run, other, summarized)


@pytest.fixture(scope="session")
def tournament_report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the report of a run with all parts: standings, a shift with adaptation, past queries, a warning."""
    folder = tmp_path_factory.mktemp("tournament")
    result = run(
        folder / "run",
        name="tournament",
        description="All parts of a report",
        users=SCENARIO["users"] | {"count": 2, "queries": 110},
        lppms=["SP-Exp", {"kind": "PEB-LH", "design": {"quality_budget_km": 0.1}}, "identity"],
        attacks=["sporadic", "markov", "smoothing", "sporadic-trained", "markov-trained", "face-value"],
        shifts=[{"kind": "relocate", "name": "new job", "at_query": 56}],
        record={"snapshots": [1, 30, 90], "epsilon": "euclidean", "posterior": True},
    )
    return write(folder / "report.html", result)
