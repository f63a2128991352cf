"""Lines of a stream: JSON lines and CSV, times, faults; what an answer may contain."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import pytest

from sim.errors import InputError, InvalidValue
from sim.protection.lines import LONGEST, Reader, lines_of
from sim.protection.streaming import protect_lines
from tests.protection.streams import begin
from tests.support import raises_code


def stream(state: Path, text: str, lppm: str = "identity") -> tuple[list[str], list[str], Counter[str]]:
    """Return the answers, the warnings and the counts of a stream."""
    written: list[str] = []
    warned: list[str] = []
    with begin(state, lppm) as protector:
        counts = protect_lines(protector, lines_of(io.BytesIO(text.encode())), written.append, warned.append)
    return written, warned, counts


def test_json_lines_are_answered_one_by_one(tmp_path: Path) -> None:
    text = """{"time": 60, "lat": 37.612, "lon": -122.49, "user": "ann"}

{"time_s": 61.9, "Latitude": 37.612, "lng": -122.49, "seq": 7, "more": "37.612"}
{"time": "1970-01-01T00:00:59Z", "lat": "37.612", "lon": -122.49, "user": "ann"}
{"time": 62, "lat": 37.7, "lon": -122.49}
"""
    written, warned, counts = stream(tmp_path / "s", text)
    assert [json.loads(line) for line in written] == [
        {"time": 60, "user": "ann", "status": "reported", "lat": 37.615, "lon": -122.494},
        {"time": 61.9, "seq": 7, "status": "reported", "lat": 37.615, "lon": -122.494},
        {"time": "1970-01-01T00:00:59Z", "user": "ann", "status": "late"},
        {"time": 62, "status": "outside"},
    ]
    assert warned == []
    assert counts == {"reported": 2, "late": 1, "outside": 1}


def test_csv_is_answered_as_csv(tmp_path: Path) -> None:
    text = '\ufeffuser,lat,lon,Timestamp\n"a,b",37.612,-122.49,60\n"a,b",37.612,-122.49,60\nc,37.612,-122.49,5\n'
    written, _, counts = stream(tmp_path / "s", text)
    reported = "reported,37.615,-122.494,"
    assert written == [
        "time,user,seq,status,lat,lon,cells",
        f'60,"a,b",,{reported}',
        f'60,"a,b",,{reported}',
        f"5,c,,{reported}",
    ]
    assert counts == {"reported": 2, "repeated": 1}


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[" * 50_000,
        "3",
        '{"time": 1, "lat": 37.61}',
        '{"time": true, "lat": 37.612, "lon": -122.49}',
        '{"time": "noon", "lat": 37.612, "lon": -122.49}',
        '{"time": 1e999, "lat": 37.612, "lon": -122.49}',
        f'{{"time": {10**40}, "lat": 37.612, "lon": -122.49}}',
        f'{{"time": 1, "lat": {10**400}, "lon": -122.49}}',
        '{"time": 1, "lat": NaN, "lon": -122.49}',
        '{"time": 1, "lat": 95, "lon": -122.49}',
        '{"time": 1, "lat": [1], "lon": -122.49}',
        '{"time": 1, "lat": 37.612, "lon": -122.49, "user": [1]}',
        f'{{"time": {"9" * 5_000}, "lat": 37.612, "lon": -122.49}}',
        "x" * (LONGEST + 9),
    ],
    ids=lambda line: line[:60],
)
def test_line_without_valid_query_is_answered_as_invalid(line: str, tmp_path: Path) -> None:
    good = '{"time": 60, "lat": 37.612, "lon": -122.49}'
    written, warned, counts = stream(tmp_path / "s", f"{good}\n{line}\n{good}")
    assert json.loads(written[1]) == {"status": "invalid"}
    assert [json.loads(line)["status"] for line in written] == ["reported", "invalid", "reported"]
    assert warned[0].startswith("line 2: ")
    assert counts == {"reported": 1, "invalid": 1, "repeated": 1}


@pytest.mark.parametrize("time", [1_772_441_100_000, 10**11 + 1, -(10**11) - 1, "1772441100000000"])
def test_time_in_milliseconds_is_invalid_and_no_later_query_is_late(time: int | str, tmp_path: Path) -> None:
    lines = [json.dumps({"time": moment, "lat": 37.612, "lon": -122.49}) for moment in (time, 60, 10**11)]
    written, warned, counts = stream(tmp_path / "s", "\n".join(lines))
    assert json.loads(written[0]) == {"status": "invalid"}
    assert "seconds since 1970, not milliseconds" in warned[0]
    assert str(time) in warned[0]
    assert counts == {"invalid": 1, "reported": 2}


def test_bytes_that_are_not_utf_8_are_invalid() -> None:
    reader = Reader()
    with raises_code(InvalidValue, "invalid-line"):
        reader.read(b'{"time": 1, "lat": 1, "lon": 2, "user": "\xff"}\n')


@pytest.mark.parametrize("text", ["when,where\n1,2\n", "60,37.612,-122.49\n", "[1]\n"])
def test_stream_without_keys_or_header_is_refused(text: str, tmp_path: Path) -> None:
    with raises_code(InputError, "no-such-column"):
        stream(tmp_path / "s", text)


def test_answers_depend_on_the_position_by_the_report_only(tmp_path: Path) -> None:
    """Two positions in one cell give the same bytes, so no digits of the position pass through."""
    line = '{{"time": 1, "lat": {}, "lon": -122.49}}\n'
    one, other = (stream(tmp_path / lat, line.format(lat))[0] for lat in ("37.6101234", "37.6187654"))
    assert one == other
