"""Generators of unusual trace files: CSV, Parquet and raw downloads, some valid, some not."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

START_S = 1_287_280_133
ODD_TIMES = (
    *(
        "",
        "nan",
        "inf",
        "-inf",
        "1e400",
        "1e-400",
        "-1",
        "-0",
        "0",
        "0.5",
        "-0.5",
        "1.9999999",
        "99999999999",
        "100000000001",
    ),
    *(
        "1287280133000",
        "18446744073709551615",
        "9223372036854775808",
        "-9223372036854775809",
        "0x10",
        "1_000",
        " 12 ",
        "1e9",
    ),
    *("12.", ".5", "+7", "True", "None", "2010-10-17", "2010-10-17T01:48:53Z", "2010-10-17 01:48:53.999999999+02:00"),
    *(
        "0001-01-01T00:00:00",
        "9999-12-31T23:59:59Z",
        "20101017T014853Z",
        "2010-W41-7",
        "now",
        "12:30",
        "٣",
        "\x1b[31m1",
        "1,5",
    ),
    *("1" * 25, "9" * 5000, "2010-02-30T00:00:00Z", "1287280133.0000001", "9007199254740993", "1287280133.9999999999"),
)
ODD_IDS = (
    *(
        "",
        " ",
        "0",
        "-0",
        "00",
        "007",
        "7",
        "7.0",
        "1e3",
        "1000",
        "nan",
        "NA",
        "None",
        "null",
        "True",
        " a",
        "a ",
        "-5",
        "--5",
    ),
    *(
        "9223372036854775807",
        "9223372036854775808",
        "18446744073709551615",
        "9007199254740993",
        "9007199254740992",
        "1" * 5000,
    ),
    *(
        "\x1b[31mred",
        "\x07",
        "٣",
        "é",
        "e\u0301",
        "🙂",
        'say "hi"',
        "a,b",
        "a\nb",
        "a\tb",
        "<script>",
        "=1+1",
        "\u202e",
        "x" * 3000,
    ),
)
ODD_DEGREES = (
    *(
        "",
        "nan",
        "inf",
        "-inf",
        "91",
        "-91",
        "181",
        "1e400",
        "1e-400",
        "37.7x",
        "37,7",
        " 37.7 ",
        "+37.7",
        "0x25",
        "37.7e0",
    ),
    *(
        "37.55",
        "37.801",
        "-122.5153",
        "-122.3789",
        "37.8010000000000000001",
        "True",
        "0",
        "-0.0",
        "9" * 400,
        "37.7\x00",
    ),
)
ODD_CELLS = (
    "",
    "-1",
    "0",
    "249",
    "250",
    "1e2",
    "1.0",
    "1.5",
    "nan",
    "18446744073709551615",
    "9223372036854775808",
    "007",
    "x",
)
SCHEMES = (
    "user time lat lon",
    "user time cell",
    "user order lat lon",
    "user order cell",
    "user time order lat lon cell",
)
HEADERS: dict[str, tuple[str, ...]] = {
    "user": ("user", "UID", "user_id", " id "),
    "time": ("time_s", "time", "Timestamp", "unixtime"),
    "order": ("order", "chron_seq", "index"),
    "lat": ("lat", "Latitude"),
    "lon": ("lon", "lng", "longitude"),
    "cell": ("cell", "cell_id"),
}
ODD_HEADERS = (
    "",
    "user",
    "lat",
    "\x1b[31mred\x1b[0m",
    "a\nb",
    "x" * 500,
    "Unnamed: 0",
    "é",
    "1",
    "time_s",
    "user.1",
    "\x00",
)


def _time(rng: Random, style: str, step: int) -> str:
    seconds = START_S + rng.choice((0, 1, 60, 3600)) * step
    match style:
        case "iso":
            moment = datetime(2010, 10, 17, tzinfo=UTC) + timedelta(seconds=seconds - START_S)
            return moment.strftime(rng.choice(("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S.5+00:00")))
        case "fraction":
            return f"{seconds}.{rng.randrange(1000):03d}"
        case "small":
            return str(rng.randrange(-5, 90_000))
        case _:
            return str(seconds)


def values(rng: Random, names: Sequence[str], rows: int, wrong: float) -> list[dict[str, str]]:
    """Return rows of texts, of which the share `wrong` is unusual."""
    style = rng.choice(("seconds", "seconds", "iso", "fraction", "small"))
    ids = rng.sample(("1", "2", "10", "ann", "bob", "9", "-3"), 3) if rng.random() < 0.5 else ["1", "2", "10"]
    ids = [rng.choice(ODD_IDS) if rng.random() < 0.15 else user for user in ids]
    order = rng.choice(("small", "large", "fraction"))
    result = []
    for step in range(rows):
        number = rng.randrange(100)
        row = {
            "user": rng.choice(ids),
            "time": _time(rng, style, step),
            "order": {"small": f"{number}", "large": f"{2**53 + number}", "fraction": f"{number / 8}"}[order],
            "lat": f"{rng.uniform(37.5, 37.82):.6f}",
            "lon": f"{rng.uniform(-122.53, -122.36):.6f}",
            "cell": str(rng.randrange(250)),
        }
        odd = {"user": ODD_IDS, "time": ODD_TIMES, "order": ODD_TIMES, "lat": ODD_DEGREES, "lon": ODD_DEGREES}
        row |= {name: rng.choice(odd.get(name, ODD_CELLS)) for name in names if rng.random() < wrong}
        result.append(row)
    return result


def write_csv(path: Path, rng: Random) -> None:
    """Write a CSV file with a header, plain or compressed, sometimes damaged."""
    names = rng.choice(SCHEMES).split()
    wrong = rng.choice((0.0, 0.0, 0.0, 0.03, 0.2))
    rows = values(rng, names, rng.choice((0, 1, 2, 5, 12)), wrong)
    header = [rng.choice(HEADERS[name]) for name in names]
    if rng.random() < 0.15:
        extra = rng.choice(ODD_HEADERS)
        header.append(extra)
    text = io.StringIO()
    writer = csv.writer(
        text,
        delimiter=rng.choices((",", "\t", ";", " "), (80, 7, 7, 6))[0],
        quoting=rng.choices((csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC), (80, 10, 10))[0],
        lineterminator=rng.choices(("\n", "\r\n", "\r"), (80, 15, 5))[0],
    )
    writer.writerow(header)
    for row in rows:
        fields = [row[name] for name in names] + ["extra"] * (len(header) - len(names))
        if rng.random() < wrong / 4:
            fields = rng.choice((fields[:-1], [*fields, "1"], [], [""], fields * 2))
        writer.writerow(fields)
    encoding = rng.choices(("utf-8", "utf-8-sig", "utf-16", "latin-1"), (85, 10, 3, 2))[0]
    content = text.getvalue().encode(encoding, "replace")
    content = damaged(content, rng) if rng.random() < 0.12 else content
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


def damaged(content: bytes, rng: Random) -> bytes:
    """Return the content with flipped bits, truncated, or with a sequence of zeros."""
    if not content:
        return content
    match rng.randrange(4):
        case 0:
            return content[: rng.randrange(len(content))]
        case 1:
            at = rng.randrange(len(content))
            return content[:at] + bytes(rng.choice((1, 4, 16))) + content[at + 4 :]
        case _:
            changed = bytearray(content)
            for _ in range(rng.randint(1, 3)):
                changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
            return bytes(changed)


_IDS: tuple[tuple[Any, Sequence[Any]], ...] = (
    (pa.string(), ("1", "2", "10", "ann", "", "1" * 5000, "\x1b[31m", "007", "7")),
    (pa.large_string(), ("a", "b", "c")),
    (pa.int64(), (1, 2, 10, -3, 2**63 - 1, 2**53 + 1, 2**53)),
    (pa.uint64(), (1, 2, 2**64 - 1, 2**63, 2**63 - 1)),
    (pa.float64(), (1.0, 2.0, 10.0, 2.0**60, 2.0**60 + 512, 1e300, 2e300, 0.5, -0.0, 0.0, float("nan"), float("inf"))),
    (pa.int32(), (1, 2, None)),
    (pa.int64(), (1, 2, None, 2**53 + 1, 2**53)),
    (pa.bool_(), (True, False)),
    (pa.binary(), (b"a", b"\xff", b"b")),
    (pa.decimal128(30, 2), (Decimal("1.00"), Decimal("2.50"), Decimal("12345678901234567890.00"))),
    (pa.date32(), (1, 2)),
    (pa.list_(pa.int64()), ([1], [2])),
    (pa.struct([("a", pa.int64())]), ({"a": 1}, {"a": 2})),
    (pa.null(), (None,)),
)
_TIMES: tuple[tuple[Any, Sequence[Any]], ...] = (
    (pa.int64(), (START_S, START_S + 60, 0, -5, 10**11, 10**11 + 1, 2**63 - 1)),
    (pa.uint64(), (START_S, 2**64 - 1, 2**63, 5)),
    (pa.int32(), (START_S, 0, None)),
    (pa.float64(), (START_S + 0.25, START_S + 0.75, 0.5, -0.5, 1e300, float("nan"), float("inf"))),
    (pa.float32(), (1.5, 2.25, 1e9)),
    (pa.timestamp("s"), (START_S, START_S + 1, None)),
    (pa.timestamp("ms", "UTC"), (START_S * 1000 + 999, START_S * 1000 + 1)),
    (pa.timestamp("us", "America/Los_Angeles"), (START_S * 10**6 + 999_999, START_S * 10**6)),
    (pa.timestamp("ns"), (START_S * 10**9 + 999_999_999, START_S * 10**9 + 1, -1)),
    (pa.string(), ("2010-10-17T01:48:53Z", "2010-10-17", "5", "x", "", "1287280133")),
    (pa.decimal128(25, 3), (Decimal("1287280133.999"), Decimal("5.001"))),
    (pa.date32(), (14_000, 14_001)),
    (pa.duration("s"), (5, 6)),
    (pa.time32("s"), (5, 6)),
    (pa.bool_(), (True, False)),
    (pa.null(), (None,)),
)
_DEGREES: tuple[tuple[Any, Sequence[float | None]], ...] = (
    (pa.float64(), (0.1, 0.2, 0.3)),
    (pa.float64(), (0.1, None, float("nan"))),
    (pa.float32(), (0.1, 0.2)),
    (pa.float16(), (0.1, 0.2)),
    (pa.decimal128(12, 6), (0.1, 0.2)),
    (pa.string(), (0.1, 0.2)),
)
_CELLS: tuple[tuple[Any, Sequence[Any]], ...] = (
    (pa.int64(), (0, 5, 249)),
    (pa.uint64(), (0, 5, 2**64 - 1)),
    (pa.int32(), (0, None)),
    (pa.float64(), (0.0, 5.0, 1.5)),
    (pa.string(), ("0", "5")),
    (pa.int8(), (0, -1)),
)


def write_parquet(path: Path, rng: Random, *, trace_file: bool = False) -> None:
    """Write a Parquet file whose columns have any types, sometimes damaged."""
    names = rng.choice(SCHEMES[:2] if trace_file else SCHEMES).split()
    rows = rng.choice((0, 1, 3, 8))
    columns, titles = [], []
    for name in names:
        plain = rng.random() < 0.6
        choices = {"user": _IDS, "time": _TIMES, "order": _TIMES, "lat": _DEGREES, "lon": _DEGREES}.get(name, _CELLS)
        kind, pool = choices[0] if plain else rng.choice(choices)
        pool = [value for value in pool if value is not None][:3] if plain else pool
        picked = [rng.choice(pool) for _ in range(rows)]
        if name in ("lat", "lon"):
            base = 37.5 if name == "lat" else -122.52
            picked = [None if value is None else base + value / 3 for value in picked]
            if pa.types.is_decimal(kind) or kind == pa.string():
                picked = [None if value is None else f"{value:.6f}" for value in picked]
                picked = [Decimal(value) for value in picked] if pa.types.is_decimal(kind) else picked
        array = pa.array(picked, kind)
        if rng.random() < 0.1 and kind in (pa.string(), pa.int64()):
            array = array.dictionary_encode()
        columns.append(array)
        titles.append("time_s" if name == "time" and trace_file else HEADERS[name][0])
    sink = io.BytesIO()
    pq.write_table(pa.table(columns, names=titles), sink, row_group_size=rng.choice((2, 100)))
    content = sink.getvalue()
    path.write_bytes(damaged(content, rng) if rng.random() < 0.35 else content)


def write_snap(path: Path, rng: Random) -> None:
    """Write check-ins in the format of SNAP: newest first, fields separated by tabs; some lines are invalid."""
    wrong = rng.choice((0.0, 0.0, 0.05, 0.2))
    rows = values(rng, ("user", "time", "lat", "lon"), rng.choice((1, 3, 12)), wrong)
    lines = []
    for row in reversed(rows):
        user = row["user"].replace("\t", " ").replace("\n", " ")
        fields = [user, row["time"], row["lat"], row["lon"], rng.choice(("ab12", "", "\x1b[31m", "é", "7"))]
        if rng.random() < wrong / 2:
            fields = rng.choice((fields[:-1], [*fields, "1"], [""], ["#"]))
        lines.append("\t".join(fields))
    _write_lines(path, lines, rng)


def write_cab(path: Path, rng: Random) -> None:
    """Write the points of a cab in the format of CRAWDAD: lat, lon, occupied, Unix time; newest first."""
    wrong = rng.choice((0.0, 0.0, 0.05))
    rows = values(rng, ("time", "lat", "lon"), rng.choice((1, 3, 12)), wrong)
    odd = ("2", "-1", "x", "1.0", "01", "9" * 30)
    lines = [
        f"{row['lat']} {row['lon']} {rng.choice(odd) if rng.random() < wrong else rng.randrange(2)} {row['time']}"
        for row in reversed(rows)
    ]
    _write_lines(path, lines, rng)


def _write_lines(path: Path, lines: list[str], rng: Random) -> None:
    text = rng.choices(("\n", "\r\n"), (9, 1))[0].join([*lines, *([""] if rng.random() < 0.9 else [])])
    content = text.encode("utf-8", "surrogatepass")
    content = damaged(content, rng) if rng.random() < 0.1 else content
    compressed = rng.random() < 0.1
    content = gzip.compress(content, mtime=0) if compressed else content
    path.write_bytes(damaged(content, rng) if compressed and rng.random() < 0.3 else content)
