"""Replay of trace files in many formats; bad rows are never dropped."""

from __future__ import annotations

import gzip
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sim.errors import InvalidValue
from sim.mobility.demand.every_visit import EveryVisit
from sim.mobility.recorded.replay import RecordedDays, Replay, Selection, write_csv
from sim.mobility.traces import Trace, live
from sim.world.grid import Grid
from tests.support import made, raises_code

RECTANGLE = Grid.rectangle(rows=2, cols=3, width_km=3, height_km=2)
REGION = Grid.region(rows=2, cols=2, south=10.0, north=12.0, west=20.0, east=22.0)
RNG = np.random.default_rng(0)


def saved(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def replayed(replay: Replay) -> dict[str, list[tuple[int, int]]]:
    return {user: [(v.time_s, v.cell) for v in replay.visits(user, RNG)] for user in replay.users(None)}


def read(path: Path, grid: Grid = RECTANGLE, **options: Any) -> dict[str, list[tuple[int, int]]]:
    return replayed(made(Replay, locations=grid, file=path, **options))


def test_rows_are_sorted_stably_for_each_user(tmp_path: Path) -> None:
    path = saved(tmp_path, "user,time_s,cell\nbob,50,1\nann,9,2\nbob,20,3\nbob,20,4\nann,3,5\nbob,20,0\n")
    assert read(path) == {"bob": [(20, 3), (20, 4), (20, 0), (50, 1)], "ann": [(3, 5), (9, 2)]}


def test_degrees_and_rows_outside_the_region(tmp_path: Path) -> None:
    path = saved(
        tmp_path, "User,Time,Latitude,LNG\na,0,10.5,20.5\na,1,11.5,20.5\na,2,12.5,20.5\na,3,10.5,21.5\nb,0,0,0\n"
    )
    replay = made(Replay, locations=REGION, file=path)
    assert replayed(replay) == {"a": [(0, 0), (1, 2), (3, 1)]}
    regular = {f"{what}_{kind}": 0 for kind in ("backward", "same_time", "repeated") for what in ("rows", "users")}
    expected = {"rows": 5, "rows_outside": 2, "users_in_region": 1, "users": 1, "visits": 3} | regular
    assert replay.report() == expected


def test_multiples_of_a_day_are_local_midnights(tmp_path: Path) -> None:
    # 2008-05-17 10:00:09 UTC is 03:00:09 at UTC-7; 2008-05-18 06:59:59 UTC is still the 17th there.
    seconds = "user,unixtime,cell\na,1211018409,0\na,1211093999,1\na,1211094000,2\n"
    text = "user,timestamp,cell\na,2008-05-17T10:00:09Z,0\na,2008-05-17 23:59:59-07:00,1\na,2008-05-18T07:00:00,2\n"
    for rows in (seconds, text):
        path = saved(tmp_path, rows)
        midnight = 14_016 * 86_400
        local = [(midnight + 3 * 3600 + 9, 0), (midnight + 86_399, 1), (midnight + 86_400, 2)]
        assert read(path, utc_offset_h=-7) == {"a": local}
        assert read(path)["a"][0] == (1_211_018_409, 0)


def test_a_users_times_do_not_depend_on_the_others(tmp_path: Path) -> None:
    path = saved(tmp_path, "user,time_s,cell\nold,5,0\nnew,864010,1\n")
    assert read(path) == {"old": [(5, 0)], "new": [(864_010, 1)]}
    assert read(path, select=Selection(users=["new"])) == {"new": [(864_010, 1)]}


def test_a_file_with_an_order_only_gives_positions(tmp_path: Path) -> None:
    path = saved(tmp_path, "user,chron_seq,cell\na,30,1\na,10,2\nb,7,0\na,20,3\n")
    assert read(path) == {"a": [(0, 2), (1, 3), (2, 1)], "b": [(0, 0)]}


def test_columns_are_given_or_recognised(tmp_path: Path) -> None:
    path = saved(tmp_path, "who,when,time,where,cell\na,1,9,2,0\n")
    assert read(path, columns={"user": "who"}) == {"a": [(9, 0)]}
    columns = {"user": "who", "order": "when", "cell": "where"}
    assert read(path, columns=columns) == {"a": [(0, 2)]}


def test_degrees_take_precedence_over_cells_on_a_georeferenced_grid(tmp_path: Path) -> None:
    path = saved(tmp_path, "user,time,cell,lat,lon\na,0,3,10.5,20.5\n")
    assert read(path, REGION) == {"a": [(0, 0)]}
    assert read(path, RECTANGLE) == {"a": [(0, 3)]}
    assert read(path, REGION, columns={"cell": "cell"}) == {"a": [(0, 3)]}


@pytest.mark.parametrize("separator", ["\t", ";", " ", ","])
def test_separators_are_recognised(tmp_path: Path, separator: str) -> None:
    text = "user,time,cell\na,0,1\nb,1,2\n".replace(",", separator)
    assert read(saved(tmp_path, text, "data.txt")) == {"a": [(0, 1)], "b": [(1, 2)]}


def test_compressed_files_and_byte_order_marks_are_read(tmp_path: Path) -> None:
    text = "\ufeffuser,time,cell\na,0,1\n"
    compressed = tmp_path / "data.csv.gz"
    compressed.write_bytes(gzip.compress(text.encode()))
    assert read(compressed) == read(saved(tmp_path, text)) == {"a": [(0, 1)]}


def test_ids_are_read_as_text(tmp_path: Path) -> None:
    text = "user,time,cell\n10,0,1\n9,0,2\n007,0,3\n10,1,4\n"
    visits = read(saved(tmp_path, text))
    assert list(visits) == ["007", "9", "10"]
    assert visits == {"007": [(0, 3)], "9": [(0, 2)], "10": [(0, 1), (1, 4)]}
    text = "user,time,cell\n10,0,1\nNA,0,1\n9,0,1\n1e3,0,1\n"
    assert list(read(saved(tmp_path, text))) == ["10", "NA", "9", "1e3"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        ([12, 3], ["3", "12"]),
        ([12.0, 3.0], ["3", "12"]),
        (["12", "x"], ["12", "x"]),
        (pd.Categorical(["b", "a"]), ["b", "a"]),
    ],
)
def test_parquet_files_are_read(tmp_path: Path, ids: Any, expected: list[str]) -> None:
    path = tmp_path / "data.parquet"
    times = pd.to_datetime(["2020-01-01 00:00:05", "2020-01-01 00:00:07"])
    pd.DataFrame({"user": ids, "time": times, "cell": [1, 2]}).to_parquet(path)
    visits = read(path)
    assert list(visits) == expected
    assert sorted(own[0] for own in visits.values()) == [(1_577_836_805, 1), (1_577_836_807, 2)]


