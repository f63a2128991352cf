"""Simulate a mechanism, audit it blind, and recover its kind and main parameter: a few of the round trip's cases."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sim.audit.selection import identify
from tests.audit.mechanisms import moved
from tests.audit.movement import people
from tests.audit.round_trip import Trial, finished, run, table, trial, with_table
from tests.support import ROOT

QUICK = (
    "identity",
    "planar Laplace 200 m",
    "uniform disc 400 m",
    "2 decimals, rounded down",
    "Meshtastic 16 bits",
    "constant offset",
    "zone, dropped",
    "Location Guard: Laplace, cached 30 min",
    "location hiding in a square",
    "identity or Laplace",
    "design cloaking",
)


@pytest.mark.parametrize("name", QUICK)
def test_mechanism_is_recovered(name: str) -> None:
    result = trial(name, 0, pairs=1000)
    assert result is not None
    assert result.recovered, result
    assert result.close, result


def test_noise_of_an_unknown_form_is_rejected() -> None:
    rng = np.random.default_rng(3)
    sample = people(rng, pairs=1000)
    finding = identify(moved(sample, 200 + rng.exponential(300, 1000), rng.normal(0, 50, 1000)))
    assert finding.kind == "unknown"
    assert finding.rejected


def test_order_of_the_users_does_not_matter() -> None:
    rng = np.random.default_rng(3)
    sample = people(rng, users=4, pairs=400)
    released = moved(sample, *rng.normal(0, 100, (2, 400)))
    swapped = released.rows(np.argsort(3 - released.user, kind="stable"))
    again = identify(replace(swapped, user=3 - swapped.user))
    assert again.kind == identify(released).kind == "gaussian"


@pytest.mark.data
def test_cabs_are_audited() -> None:
    result = trial("planar Laplace 200 m", 0, source="cabs", pairs=1000)
    if result is None:
        pytest.skip("needs cabs_sf_points.csv.gz")
    assert result.recovered
    assert result.close


@pytest.mark.parametrize(("name", "number"), [("design coin", 8), ("design cloaking", 16)])
def test_designs_that_were_confused_are_recovered(name: str, number: int) -> None:
    result = trial(name, number)
    assert result is not None
    assert result.recovered, result
    assert result.close, result
    assert result.covered, result


def test_table_counts_failures() -> None:
    trials = [
        Trial("3 decimals", "people", 0, "snapping", True, 1e-3, 1e-3, True),
        Trial("3 decimals", "people", 1, "regions", False, 1e-3, 2e-3, False),
    ]
    assert table(trials).splitlines()[-1] == "| 3 decimals | 2 | 1 | 1 | 1 | regions |"


def test_interrupted_run_continues(tmp_path: Path) -> None:
    file = tmp_path / "results.jsonl"
    tasks = [("identity", number, "people", 200) for number in range(2)]
    run(tasks[:1], 1, file)
    file.write_text(file.read_text() + '{"case": "identity", "nu')  # interrupted while writing
    assert [result.task for result in finished(file, tasks)] == tasks[:1]
    assert len(run(tasks, 1, file)) == 2
    before = file.read_text()
    assert len(run(tasks, 1, file)) == 2
    assert file.read_text() == before


def test_table_of_the_page_is_replaced() -> None:
    page = (ROOT / "docs" / "how_to" / "audit.md").read_text(encoding="utf-8")
    written = with_table(page, "| new |")
    assert written.count("| new |") == 1
    assert "| planar Laplace 200 m |" not in written
    assert len(page) - len(written) == len(page[page.index("| mechanism | tries") :].split("\n\n")[0]) - len("| new |")
