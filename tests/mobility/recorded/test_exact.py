"""Values of all column types are read exactly or rejected: no overflow, no merged ids, no fraction lost in sorting."""

from __future__ import annotations

import csv
import math
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.errors import InvalidValue
from sim.mobility.recorded import exact
from sim.mobility.recorded.replay import Replay
from sim.mobility.recorded.tables import numeric_order
from sim.world.grid import Grid
from tests.support import made, raises_code

GRID = Grid.rectangle(rows=10, cols=10, width_km=3, height_km=2)
RNG = np.random.default_rng(0)
MOST = 18_446_744_073_709_551_615


def parquet(folder: Path, *, name: str = "t.parquet", **columns: Any) -> Path:
    arrays = {key: value if isinstance(value, pa.Array) else pa.array(value) for key, value in columns.items()}
    pq.write_table(pa.table(arrays), folder / name)
    return folder / name


def text(folder: Path, content: str) -> Path:
    (folder / "t.csv").write_text(content)
    return folder / "t.csv"


def read(path: Path) -> dict[str, list[tuple[int, int]]]:
    replay = made(Replay, locations=GRID, file=path)
    return {user: [(visit.time_s, visit.cell) for visit in replay.visits(user, RNG)] for user in replay.users()}


def rejected(path: Path) -> str:
    with raises_code(InvalidValue, "invalid-row") as error:
        made(Replay, locations=GRID, file=path)
    return str(error.value).removeprefix(f"{path}: ")


# ------------------------------------------------------------------------------------------------- times and orders


def test_times_beyond_64_bits_are_rejected_with_row_and_value(tmp_path: Path) -> None:
    """Check that 18446744073709551615 does not become -1."""
    for path, place in (
        (text(tmp_path, f"user,time_s,cell\na,5,1\na,{MOST},2\n"), "line 3"),
        (parquet(tmp_path, user=["a", "a"], time_s=pa.array([5, MOST], pa.uint64()), cell=[1, 2]), "row 2"),
    ):
        assert rejected(path) == (f"1 bad row: {place}: time_s must be seconds, not milliseconds or less, found {MOST}")


@pytest.mark.parametrize("values", [[MOST, 3, 2**63], [MOST, MOST - 1, MOST - 2], [2**53 + 1, 2**53, 2**53 + 2]])
def test_large_orders_are_sorted_exactly(tmp_path: Path, values: list[int]) -> None:
    expected = {"a": list(enumerate(np.argsort(np.array(values, dtype=np.uint64)).tolist()))}
    rows = "".join(f"a,{value},{cell}\n" for cell, value in enumerate(values))
    assert read(text(tmp_path, "user,order,cell\n" + rows)) == expected
    assert read(parquet(tmp_path, user=["a"] * 3, order=pa.array(values, pa.uint64()), cell=[0, 1, 2])) == expected


@pytest.mark.parametrize(
    "values",
    [
        ["-1", str(MOST), "0"],
        [str(10**30 + 1), str(10**30), "-5"],
        ["9007199254740993", "9007199254740992.5", "9007199254740992"],
        ["1e3", "999.5", "-1e3"],
        ["0.12345678901234567891", "0.12345678901234567890", "0.1"],
        [" 2", "+1", "0"],
    ],
)
def test_orders_of_any_size_and_form_are_compared_exactly(tmp_path: Path, values: list[str]) -> None:
    order = sorted(range(3), key=lambda row: Decimal(values[row].strip()))
    rows = "".join(f"a,{value},{cell}\n" for cell, value in enumerate(values))
    assert read(text(tmp_path, "user,order,cell\n" + rows)) == {"a": list(enumerate(order))}
    assert read(parquet(tmp_path, user=["a"] * 3, order=values, cell=[0, 1, 2])) == {"a": list(enumerate(order))}


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(),
                                  pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(12, 2), pa.decimal256(50, 3),
                                  pa.string(), pa.large_string()])  # fmt: skip
def test_times_of_all_types(tmp_path: Path, kind: pa.DataType) -> None:
    values: list[Any] = ["7", "3", "7", "100"] if kind in (pa.string(), pa.large_string()) else [7, 3, 7, 100]
    if pa.types.is_decimal(kind):
        values = [Decimal(value) for value in values]
    path = parquet(tmp_path, user=["a"] * 4, time_s=pa.array(values, kind), cell=[0, 1, 2, 3])
    assert read(path) == {"a": [(3, 1), (7, 0), (7, 2), (100, 3)]}


def test_integers_stay_exact_in_columns_with_missing_values(tmp_path: Path) -> None:
    """Check that 2**53 + 1 and 2**53 stay different in a column with a missing value."""
    orders = pa.array([2**53 + 1, None, 2**53], pa.int64())
    path = parquet(tmp_path, user=["a"] * 3, order=orders, cell=[0, 1, 2])
    assert rejected(path) == "1 bad row: row 2: order must be a finite number, found nothing"
    users = pa.array([2**53 + 1, 2**53, 2**53 + 1, 5], pa.int64())
    path = parquet(tmp_path, user=users, order=[0, 1, 2, 3], cell=[0, 1, 2, 3])
    assert list(read(path)) == ["5", str(2**53), str(2**53 + 1)]


