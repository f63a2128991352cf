"""What a person sees: the table says what the summary says, names appear as they are, progress stays off stdout."""

from __future__ import annotations

import itertools
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sim
from sim.analysis import narrative as sentences
from sim.checks import CheckResult
from sim.cli.output.components import print_checks, print_listing
from sim.cli.output.cost import print_cost
from sim.cli.output.equal_loss import print_at_loss
from sim.cli.output.result import print_result
from sim.cli.output.summary import print_summary
from sim.cli.progress import Bar
from sim.execution.cost.estimate import Cost
from sim.storage.event_schema import MEASURES
from tests.support import MakeScenario

Capture = pytest.CaptureFixture[str]
HOSTILE = ["[bold]SP[/bold]", "[red", "a[/]b", "plain:star:"]


def summary(lppms: list[str], attacks: list[str], points: dict[str, list[int]] | None = None) -> pd.DataFrame:
    """Return a summary whose figures are all different; `points` says where each mechanism was run."""
    number = itertools.count(1)
    rows = []
    for lppm in lppms:
        for point, attack in itertools.product((points or {}).get(lppm, [0]), attacks):
            row: dict[str, Any] = {"point": point, "lppm": lppm, "attack": attack, "users": 5}
            for name in MEASURES:
                mean = 1 + next(number) / 100
                row |= {name: mean, f"{name}_low": mean - 0.25, f"{name}_high": mean + 0.25}
            rows.append(row)
    # The order of a log: sorted by name, not that of the scenario.
    return pd.DataFrame(rows).sort_values(["point", "lppm", "attack"], ignore_index=True)


def points(**columns: list[Any]) -> pd.DataFrame:
    size = max((len(values) for values in columns.values()), default=1)
    return pd.DataFrame({"point": range(size), **columns})


def table(text: str) -> list[list[str]]:
    """Return the cells of the printed table, the heading first."""
    lines = [line for line in text.splitlines() if line.startswith(("│", "┃"))]
    return [[cell.strip() for cell in re.split("[│┃]", line)[1:-1]] for line in lines]


def figure(frame: pd.DataFrame, name: str, **where: Any) -> str:
    for column, value in where.items():
        frame = frame[frame[column] == value]
    row = frame.iloc[0]
    return f"{row[name]:.3f} ± 0.250"


def test_the_table_has_the_scenarios_order_and_the_summarys_figures(capsys: Capture) -> None:
    frame = summary(["b", "c", "a"], ["y", "x"])
    print_summary(frame, points(), ["b", "c", "a"], ["y", "x"])
    heading, *body = table(capsys.readouterr().out)
    assert heading == ["LPPM", "Q-bar", "P_AE y", "P_AE x"]
    assert [row[0] for row in body] == ["b", "c", "a"]
    for lppm, *cells in body:
        assert cells == [
            figure(frame, "expected_quality_loss_km", lppm=lppm, attack="x"),
            figure(frame, "expected_adversary_error_km", lppm=lppm, attack="y"),
            figure(frame, "expected_adversary_error_km", lppm=lppm, attack="x"),
        ]


def test_realised_figures_stand_in_where_none_are_expected(capsys: Capture) -> None:
    frame = summary(["a"], ["x"])
    expected = [name for name in frame.columns if name.startswith("expected")]
    print_summary(frame.assign(**dict.fromkeys(expected, np.nan)), points(), ["a"], ["x"])
    assert table(capsys.readouterr().out)[1] == [
        "a",
        figure(frame, "quality_loss_km"),
        figure(frame, "adversary_error_km"),
    ]


def test_no_interval_is_no_interval(capsys: Capture) -> None:
    frame = summary(["a"], ["x"])
    ends = [name for name in frame.columns if name.endswith(("_low", "_high"))]
    print_summary(frame.assign(**dict.fromkeys(ends, np.nan)), points(), ["a"], ["x"])
    assert table(capsys.readouterr().out)[1] == ["a", "1.030", "1.040"]


def test_without_attack_there_is_the_loss_alone(capsys: Capture) -> None:
    print_summary(summary(["a"], [""]), points(), ["a"], [])
    assert table(capsys.readouterr().out) == [["LPPM", "Q-bar"], ["a", "1.030 ± 0.250"]]


def test_swept_values_stand_beside_what_they_touch(capsys: Capture) -> None:
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


def test_swept_values_may_be_null_or_anything(capsys: Capture) -> None:
    frame = summary(["a"], ["x"], {"a": [0, 1]})
    print_summary(frame, points(p=[np.nan, 3.0], q=["[bold]", "{kind: markov}"]), ["a"], ["x"])
    assert [row[1:3] for row in table(capsys.readouterr().out)[1:]] == [["", "[bold]"], ["3", "{kind: markov}"]]


