"""Surveys of trace files in `check` and `data describe`, and the suggested region as a scenario."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sim
from sim.cli import surveying
from tests.support import done, refused

REST = "\ntraining: {}\nlppms: [identity]\nattacks: [sporadic]\n"


def geolife(path: Path, *, user: str = "a", columns: str = "user,time_s,lat,lon") -> Path:
    """Write logs as in Geolife, with 2 % of the rows in another city."""
    rng = np.random.default_rng(0)
    lines, now = [columns], 1_200_000_000
    for _ in range(4):
        steps = np.cumsum(rng.integers(1, 6, 300))
        lat, lon = 39.9 + np.cumsum(rng.normal(0, 4e-4, 300)), 116.3 + np.cumsum(rng.normal(0, 4e-4, 300))
        lines += [f'"{user}",{now + at},{y:.6f},{x:.6f}' for at, y, x in zip(steps, lat, lon, strict=True)]
        now += 80_000
    lines += [f'"{user}",{now + at},31.2,121.4' for at in range(24)]
    path.write_text("\n".join(lines) + "\n")
    return path


def suggested(output: str) -> str:
    """Return the scenario that a survey suggests."""
    lines = output[output.index("    world:") :].splitlines()
    return "\n".join(line[4:] for line in lines[:4])


def test_check_of_a_trace_file_suggests_a_valid_scenario(tmp_path: Path) -> None:
    path = geolife(tmp_path / "my logs.csv")
    output = done("check", path)
    assert "1,224 rows of 1 user\n" in output
    assert "time between rows: 5% 1 s, median 3 s, 95% 5 s" in output
    assert "sessions  5, separated by 4 gaps of over 2 h (max_gap_s)" in output
    assert "lppm-sim data describe" in output
    (tmp_path / "s.yaml").write_text(suggested(output) + REST)
    scenario = sim.load(tmp_path / "s.yaml")
    assert scenario.world.grid.n_cells > 20
    checked = done("check", tmp_path / "s.yaml", "--no-time")
    assert "36 rows (2.94%) are outside" in checked
    assert "almost empty" not in checked


def test_check_describes_the_files_of_a_scenario_once(tmp_path: Path) -> None:
    geolife(tmp_path / "t.csv", columns="who,when,lat,lon")
    replay = "{kind: replay, file: t.csv, columns: {user: who, time: when}, max_gap_s: 3600"
    grid = "{kind: region, south: 39.5, north: 40.3, west: 116, east: 117, cell_m: 3000}"
    training = f"{{others: {{kind: others, mobility: {replay}}}}}}}"
    (tmp_path / "s.yaml").write_text(
        f"world: {{grid: {grid}}}\nusers: {{mobility: {replay}}}, demand: periodic}}\ntraining: {training}\n"
        "lppms: [identity]\nattacks: [sporadic]\n"
    )
    output = done("check", tmp_path / "s.yaml", "--no-time")
    assert output.count("1,224 rows of 1 user\n") == 1
    assert "24 rows (1.96%) are outside" in output
    assert "4 gaps of over 1 h (max_gap_s)" in output
    assert "suggested" not in output
    far = done("check", tmp_path / "s.yaml", "--no-time", "--set", "world.grid.west=116.3")
    assert "suggested" in far
    assert 'columns: {user: "who", time: "when"}' in far
    missing = refused("check", tmp_path / "s.yaml", "--set", "users.mobility.columns.user=nobody")
    assert "[no-such-column]" in missing


def test_check_names_users_whose_rows_are_outside_the_region(tmp_path: Path) -> None:
    rows = [f"a,{at},50.0{at % 10},8.00{at % 10}" for at in range(2000)]
    rows += [f"b,{at},50.{'2' if at % 5 == 0 else '0'}{at % 10},8.001" for at in range(100)]
    (tmp_path / "t.csv").write_text("\n".join(["user,time,lat,lon", *rows]) + "\n")
    (tmp_path / "s.yaml").write_text(
        "world: {grid: {kind: region, south: 49.99, north: 50.1, west: 7.99, east: 8.02, cell_m: 1000}}\n"
        f"users: {{mobility: {{kind: replay, file: t.csv}}, demand: every_visit}}{REST}"
    )
    output = done("check", tmp_path / "s.yaml", "--no-time")
    assert "1 of 2 users lose more than 10% of their rows" in output
    assert "(b: 20%)" in output
    assert "of each user: b 100.0%, a 100.0%" in output or "of each user: a 100.0%, b 100.0%" in output


def test_tracks_are_described_and_replayed_after_an_import(tmp_path: Path) -> None:
    points = "".join(
        f'<trkpt lat="{45.7 + at / 5000}" lon="4.8"><time>2024-03-18T06:{at:02}:00Z</time></trkpt>' for at in range(60)
    )
    path = tmp_path / "my ride.gpx"
    path.write_text(f'<gpx version="1.1"><trk><trkseg>{points}</trkseg></trk></gpx>')
    target = tmp_path / "my ride.parquet"
    command = f"lppm-sim data import '{path}' -o '{target}'"
    output = done("check", path)
    assert command in output
    (tmp_path / "s.yaml").write_text(suggested(output) + REST)
    (tmp_path / "gpx.yaml").write_text(suggested(output).replace(".parquet", ".gpx") + REST)
    for arguments in (("data", "describe", path), ("check", tmp_path / "gpx.yaml")):
        message = refused(*arguments)
        assert "[unsupported-file-type]" in message
        assert command in message
    done("data", "import", path, "-o", target)
    done("check", tmp_path / "s.yaml", "--no-time")


def test_messages_on_columns_name_a_command_that_has_the_option(tmp_path: Path) -> None:
    named = geolife(tmp_path / "t.csv", columns="who,when,y,x")
    options = "--columns user=who --columns time=when --columns lat=y --columns lon=x"
    for arguments in (("check", named), ("data", "describe", named)):
        message = refused(*arguments)
        assert "[no-such-column]" in message
        assert options in message
    output = done("data", "describe", named, *options.split())
    assert f"data import {named} -o {tmp_path / 't.parquet'} {options}" in output
    message = refused("choose", "--max-loss", "0.3km", "--data", named)
    assert message.count(f"{named}: ") == 1
    assert options in message


def test_describe_completes_small_files_and_surveys_large_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = geolife(tmp_path / "t.csv")
    path.write_text(path.read_text().replace('"', ""))
    small = done("data", "describe", path, "--no-figure")
    assert "top points" in small
    assert "sampling" in small
    assert "suggested" in small
    monkeypatch.setattr(surveying, "MANY_ROWS", 100)
    large = done("data", "describe", path)
    assert "top points" not in large
    assert "suggested" in large
    assert list(tmp_path.iterdir()) == [path]
    named = geolife(tmp_path / "other.csv", columns="who,when,lat,lon")
    output = done("data", "describe", named, "--columns", "user=who", "--columns", "time=when")
    assert 'columns: {user: "who", time: "when"}' in output
    assert "NAME=COLUMN" in refused("data", "describe", named, "--columns", "who")
    assert "--columns" in refused("data", "describe", named, "--columns", "user=who", "-o", tmp_path / "x.png")


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    hostile = "[red]\x1b[2J"
    path = geolife(tmp_path / "[bold]t.csv", user=hostile)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines, lines[-1]]) + "\n")
    output = done("check", path)
    assert r"[red]\x1b[2J: 1" in output
    assert "[bold]t.csv" in output
    assert "\x1b" not in output


def test_trace_files_are_recognised_by_their_suffix() -> None:
    names = ["t.csv", "T.CSV.GZ", "t.parquet", "t.pq", "t.gpx", "t.geojson"]
    assert [name for name in names if not surveying.is_trace_file(Path(name))] == []
    assert [name for name in ("s.yaml", "example:city", "folder", "s.gz") if surveying.is_trace_file(Path(name))] == []
