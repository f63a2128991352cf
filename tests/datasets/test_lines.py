"""Parsing of lines: the line-by-line parser, and the fast parser, which must agree with it or return None."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sim.datasets import lines
from sim.datasets.formats.cabspotting import CRAWDAD
from sim.datasets.formats.checkins import SNAP
from sim.datasets.lines import Layout, Rows, parse, quick, slow

CABS = Layout(CRAWDAD.fields, CRAWDAD.separator, newest_first=True, user="abboip")
CSV = Layout(("user", "order", "lat", "lon", "location"), ",")
POINTS = Layout(("user", "time_s", "lat", "lon", "occupied"), ",")
GOOD = {
    SNAP: b"0\t2010-10-19T23:55:27Z\t30.2359091167\t-97.7951395833\t22847\n",
    CABS: b"37.75134 -122.39488 0 1213084687\n",
    CSV: b"0,17,37.6163561,-122.3861504,330\n",
    POINTS: b"etalrab,1211018409,37.73120,-122.42970,1\n",
}


def rows(block: bytes, layout: Layout) -> list[dict[str, Any]]:
    return parse(block, layout).table.to_pylist()


def fault(line: bytes, layout: Layout = SNAP) -> str:
    result = parse(GOOD[layout] + line + b"\n" + GOOD[layout], layout)
    assert result.table.num_rows == 2
    assert result.lines == 3
    ((number, reason),) = result.faults
    assert number == 1
    return reason


def test_valid_lines() -> None:
    assert rows(GOOD[SNAP], SNAP) == [
        {"user": "0", "time_s": 1287532527, "lat": 30.2359091167, "lon": -97.7951395833, "location": "22847"}
    ]
    assert rows(GOOD[CABS], CABS) == [
        {"user": "abboip", "time_s": 1213084687, "lat": 37.75134, "lon": -122.39488, "occupied": False}
    ]
    assert rows(GOOD[CSV], CSV) == [
        {"user": "0", "order": 17, "lat": 37.6163561, "lon": -122.3861504, "location": "330"}
    ]
    assert rows(GOOD[POINTS], POINTS) == [
        {"user": "etalrab", "time_s": 1211018409, "lat": 37.7312, "lon": -122.4297, "occupied": True}
    ]


@pytest.mark.parametrize("layout", GOOD)
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_valid_lines_use_the_fast_parser(layout: Layout, end: bytes) -> None:
    block = GOOD[layout].replace(b"\n", end) * 3
    table = quick(block, layout, 3)
    assert table is not None
    assert table.equals(slow(block, layout).table)
    assert quick(block.rstrip(), layout, 3) is not None  # the last line of a file may lack a line break
    assert rows(block.rstrip(), layout) == rows(block, layout)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b"58186", ["5 fields", "found 1: '58186'"]),
        (b"0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t1\t2", ["5 fields", "found 6: "]),
        (b"\t2010-10-19T23:55:27Z\t30.2\t-97.7\t1", ["user ", "found nothing"]),
        (b"0\t\t30.2\t-97.7\t1", ["time_s ", "ISO 8601", "found nothing"]),
        (b"0\t2010-02-30T00:00:00Z\t30.2\t-97.7\t1", ["time_s ", "ISO 8601", "found '2010-02-30"]),
        (b"0\t1287532527000\t30.2\t-97.7\t1", ["time_s ", "milliseconds", "found '1287532527000'"]),
        (b"0\t2010-10-19T23:55:27Z\t90.1\t-97.7\t1", ["lat ", "[-90, 90]", "found '90.1'"]),
        (b"0\t2010-10-19T23:55:27Z\t30.2\t-180.5\t1", ["lon ", "[-180, 180]", "found '-180.5'"]),
        (b"0\t2010-10-19T23:55:27Z\tnan\t-97.7\t1", ["lat ", "[-90, 90]", "found 'nan'"]),
        (b"0\t2010-10-19T23:55:27Z\t30.2\t\t1", ["lon ", "[-180, 180]", "found nothing"]),
        (b"0\t2010-10-19T23:55:27Z\t30.2\t-97.7\t\xff\xfe", ["UTF-8", "found "]),
        (b"\x1b[2J\t2010-10-19T23:55:27Z\tx\t-97.7\t1", ["lat ", "[-90, 90]", "found 'x'"]),
        (b"0\t\x1b[2J\t30.2\t-97.7\t1", ["time_s ", r"found '\x1b[2J'"]),
        (b"x" * 1000, ["5 fields", f"found 1: '{'x' * 39}…'"]),
    ],
)
def test_reason_names_the_invalid_field_of_a_check_in(line: bytes, parts: list[str]) -> None:
    assert all(part in fault(line) for part in parts)


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (b"37.75134 -122.39488 0", ["4 fields", "found 3"]),
        (b"37.75134 -122.39488 2 1213084687", ["occupied ", "0 or 1", "found '2'"]),
        (b"37.75134 -122.39488 0x1 1213084687", ["occupied ", "0 or 1", "found '0x1'"]),
        (b"37.75134 -122.39488 0 0x10", ["time_s ", "ISO 8601", "found '0x10'"]),
        (b"-122.39488 37.75134 0 1213084687", ["lat ", "[-90, 90]", "found '-122.39488'"]),
    ],
)
def test_reason_names_the_invalid_field_of_a_cab_point(line: bytes, parts: list[str]) -> None:
    assert all(part in fault(line, CABS) for part in parts)


def test_reason_names_the_invalid_field_of_a_csv_line() -> None:
    assert "quotes" in fault(b'"0",1,37.6,-122.3,330', CSV)
    assert fault(b"0,1.5,37.6,-122.3,330", CSV).startswith("order ")
    assert fault(b"0,1.5,37.6,-122.3,330", CSV).endswith("found '1.5'")


def test_times_without_a_zone_are_utc_and_fractions_are_truncated() -> None:
    texts = (b"2010-10-19 23:55:27", b"2010-10-20T01:55:27+02:00", b"2010-10-19T23:55:27.9Z", b"1287532527.9")
    block = b"".join(b"0\t" + text + b"\t30\t-97\tx\n" for text in texts)
    assert [row["time_s"] for row in rows(block, SNAP)] == [1287532527] * 4


def test_blank_lines_are_neither_rows_nor_faults() -> None:
    result = parse(b"\n" + GOOD[SNAP] + b"\r\n  \n", SNAP)
    assert (result.table.num_rows, result.lines, result.faults) == (1, 4, [])
    assert parse(b"", SNAP).lines == 0


def test_carriage_return_inside_a_line_does_not_end_it() -> None:
    block = b"a\rb\t2010-10-19T23:55:27Z\t30\t-97\tx\n"
    assert [row["user"] for row in rows(block, SNAP)] == ["a\rb"]


def test_invalid_line_slows_down_only_its_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    good = GOOD[SNAP]
    block = good * 5000 + b"bad\n" + good * 3000 + b"y" * 200_000 + b"\n" + good * 10 + b"worse"
    expected = slow(block, SNAP)
    read: list[int] = []

    def spy(piece: bytes, layout: Layout) -> Rows:
        read.append(piece.count(b"\n"))
        return slow(piece, layout)

    monkeypatch.setattr(lines, "slow", spy)
    result = parse(block, SNAP)
    assert [line for line, _ in result.faults] == [5000, 8001, 8012]
    assert result.faults == expected.faults
    assert result.lines == expected.lines
    assert result.table.equals(expected.table)
    assert sum(read) < 1500


NUMBERS = ["0", "1", "-1", "+1", "2", "007", "1.", ".5", "1e1", "1e400", "37.5", "-122.4", "90", "90.0000001", "180.1"]
ODD = ["", " ", "nan", "inf", "NA", "null", "0x1", "1_0", "٣", "a", "é", '"q"', "\ufeff", "99999999999999999999"]
MOMENTS = [
    *("1213084687", "-1213084687", "12130846870000", "2010-10-19T23:55:27Z", "2010-10-19T23:55Z", "2010-10-19T23Z"),
    *("2010-10-19", "2010-10-19T23:55:27", "2010-10-19T23:55:27.5Z", "2010-10-19T23:55:27+02:00"),
    *("0000-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "2010-13-01T00:00:00Z"),
]
WORDS = st.sampled_from([*NUMBERS, *ODD, *MOMENTS])
RAGGED = st.lists(WORDS, min_size=3, max_size=6)


@st.composite
def blocks(draw: st.DrawFn) -> tuple[bytes, Layout]:
    layout = draw(st.sampled_from(list(GOOD)))
    good = GOOD[layout].decode().rstrip().split(layout.separator)
    written = []
    for _ in range(draw(st.integers(1, 3))):
        fields = list(good)
        for at in draw(st.lists(st.integers(0, len(fields) - 1), max_size=2)):
            fields[at] = draw(st.sampled_from(["", " "])) + draw(WORDS)
        written.append(layout.separator.join(draw(RAGGED) if draw(st.integers(0, 9)) == 0 else fields))
    end = draw(st.sampled_from(["\n", "\r\n", "\r", "\n\n"]))
    text = end.join(written) + draw(st.sampled_from(["", end]))
    return text.encode(), layout


@settings(max_examples=600, deadline=None)
@given(blocks())
@example((b"0\t0000-01-01T00:00:00Z\t1\t1\tx\n", SNAP))
@example((b"0,0x10,1,1,x\n", CSV))
@example(("\ufeff".encode() + GOOD[SNAP], SNAP))  # a byte order mark is removed at the start of a file only
def test_fast_parser_agrees_with_the_slow_one_or_returns_none(drawn: tuple[bytes, Layout]) -> None:
    block, layout = drawn
    expected = slow(block, layout)
    table = quick(block, layout, expected.lines)
    if table is not None:
        assert expected.faults == []
        assert table.equals(expected.table)
    result = parse(block, layout)
    assert result.faults == expected.faults
    assert result.lines == expected.lines
    assert result.table.equals(expected.table)


ANY_TIME = Layout(("user", "time_s", "lat", "lon"), ",", quoted=True)


@pytest.mark.parametrize(
    "times",
    [
        ["1714543200", "-5"],
        ["1714543200.5", "-0.25"],
        ["1714543200", "1714543200.123456"],
        ["2024-05-01T06:00:00Z", "1969-12-31T23:59:59Z"],
        ["2024-05-01 06:00:00", "2024-05-01 06:00:01"],
        ["2024-05-01T06:00:00.5Z", "1969-12-31T23:59:59.25Z"],
        ["2024-05-01 06:00:00.123456", "2024-05-01 06:00:01.000001"],
    ],
)
def test_times_of_the_fast_parser_equal_those_of_the_line_by_line_parser(times: list[str]) -> None:
    block = "".join(f'"a",{time},48.1,"11.5"\n' for time in times).encode()
    table = quick(block, ANY_TIME, len(times))
    assert table is not None
    expected = slow(block, ANY_TIME).table
    assert table.to_pylist() == expected.to_pylist()
    assert table.schema.equals(expected.schema)


def test_quotes_must_be_closed_on_the_line() -> None:
    block = b'"a, b",5,1,2\n"a\nb",5,1,2\n"a""b",6,1,2\n'
    result = parse(block, ANY_TIME)
    assert [row["user"] for row in result.table.to_pylist()] == ["a, b", 'a"b']
    assert [line for line, _ in result.faults] == [1, 2]