def test_columns_that_would_be_called_alike_keep_their_paths(capsys: Capture) -> None:
    frame = summary(["a"], ["x"], {"a": [0, 1]})
    sweep = points(**{"lppms.0.design.remap": [1, 2], "lppms.1.design.remap": [3, 4], "users.count": [5, 6]})
    print_summary(frame, sweep, ["a"], ["x"])
    assert table(capsys.readouterr().out)[0][1:4] == ["lppms.0.design.remap", "lppms.1.design.remap", "count"]


def test_what_a_sweep_brought_in_is_shown_too(capsys: Capture) -> None:
    """A sweep may replace the list of attacks, or a mechanism's name: not every row has every attack."""
    parts = [summary(["a"], ["x"]), summary(["b"], ["y"], {"b": [1]})]
    sweep = points(attacks=["['x']", "['y']"])
    print_summary(pd.concat(parts, ignore_index=True), sweep, ["a"], ["x"])
    heading, one, other = table(capsys.readouterr().out)
    assert heading == ["LPPM", "attacks", "Q-bar", "P_AE x", "P_AE y"]
    assert one == ["a", "", "1.030 ± 0.250", "1.040 ± 0.250", ""]
    assert other == ["b", "", "1.030 ± 0.250", "", "1.040 ± 0.250"]


def test_names_are_shown_letter_by_letter(capsys: Capture) -> None:
    print_summary(summary(HOSTILE, HOSTILE), points(**{"[bold]": [1]}), HOSTILE, HOSTILE)
    heading, *body = table(capsys.readouterr().out)
    assert heading == ["LPPM", "[bold]", "Q-bar", *(f"P_AE {name}" for name in HOSTILE)]
    assert [row[0] for row in body] == HOSTILE


def note(**changes: Any) -> dict[str, Any]:
    plain = {"point": 0, "replication": 0, "lppm": "PEB", "lppm_fallbacks": 0, "attack_fallbacks": {"x": 0, "y": 0}}
    return plain | {"worst_gap": None} | changes


def manifest(*notes: dict[str, Any], gap: float = 1e-6, sweep: dict[str, Any] | None = None) -> dict[str, Any]:
    lppms = [{"name": "PEB", "belief": {"kind": "estimated_profile", "gap": gap}}, {"name": "SP", "belief": {}}]
    return {"finished": True, "notes": list(notes), "scenario": {"lppms": lppms, "sweep": sweep or {}}}


def test_nothing_strange_no_warning() -> None:
    assert sentences.warnings(manifest()) == []
    assert sentences.warnings(manifest(note(worst_gap=9e-7), note(lppm="SP"))) == []


def test_warnings_add_up_over_points_and_replications() -> None:
    notes = [
        note(lppm_fallbacks=2, attack_fallbacks={"x": 0, "y": 3}),
        note(replication=1, lppm_fallbacks=5, attack_fallbacks={"x": 0, "y": 4}),
        note(lppm="SP", attack_fallbacks={"x": 1, "y": 0}),
        note(lppm="SP", point=1, attack_fallbacks={"z": 6}),
    ]
    assert sentences.warnings(manifest(*notes)) == [
        "PEB: 7 reports had no mass under its belief and reset it",
        "y against PEB: 7 reports had no mass under her belief",
        "x against SP: 1 reports had no mass under her belief",
        "z against SP: 6 reports had no mass under her belief",
    ]


def test_a_gap_that_was_not_reached_is_told() -> None:
    notes = [note(worst_gap=2e-7), note(replication=1, worst_gap=0.034), note(lppm="SP")]
    assert sentences.warnings(manifest(*notes)) == ["PEB: its estimates are certain within a gap of 0.034, not 1e-06"]
    assert sentences.warnings(manifest(*notes, gap=0.1)) == []
    assert sentences.warnings(manifest(*notes, sweep={"lppms.PEB.belief.gap": [1e-6, 0.1]})) == []


def test_a_run_without_attacks_has_notes_all_the_same() -> None:
    assert sentences.warnings(manifest(note(attack_fallbacks={}))) == []


def test_changes_that_were_found_are_told_without_alarm() -> None:
    notes = [note(lppm_alarms=1), note(point=1, lppm_alarms=2000), note(lppm="SP", lppm_alarms=0)]
    assert sentences.found_changes(manifest(*notes)) == ["PEB found 2,001 changes in its released reports."]
    assert sentences.found_changes(manifest(notes[0])) == ["PEB found 1 change in its released reports."]
    assert sentences.warnings(manifest(*notes)) == []


