"""Row about the report: frame rate of the replay map of many users in a browser."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

import sim
from benchmarks.scale import Scale
from benchmarks.targets import Measurement, Skipped
from sim import report
from sim.analysis.result import Result
from sim.scenario.models import Scenario
from sim.storage.event_schema import EVENTS

FRAME_S = 1 / 30
_COPIES = 50
_SCENARIO: dict[str, Any] = {
    "name": "crowd",
    "seed": 3,
    "world": {
        "grid": {"kind": "rectangle", "rows": 8, "cols": 10, "width_km": 10.0, "height_km": 8.0},
        "roads": "lattice",
        "privacy_distance": "road",
    },
    "users": {"count": 4, "queries": 288, "mobility": {"kind": "favourites", "places": 4}},
    "training": {"others": {"kind": "others", "count": 8, "queries": 30}},
    "lppms": ["SP-Exp"],
    "attacks": ["sporadic", "markov", "sporadic-trained"],
    "shifts": [{"kind": "new_places", "at_query": 13}],
    "record": {"snapshots": []},
}
_PLAY = """async (duration) => {
  const drawn = [];
  const observer = new MutationObserver(() => drawn.push(performance.now()));
  observer.observe(document.querySelector(".map"), { attributeFilter: ["data-frames"] });
  const play = document.querySelector(".replay-play");
  play.click();
  await new Promise((done) => setTimeout(done, duration));
  play.click();
  return drawn.slice(1).map((now, place) => now - drawn[place]);
}"""


def measure_replay(scale: Scale) -> Measurement:
    """Measure the median time between two frames while the replay of 200 users plays with all layers."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        raise Skipped("no browser is installed (package chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise Skipped("playwright is not installed (make .venv/ready-to-develop)") from None
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        file = _write_report(Path(folder))
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.goto(file.as_uri())
        page.wait_for_selector(".map[data-frames]")
        page.get_by_label("Follow", exact=True).select_option("")
        gaps_ms = page.evaluate(_PLAY, scale.replay_ms)
        browser.close()
    if len(gaps_ms) < 2:
        return Measurement(scale.replay_ms / 1000, FRAME_S, fault=f"{len(gaps_ms)} frames in {scale.replay_ms} ms")
    return Measurement(float(pd.Series(gaps_ms).median()) / 1000, FRAME_S, note=f"wall-clock, {len(gaps_ms)} frames")


def _write_report(folder: Path) -> Path:
    """Write the report of a run with many copies of every user."""
    run = sim.run(Scenario.model_validate(_SCENARIO), out=folder / "run", figures=False).run
    for part in run.parts():
        rows = run.read_part(part).to_pandas()
        crowd = pd.concat([rows.assign(user=rows["user"] + f" {copy}") for copy in range(_COPIES)])
        run.write_part(part, pa.Table.from_pandas(crowd, schema=EVENTS, preserve_index=False), run.notes(part))
    file = folder / "report.html"
    file.write_text(report.page([Result.open(folder / "run")]), encoding="utf-8")
    return file
