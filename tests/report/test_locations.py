"""Replay of locations that are not the cells of a grid: its data, and the page in a browser."""

from __future__ import annotations

import base64
import json
import zlib
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from sim.analysis.map_frame import MapFrame
from sim.analysis.result import Result
from sim.interfaces import FloatArray
from sim.report.replay import replays
from sim.report.replay_world import MOST_VERTICES, packed_places
from sim.report.study import Study
from sim.world import Bounds, LocationSet
from tests.report.conftest import run, write
from tests.support import HOSTILE

if TYPE_CHECKING:
    from playwright.sync_api import Page


def unpacked(packed: dict[str, str]) -> FloatArray:
    kind = packed["type"][0] + str(int(packed["type"][1:]) // 8)
    return np.frombuffer(zlib.decompress(base64.b64decode(packed["packed"])), f"<{kind}").astype(float)


def outlines_km(world: dict[str, Any]) -> list[FloatArray]:
    """Return the vertices of each outline in km from the corner of the frame."""
    packed = world["outlines"]
    vertices = np.cumsum(np.column_stack([unpacked(packed["x"]), unpacked(packed["y"])]), axis=0) * packed["step_m"]
    starts = unpacked(packed["start"]).astype(int)
    return [vertices[first:end] / 1000 for first, end in pairwise(starts)]


def honeycomb(rows: int, cols: int, *, vertices: int = 6, kind: str = "hexagons") -> LocationSet:
    """Return hexagons, or other regular polygons, 200 m apart."""
    north, east = np.divmod(np.arange(rows * cols), cols)
    x_km, y_km = 0.2 * (east + 0.5 * (north % 2)) + 0.2, 0.17 * north + 0.2
    angle = np.append(np.arange(vertices), 0) * 2 * np.pi / vertices
    outlines = np.stack([x_km[:, None] + 0.1 * np.sin(angle), y_km[:, None] + 0.1 * np.cos(angle)], axis=2)
    size_km = float(x_km.max()) + 0.2, float(y_km.max()) + 0.2
    return LocationSet(
        kind=kind,
        x_km=x_km,
        y_km=y_km,
        width_km=size_km[0],
        height_km=size_km[1],
        bounds=Bounds(37.0, 37.2, -122.0, -121.8),
        labels=tuple(f"8a2a1072b{cell:06x}" for cell in range(rows * cols)),
        outlines=tuple(outlines),
    )


@pytest.mark.parametrize("vertices", [6, 200])
def test_outlines_agree_with_the_locations(vertices: int) -> None:
    locations = honeycomb(30, 20, vertices=vertices)
    frame = MapFrame.of(locations)
    world = packed_places(locations, frame)
    corner = (frame.west_km, frame.south_km)
    np.testing.assert_allclose(unpacked(world["x_m"]) / 1000 + corner[0], locations.x_km, atol=0.00051)
    np.testing.assert_allclose(unpacked(world["y_m"]) / 1000 + corner[1], locations.y_km, atol=0.00051)
    drawn, outlines = outlines_km(world), locations.outlines
    assert world["outlines"]["closed"]
    assert sum(map(len, drawn)) <= MOST_VERTICES
    assert outlines is not None
    for cell in (0, 333, 599):
        away = np.abs(drawn[cell][:, None] + corner - outlines[cell][None]).max(axis=2)
        assert max(away.min(axis=0).max(), away.min(axis=1).max()) <= world["outlines"]["step_m"] / 1000


def test_outlines_with_too_many_vertices_are_omitted() -> None:
    world = packed_places(honeycomb(300, 300), MapFrame.of(honeycomb(300, 300)))
    assert world["outlines"] is None
    assert world["too_detailed"]
    assert world["labels"] is None


def test_many_hexagons_leave_most_of_the_page_to_the_users() -> None:
    locations = honeycomb(97, 100)
    world = packed_places(locations, MapFrame.of(locations))
    assert world["outlines"] is not None
    assert world["labels"] is not None
    assert len(json.dumps(world)) < 500_000


@pytest.fixture(scope="module")
def points_run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Return a run on points in km."""
    folder = tmp_path_factory.mktemp("points")
    rng = np.random.default_rng(5)
    lines = [f"{x:.3f},{y:.3f},stop {number}" for number, (x, y) in enumerate(rng.uniform(0, 6, (30, 2)).tolist())]
    file = folder / "points.csv"
    file.write_text("\n".join(["x,y,name", *lines]) + "\n")
    locations = {"kind": "points", "file": str(file), "columns": {"x_km": "x", "y_km": "y"}}
    lppms = [
        "SP-Exp",
        {
            "name": "dummies",
            "belief": "fixed_profile",
            "training": "others",
            "design": {"kind": "dummies", "dummies": 3},
        },
    ]
    return run(folder / "run", world={"locations": locations}, lppms=lppms, attacks=["sporadic"])


def test_replay_has_positions_labels_and_beliefs(points_run: Result) -> None:
    (replay,) = replays(Study([points_run]), 10**6)
    locations = points_run.manifest.worlds[0].restore_locations()
    world = replay["world"]
    assert world["kind"] == "points"
    assert world["tiles"] is None
    assert world["labels"] == [f"stop {number}" for number in range(30)]
    assert np.ptp(unpacked(world["x_m"])) == pytest.approx(1000 * np.ptp(locations.x_km), abs=1)
    assert len(unpacked(replay["lppms"][0]["beliefs"]["value"])) == 30 * len(replay["lppms"][0]["beliefs"]["user"])
    assert replay["note"] == ""


def test_beliefs_about_many_locations_are_summed_over_squares(
    points_run: Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sim.analysis.tiles.Squares.of.__func__.__defaults__", (12,))
    (replay,) = replays(Study([Result(points_run.run)]), 10**6)
    tiles, beliefs = replay["world"]["tiles"], replay["lppms"][0]["beliefs"]
    assert tiles["rows"] * tiles["cols"] <= 12
    assert len(unpacked(beliefs["value"])) == tiles["rows"] * tiles["cols"] * len(beliefs["user"])
    assert "summed over squares of" in replay["note"]


def test_description_agrees_with_the_log(points_run: Result, browser_page: Page, tmp_path: Path) -> None:
    browser_page.goto(write(tmp_path / "report.html", points_run).as_uri())
    browser_page.wait_for_selector(".map[data-frames]")
    browser_page.get_by_label("Time line by").select_option("query")
    events = points_run.events()
    own = events[(events["event"] == "query") & (events["lppm"] == "SP-Exp") & (events["user"] == "user-001")]
    for index in (1, 9, 25):
        browser_page.get_by_label("Time", exact=True).evaluate(
            "(range, to) => { range.value = to; range.dispatchEvent(new Event('input')) }", index
        )
        row = own[own["index"] == index].iloc[0]
        cell, output = int(row["cell"]), int(row["output"])
        lines = browser_page.locator(".replay-words > *").all_text_contents()
        assert lines[1].startswith(f"user-001 is at location {cell} (stop {cell}) at query {index} of 25")
        if output == cell:
            assert lines[2] == "Report: the true location."
        else:
            head, km = lines[2].removesuffix(" km.").rsplit(" ", 1)
            assert head == f"Report: location {output} (stop {output}), loss"
            assert float(km) == pytest.approx(row["quality_loss_km"], abs=0.01)
    browser_page.get_by_label("Mechanism", exact=True).select_option(label="dummies")
    assert "a set of 4 locations including the true one" in " ".join(
        browser_page.locator(".replay-words > *").all_text_contents()
    )


def test_marks_are_at_the_position_of_the_location(points_run: Result, browser_page: Page, tmp_path: Path) -> None:
    browser_page.goto(write(tmp_path / "report.html", points_run).as_uri())
    browser_page.wait_for_selector(".map[data-frames]")
    browser_page.get_by_label("Time line by").select_option("query")
    browser_page.get_by_label("Other users").select_option("hidden")
    events = points_run.events()
    own = events[(events["lppm"] == "SP-Exp") & (events["user"] == "user-001") & (events["index"] == 1)]
    locations = points_run.manifest.worlds[0].restore_locations()
    frame, canvas = MapFrame.of(locations), browser_page.locator(".replay-frame canvas")
    box = canvas.bounding_box()
    assert box is not None
    cell = int(own["cell"].iloc[0])
    scale = min((box["width"] - 20) / frame.width_km, (box["height"] - 40) / frame.height_km)
    x = (box["width"] - scale * frame.width_km) / 2 + scale * (locations.x_km[cell] - frame.west_km)
    y = 10 + scale * (frame.south_km + frame.height_km - locations.y_km[cell])
    canvas.hover(position={"x": x, "y": y})
    assert canvas.get_attribute("title") == "user-001"


def test_labels_are_never_markup(tmp_path: Path, browser_page: Page) -> None:
    file = tmp_path / "points.csv"
    count = np.arange(len(HOSTILE))
    pd.DataFrame({"lat": 37.7 + count / 100, "lon": -122.4, "name": HOSTILE}).to_csv(file, index=False)
    world = {"locations": {"kind": "points", "file": str(file)}}
    result = run(tmp_path / "run", world=world, lppms=["SP-Exp"], attacks=["sporadic"])
    browser_page.goto(write(tmp_path / "report.html", result).as_uri())
    browser_page.wait_for_selector(".map[data-frames]")
    assert not browser_page.evaluate("window.hacked")
    assert browser_page.locator(".replay-words script, .replay-words img").count() == 0
    assert "location" in (browser_page.locator(".replay-words").text_content() or "")