def ends(name: str, mean: float, low: float, high: float) -> dict[str, float]:
    return {name: mean, f"{name}_low": low, f"{name}_high": high, f"{name}_min": low, f"{name}_max": high}


def test_errors_at_equal_loss_are_printed(capsys: Capture) -> None:
    row = {"circumstances": "", "attack": "[red", "quality_loss_km": 1.0, "lppm": HOSTILE[0], "against": HOSTILE[0]}
    row |= {"reached": 6, "users": 5, "of_users": 7} | ends("error_km", 0.5, 0.4, 0.6) | ends("difference_km", 0, 0, 0)
    other = row | {"lppm": HOSTILE[2], "reached": 5} | ends("difference_km", -0.25, -0.5, 0.0)
    print_at_loss(pd.DataFrame([row, other]))
    heading, *body = table(capsys.readouterr().out)
    assert heading == ["attack", "Q-bar", "LPPM", "P_AE", f"minus {HOSTILE[0]}", "users"]
    assert body == [
        ["[red", "1", HOSTILE[0], "0.500 ± 0.100", "", "5 of 7 (6 with this one)"],
        ["[red", "1", HOSTILE[2], "0.500 ± 0.100", "-0.250 ± 0.250", "5 of 7"],
    ]
    few = other | {"users": 4, "error_km_min": 0.1, "error_km_max": 0.9}
    print_at_loss(pd.DataFrame([few | {"difference_km_min": -1.0, "difference_km_max": 0.5}]))
    assert table(capsys.readouterr().out)[1][3:5] == ["0.500 (0.100 to 0.900)", "-0.250 (-1.000 to 0.500)"]
    print_at_loss(pd.DataFrame([other | {"circumstances": "count 7"}]))
    heading, *body = table(capsys.readouterr().out)
    assert (heading[0], body[0][0]) == ("with", "count 7")


def test_an_unfinished_run_says_so() -> None:
    (warning,) = sentences.warnings(manifest() | {"finished": False})
    assert "not finished" in warning


def test_a_run_is_printed_with_notes_and_place(make_scenario: MakeScenario, tmp_path: Path, capsys: Capture) -> None:
    peb = {"kind": "PEB-LH", "belief": {"solver": "em", "max_iterations": 1}}
    scenario = make_scenario(lppms=["SP-Exp", peb], sweep={"lppms.*.design.quality_budget_km": [0.3, 1.5]})
    folder = tmp_path / "[red]run"
    result = sim.run(scenario, out=folder, figures=False)
    print_result(result)
    out = capsys.readouterr().out
    assert [row[:2] for row in table(out)[1:]] == [
        ["SP-Exp", "0.3"],
        ["SP-Exp", "1.5"],
        ["PEB-LH", "0.3"],
        ["PEB-LH", "1.5"],
    ]
    for attack in ("sporadic", "markov"):
        verdict = rf"^Against {attack}, at \d\.\d km of quality loss, \d users are too few to tell which mechanism "
        assert re.search(verdict, out, re.MULTILINE)
    assert re.search(r"^note: PEB-LH: its estimates are certain within a gap of \S+, not 1e-06$", out, re.MULTILINE)
    assert out.endswith(f"\nevent log, summary.csv and metrics.csv are in {folder}\n")
    (folder / "figures").mkdir()
    print_result(result)
    assert capsys.readouterr().out.endswith(f"\nevent log, summary.csv, metrics.csv and figures are in {folder}\n")
    (folder / "report.html").touch()
    print_result(result)
    assert capsys.readouterr().out.endswith(
        f"\nevent log, summary.csv, metrics.csv, figures and report.html are in {folder}\n"
    )
    print_result(result, redrawn=False)
    older = "figures and report.html there are older"
    assert capsys.readouterr().out.endswith(f"\nevent log, summary.csv and metrics.csv are in {folder}; {older}\n")