def people(folder: Path) -> Path:
    sizes = {1: 3, 2: 1, 3: 4, 5: 2, 8: 5}
    rows = [f"{user},{at},{at % 6}" for user, size in sizes.items() for at in range(size)]
    return saved(folder, "user,order,cell\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("select", "users"),
    [
        (Selection(), "1 2 3 5 8"),
        (Selection(users=["8", "2"]), "2 8"),
        (Selection(min_visits=3), "1 3 8"),
        (Selection(min_visits=3, first=2), "1 3"),
        (Selection(first=4, last=2), "3 5"),
        (Selection(min_visits=2, first=3, last=1), "5"),
        (Selection(split="tuning"), "1 2"),
        (Selection(split="test"), "3 5 8"),
        (Selection(min_visits=3, split="test", first=1), "3"),
        (Selection(exclude=Selection(split="test")), "1 2"),
        (Selection(last=99), "1 2 3 5 8"),
        (Selection(exclude=Selection(min_visits=3, first=2)), "2 5 8"),
        # The excluded selection applies to all users, not to those selected before.
        (Selection(users=["3", "8"], exclude=Selection(min_visits=3, first=1)), "3 8"),
        (Selection(exclude=Selection(exclude=Selection(first=1))), "1"),
    ],
)
def test_selection(tmp_path: Path, select: Selection | None, users: str) -> None:
    replay = made(Replay, locations=RECTANGLE, file=people(tmp_path), select=select)
    assert list(replay.users(None)) == users.split()
    assert replay.users(1) == tuple(users.split()[:1])


def test_min_visits_counts_only_visits_in_the_region(tmp_path: Path) -> None:
    text = "user,time,lat,lon\na,0,10.5,20.5\na,1,50,20.5\nb,0,10.5,20.5\nb,1,10.5,20.5\n"
    assert list(read(saved(tmp_path, text), REGION, select=Selection(min_visits=2))) == ["b"]


