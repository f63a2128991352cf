"""The command `traces`: files that can be replayed."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

import sim
from tests.support import ROOT, done, refused


def test_shipped_traces_match_their_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    comment = Path("scenarios/replay_csv.yaml").read_text()
    (command,) = re.findall(r"^# +lppm-sim (traces .+) -o FILE$", comment, re.MULTILINE)
    out = tmp_path / "checkins.csv"
    assert done(*command.split(), "-o", out) == f"wrote 1,200 queries of 12 users to {out}\n"
    assert out.read_bytes() == Path("scenarios/traces/checkins.csv").read_bytes()


def test_traces_of_locations_have_their_positions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    points = [(37.70, -122.45), (37.78, -122.40), (37.75, -122.42)]
    Path("points.csv").write_text("lat,lon\n" + "".join(f"{lat},{lon}\n" for lat, lon in points))
    world = "world={locations: {kind: points, file: points.csv}}"
    done("new", "mine.yaml")
    done("traces", "mine.yaml", "--set", world, "--set", "users.count=2", "--set", "users.queries=9", "-o", "t.csv")
    rows = pd.read_csv("t.csv")
    assert [points[cell] for cell in rows["cell"]] == list(zip(rows["lat"], rows["lon"], strict=True))


def test_traces_can_be_replayed_and_compressed(small: Path) -> None:
    done("traces", small, "-o", "t.csv.gz")
    done("traces", small, "-o", "t.csv")
    pd.testing.assert_frame_equal(pd.read_csv("t.csv"), pd.read_csv("t.csv.gz"))
    replayed = ("--set", "training={}", "--set", "users={mobility: {kind: replay, file: t.csv}}")
    options = ("--no-figures", "--set", "lppms=[identity]", "--set", "sweep={}")
    done("run", small, "-o", "run", *options, *replayed)
    done("run", small, "-o", "lived", *options)
    columns = ["user", "index", "time_s", "cell"]
    one, other = (sim.Result.open(name).events()[columns] for name in ("run", "lived"))
    pd.testing.assert_frame_equal(one, other)
    assert "[file-error]" in refused("traces", small, "-o", "no/where.csv")
    before = Path("t.csv").read_bytes()
    assert "[file-exists]" in refused("traces", small, "--seed", "9", "-o", "t.csv")
    assert Path("t.csv").read_bytes() == before
    done("traces", small, "--seed", "9", "-o", "t.csv", "--overwrite")
    assert Path("t.csv").read_bytes() != before
