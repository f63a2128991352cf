"""The group of phones and apps: every member has a source, a section on its page and a place in the scenario."""

from __future__ import annotations

from pathlib import Path

import pytest

import sim
from sim.components.registry import registry
from sim.storage.load import load

ROOT = Path(__file__).parents[3]
KINDS = [kind for kind, model in registry.kinds("design").items() if model.group == "phones and apps"]


def test_members() -> None:
    assert set(KINDS) == {
        "android_coarse",
        "android_density",
        "browser",
        "constant_offset",
        "decimals",
        "location_guard",
        "meshtastic",
        "privacy_zone",
        "webkit",
    }


@pytest.mark.parametrize("kind", KINDS)
def test_every_member_has_a_source_and_a_row_on_the_page(kind: str) -> None:
    assert registry.kinds("design")[kind].source
    page = (ROOT / "docs" / "background" / "phones.md").read_text(encoding="utf-8")
    assert page.count(f"| `{kind}` |") >= 1


def test_every_member_is_in_the_scenario() -> None:
    scenario = load(ROOT / "scenarios" / "phones.yaml")
    assert {lppm.design.kind for lppm in scenario.lppms} == set(KINDS)


def test_group_and_source_are_columns_of_the_list() -> None:
    designs = sim.list_components("design").set_index("kind")
    assert set(designs.index[designs["group"] == "phones and apps"]) == set(KINDS)
    assert list(designs.loc["identity", ["group", "source"]]) == ["", ""]
    lppms = sim.list_components("lppm").set_index("kind")
    assert list(lppms.loc[["LG-high", "PEB-Exp"], "group"]) == ["phones and apps", ""]
