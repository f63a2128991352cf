"""Mechanisms whose outputs are not cells, from the scenario file to the report and the map."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest
from pydantic import ValidationError

from sim.analysis import trajectories
from sim.analysis.result import Result
from sim.lppm.designs.cloaking import CloakingParameters
from sim.lppm.designs.dummies import DummiesParameters
from sim.lppm.outputs import Cells, CellsOrNothing, Regions, Sets
from sim.plots import style
from sim.report.packing import pack_cells
from tests.lppm.validation import codes
from tests.support import done, refused

if TYPE_CHECKING:
    from playwright.sync_api import Page

SCENARIO = """
name: outputs
seed: 3
replications: 1
world: {grid: {kind: rectangle, rows: 3, cols: 4, width_km: 4, height_km: 3}}
users: {count: 2, queries: 20, mobility: {kind: favourites, places: 4}}
training: {others: {kind: others, count: 8, queries: 30}}
lppms:
  - {kind: SP-Cloak, design: {k: 200}}
  - SP-Snap
  - {kind: Drop, design: {quality_budget_km: 0.8}}
  - Dummies
  - {name: PEB-Cloak, belief: estimated_profile, design: {kind: cloaking, quality_budget_km: 1}}
  - {kind: PL, name: Places, design: {discretise: false}}
attacks: [sporadic, markov]
sweep: {lppms.Dummies.design.dummies: [1, 2]}
"""


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("outputs")
    (folder / "outputs.yaml").write_text(SCENARIO)
    done("run", folder / "outputs.yaml", "-o", folder / "run", "--no-figures", "--workers", "1")
    return Result.open(folder / "run")


@pytest.fixture(scope="module")
def written(result: Result) -> Path:
    done("report", result.path)
    return result.path / "report.html"


def log_of(result: Result, lppm: str) -> pd.DataFrame:
    """Return the rows of one LPPM against one attack, with missing outputs as missing values."""
    events = pd.concat([table.to_pandas(types_mapper=_nullable) for table in result.run.tables()])
    return events[(events["lppm"] == lppm) & (events["attack"] == "markov") & (events["point"] == 0)]


def _nullable(kind: Any) -> Any:
    return pd.Int64Dtype() if str(kind) == "int64" else None


def test_manifest_describes_output_spaces(result: Result) -> None:
    entries = result.manifest.output_spaces
    assert (entries["SP-Snap"], entries["Drop"]) == ("cells", {"kind": "cells_or_nothing"})
    spaces = {lppm: trajectories.output_space(result.run, lppm, 0) for lppm in entries}
    assert isinstance(spaces["SP-Cloak"], Regions)
    assert spaces["SP-Cloak"] == spaces["PEB-Cloak"]
    assert spaces["SP-Cloak"].cells(0) == tuple(range(12))
    assert (spaces["SP-Snap"], spaces["Drop"], spaces["Dummies"]) == (Cells(12), CellsOrNothing(12), Sets(12, 2))
    assert trajectories.output_space(result.run, "Dummies", 1) == Sets(12, 3)


def test_dropped_report_has_a_loss_and_an_estimate_but_no_output(result: Result) -> None:
    log = log_of(result, "Drop")
    dropped = log["output"].isna()
    assert 0 < dropped.sum() < len(log)
    assert (log.loc[~dropped, "output"] == log.loc[~dropped, "cell"]).all()
    assert (log.loc[~dropped, "quality_loss_km"] == 0).all()
    rows, cols = np.divmod(log.loc[dropped, "cell"].to_numpy(int), 4)
    losses = log.loc[dropped, "quality_loss_km"].to_numpy(float)
    assert any((np.abs(rows - row) + np.abs(cols - col) == losses).all() for row in range(3) for col in range(4))
    assert log["estimate"].between(0, 11).all()


def test_log_holds_the_loss_of_each_output(result: Result) -> None:
    for lppm in ("SP-Cloak", "PEB-Cloak"):
        space, log = trajectories.output_space(result.run, lppm, 0), log_of(result, lppm)
        for cell, output, km in zip(log["cell"], log["output"], log["quality_loss_km"], strict=True):
            (row, col), (to_row, to_col) = divmod(cell, 4), divmod(space.shown_at(output), 4)
            assert cell in space.cells(output)
            assert km == pytest.approx(abs(row - to_row) + abs(col - to_col))
    dummies, space = log_of(result, "Dummies"), trajectories.output_space(result.run, "Dummies", 0)
    pairs = zip(dummies["cell"], dummies["output"], strict=True)
    assert all(cell in space.cells(output) for cell, output in pairs)
    assert (dummies["quality_loss_km"] == 0).all()
    assert dummies["expected_adversary_error_km"].notna().all()


def test_learning_mechanism_spends_its_budget_in_expectation(result: Result) -> None:
    """The budget holds under the mechanism's own prior, from which users may differ; the whole grid bounds the loss."""
    learned = log_of(result, "PEB-Cloak")["expected_quality_loss_km"].astype(float)
    assert learned.nunique() > 2
    assert 0.3 < learned.mean() < 2


