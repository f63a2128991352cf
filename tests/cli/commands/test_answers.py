"""The command `answers`: table, files and JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd

import sim
from tests.support import done, refused


def test_answers_are_printed_and_written(a_run: Path) -> None:
    printed = done("answers", a_run)
    for text in ("located", "home by day", "top 3 places", "singled out", "2 km", "not reached"):
        assert text in printed, text
    assert "Cells of 1 km are coarser than 100 m, 500 m, 564 m" in printed
    assert "Not shown: rows within 100 m, 500 m, 564 m (1,850 ft)" in printed
    assert "!" not in printed.split("Cells of")[0]
    assert "-0.00" not in printed
    written = pd.read_csv(a_run / "answers.csv")
    answers = sim.Result.open(a_run).answers()
    assert written["share"].tolist() == answers.table["share"].tolist()
    assert len(pd.read_csv(a_run / "home_exposure.csv")) == len(answers.home_exposure)
    for name in ("home_exposure", "located"):
        assert (a_run / "figures" / f"{name}.png").stat().st_size > 0


def test_other_radii_and_numbers(a_run: Path) -> None:
    content = json.loads(done("answers", a_run, "--radius", "1km", "--radius", "3", "--top", "2", "--json"))
    rows = content["answers"]
    assert {row["radius_km"] for row in rows if row["question"] == "located"} == {1.0, 3.0}
    assert {row["places"] for row in rows if row["question"] == "places"} == {2}
    assert not (a_run / "answers.csv").exists()
    homes = [row for row in rows if row["question"] == "home"]
    assert all(row["rank"] is None and row["median_days"] is not None for row in homes)
    assert {row["day"] for row in content["home_exposure"]} >= {0.0}


def test_hours_of_the_night(a_run: Path) -> None:
    early = json.loads(done("answers", a_run, "--night", "1", "2", "--json"))
    users = sim.Result.open(a_run).totals().n_users
    note = next(note for note in early["notes"] if "without a query at night" in note)
    assert f" of {users:,} users" in note  # users, not users times replications and sweep points
    assert "[empty-interval]" in refused("answers", a_run, "--night", "6", "6")
    assert "--radius" in refused("answers", a_run, "--radius", "0")


def test_figures_for_print(a_run: Path, tmp_path: Path) -> None:
    for name in ("home_exposure", "located"):
        done("plot", a_run, "--figure", name, "-o", tmp_path / f"{name}.pdf")
        assert (tmp_path / f"{name}.pdf").read_bytes().startswith(b"%PDF")