def test_only_the_first_visits_of_each_user_are_used(tmp_path: Path) -> None:
    visits = read(people(tmp_path), visits=2, select=Selection(min_visits=3))
    assert visits == {user: [(0, 0), (1, 1)] for user in ("1", "3", "8")}


def test_shuffling_permutes_the_cells_over_the_times(tmp_path: Path) -> None:
    rows = "".join(f"a,{10 * at},{at % 6}\n" for at in range(60))
    path = saved(tmp_path, "user,time_s,cell\n" + rows)
    plain = read(path)["a"]
    replay = made(Replay, locations=RECTANGLE, file=path, shuffle=True)
    one, same, other = (
        [(v.time_s, v.cell) for v in replay.visits("a", np.random.default_rng(seed))] for seed in (1, 1, 2)
    )
    assert one == same
    assert one != other
    assert one != plain
    assert [t for t, _ in one] == [t for t, _ in plain]
    assert sorted(c for _, c in one) == sorted(c for _, c in plain)
    assert read(path)["a"] == plain


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [
        (
            "user,time,lat,lon\na,2008-05-17,10.5,20.5\nb,then,10.5,20.5\nb,5,10.5,20.5\na,2008-05-18,10.5,20.5\n",
            "invalid-row",
            ["2 bad", "line 3: time ", "'then'", "line 4: time "],
        ),
        ("user,order,lat,lon\na,first,10.5,20.5\n", "invalid-row", ["line 2: order ", "'first'"]),
        ("user,time,cell\n", "outside-region", ["0 rows"]),
        ("user,time,lat,lon\na,0,20.5,10.5\n", "outside-region", ["1 row is"]),
        ("", "empty-file", ["user,time_s,lat,lon"]),
        ("user,time,lat\na,0,1\n", "no-such-column", ["lat (", "lon (", "cell (", "found user, time, lat"]),
    ],
)
def test_bad_files_are_rejected(tmp_path: Path, text: str, code: str, values: list[str]) -> None:
    path = saved(tmp_path, text)
    with raises_code(InvalidValue, code) as error:
        made(Replay, locations=REGION, file=path)
    assert str(error.value).startswith(f"{path}: ")
    assert [value for value in values if value not in str(error.value)] == []


def test_one_remedy_names_all_missing_columns(tmp_path: Path) -> None:
    path = saved(tmp_path, "id,when,foo,zone\na,1,2,3\n")
    with raises_code(InvalidValue, "no-such-column") as error:
        made(Replay, locations=RECTANGLE, file=path)
    assert "lat and lon need a grid" in str(error.value)
    assert "{time: when, cell: zone}" in str(error.value)
    with raises_code(InvalidValue, "no-such-column") as error:
        made(Replay, locations=RECTANGLE, file=path, columns={"time": "when"})
    assert "lat and lon need a grid" in str(error.value)
    assert "{cell: zone}" in str(error.value)
    assert read(path, columns={"time": "when", "cell": "zone"}) == {"a": [(1, 3)]}


@pytest.mark.parametrize("name", ["data.csv.gz", "data.parquet"])
def test_files_of_another_format_are_rejected(tmp_path: Path, name: str) -> None:
    path = saved(tmp_path, "user,time,cell\na,0,1\n", name)
    with raises_code(InvalidValue, "unreadable-file") as error:
        made(Replay, locations=RECTANGLE, file=path)
    assert str(error.value).startswith(f"{path}: ")


def test_parquet_with_missing_values_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "holes.parquet"
    pd.DataFrame({"user": [1, None, 3], "time": [0, 1, 2], "cell": [0, 1, None]}).to_parquet(path)
    with raises_code(InvalidValue, "invalid-row") as error:
        made(Replay, locations=RECTANGLE, file=path)
    assert re.fullmatch(
        re.escape(f"{path}: ") + r"2 bad rows: row 2: user .*; row 3: cell .* \[0, 5\], found nothing", str(error.value)
    )