# Report and map ---------------------------------------------------------------------------------------------


def test_replay_shows_regions_at_their_centres_and_lists_their_cells(result: Result, written: Path) -> None:
    script = re.search(r'<script type="application/json"[^>]*>(.*?)</script>', written.read_text(), re.DOTALL)
    assert script is not None
    (replay,) = json.loads(script.group(1))["replay"]
    lppms = ["SP-Cloak", "SP-Snap", "Drop", "Dummies", "PEB-Cloak", "Places"]
    for packed, lppm in zip(replay["lppms"], lppms, strict=True):
        space, log = trajectories.output_space(result.run, lppm, 0), log_of(result, lppm)
        outputs = [None if pd.isna(output) else int(output) for output in log["output"]]
        shown = [-1 if output is None else space.shown_at(output) for output in outputs]
        assert unpacked(packed["output"]).tolist() == [12 if cell < 0 else cell for cell in shown]
        assert packed["space"] == space.kind
        if lppm == "SP-Snap":
            assert packed["km"] is None
        else:
            np.testing.assert_allclose(unpacked(packed["km"]) / 100, log["quality_loss_km"].to_numpy(float), atol=0.005)
        assert (packed["named"] is None) == (lppm in ("SP-Snap", "Drop", "Places"))
        if packed["named"] is not None:
            output, start, cells = (unpacked(packed["named"][name]).tolist() for name in ("output", "start", "cells"))
            named = [tuple(cells[start[place] : start[place + 1]]) for place in output]
            assert named == [space.cells(output) for output in outputs if output is not None]


def test_missing_output_differs_from_every_cell() -> None:
    for cells in (2**8 - 1, 2**8, 2**16 - 1, 2**16):
        assert unpacked(pack_cells(np.array([0, cells - 1, cells]), cells)).tolist() == [0, cells - 1, cells]


def unpacked(packed: dict[str, str]) -> Any:
    raw = zlib.decompress(base64.b64decode(packed["packed"]))
    return np.frombuffer(raw, dtype=np.dtype(f"<{packed['type'][0]}{int(packed['type'][1:]) // 8}"))


