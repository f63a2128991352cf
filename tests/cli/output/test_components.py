"""Listings of components and results of contract checks."""

from __future__ import annotations

import pytest

from sim.checks import CheckResult
from sim.cli.output.components import print_checks, print_keys, print_listing

Capture = pytest.CaptureFixture[str]


def test_failed_checks_are_listed_with_their_problems(capsys: Capture) -> None:
    print_checks("[b]:Star", [CheckResult("is good", None), CheckResult("has [x]", "row [1] is [/bad]")])
    assert capsys.readouterr().out.splitlines() == [
        "ok   is good",
        "fail has [x]",
        "     row [1] is [/bad]",
        "[b]:Star: 1 of 2 checks passed",
    ]


def test_families_are_listed(capsys: Capture) -> None:
    print_listing({"belief": ("lppms.<name>.belief", {"one": "First [line].", "two": "Second."})})
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["belief", "(lppms.<name>.belief)"], ["one", "First", "[line]."], ["two", "Second."]]


def test_groups_are_listed_under_their_names_with_sources(capsys: Capture) -> None:
    print_listing({"design": ("lppms.<name>.design", {"webkit": "Rounds.", "identity": "Nothing."})})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:4] == ["design (lppms.<name>.design)", "identity Nothing.", "phones and apps", lines[3]]
    assert lines[3].startswith("webkit Rounds. M. Caceres on WebKit")


def test_sources_are_printed_with_the_keys(capsys: Capture) -> None:
    print_keys("design", "meshtastic", "Cuts bits.")
    assert "Source: Meshtastic firmware, src/modules/PositionModule.cpp" in capsys.readouterr().out