def test_degrees_require_a_georeferenced_grid(tmp_path: Path) -> None:
    path = saved(tmp_path, "user,time,lat,lon\na,0,10.5,20.5\n")
    with raises_code(InvalidValue, "no-such-column") as error:
        made(Replay, locations=RECTANGLE, file=path)
    assert "lat and lon need a grid" in str(error.value)
    assert "columns:" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"columns": {"place": "cell"}}, r"(?s)columns.place.*Extra inputs"),
        ({"visits": 0}, r"(?s)visits.*input_value=0"),
        ({"utc_offset_h": 30}, r"(?s)utc_offset_h.*input_value=30"),
    ],
)
def test_invalid_parameters_are_rejected(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(Replay, locations=RECTANGLE, file=people(tmp_path), **options)


@pytest.mark.parametrize(
    ("options", "code", "values"),
    [
        ({"columns": {"cell": "where"}}, "no-such-column", ["column where for cell", "found user, order, cell"]),
        (
            {"columns": {"cell": "where", "user": "who"}},
            "no-such-column",
            ["data.csv: ", "column who for user", "column where for cell", "found user, order, cell"],
        ),
        ({"select": Selection(users=["1", "77"])}, "unknown-user", ["got 77 "]),
        ({"select": Selection(min_visits=1000)}, "no-users", ["(min_visits: 1000)", "5 users"]),
    ],
)
def test_options_that_do_not_match_the_file_are_rejected(
    tmp_path: Path, options: dict[str, Any], code: str, values: list[str]
) -> None:
    with raises_code(InvalidValue, code) as error:
        made(Replay, locations=RECTANGLE, file=people(tmp_path), **options)
    assert [value for value in values if value not in str(error.value)] == []


def test_invalid_selections_and_unknown_users_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"(?s)first.*input_value=0"):
        Selection(first=0)
    with pytest.raises(ValueError, match=r"(?s)users.*input_value='12'"):
        Selection(users="12")  # type: ignore[arg-type]
    replay = made(Replay, locations=RECTANGLE, file=people(tmp_path))
    with raises_code(InvalidValue, "unknown-user") as error:
        replay.visits("4", RNG)
    assert "user 4," in str(error.value)
    with pytest.raises(ValueError, match=r"^count\b.* \[1, 5\], got 6"):
        replay.users(6)
    with pytest.raises(FileNotFoundError):
        made(Replay, locations=RECTANGLE, file=tmp_path / "nothing.csv")


@pytest.mark.parametrize("grid", [RECTANGLE, REGION, Grid.san_francisco()])
@pytest.mark.parametrize("name", ["out.csv", "out.csv.gz"])
def test_written_traces_are_read_unchanged(tmp_path: Path, grid: Grid, name: str) -> None:
    every = np.arange(grid.n_cells)
    traces = [Trace("b", every * 60, every), Trace("a", np.array([7, 7]), np.array([1, 0]))]
    path = tmp_path / name
    write_csv(path, traces, grid)
    replay = made(Replay, locations=grid, file=path)
    assert replay.users(None) == ("b", "a")
    for trace in traces:
        restored = live(replay, EveryVisit(), trace.user, moves=RNG, moments=RNG).test
        np.testing.assert_array_equal(restored.times_s, trace.times_s)
        np.testing.assert_array_equal(restored.cells, trace.cells)
    columns = pd.read_csv(path).columns.tolist()
    assert columns == ["user", "time_s", "cell"] + (["lat", "lon"] if grid.south is not None else [])
    first = path.read_bytes()
    write_csv(path, traces, grid)
    assert path.read_bytes() == first


def test_without_traces_only_the_header_is_written(tmp_path: Path) -> None:
    write_csv(tmp_path / "out.csv", [], REGION)
    assert (tmp_path / "out.csv").read_text() == "user,time_s,cell,lat,lon\n"


def test_times_do_not_decrease(tmp_path: Path) -> None:
    rows = "".join(f"{user},{RNG.integers(10**6)},{RNG.integers(6)}\n" for user in range(9) for _ in range(30))
    for visits in read(saved(tmp_path, "user,time,cell\n" + rows)).values():
        assert all(a[0] <= b[0] for a, b in pairwise(visits))


# ------------------------------------------------------------------------------------------------------- whole days

DAY = 86_400


def hourly(folder: Path, days: dict[str, list[int]]) -> Path:
    """Write a file with a point of each user in every hour of some days, in cell `hour % 6`."""
    rows = [
        (user, day * DAY + hour * 3600, hour % 6) for user, own in days.items() for day in own for hour in range(24)
    ]
    return saved(folder, "user,time_s,cell\n" + "".join(f"{user},{time},{cell}\n" for user, time, cell in rows))