# Rows of the same second in the wrong order: 5.9 before 5.1, and 6 first.
FRACTIONS = ["6", "5.9", "5.1", "5.10", "5.95"]
SORTED = [(5, 2), (5, 3), (5, 1), (5, 4), (6, 0)]


def test_times_are_rounded_down_after_sorting(tmp_path: Path) -> None:
    rows = "".join(f"a,{time},{cell}\n" for cell, time in enumerate(FRACTIONS))
    assert read(text(tmp_path, "user,time_s,cell\n" + rows)) == {"a": SORTED}
    cells = list(range(5))
    for times in (
        pa.array([float(time) for time in FRACTIONS]),
        pa.array([Decimal(time) for time in FRACTIONS], pa.decimal128(20, 4)),
        pa.array(FRACTIONS),
        pa.array(FRACTIONS).dictionary_encode(),
    ):
        assert read(parquet(tmp_path, user=["a"] * 5, time_s=times, cell=cells)) == {"a": SORTED}


@pytest.mark.parametrize("zone", [None, "UTC", "Asia/Tokyo"])
@pytest.mark.parametrize("unit", ["ms", "us", "ns"])
def test_timestamps_of_all_units_are_sorted_exactly(tmp_path: Path, unit: str, zone: str | None) -> None:
    per_s = {"ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    ticks = [6 * per_s, 6 * per_s - 1, 5 * per_s + 1, 5 * per_s + 1, -1]
    times = pa.array(ticks, pa.int64()).cast(pa.timestamp(unit, tz=zone))
    path = parquet(tmp_path, user=["a"] * 5, time=times, cell=list(range(5)))
    assert read(path) == {"a": [(-1, 4), (5, 2), (5, 3), (5, 1), (6, 0)]}


def test_dates_are_times_and_other_types_are_rejected(tmp_path: Path) -> None:
    seconds = pa.array([7, 3], pa.int64()).cast(pa.timestamp("s"))
    assert read(parquet(tmp_path, user=["a", "a"], time=seconds, cell=[0, 1])) == {"a": [(3, 1), (7, 0)]}
    days = pa.array([date(1970, 1, 3), date(1970, 1, 2)])
    assert read(parquet(tmp_path, user=["a", "a"], time=days, cell=[0, 1])) == {"a": [(86_400, 1), (172_800, 0)]}
    for wrong in (pa.array([timedelta(seconds=1)]), pa.array([True]), pa.array([[1]]), pa.array([None], pa.null())):
        assert "must be seconds or ISO-8601 text" in rejected(parquet(tmp_path, user=["a"], time=wrong, cell=[0]))


@pytest.mark.parametrize("end", ["Z", "+09:00", ""])
def test_text_is_sorted_by_fractions_of_seconds(tmp_path: Path, end: str) -> None:
    moments = ["06", "05.900000001", "05.9", "05.1"]
    rows = "".join(f"a,2020-01-01T00:00:{second}{end},{cell}\n" for cell, second in enumerate(moments))
    visits = read(text(tmp_path, "user,time,cell\n" + rows))["a"]
    zone = timezone(timedelta(hours=9)) if "9" in end else timezone.utc  # noqa: UP017
    start = int(datetime(2020, 1, 1, tzinfo=zone).timestamp())
    assert [(time_s - start, cell) for time_s, cell in visits] == [(5, 3), (5, 2), (5, 1), (6, 0)]


numbers = st.one_of(
    st.integers(-(10**11), 10**11).map(str),
    st.decimals(-(10**11), 10**11, allow_nan=False, places=3).map(str),
    st.decimals(-100, 100, allow_nan=False, places=20).map(lambda number: f"{number:f}"),
    st.sampled_from(["5", "5.0", "5.00", "5.5", "-0.5", "1e2", "4.9999999999999999999"]),
)


@settings(deadline=None)
@given(st.lists(numbers, min_size=1, max_size=8))
def test_decimals_are_sorted_as_fractions(tmp_path_factory: pytest.TempPathFactory, times: list[str]) -> None:
    folder = tmp_path_factory.mktemp("decimals")
    rows = "".join(f"a,{time},{cell}\n" for cell, time in enumerate(times))
    order = sorted(range(len(times)), key=lambda row: Fraction(times[row]))
    expected = [(Fraction(times[row]).__floor__(), row) for row in order]
    assert read(text(folder, "user,time_s,cell\n" + rows)) == {"a": expected}


@settings(deadline=None)
@given(st.lists(st.floats(-1e11, 1e11), min_size=1, max_size=8))
def test_floats_are_sorted_exactly(tmp_path_factory: pytest.TempPathFactory, times: list[float]) -> None:
    path = parquet(tmp_path_factory.mktemp("floats"), user=["a"] * len(times), time_s=times, cell=range(len(times)))
    order = sorted(range(len(times)), key=lambda row: Fraction(times[row]))
    assert read(path) == {"a": [(Fraction(times[row]).__floor__(), row) for row in order]}


# --------------------------------------------------------------------------------------------------------------- ids


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (pa.array([12.0, None, 3.0][::2]), ["3", "12"]),
        (pa.array([0.0, -0.0]), ["0"]),
        (pa.array([1.5, 2.0]), ["1.5", "2.0"]),
        (pa.array([2.0**53 - 1, 2.0**53 - 2]), [str(2**53 - 2), str(2**53 - 1)]),
        (pa.array([MOST, MOST - 1], pa.uint64()), [str(MOST - 1), str(MOST)]),
        (pa.array([2**62 + 1, 2**62]), [str(2**62), str(2**62 + 1)]),
        (pa.array([Decimal(10**30 + 1), Decimal(10**30)], pa.decimal128(38, 0)), [str(10**30), str(10**30 + 1)]),
        (pa.array([Decimal("12.00"), Decimal("3.00")]), ["3", "12"]),
        (pa.array([b"x", b"\xff"]), ["x", r"\xff"]),
        (pa.array(["b", "a"]).dictionary_encode(), ["b", "a"]),
        (pa.array(["9" * 5000, "8" * 5000]), ["8" * 5000, "9" * 5000]),
        (pa.array([7, 7], pa.int8()), ["7"]),
    ],
)
def test_ids_of_all_types(tmp_path: Path, ids: pa.Array[Any], expected: list[str]) -> None:
    assert list(read(parquet(tmp_path, user=ids, time_s=[0, 1], cell=[0, 1]))) == expected


