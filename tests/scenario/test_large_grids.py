"""Requests that a large grid rules out are refused at their cause, before anything is built."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.scenario.large_grids import large_grid_findings
from sim.scenario.reading.faults import ScenarioError
from sim.storage.load import load
from tests.support import MakeScenario, assert_faults, faults

TEXT = """\
world:
  grid: {kind: rectangle, rows: 120, cols: 100, width_km: 10, height_km: 12}
  roads: {kind: lattice, spacing_km: 2}
  QUALITY
users: {count: 2, queries: 3, mobility: favourites}
training: {others: {kind: others, count: 3}}
lppms: [SP-Exp, PEB-LH]
attacks: [sporadic]
record: RECORD
"""


def written(folder: Path, quality: str = "privacy_distance: road", record: str = "queries") -> Path:
    path = folder / "large.yaml"
    path.write_text(TEXT.replace("QUALITY", quality).replace("RECORD", record))
    return path


def test_an_exponential_design_with_a_large_road_quality_distance_is_refused_at_that_line(tmp_path: Path) -> None:
    path = written(tmp_path, "quality_distance: road")
    expected = "4:21: world.quality_distance [matrix-too-large]"
    words = ("SP-Exp", "12,000 cells", "1.2 GB", "`quality_distance: manhattan`", "`privacy_distance` may stay road")
    assert_faults(faults(path), (expected, *words))
    assert "PEB-LH" not in faults(path)[0].message
    load(written(tmp_path))


GRID = {"kind": "rectangle", "rows": 120, "cols": 100, "width_km": 10.0, "height_km": 12.0}


@pytest.mark.parametrize(
    "settings",
    [{"grid": GRID | {"rows": 100}}, {"quality_distance": "euclidean", "privacy_distance": "road"}],
)
def test_the_remedies_of_the_message_work(settings: dict[str, Any], make_scenario: MakeScenario) -> None:
    world = {"grid": GRID, "roads": {"kind": "lattice", "spacing_km": 2.0}, "quality_distance": "road"}
    assert [finding.code for finding in large_grid_findings(make_scenario(world=world))] == ["matrix-too-large"]
    assert not list(large_grid_findings(make_scenario(world=world | settings)))


def test_expected_metrics_on_a_large_grid_are_refused_if_requested_and_remarked_by_default(tmp_path: Path) -> None:
    path = written(tmp_path, record="{expected: true}")
    expected = "9:20: record.expected [expected-needs-small-grid]"
    assert_faults(faults(path), (expected, "at most 3,000 cells", "found 12,000"))
    for record in ("queries", "{log: queries}", "{expected: false}"):
        assert not load(written(tmp_path, record=record)).records_expected
    path = written(tmp_path)
    assert_faults(
        faults(path, "record.expected=true"), ("--set record.expected: record.expected [expected-needs-small-grid]",)
    )


def test_a_sweep_to_a_large_grid_is_refused_at_its_value(tmp_path: Path) -> None:
    text = TEXT.replace("QUALITY", "privacy_distance: road").replace("RECORD", "{expected: true}")
    path = tmp_path / "swept.yaml"
    path.write_text(text.replace("rows: 120", "rows: 10") + "sweep: {world.grid.rows: [20, 120]}\n")
    (fault,) = faults(path)
    assert (fault.where, fault.code) == ("10:31", "expected-needs-small-grid")


def test_the_manifest_of_a_large_grid_can_be_run_again(tmp_path: Path) -> None:
    scenario = load(written(tmp_path), settings={"users.queries": 2})
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    again = load(tmp_path / "run" / "manifest.json")
    assert again.digest == scenario.digest
    assert result.manifest.scenario.with_settings({"seed": 2}).seed == 2


def test_a_fault_that_all_values_of_a_sweep_share_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "swept.yaml"
    path.write_text(
        "users: {count: 2, queries: 3, mobility: favourites}\n"
        "lppms: [{kind: SP-Exp, training: others, design: {quality_budget_km: 1}}]\n"
        "training: {others: {kind: others, count: 3}}\n"
        "attacks: [sporadic]\n"
        "sweep: {lppms.*.design.epsilon_per_km: [1, 2, 3]}\n"
    )
    with pytest.raises(ScenarioError) as caught:
        load(path)
    (fault,) = caught.value.faults
    assert (fault.where.rpartition("/")[2], fault.code) == ("swept.yaml:5:41", "exclusive-keys")
    assert fault.message.endswith(
        "; the same for 2 more values of this sweep; without the sweep (`--set sweep={}`) the scenario is valid"
    )
    load(path, settings={"sweep": {}})