def test_days_are_divided_into_slots_and_days_with_gaps_excluded(tmp_path: Path) -> None:
    path = hourly(tmp_path, {"a": [3, 5], "b": [4]})
    with path.open("a") as file:
        file.write("a,346000,1\nc,500,2\n")  # day 4 of a and the day of c have a single point
    by_user = read(path, days=RecordedDays(slot_s=7200))
    assert {user: sorted({time // DAY for time, _ in visits}) for user, visits in by_user.items()} == {
        "a": [3, 5],
        "b": [4],
    }
    # The cell of a slot of two hours is that of its second hour.
    assert by_user["b"] == [(4 * DAY + slot * 7200, (2 * slot + 1) % 6) for slot in range(12)]


def test_users_with_too_few_days_are_excluded_before_the_selection(tmp_path: Path) -> None:
    path = hourly(tmp_path, {"a": [1], "b": [1, 2, 3], "c": [2, 4], "d": [1, 2]})
    days = RecordedDays(first=2, slot_s=3600)
    assert list(read(path, days=days)) == ["b", "c", "d"]
    by_user = read(path, days=days, select=Selection(first=2))
    assert {user: len(visits) for user, visits in by_user.items()} == {"b": 48, "c": 48}
    assert {time // DAY for time, _ in by_user["b"]} == {1, 2}


def test_days_begin_at_local_midnight(tmp_path: Path) -> None:
    path = hourly(tmp_path, {"a": [1, 2]})
    assert {time // DAY for time, _ in read(path, days=RecordedDays(slot_s=3600), utc_offset_h=-7)["a"]} == {1}


def test_missing_whole_days_are_rejected_with_remedies(tmp_path: Path) -> None:
    path = hourly(tmp_path, {"a": [1]})
    with raises_code(InvalidValue, "no-whole-days") as error:
        read(path, days=RecordedDays(longest_silence_h=3, first=2))
    message = str(error.value)
    assert message.startswith(f"{path}: `days` (longest_silence_h: 3, first: 2, slot_s: 300) ")
    values = ["1 user:", "2 days", "3 h", "`longest_silence_h` (at most 24)", "`first`", "`utc_offset_h`"]
    assert [value for value in values if value not in message] == []
    with raises_code(InvalidValue, "no-whole-days") as error:
        read(path, days=RecordedDays(longest_silence_h=0.5))
    assert "(longest_silence_h: 0.5, slot_s: 300)" in str(error.value)
    assert "`first`" not in str(error.value)
    with raises_code(InvalidValue, "times-missing"):
        read(saved(tmp_path, "user,order,cell\na,1,0\n"), days=RecordedDays())


# ------------------------------------------------------------------------------------------------- irregular times


def irregular(path: Path, **options: Any) -> dict[str, int]:
    report = made(Replay, locations=RECTANGLE, file=path, **options).report()
    return {name: report[name] for name in report if name in odd()}


def odd(rows: tuple[int, int] = (0, 0), twice: tuple[int, int] = (0, 0)) -> dict[str, int]:
    return {
        "rows_backward": rows[0],
        "users_backward": rows[1],
        "rows_same_time": twice[0],
        "users_same_time": twice[1],
    }


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ("1 2 2 3", odd()),
        ("3 2 2 1", odd()),  # descending, as in files of SNAP
        ("5", odd()),
        ("1 3 2 4", odd((1, 1))),
        ("9 8 7 8", odd((2, 1))),
        ("1.1 1.3 1.2 1.4", odd((1, 1))),
        ("1.3 1.2 1.1", odd()),
    ],
)
def test_decreasing_times_are_counted_except_in_descending_files(
    tmp_path: Path, times: str, expected: dict[str, int]
) -> None:
    rows = "".join(f"a,{time},1\nb,{10 * at},2\n" for at, time in enumerate(times.split()))
    assert irregular(saved(tmp_path, "user,time,cell\n" + rows)) == expected


def test_users_in_different_cells_at_the_same_time_are_counted(tmp_path: Path) -> None:
    rows = "a,1,0\na,1,0\na,2,0\na,2,1\na,2,2\na,3.25,3\na,3.5,4\nb,1,5\nb,7,5\nb,7,4\n"
    path = saved(tmp_path, "user,time,cell\n" + rows)
    assert irregular(path) == odd(twice=(3, 2))
    assert irregular(path, select=Selection(users=["a"])) == odd(twice=(2, 1))


def test_repeated_rows_are_counted_and_users_with_most_of_them_are_named(tmp_path: Path) -> None:
    rows = "a,1,0\na,1,0\na,1,0\na,2,0\nb,1,5\nb,1,5\nb,1.5,5\nc,3,1\nc,4,1\nc,2,1\n"
    report = made(Replay, locations=RECTANGLE, file=saved(tmp_path, "user,time,cell\n" + rows)).report()
    assert (report["rows_repeated"], report["users_repeated"]) == (3, 2)
    assert report["most_repeated"] == {"a": 2, "b": 1}
    assert report["most_backward"] == {"c": 1}
    assert "most_same_time" not in report


def test_an_order_has_no_irregular_times(tmp_path: Path) -> None:
    path = saved(tmp_path, "user,order,cell\na,1,0\na,3,1\na,2,2\na,2,3\n")
    assert irregular(path) == {}


def test_rows_outside_the_region_are_not_counted_as_irregular(tmp_path: Path) -> None:
    text = "user,time,lat,lon\na,5,10.5,20.5\na,1,50,20.5\na,6,10.5,20.5\na,6,50,20.5\n"
    report = made(Replay, locations=REGION, file=saved(tmp_path, text)).report()
    assert (report["rows_backward"], report["rows_same_time"]) == (0, 0)


def test_slots_of_whole_days_without_a_row_are_counted(tmp_path: Path) -> None:
    path = hourly(tmp_path, {"a": [1, 2], "b": [1]})
    assert made(Replay, locations=RECTANGLE, file=path, days=RecordedDays(slot_s=3600)).report()["visits_carried"] == 0
    assert (
        made(Replay, locations=RECTANGLE, file=path, days=RecordedDays(slot_s=1800)).report()["visits_carried"]
        == 3 * 24
    )
    assert (
        made(Replay, locations=RECTANGLE, file=path, days=RecordedDays(slot_s=1800), visits=6).report()[
            "visits_carried"
        ]
        == 6
    )


# ------------------------------------------------------------------------------------------------- damaged files


@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "t.csv.gz"])
def test_a_damaged_file_is_read_or_rejected_with_its_name(tmp_path: Path, name: str) -> None:
    """Flip random bits of a small file."""
    frame = pd.DataFrame(
        {"user": [f"u{i % 3}" for i in range(9)], "time_s": range(9), "cell": [i % 6 for i in range(9)]}
    )
    path = tmp_path / name
    if name.endswith("parquet"):
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    content = path.read_bytes()
    rng = np.random.default_rng(7)
    messages = []
    for _ in range(300):
        damaged = bytearray(content)
        damaged[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(damaged[: rng.integers(1, len(content) + 1)] if rng.random() < 0.1 else damaged)
        try:
            made(Replay, locations=RECTANGLE, file=path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) > 40
    assert all(message.startswith(f"{path}: ") for message in messages)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1" + bytes(100) + b"PAR1"])
def test_invalid_parquet_files_are_rejected(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(content)
    with raises_code(InvalidValue, "unreadable-file") as error:
        made(Replay, locations=RECTANGLE, file=path)
    assert re.match(re.escape(f"{path}: ") + ".", str(error.value))


def test_integers_of_unsupported_width_are_rejected(tmp_path: Path) -> None:
    """Arrow rejects integers of more than 64 bits with an error that is neither a ValueError nor an OSError."""
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"user": ["a"], "time_s": [1], "cell": [1]}), path)
    content = path.read_bytes()
    impossible = 0
    for bit in range(8 * content.index(b"ARROW:schema"), 8 * len(content)):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        try:
            pq.read_schema(pa.BufferReader(bytes(damaged)))
        except pa.ArrowNotImplementedError:
            impossible += 1
            path.write_bytes(damaged)
            with raises_code(InvalidValue, "unreadable-file") as error:
                made(Replay, locations=RECTANGLE, file=path)
            assert str(error.value).startswith(f"{path}: ")
        except (pa.ArrowException, OSError, ValueError):
            pass
    assert impossible