def test_progress_is_plain_lines_on_stderr(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.cli.progress.LINE_EVERY_S", 0.0)
    with Bar("[b]x") as bar:
        bar.start(1250, chunks=3)
        bar.end_chunk()
        for _ in range(1250):
            bar.advance(1)
    out, err = capsys.readouterr()
    assert out == ""
    lines = err.splitlines()
    assert len(lines) == 14
    form = r"\[b\]x: 1/3 chunks, [\d,]+/1,250 queries, [\d,]+ queries/s, [\d,]+ s left"
    assert all(re.fullmatch(form, line) for line in lines)
    assert [line.split()[3].split("/")[0] for line in lines[-2:]] == ["1,200", "1,250"]
    assert lines[-1].endswith(" 0 s left")


def test_a_quick_run_shows_no_progress(capsys: Capture) -> None:
    for queries in (0, 300):
        with Bar("x") as bar:
            bar.start(queries)
            for _ in range(queries):
                bar.advance(1)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_gets_a_bar(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with Bar("[b]x") as bar:
        bar.start(250)
        bar.advance(250)
    out, err = capsys.readouterr()
    assert out == ""
    assert "[b]x" in err
    assert "250/250" in err


def test_the_cost(make_scenario: MakeScenario, capsys: Capture) -> None:
    scenario = make_scenario(replications=4)
    counts: dict[str, Any] = {"points": 3, "users": 7, "simulations": 24, "queries": 12345, "rows": 2_000_000}
    print_cost(scenario, Cost(**counts, seconds=600.0, peak_bytes=345_000_000))
    lines = [line.split(None, 1) for line in capsys.readouterr().out.splitlines()]
    assert {line[0]: line[1] for line in lines if line[0] != "event"} == {
        "scenario": f"small is valid (digest {scenario.digest[:8]}, seed 3)",
        "points": "3 x 4 replications",
        "users": "7",
        "queries": "12,345 in 24 simulations",
        "memory": "about 345 MB in each process that simulates",
        "time": "about 10 min (measured on a few users)",
    }
    assert ["event", "log  2,000,000 rows, about 46.0 MB"] in lines


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "not measured"), (0.2, "0 s"), (89, "89 s"), (100, "2 min"), (7200, "2.0 h")]
)
def test_durations(seconds: float | None, text: str, make_scenario: MakeScenario, capsys: Capture) -> None:
    print_cost(make_scenario(), Cost(points=1, users=1, simulations=1, queries=1, rows=1, seconds=seconds))
    assert text in capsys.readouterr().out


def test_checks_are_listed_with_what_was_wrong(capsys: Capture) -> None:
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