def test_replay_describes_reports(result: Result, written: Path, browser_page: Page) -> None:
    page = browser_page
    page.goto(written.as_uri())
    page.wait_for_selector(".map[data-frames]")
    page.get_by_label("Time line by").select_option("query")
    user = log_of(result, "Drop")["user"].iloc[0]
    for lppm in ("SP-Cloak", "Drop", "Dummies", "Places"):
        label = "Dummies, dummies 1" if lppm == "Dummies" else lppm
        page.get_by_label("Mechanism", exact=True).select_option(label=label)
        page.get_by_label("Follow", exact=True).select_option(label=user)
        log = log_of(result, lppm)
        log = log[log["user"] == user].set_index("index")
        index = int(log["output"].isna().idxmax()) if lppm == "Drop" else 3
        page.get_by_label("Time", exact=True).evaluate(
            "(range, to) => { range.value = to; range.dispatchEvent(new Event('input')) }", index
        )
        sentence = page.locator(".replay-words > *").all_text_contents()[2]
        km, output = float(log["quality_loss_km"][index]), log["output"][index]
        space = trajectories.output_space(result.run, lppm, 0)
        match lppm:
            case "Drop":
                assert sentence == f"Report: none, loss {round(km, 2):g} km."
            case "Places":
                place = f"a point in or next to cell {space.shown_at(output)}"
                assert sentence == f"Report: {place}, loss {round(km, 2):g} km."
            case "Dummies":
                assert sentence == "Report: a set of 2 cells including the true one, loss 0 km."
            case _:
                count = len(space.cells(output))
                around = f"around cell {space.shown_at(output)}"
                assert (
                    sentence
                    == f"Report: a region of {count} cell{'s' * (count > 1)} {around}, loss {round(km, 2):g} km."
                )


def test_map_shows_regions_at_their_centres_and_sets_at_their_cells(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(style, "settled", lambda figure, **_: figure)
    assert done("plot", result.path, "--figure", "map", "--attack", "markov", "-o", "map.svg") == "map.svg\n"
    user = log_of(result, "Drop")["user"].iloc[0]
    for lppm in ("SP-Cloak", "SP-Snap", "Drop", "Dummies"):
        trace = trajectories.user_trace(result.run, lppm=lppm, point=0, attack="markov", user=user)
        space, log = trajectories.output_space(result.run, lppm, 0), log_of(result, lppm)
        for shown, output in zip(trace.queries["shown"], log.loc[log["user"] == user, "output"], strict=True):
            if pd.isna(output):
                assert shown == ()
            elif lppm == "Dummies":
                assert shown == space.cells(output)
            else:
                assert shown == (space.shown_at(output),)


# Invalid designs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("design", "values"),
    [
        ("{kind: dummies, dummies: 12}", ["lppms.x.design: dummies", "[0, 11]", "got 12", "[too-many-dummies]"]),
        ("{kind: dummies, quality_budget_km: 1}", ["`quality_budget_km`", "`dummies`"]),
        ("{kind: cloaking, k: 30, population: 20}", ["`k`", "`population`", "found 30", " 20"]),
        ("{kind: cloaking, population: 5}", ["`k`", "`population`", "found 10", " 5"]),
        ("{kind: cloaking, k: 3, quality_budget_km: 1}", ["`k`", "`quality_budget_km`"]),
        ("{kind: snapping, cells_per_side: 2, quality_budget_km: 1}", ["`cells_per_side`", "`quality_budget_km`"]),
        (
            "{kind: dropping, drop_probability: 0.2, quality_budget_km: 1}",
            ["`drop_probability`", "`quality_budget_km`"],
        ),
    ],
)
def test_invalid_design_in_a_scenario_is_rejected(design: str, values: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        re.sub(
            r"lppms:.*?attacks",
            f"lppms: [{{name: x, belief: fixed_profile, design: {design}}}]\nattacks",
            SCENARIO,
            flags=re.S,
        ).split("sweep:")[0]
    )
    message = " ".join(refused("run", tmp_path / "x.yaml", "-o", tmp_path / "run").split())
    assert all(value in message for value in values)


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        (lambda: CloakingParameters(k=30, population=20), "k-exceeds-population"),
        (lambda: DummiesParameters.model_validate({"quality_budget_km": 1}), "unsupported-budget"),
    ],
)
def test_rules_of_parameters_have_codes(parameters: Callable[[], object], code: str) -> None:
    with pytest.raises(ValidationError) as error:
        parameters()
    assert codes(error.value) == [code]
