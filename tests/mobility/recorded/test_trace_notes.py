"""Notes on gaps and irregular times of recorded traces: in `check`, `run`, manifest.json and the report."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from tests.support import done, refused

HEADER = "user,time_s,cell\n"
CARRIED = "users: 6 of 42 queries (14 %) fall between recorded visits and repeat the previous position"
CUT = (
    "users: 42 queries are made while positions are recorded; 1,422 are omitted in 2 gaps of over 2 h between visits "
    "(max_gap_s)"
)
BACKWARD = (
    "users: time decreases between consecutive rows 2 times (1 user; a: 2): the rows are sorted by time; check the "
    "time column and its time zone"
)
TWICE = (
    "users: the same user is in different cells at the same time once (1 user; a: 1): all rows are retained, in file "
    "order; check that each id belongs to one person"
)


def trips() -> str:
    """Return rows as in Geolife, trips of an hour on different days with a row every five minutes, some irregular."""
    rows = [
        f"{user},{day * 86_400 + 36_000 + 300 * n},{n}\n"
        for user in "ab"
        for day in (0, 2 + (user == "b"))
        for n in range(9)
    ]
    rows.remove(f"a,{36_000 + 600},2\n")
    rows.append(f"b,{3 * 86_400 + 36_000 + 8 * 300 + 1800},7\n")  # half an hour later: five slots without a visit
    rows[3], rows[4] = rows[4], rows[3]
    rows.insert(8, rows.pop(6))
    rows.insert(9, rows[9].replace(",1\n", ",15\n"))
    return HEADER + "".join(rows)


@pytest.fixture
def scenario(write: Callable[..., Path], tmp_path: Path) -> Path:
    (tmp_path / "t.csv").write_text(trips())
    users = "{mobility: {kind: replay, file: t.csv}, demand: periodic}"
    return write(users=users, training="{}", lppms="[identity]", attacks="[sporadic]")


def flat(text: str) -> str:
    return " ".join(text.split())


def test_notes_appear_in_check_run_manifest_and_report(scenario: Path, tmp_path: Path) -> None:
    notes = [BACKWARD, TWICE, CARRIED, CUT]
    checked = flat(done("check", scenario, "--no-time"))
    assert "42 in 1 simulations" in checked
    printed = flat(done("run", scenario, "-o", tmp_path / "out"))
    page = flat(unescape(re.sub("<[^>]+>", "", (tmp_path / "out" / "report.html").read_text())))
    for place in (checked, printed, page):
        assert [note for note in notes if note not in place] == []
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["worlds"][0]["traces"] == {
        "users": {
            "rows": 37,
            "rows_outside": 0,
            "users_in_region": 2,
            "users": 2,
            "visits": 37,
            "rows_backward": 2,
            "users_backward": 1,
            "rows_same_time": 1,
            "users_same_time": 1,
            "rows_repeated": 0,
            "users_repeated": 0,
            "most_backward": {"a": 2},
            "most_same_time": {"a": 1},
            "max_gap_s": 7200,
            "queries_recorded": 36,
            "queries_carried": 6,
            "queries_cut": 1422,
            "gaps": 2,
            "expected": 0,
        }
    }
    assert flat(done("summarize", tmp_path / "out")).count(CUT) == 1


def test_regular_visits_give_no_note(scenario: Path) -> None:
    rows = "".join(f"{user},{time},{time // 300 % 20}\n" for user in "ab" for time in range(0, 9000, 300))
    (scenario.parent / "t.csv").write_text(HEADER + rows)
    assert "note" not in done("check", scenario, "--no-time")


def test_files_in_descending_order_give_no_note(scenario: Path) -> None:
    rows = "".join(f"{user},{time},{time // 300 % 20}\n" for user in "ab" for time in range(9000, 0, -300))
    (scenario.parent / "t.csv").write_text(HEADER + rows)
    assert "note" not in done("check", scenario, "--no-time")


def test_an_empty_file_and_missing_whole_days_are_rejected(scenario: Path) -> None:
    text = scenario.read_text().replace("file: t.csv", "file: t.csv, days: {longest_silence_h: 3}")
    scenario.write_text(text)
    message = refused("check", scenario)
    assert "t.csv: `days` (longest_silence_h: 3, slot_s: 300) " in message
    (scenario.parent / "t.csv").write_text("")
    message = refused("check", scenario)
    assert "t.csv: " in message
    assert "user,time_s,lat,lon" in message


def test_names_of_users_in_notes_are_escaped(scenario: Path, tmp_path: Path) -> None:
    user = "<img src=x onerror=alert(1)>[red]\x1b[2J"
    rows = "".join(f'"{user}",{time},{time // 300 % 20}\n' for time in (0, 600, 300, 900, 1200, 1200))
    (scenario.parent / "t.csv").write_text(HEADER + rows)
    printed = done("run", scenario, "-o", tmp_path / "out")
    assert r"alert(1)>[red]\x1b[2J: 1" in flat(printed)
    assert "\x1b" not in printed
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<img src=x onerror=alert" not in page
    assert r"[red]\x1b[2J: 1" in page


def test_sessions_resampling_and_stay_points_are_stated(scenario: Path, tmp_path: Path) -> None:
    text = scenario.read_text().replace("file: t.csv", "file: t.csv, resample_s: 600, min_session: 5")
    scenario.write_text(text.replace("demand: periodic", "demand: every_visit"))
    rows = [f"a,{start + at},{at // 300 % 20}" for start in (0, 86_400) for at in (*range(0, 1800, 60), 5000)]
    (scenario.parent / "t.csv").write_text(HEADER + "\n".join([*rows, "a,50000,1"]) + "\n")
    dropped = "users: 1 of 3 sessions (33 %) are shorter than `min_session` and omitted, with 1 row"
    carried = "users: 10 of 18 queries (56 %) fall between recorded visits and repeat the previous position"
    cut = "users: 18 queries are made while positions are recorded; 135 are omitted in 1 gap of over 2 h"
    checked = flat(done("check", scenario, "--no-time"))
    printed = flat(done("run", scenario, "-o", tmp_path / "out"))
    page = flat(unescape(re.sub("<[^>]+>", "", (tmp_path / "out" / "report.html").read_text())))
    assert dropped.replace("`", "") in page, "names in backticks are code in the report"
    assert [note for note in (carried, cut) if note not in page] == []
    for place in (checked, printed):
        assert [note for note in (dropped, carried, cut) if note not in place] == []
    traces = json.loads((tmp_path / "out" / "manifest.json").read_text())["worlds"][0]["traces"]["users"]
    names = ("sessions", "sessions_dropped", "rows_dropped", "visits_carried", "visits_cut", "queries_carried")
    assert [traces[name] for name in names] == [2, 1, 1, 10, 135, 10]
