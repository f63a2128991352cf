"""The tool that writes the tables of docs/beyond.md: names of the tables, replacement, and marks."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from sim.analysis.equal_loss_tables import completed
from tests.analysis.test_significance import table
from tests.support import ROOT
from tools import beyond

PAGE = ROOT / "docs/beyond.md"


def test_page_has_every_table_once() -> None:
    assert sorted(re.findall("(?m)^% table: (.+)$", PAGE.read_text())) == sorted(beyond.NAMES)


def test_tables_are_replaced_and_nothing_else() -> None:
    page = PAGE.read_text()
    once = beyond.replaced(page, lambda name: f"| {name} |")
    assert beyond.replaced(once, lambda name: f"| {name} |") == once
    outside = re.compile(r"(?ms)^% table: .*?^% end$")
    rows = re.compile("(?m)^\\|")
    assert len(rows.findall(once)) == len(beyond.NAMES) + len(rows.findall(outside.sub("", page)))
    assert outside.sub("", once) == outside.sub("", page)


def test_every_run_has_a_scenario() -> None:
    for name in (*beyond.LOSSES_KM, *beyond.RELOCATIONS):
        paths = [ROOT / "scenarios" / folder / f"{name.removesuffix('-all')}.yaml" for folder in ("beyond", "")]
        assert any(path.exists() for path in paths), name


def test_table_has_marks_and_efficiencies() -> None:
    compared = completed(table(tried=0), "far").rename(columns={"efficiency": "ideal"})
    titles, _, *lines = beyond.at_losses(compared)
    assert titles == ["loss", "mechanism", "P_AE", "difference", "of ideal"]
    by_name = {line[1]: line for line in lines}
    assert by_name["reference"] == ["1 km, 9 users", "reference", "0.489", "", "0.537"]
    assert by_name["far"][3].endswith("†")
    assert by_name["far"][4] == "1.000"
    assert [line[0] for line in lines[1:]] == ["", ""]


def test_all_leads_are_one_family(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A lead that is significant alone is not among all leads; signs are those of the recommended mechanism."""
    p_values = iter([0.0001, 0.03, 0.0001] + [0.5] * 999)

    def rows(runs: Path, name: str) -> list[dict[str, Any]]:
        lead = {"difference_km": -0.2, "difference_km_low": -0.3, "difference_km_high": -0.1, "against": "own"}
        made = [lead | {"scenario": name, "own": "own", "km": 1, "users": 9, "lppm": lppm} for lppm in "abc"]
        made[2] = made[2] | {"difference_km": 0.2, "difference_km_low": 0.1, "difference_km_high": 0.3}
        return [row | {"p_value": next(p_values)} for row in made]

    monkeypatch.setattr(beyond, "_leads", rows)
    lines, note = beyond.leads(tmp_path)
    assert lines[2][4:] == ["+0.200 ± 0.100†", "+0.200 ± 0.100", "-0.200 ± 0.100†"]
    assert note.startswith("Of 15 leads, 1 are significantly above zero and 1 below, after the correction.")
    assert "sp-gowalla at 1 km, own minus c" in note
