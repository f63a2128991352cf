"""Messages about bad trace files: line, value, allowed values and remedy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sim.errors import InvalidValue
from sim.mobility.recorded.replay import Replay
from sim.world.grid import Grid
from tests.support import made, raises_code

REGION = Grid.region(rows=2, cols=2, south=10.0, north=12.0, west=20.0, east=22.0)


def rejected(tmp_path: Path, text: str, name: str = "data.csv", *, code: str = "invalid-row") -> str:
    """Return the message for a file that is rejected with this code, without the name of the file."""
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    with raises_code(InvalidValue, code) as error:
        made(Replay, locations=REGION, file=path)
    assert str(error.value).startswith(f"{path}: ")
    return str(error.value).removeprefix(f"{path}: ")


GOOD = "a,0,1,k\n"
TIME = "time must be seconds or ISO-8601 text, found"
CELL = "cell must be an integer in [0, 3], found"


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (GOOD * 50 + "a,abc,1,k\n", f"1 bad row: line 52: {TIME} 'abc'"),
        ("a,zero,1,k\n" + GOOD * 2 + "a,,9,k\n",
         f"2 bad rows: line 2: {TIME} 'zero'; line 5: {TIME} nothing, {CELL} 9"),
        (",0,4,k\na,0,-1,k\na,0,1.5,k\n",
         f"3 bad rows: line 2: user must be the id of a user, found nothing, {CELL} 4; "
         f"line 3: {CELL} -1; line 4: {CELL} 1.5"),
        ("a,0,,k\na,0\n", f"2 bad rows: line 2: {CELL} nothing; line 3: {CELL} nothing"),
        ("a,1211018409000,1,k\n",
         "1 bad row: line 2: time must be seconds, not milliseconds or less, found 1211018409000"),
        ("a,nan,1,k\n", f"1 bad row: line 2: {TIME} 'nan'"),
        # empty lines count as lines, but not as rows
        ("\n  \n" + GOOD + "\na,x,1,k\n", f"1 bad row: line 6: {TIME} 'x'"),
        # after a row that spans two lines, rows are counted instead of lines
        ('a,0,1,"a ""b"", c"\na,x,1,k\n', f"1 bad row: line 3: {TIME} 'x'"),
        ('a,0,1,"two\nlines"\na,x,1,k\n', f"1 bad row: row 2: {TIME} 'x'"),
        ("a,0,1,\x01k\x01\na,x,1,k\n", f"1 bad row: line 3: {TIME} 'x'"),
        # the first five are shown
        (GOOD + "a,x,1,k\n" * 5, f"5 bad rows: {'; '.join(f'line {i}: {TIME} ' + repr('x') for i in range(3, 8))}"),
        ("a,x,1,k\n" * 1007 + GOOD,
         f"1007 bad rows: {'; '.join(f'line {i}: {TIME} ' + repr('x') for i in range(2, 7))}; and 1002 more"),
        (f"a,{'x' * 999},1,k\n", f"1 bad row: line 2: {TIME} '{'x' * 39}…'"),
    ],
)  # fmt: skip
def test_bad_rows_are_shown_with_their_lines(tmp_path: Path, rows: str, message: str, name: str) -> None:
    for header in ("user,time,cell,note\n", "\ufeffuser,time,cell,note\n"):
        assert rejected(tmp_path, header + rows, name) == message
    assert rejected(tmp_path, f"user,time,cell,note\n{rows}".replace("\n", "\r\n"), name) == message


def test_lines_are_counted_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.mobility.recorded.tables._CHUNK", 7)
    rows = GOOD * 10 + "\n" * 9 + "a,x,1,k\n" + GOOD * 30 + "a,y,1,k\n" + GOOD
    message = f"2 bad rows: line 21: {TIME} 'x'; line 52: {TIME} 'y'"
    assert rejected(tmp_path, "user,time,cell,note\n" + rows) == message
    assert rejected(tmp_path, "user,time,cell,note\n" + rows + 'a,0,1,"two\nlines"\n' * 9) == message, "after them"


def test_invalid_degrees_are_shown(tmp_path: Path) -> None:
    rows = "user,time,lat,lon\na,0,10.5,20.5\na,1,x,20.5\na,2,,inf\n"
    degrees = "must be a number of degrees, found"
    assert rejected(tmp_path, rows) == (
        f"2 bad rows: line 3: lat {degrees} 'x'; line 4: lat {degrees} nothing, lon {degrees} inf"
    )


@pytest.mark.parametrize("name", ["data.csv", "data.csv.gz"])
@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,0,1\n" * 6 + "a,0,1,7\n" + "a,0,1\n", "line 8 has 4 fields, expected 3"),
        ("a,0,1,7\na,0,1,7\n", "line 2 has 4 fields, expected 3"),
        ("a,0,1,7\na,0,1,7,8\n", "line 2 has 4 fields, expected 3"),
        ("a,0,1\n\n  \na,0,1,7,8\n", "line 5 has 5 fields, expected 3"),
        # a quoted comma does not separate fields, and a row that spans two lines counts as two lines
        ('"a,b",0,1\na,0,1,7\n', "line 3 has 4 fields, expected 3"),
        ('"a\nb",0,1\na,0,1\na,0,1,7\n', "line 5 has 4 fields, expected 3"),
        ('a,0,1\n"a\nb",0,1,7\n', "line 3 has 4 fields, expected 3"),
        ("a,0,1\n,,,,\n", "line 3 has 5 fields, expected 3"),
    ],
)
def test_rows_with_too_many_fields_are_rejected(tmp_path: Path, rows: str, message: str, name: str) -> None:
    for text in (f"user,time,cell\n{rows}", f"\ufeffuser,time,cell\n{rows}"):
        assert rejected(tmp_path, text, name) == message
        assert rejected(tmp_path, text.replace("\n", "\r\n"), name) == message


def test_rows_with_too_many_fields_are_detected_across_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sim.mobility.recorded.tables._CHUNK", 7)
    text = "user;time;cell\n" + "a;0;1\n" * 40 + "a;0;1;;2\n" + "a;0;1\n"
    assert rejected(tmp_path, text) == "line 42 has 5 fields, expected 3"


LAT, LON = "lat must be in [-90, 90], found", "lon must be in [-180, 180], found"
SWAPPED = "; are lat and lon swapped?"


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ("10.5,20.5 90.1,20.5 10.5,20.5", f"1 bad row: line 3: {LAT} 90.1"),
        ("10.5,20.5 10.5,-180.5 -91,181", f"2 bad rows: line 3: {LON} -180.5; line 4: {LAT} -91, {LON} 181"),
        ("95,20.5", f"1 bad row: line 2: {LAT} 95{SWAPPED}"),
        ("95,120", f"1 bad row: line 2: {LAT} 95"),  # not valid if exchanged either
        ("-122.4,37.7 -122.3,37.8 10,20", f"2 bad rows: line 2: {LAT} -122.4; line 3: {LAT} -122.3{SWAPPED}"),
        ("-122.4,37.7 10,20 10,20", f"1 bad row: line 2: {LAT} -122.4"),  # most rows are valid
        ("-122.4,37.7 10,20", f"1 bad row: line 2: {LAT} -122.4{SWAPPED}"),
        # most rows are valid either way, but in the region only if exchanged
        ("20.5,10.5 21,11 95,11", f"1 bad row: line 4: {LAT} 95{SWAPPED}"),
        ("200,0 " * 7, f"7 bad rows: {'; '.join(f'line {i}: {LAT} 200' for i in range(2, 7))}; and 2 more"),
        ("100,0 " * 7,
         f"7 bad rows: {'; '.join(f'line {i}: {LAT} 100' for i in range(2, 7))}; and 2 more{SWAPPED}"),
        ("x,200", f"1 bad row: line 2: lat must be a number of degrees, found 'x', {LON} 200"),
    ],
)  # fmt: skip
def test_invalid_coordinates_are_bad_rows(tmp_path: Path, places: str, message: str) -> None:
    rows = "".join(f"a,{at},{place}\n" for at, place in enumerate(places.split()))
    assert rejected(tmp_path, f"user,time,lat,lon\n{rows}") == message


def test_the_poles_and_the_180th_meridian_are_valid(tmp_path: Path) -> None:
    path = tmp_path / "data.csv"
    path.write_text("user,time,lat,lon\na,0,10.5,20.5\na,1,90,180\na,2,-90,-180\n")
    assert made(Replay, locations=REGION, file=path).report()["rows_outside"] == 2


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("a,0,37.75,-122.5\nb,0,-3,100\n",
         "none of its 2 rows is in the region: they lie in lat -3 to 37.75, lon -122.5 to 100, "
         "the region is lat 10 to 12, lon 20 to 22; `lppm-sim data describe` suggests a region"),
        ("a,0,20.5,10.25\n",
         "none of its 1 row is in the region: they lie in lat 20.5 to 20.5, lon 10.25 to 10.25, "
         f"the region is lat 10 to 12, lon 20 to 22{SWAPPED}"),
        ("", "none of its 0 rows is in the region"),
    ],
)  # fmt: skip
def test_the_extent_of_data_outside_the_region_is_shown(tmp_path: Path, rows: str, message: str) -> None:
    assert rejected(tmp_path, f"user,time,lat,lon\n{rows}", code="outside-region") == message


WHEN = "time (time_s, time, unixtime, timestamp, datetime) or order (order, index, chron_seq)"
WHO = "user (user, user_id, userid, uid, id)"
WHERE = "lat (lat, latitude) and lon (lon, lng, long, longitude) or cell (cell, cell_id)"


@pytest.mark.parametrize(
    ("header", "missing", "remedy"),
    [
        ("id,when,latitude,longitude", WHEN, "; name it with `columns: {time: when}`"),
        ("id,note,Start date,cell", WHEN, "; name it with `columns: {time: 'Start date'}`"),
        ("id,start_time,end_time,cell", WHEN, "; name it with `columns: {time: NAME}`"),
        ("id,foo,cell", WHEN, "; name it with `columns: {time: foo}`"),
        ("id,foo,bar,cell", WHEN, "; name it with `columns: {time: NAME}`"),
        ("id,cell", WHEN, ""),
        ("who,time,cell", WHO, "; name it with `columns: {user: who}`"),
        # one message and one remedy for all missing columns
        (
            "name,when,x,y",
            f"{WHO}; no column for {WHEN}; no column for {WHERE}",
            "; name them with `columns: {user: name, time: when, lat: y, lon: x}`",
        ),
        (
            "id,foo,bar",
            f"{WHEN}; no column for {WHERE}",
            "; name them with `columns: {time: NAME, lat: NAME, lon: NAME}`",
        ),
        ("who,bar,cell", f"{WHO}; no column for {WHEN}", "; name them with `columns: {user: who, time: NAME}`"),
        # each column is suggested at most once
        ("user name,cell", f"{WHO}; no column for {WHEN}", "; name it with `columns: {user: 'user name'}`"),
        ("id,place time", f"{WHEN}; no column for {WHERE}", "; name it with `columns: {time: 'place time'}`"),
        ("lat,lon", f"{WHO}; no column for {WHEN}", ""),
        ("id,time,x,y", WHERE, "; name them with `columns: {lat: y, lon: x}`"),
        ("id,time,lat,foo,bar", WHERE, "; name it with `columns: {lon: NAME}`"),
        ("id,time,foo,bar", WHERE, "; name them with `columns: {lat: NAME, lon: NAME}`"),
        ("id,time,foo,zone", WHERE, "; name it with `columns: {cell: zone}`"),
    ],
)
def test_missing_columns_are_reported_with_a_remedy(tmp_path: Path, header: str, missing: str, remedy: str) -> None:
    text = f"{header}\n{','.join('1' * (header.count(',') + 1))}\n"
    message = rejected(tmp_path, text, code="no-such-column")
    assert message == f"no column for {missing}; found {', '.join(header.split(','))}{remedy}"