def test_piped_output_does_not_depend_on_the_terminals_width(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert not sys.stdout.isatty()
    print_summary(summary(["a" * 30], ["x" * 30]), points(), ["a" * 30], ["x" * 30])
    assert table(capsys.readouterr().out)[1][0] == "a" * 30


def test_check_tells_of_rows_that_are_left_out(make_scenario: MakeScenario, capsys: Capture) -> None:
    read = {"users": {"rows": 12_000, "rows_outside": 1_500}, "training.rich": {"rows": 5, "rows_outside": 0}}
    cost = Cost(points=1, users=2, simulations=1, queries=3, rows=3, seconds=None, readings=read)
    print_cost(make_scenario(), cost)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split() == [
        "note",
        "users:",
        "1,500",
        "of",
        "12,000",
        "rows",
        "lie",
        "outside",
        "the",
        "region",
        "and",
        "are",
        "left",
        "out",
    ]
    assert sum("note" in line for line in lines) == 1


def test_comparisons_are_made_within_the_same_circumstances(make_scenario: MakeScenario, tmp_path: Path) -> None:
    scenario = make_scenario(
        lppms=["SP-Exp", "PEB-Exp"],
        attacks=["markov"],
        sweep={"lppms.*.design.epsilon_per_km": [0.2, 3.0], "users.count": [2, 3]},
    )
    result = sim.run(scenario, out=tmp_path / "run", figures=False)
    told = list(sentences.comparisons(sentences.comparable(result.per_user(), result.points())))
    assert [sentence.split(":")[0] for sentence in told] == ["With count 2", "With count 3"]
    for sentence in told:
        assert "SP-Exp" in sentence
        assert "PEB-Exp" in sentence


def sought(lppm: str, replications: int, half_widths_km: dict[str, float], point: int = 0) -> dict[str, Any]:
    said = {"until_half_width_km": 0.02, "half_widths_km": half_widths_km}
    return {"point": point, "lppm": lppm, "replications": replications, "exact": False} | said


def test_how_many_replications_it_took_is_told() -> None:
    fixed = {"point": 0, "lppm": "PEB", "replications": 3, "exact": False}
    once = {"point": 0, "lppm": "SP", "replications": 1, "exact": True}
    assert sentences.repetitions(manifest() | {"repetitions": [fixed]}) == []
    assert sentences.repetitions(manifest() | {"repetitions": [fixed, once, once | {"point": 1}]}) == [
        "Run once, since movements are recorded, nothing learns and expected figures are exact: SP."
    ]
    said = [sought("A", 5, {}), sought("A", 31, {}, point=1), sought("B", 12, {}), once]
    assert sentences.repetitions(manifest() | {"repetitions": said})[1:] == [
        "Replications until all means over these users are within ± 0.02 km: A 5 to 31, B 12."
    ]


def test_figures_that_are_not_sharp_in_the_end_are_told_widest_first() -> None:
    said = [
        sought("A", 200, {"Q-bar": 0.01, "P_AE x": 0.031}),
        sought("A", 200, {"Q-bar": 0.05, "P_AE x": 0.019}, point=1),
        sought("B", 12, {"Q-bar": 0.02}),
    ]
    swept = pd.DataFrame({"point": [0, 1], "lppms.A.design.epsilon_per_km": [0.5, 2.0]})
    end = "km after 200 replications, the most allowed, not within ± 0.02 km"
    ended = manifest() | {"repetitions": said}
    assert sentences.still_wide(ended, swept) == [
        f"Q-bar of A (epsilon_per_km 2) is known within ± 0.05 {end}",
        f"P_AE x of A (epsilon_per_km 0.5) is known within ± 0.031 {end}",
    ]
    assert sentences.still_wide(ended | {"finished": False}, swept) == []
    many = [sought("A", 200, {f"P_AE {i}": 1.0 + i}, point=i % 2) for i in range(9)]
    assert sentences.still_wide(manifest() | {"repetitions": many}, swept)[5:] == [
        "4 more figures are less sharp than asked for: see `repetitions` in manifest.json"
    ]


def test_an_open_cost_has_two_ends(make_scenario: MakeScenario, capsys: Capture) -> None:
    scenario = make_scenario(replications={"until_half_width_km": 0.02, "at_most": 40})
    least = Cost(points=3, users=7, simulations=30, queries=1000, rows=2000, seconds=2.0)
    most = Cost(points=3, users=7, simulations=240, queries=8000, rows=16000, seconds=16.0, least=least, exact=("SP",))
    print_cost(scenario, most)
    out = capsys.readouterr().out
    assert "3 x 5 to 40 replications, until all figures are within ± 0.02 km\n" in out
    assert "exact  SP: its expected figures need no repetition, it is run once (see docs/performance.md)\n" in out
    assert "queries  1,000 to 8,000 in 30 to 240 simulations\n" in out
    assert "2,000 to 16,000 rows, about 0.0 MB to 0.4 MB\n" in out
    assert "about 2 s to 16 s (measured on a few users)\n" in out


def test_a_partial_cost_says_what_is_missing(make_scenario: MakeScenario, capsys: Capture) -> None:
    counts: dict[str, Any] = {"points": 1, "users": 7, "simulations": 2, "queries": 1000, "rows": 2000}
    missing = ("SP-Opt (not within 2.5 s)",)
    cost = Cost(**counts, seconds=16.0, peak_bytes=1_234_567_890, approximate=True, unmeasured=missing, incomplete=True)
    print_cost(make_scenario(), cost)
    out = capsys.readouterr().out
    assert "queries  about 1,000 in 2 simulations\n" in out
    assert "event log  about 2,000 rows, about 0.0 MB\n" in out
    assert "memory  about 1.2 GB in each process that simulates\n" in out
    assert "time  at least 16 s (measured on a few users)\n" in out
    assert "note  not measured: SP-Opt (not within 2.5 s)\n" in out
    nothing = counts | {"users": 0, "queries": 0, "rows": 0}
    print_cost(make_scenario(), Cost(**nothing, seconds=None, unmeasured=("world",)))
    out = capsys.readouterr().out
    assert "users  not counted\n" in out
    assert "queries  not counted in 2 simulations\n" in out
    assert "time  not measured\n" in out


def test_more_queries_than_were_announced_raise_the_total(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.cli.progress.LINE_EVERY_S", 0.0)
    with Bar("x") as bar:
        for queries in (200, 100):
            bar.start(queries)
            bar.advance(queries)
    assert [line.split()[3] for line in capsys.readouterr().err.splitlines()] == ["200/200", "300/300"]


def test_check_warns_of_more_memory_than_the_machine_has(
    make_scenario: MakeScenario, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    cost = Cost(points=1, users=2, simulations=1, queries=1, rows=1, seconds=1.0, peak_bytes=3 * 10**9)
    monkeypatch.setattr("sim.cli.output.cost.installed_bytes", lambda: 2 * 10**9)
    print_cost(make_scenario(), cost)
    assert "about 3.0 GB in each process" in (shown := capsys.readouterr().out)
    assert "more memory than this machine has (2.0 GB)" in shown
    monkeypatch.setattr("sim.cli.output.cost.installed_bytes", lambda: 4 * 10**9)
    print_cost(make_scenario(), cost)
    assert "more memory" not in capsys.readouterr().out
