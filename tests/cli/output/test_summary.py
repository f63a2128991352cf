"""The main table has the order of the scenario and the values of the summary, and shows names verbatim."""

from __future__ import annotations

import itertools
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sim.cli.output.summary import print_summary
from sim.storage.event_schema import MEASURES
from tests.cli.printed import HOSTILE_NAMES, table

Capture = pytest.CaptureFixture[str]


def summary(lppms: list[str], attacks: list[str], points: dict[str, list[int]] | None = None) -> pd.DataFrame:
    """Return a summary with distinct values; `points` lists the sweep points of each mechanism."""
    number = itertools.count(1)
    rows = []
    for lppm in lppms:
        for point, attack in itertools.product((points or {}).get(lppm, [0]), attacks):
            row: dict[str, Any] = {"point": point, "lppm": lppm, "attack": attack, "users": 5}
            for name in MEASURES:
                mean = 1 + next(number) / 100
                row |= {name: mean, f"{name}_low": mean - 0.25, f"{name}_high": mean + 0.25}
            rows.append(row)
    # A log is sorted by name, not in the order of the scenario.
    return pd.DataFrame(rows).sort_values(["point", "lppm", "attack"], ignore_index=True)


def points(**columns: list[Any]) -> pd.DataFrame:
    size = max((len(values) for values in columns.values()), default=1)
    return pd.DataFrame({"point": range(size), **columns})


def formatted(frame: pd.DataFrame, name: str, **where: Any) -> str:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    row = frame.iloc[0]
    return f"{row[name]:.3f} ± 0.250"


def test_table_has_the_order_of_the_scenario_and_the_values_of_the_summary(capsys: Capture) -> None:
    frame = summary(["b", "c", "a"], ["y", "x"])
    print_summary(frame, points(), ["b", "c", "a"], ["y", "x"])
    heading, *body = table(capsys.readouterr().out)
    assert heading == ["LPPM", "Q-bar", "P_AE y", "P_AE x"]
    assert [row[0] for row in body] == ["b", "c", "a"]
    for lppm, *cells in body:
        assert cells == [
            formatted(frame, "expected_quality_loss_km", lppm=lppm, attack="x"),
            formatted(frame, "expected_adversary_error_km", lppm=lppm, attack="y"),
            formatted(frame, "expected_adversary_error_km", lppm=lppm, attack="x"),
        ]


def test_realised_values_replace_missing_expected_values(capsys: Capture) -> None:
    frame = summary(["a"], ["x"])
    expected = [name for name in frame.columns if name.startswith("expected")]
    print_summary(frame.assign(**dict.fromkeys(expected, np.nan)), points(), ["a"], ["x"])
    assert table(capsys.readouterr().out)[1] == [
        "a",
        formatted(frame, "quality_loss_km"),
        formatted(frame, "adversary_error_km"),
    ]


def test_missing_interval_is_omitted(capsys: Capture) -> None:
    frame = summary(["a"], ["x"])
    ends = [name for name in frame.columns if name.endswith(("_low", "_high"))]
    print_summary(frame.assign(**dict.fromkeys(ends, np.nan)), points(), ["a"], ["x"])
    assert table(capsys.readouterr().out)[1] == ["a", "1.030", "1.040"]


def test_table_without_attacks_shows_only_the_loss(capsys: Capture) -> None:
    print_summary(summary(["a"], [""]), points(), ["a"], [])
    assert table(capsys.readouterr().out) == [["LPPM", "Q-bar"], ["a", "1.030 ± 0.250"]]


def test_swept_values_are_shown_for_the_mechanisms_they_affect(capsys: Capture) -> None:
    frame = summary(["SP", "LH", "identity"], ["x"], {"SP": [0, 2], "LH": [0, 1], "identity": [0]})
    sweep = points(**{"lppms.0.design.epsilon": [0.5, 0.5, 2.0], "lppms.1.design.reveal": [0.1, 0.2, 0.1]})
    print_summary(frame, sweep, ["SP", "LH", "identity"], ["x"])
    heading, *body = table(capsys.readouterr().out)
    assert heading[:3] == ["LPPM", "epsilon", "reveal"]
    assert [row[:3] for row in body] == [
        ["SP", "0.5", ""],
        ["SP", "2", ""],
        ["LH", "", "0.1"],
        ["LH", "", "0.2"],
        ["identity", "", ""],
    ]


def test_a_sweep_of_one_value_is_shown(capsys: Capture) -> None:
    print_summary(summary(["a"], ["x"]), points(**{"users.count": [7]}), ["a"], ["x"])
    assert table(capsys.readouterr().out)[1][1] == "7"


def test_swept_values_may_be_null_or_mappings(capsys: Capture) -> None:
    frame = summary(["a"], ["x"], {"a": [0, 1]})
    print_summary(frame, points(p=[np.nan, 3.0], q=["[bold]", "{kind: markov}"]), ["a"], ["x"])
    assert [row[1:3] for row in table(capsys.readouterr().out)[1:]] == [["", "[bold]"], ["3", "{kind: markov}"]]


def test_ambiguous_columns_have_full_paths(capsys: Capture) -> None:
    frame = summary(["a"], ["x"], {"a": [0, 1]})
    sweep = points(**{"lppms.0.design.remap": [1, 2], "lppms.1.design.remap": [3, 4], "users.count": [5, 6]})
    print_summary(frame, sweep, ["a"], ["x"])
    assert table(capsys.readouterr().out)[0][1:4] == ["lppms.0.design.remap", "lppms.1.design.remap", "count"]


def test_mechanisms_and_attacks_introduced_by_a_sweep_are_shown(capsys: Capture) -> None:
    """A sweep may replace the list of attacks or the name of a mechanism, so that rows lack some attacks."""
    parts = [summary(["a"], ["x"]), summary(["b"], ["y"], {"b": [1]})]
    sweep = points(attacks=["['x']", "['y']"])
    print_summary(pd.concat(parts, ignore_index=True), sweep, ["a"], ["x"])
    heading, one, other = table(capsys.readouterr().out)
    assert heading == ["LPPM", "attacks", "Q-bar", "P_AE x", "P_AE y"]
    assert one == ["a", "", "1.030 ± 0.250", "1.040 ± 0.250", ""]
    assert other == ["b", "", "1.030 ± 0.250", "", "1.040 ± 0.250"]


def test_names_are_shown_verbatim(capsys: Capture) -> None:
    print_summary(summary(HOSTILE_NAMES, HOSTILE_NAMES), points(**{"[bold]": [1]}), HOSTILE_NAMES, HOSTILE_NAMES)
    heading, *body = table(capsys.readouterr().out)
    assert heading == ["LPPM", "[bold]", "Q-bar", *(f"P_AE {name}" for name in HOSTILE_NAMES)]
    assert [row[0] for row in body] == HOSTILE_NAMES


def test_piped_output_does_not_depend_on_the_terminal_width(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert not sys.stdout.isatty()
    print_summary(summary(["a" * 30], ["x" * 30]), points(), ["a" * 30], ["x" * 30])
    assert table(capsys.readouterr().out)[1][0] == "a" * 30


def test_many_attacks_have_a_row_each(capsys: pytest.CaptureFixture[str]) -> None:
    attacks = [f"attack-{number}" for number in range(12)]
    print_summary(summary(["a", "b"], attacks), points(), ["a", "b"], attacks)
    lines = capsys.readouterr().out.splitlines()
    rows = [line for line in lines if "attack-" in line]
    assert [line.split("│")[3].strip() for line in rows] == attacks * 2
    assert all(line.count("│") == 5 and len(line) < 100 for line in rows)
