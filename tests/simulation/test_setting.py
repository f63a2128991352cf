"""Setting of a scenario: statistics of trace files, and invalid files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sim.analysis import narrative as sentences
from sim.simulation.population import Population
from sim.simulation.setting import Setting
from tests.simulation.recorded_users import both, error_of, replay, trips
from tests.support import MakeScenario

DAY_S = 86_400


COVERAGE = ("queries_recorded", "queries_carried", "queries_cut", "gaps")


def coverage(reading: dict[str, int]) -> list[int]:
    return [reading[name] for name in COVERAGE]


@pytest.mark.parametrize(
    "limits",
    [
        {},
        {"queries": 40},
        {"days": 3},
        {"past_queries": 3},
        {"past_queries": 3, "queries": 7},
        {"past_days": 2, "queries": 7},
        {"past_days": 2, "days": 4},
        {"past_share": 0.5},
        {"past_share": 0.5, "queries": 3},
    ],
)
@pytest.mark.parametrize("period_s", [60, 1800])
def test_counted_queries_equal_those_of_past_and_test(
    limits: dict[str, Any], period_s: int, make_scenario: MakeScenario, tmp_path: Path
) -> None:
    table = both(trips([0, 3, 4, 11]), trips([7, 7, 9], "b", minutes=40))
    users = replay(tmp_path, table) | {"demand": {"kind": "periodic", "period_s": period_s}} | limits
    setting = Setting(make_scenario(users=users, training={}))
    lives = Population(setting, 0).lives.values()
    recorded, carried, cut, gaps = coverage(setting.readings()["users"])
    assert recorded + carried == sum(len(life.past) + len(life.test) for life in lives)
    uncut = replay(tmp_path, table, max_gap_s=10**9) | {"demand": users["demand"]}
    whole = Population(Setting(make_scenario(users=uncut, training={})), 0).lives
    last = {life.test.user: life.test.times_s[-1] for life in lives}
    possible = sum((life.test.times_s <= last[user]).sum() for user, life in whole.items())
    assert cut == possible - recorded - carried
    assert (gaps > 0) == (cut > 0)


def test_a_carried_position_is_counted(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": ["a"] * 3, "time": [0, 3600, 86_400], "cell": [0, 1, 2]}) | {"demand": "periodic"}
    setting = Setting(make_scenario(users=users, training={}))
    assert coverage(setting.readings()["users"]) == [3, 11, 275, 1]
    carried, cut = sentences.left_out(setting.readings())
    assert "11 of 14 queries (79 %)" in carried
    assert "275" in cut
    assert "max_gap_s" in cut


def test_notes_state_that_they_count_the_past_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": ["a"] * 3, "time": [0, 3600, 86_400], "cell": [0, 1, 2]}) | {"demand": "periodic"}
    setting = Setting(make_scenario(users=users | {"past_share": 0.5}, training={}))
    (life,) = Population(setting, 0).lives.values()
    assert setting.readings()["users"]["queries_past"] == len(life.past) == 7
    carried, cut = sentences.left_out(setting.readings())
    assert "11 of 14 queries of past and test (79 %)" in carried
    assert "14 queries of past and test are made" in cut


def test_coverage_of_training_sets_is_counted_too(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = both(trips([0, 3]), trips([7, 9], "b"))
    users = replay(tmp_path, table, select={"users": ["a"]}) | {"queries": 5}
    mobility = users["mobility"] | {"select": {"users": ["b"]}, "max_gap_s": 90_000}
    sets = {
        "own file": {"kind": "others", "mobility": mobility, "demand": "periodic"},
        "as users": {"kind": "others", "demand": "periodic"},
        "short": {"kind": "others", "mobility": mobility, "demand": "periodic", "queries": 20},
    }
    setting = Setting(make_scenario(users=users, training=sets))
    readings = setting.readings()
    assert "gaps" not in readings["users"], "every visit is a query: none is carried or cut"
    assert coverage(readings["training.own file"]) == [36, 0, 558, 1]
    assert coverage(readings["training.as users"]) == [5, 0, 0, 0]
    assert "rows" not in readings["training.as users"], "the file is that of the users, where its rows are reported"
    assert coverage(readings["training.short"]) == [20, 0, 558, 1]
    assert Population(setting, 0).knowledge("own file")("a").n_visits == 36


def test_expected_numbers_of_random_queries_are_marked_as_approximate(
    make_scenario: MakeScenario, tmp_path: Path
) -> None:
    users = replay(tmp_path, trips([0, 3])) | {"demand": {"kind": "poisson", "per_hour": 120}}
    notes = sentences.left_out(Setting(make_scenario(users=users, training={})).readings())
    assert len(notes) == 2
    assert "about 202 of 356 queries (57 %)" in notes[0]
    assert "about 356 queries" in notes[1]
    assert "8,462" in notes[1]


def test_more_users_than_the_file_has_are_refused(make_scenario: MakeScenario, tmp_path: Path) -> None:
    users = replay(tmp_path, {"user": list("ab"), "time": range(2), "cell": range(2)}) | {"count": 3}
    setting = Setting(make_scenario(users=users, training={}))
    assert str(error_of(lambda: setting.users)) == "users: count must be in [1, 2], got 3"


@pytest.mark.parametrize(
    ("world", "expected"),
    [
        ({"roads": {"kind": "lattice", "spacing_km": 10}}, "2 to 200,000"),
        ({"roads": {"kind": "lattice", "spacing_km": 0.001}}, "20,000,000"),
    ],
)
def test_impossible_roads_are_refused(world: dict[str, Any], expected: str, make_scenario: MakeScenario) -> None:
    grid = make_scenario().world.grid.model_dump()
    setting = Setting(make_scenario(world={"grid": grid} | world))
    message = str(error_of(lambda: setting.world))
    assert message.startswith("world: spacing_km ")
    assert expected in message


HEADER = "user,time,cell\n"


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("t.csv", f"{HEADER}a,1,2\na,x,3\na,3,99\n", ["2 bad rows", "line 3: time ", "'x'", "line 4:"]),
        ("t.csv", f"{HEADER}a,nan,2\n", ["1 bad row", "line 2: time ", "'nan'"]),
        ("t.csv", f"{HEADER}a,1,-1\n", ["cell must be an integer in [0, 19]"]),
        ("t.csv", f"{HEADER}a,1,true\n", ["cell must be an integer in [0, 19]"]),
        ("t.csv", f"{HEADER}a,1580000000000,1\n", ["time ", "milliseconds", "15800000"]),
        ("t.csv", "who,when,where\na,1,2\n", ["`columns: {user: who, time: when, cell: where}`"]),
        ("t.csv", "user,time,lat,lon\na,1,2,3\n", ["(cell, cell_id)", "lat and lon"]),
        ("t.csv", HEADER, ["0 rows"]),
        ("t.csv", "", ["empty"]),
        ("t.csv.gz", "no gzip", ["Not a gzipped file"]),
        ("t.zip", "no zip", ["File is not a zip file"]),
        ("t.tar", "no tar", ["file could not be opened"]),
        ("t.bz2", "no bzip2", ["Invalid data stream"]),
        ("t.xz", "no lzma", []),
        ("t.parquet", "no parquet", []),
    ],
)
def test_a_bad_trace_file_is_refused_with_its_name_and_the_reason(
    file: str, content: str, expected: list[str], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content)
    setting = Setting(make_scenario(users={"mobility": {"kind": "replay", "file": file}}).at(tmp_path, None))
    message = str(error_of(lambda: setting.users))
    assert message.startswith(f"users.mobility: {tmp_path / file}: ")
    assert all(words in message for words in expected), message


def test_an_empty_selection_is_reported_with_its_parameters(make_scenario: MakeScenario, tmp_path: Path) -> None:
    table = {"user": list("ab"), "time": range(2), "cell": range(2)}
    users = replay(tmp_path, table, select={"min_visits": 9, "exclude": {"first": 1}})
    setting = Setting(make_scenario(users=users))
    message = str(error_of(lambda: setting.users))
    assert "(min_visits: 9, exclude: first: 1)" in message
    assert "2 users" in message


@pytest.mark.parametrize(
    ("file", "content", "expected"),
    [
        ("d.csv", "0,1\n1,0\n", ["(20, 20)", "(2, 2)"]),
        ("d.csv", "0,1\n1\n", ["columns changed from 2 to 1 at row 2"]),
        ("d.csv", "a,b\n", ["could not convert string 'a'"]),
        ("d.csv", "", ["empty"]),
        ("d.npy", "no array", [".npy"]),
        ("d.txt", "0", [".npy or .csv", "'.txt'"]),
    ],
)
def test_a_bad_distance_file_is_refused_with_its_name_and_the_reason(
    file: str, content: str, expected: list[str], make_scenario: MakeScenario, tmp_path: Path
) -> None:
    (tmp_path / file).write_text(content)
    world = make_scenario().world.model_dump() | {"quality_distance": {"kind": "matrix", "file": file}}
    setting = Setting(make_scenario(world=world).at(tmp_path, None))
    message = str(error_of(lambda: setting.world))
    assert message.startswith(f"world: {tmp_path / file}: ")
    assert all(words in message for words in expected), message
    assert "pickle" not in message
    assert "usecols" not in message