@pytest.mark.parametrize(("kind", "least"), [(pa.float64(), 2**53), (pa.float32(), 2**24), (pa.float16(), 2**11)])
def test_float_ids_beyond_exact_integers_are_rejected(tmp_path: Path, kind: pa.DataType, least: int) -> None:
    ids = pa.array(np.array([1, least - 1, least], dtype=kind.to_pandas_dtype()), kind)
    assert rejected(parquet(tmp_path, user=ids, time_s=[0, 1, 2], cell=[0, 1, 2])) == (
        "1 bad row: row 3: user must be text or an integer (different ids of this size are the same floating-point "
        f"number), found {least}"
    )


@pytest.mark.parametrize("missing", [math.nan, math.inf, -math.inf])
def test_a_float_id_that_is_not_finite_is_missing(tmp_path: Path, missing: float) -> None:
    """Check that NaN, which pandas writes for a missing id in a float column, does not become a user."""
    path = parquet(tmp_path, user=[7.0, missing, 7.0], time_s=[0, 1, 2], cell=[0, 1, 2])
    assert rejected(path).startswith("1 bad row: row 2: user must")
    assert list(read(parquet(tmp_path, user=[7.0, 8.0], time_s=[0, 1], cell=[0, 1]))) == ["7", "8"]


def test_ids_in_text_files_stay_text(tmp_path: Path) -> None:
    ids = [str(2**53), str(2**53 + 1), f"{2**53}.0", "9" * 5000]
    rows = "".join(f"{user},0,1\n" for user in ids)
    assert set(read(text(tmp_path, "user,time_s,cell\n" + rows))) == set(ids)


@given(st.lists(st.from_regex(r"\A-?[0-9]{1,30}\Z"), unique=True, max_size=6))
@settings(deadline=None)
def test_users_are_in_numeric_order(users: list[str]) -> None:
    values = [int(users[position]) for position in numeric_order(users)]
    assert values == sorted(values)


def test_cells_beyond_64_bits_are_rejected(tmp_path: Path) -> None:
    cells = pa.array([0, MOST], pa.uint64())
    assert f"row 2: cell must be an integer in [0, 99], found {MOST}" in rejected(
        parquet(tmp_path, user=["a", "a"], time_s=[0, 1], cell=cells)
    )
    path = parquet(tmp_path, user=["a", "a"], time_s=[0, 1], cell=pa.array([Decimal(1), Decimal(2)]))
    assert read(path) == {"a": [(0, 1), (1, 2)]}


def test_very_long_numbers_are_rejected_with_their_line(tmp_path: Path) -> None:
    long = "9" * 5000
    for content in (f"user,time_s,cell\na,{long},1\n", f"user,time_s,cell\na,0,{long}\n"):
        assert rejected(text(tmp_path, content)).startswith("1 bad row: line 2: ")


def test_columns_without_rows_are_accepted() -> None:
    for kind in (pa.string(), pa.int64(), pa.float64()):
        column: Any = pa.chunked_array([], kind)
        assert exact.ids(column).texts == ()
        assert exact.moments(column).seconds.size == 0


def test_a_field_beyond_the_size_limit_is_rejected(tmp_path: Path) -> None:
    long = "x" * (csv.field_size_limit() + 1)
    with raises_code(InvalidValue, "unreadable-file") as error:
        made(Replay, locations=GRID, file=text(tmp_path, f"user,time_s,cell\na,0,1\na,1,2,3,{long}\n"))
    assert str(error.value).startswith(f"{tmp_path / 't.csv'}: ")
