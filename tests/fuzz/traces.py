"""Target `traces`: CSV and Parquet files for `replay` and `data describe`, raw downloads for `data import`."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import zlib
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sim.datasets.importing import SAN_FRANCISCO, grid_over
from sim.errors import input_errors
from sim.mobility.recorded.replay import Replay
from sim.world.grid import Grid
from tests.fuzz import trace_inputs as inputs
from tests.fuzz import trace_oracle as oracle
from tests.fuzz.harness import ProblemError, command
from tests.support import made

CASE = "case.json"
_COUNTED = re.compile(r"rows +([\d,]+) of ([\d,]+) users?")
_INTEGER = re.compile(r"[+-]?\d{1,18}", re.ASCII)


class Traces:
    """Trace files; the result for an accepted file is compared with an oracle in pure Python."""

    name = "traces"

    def __init__(self, _assets: Path) -> None:
        self._grid = Grid.san_francisco()

    def make(self, rng: Random, folder: Path) -> None:
        """Write a file or a folder of files, and the action to perform."""
        action = rng.choices(("replay", "import", "describe"), (60, 25, 15))[0]
        case: dict[str, Any] = {"action": action}
        if action == "import":
            case |= self._make_raw(rng, folder)
        else:
            kind = rng.choices(("csv", "csv.gz", "parquet"), (50, 5, 45))[0]
            case["file"] = f"traces.{kind}"
            if kind == "parquet":
                inputs.write_parquet(folder / case["file"], rng, trace_file=action == "describe")
            else:
                inputs.write_csv(folder / case["file"], rng)
            case["figure"] = rng.random() < 0.03
        (folder / CASE).write_text(json.dumps(case))

    def _make_raw(self, rng: Random, folder: Path) -> dict[str, Any]:
        region = rng.choice(("all", "paper"))
        if rng.random() < 0.6:
            inputs.write_snap(folder / "raw.txt", rng)
            return {"source": rng.choice(("gowalla", "brightkite")), "file": "raw.txt", "region": region}
        (folder / "cabs").mkdir()
        for cab in rng.sample(("abc", "7", "10", "é", "\x1b[31m", "a b"), rng.randint(1, 3)):
            inputs.write_cab(folder / "cabs" / f"new_{cab}.txt", rng)
        return {"source": "cabspotting", "file": "cabs", "region": region}

    def drive(self, folder: Path) -> bool:
        """Read the file and compare the result with the oracle."""
        case = json.loads((folder / CASE).read_bytes())
        path = Path(case["file"])
        if case["action"] == "replay":
            self._replay(path)
            return True
        if case["action"] == "describe":
            return self._describe(path, figure=case["figure"])
        return self._import(path, case["source"], case["region"])

    def _replay(self, path: Path) -> None:
        with input_errors("users.mobility"):
            replay = made(Replay, locations=self._grid, file=path)
        visits = {
            user: [(visit.time_s, visit.cell) for visit in replay.visits(user, np.random.default_rng(1))]
            for user in replay.users()
        }
        try:
            reading = oracle.read_parquet(path, self._grid) if path.suffix == ".parquet" else self._csv(path)
        except oracle.NoMeaningError as error:
            raise ProblemError("replay accepts invalid rows", f"{error}; read {_short(visits)}") from error
        except oracle.UnclearError:
            return
        _compare(visits, reading)

    def _csv(self, path: Path) -> oracle.Reading:
        try:
            return oracle.read_csv(path, self._grid)
        except ValueError as error:
            raise oracle.UnclearError(str(error)) from error

    def _describe(self, path: Path, *, figure: bool) -> bool:
        accepted, output = command("data", "describe", path, *([] if figure else ["--no-figure"]))
        if not accepted:
            return False
        match = _COUNTED.search(output)
        if match is None:
            raise ProblemError("describe prints no counts", output[:300])
        counted = tuple(int(text.replace(",", "")) for text in match.groups())
        expected = _counts_of(path)
        if expected is not None and counted != expected:
            raise ProblemError("describe prints other counts", f"(rows, users) {counted}, expected {expected}")
        return True

    def _import(self, path: Path, source: str, region: str) -> bool:
        options = ["--region", "all"] if region == "all" else []
        accepted, _ = command("data", "import", source, path, "-o", "out.parquet", *options)
        expected = _raw_rows(path, source, None if region == "all" else grid_over(SAN_FRANCISCO, rows=1, cols=1))
        if not accepted:
            if Path("out.parquet").exists():
                raise ProblemError("a rejected import leaves a file", str(path))
            return False
        if expected is None:
            raise ProblemError("import accepts a damaged file", str(path))
        table = pq.read_table("out.parquet")
        notes = json.loads((table.schema.metadata or {})[b"lppm-sim"])
        counts = {name: notes["counts"][name] for name in ("lines", "unreadable", "outside", "kept", "users")}
        if counts != expected[0]:
            raise ProblemError("import reports other counts", f"found {counts}, expected {expected[0]}")
        rows = [tuple(row.values()) for row in table.to_pylist()]
        if rows != expected[1]:
            different = [pair for pair in zip(rows, expected[1], strict=False) if pair[0] != pair[1]]
            raise ProblemError("import writes other rows", f"found and expected: {_short(different[:2])}")
        return True


def _compare(replayed: dict[str, list[tuple[int, int]]], reading: oracle.Reading) -> None:
    """Compare the visits of a replay with those of the oracle: users, their order, times and cells."""
    names, expected = reading.names(), {user: visits for user, visits in reading.visits().items() if visits}
    rows = sum(map(len, replayed.values()))
    if rows != sum(map(len, expected.values())):
        raise ProblemError("replay has another number of rows", f"{rows}: {_short(replayed)} of {_short(expected)}")
    if len(replayed) != len(expected):
        raise ProblemError("replay merges or splits users", f"{_short(replayed)}, expected {_short(expected)}")
    if None in names.values():
        if sorted(replayed.values()) != sorted(expected.values()):
            raise ProblemError(
                "replay changes times, cells or their order", f"{_short(replayed)}, expected {_short(expected)}"
            )
        return
    user_by_name: dict[str, Any] = {}
    for user in expected:
        match = next((name for name in replayed if name not in user_by_name and name in (names[user] or ())), None)
        if match is None:
            raise ProblemError("replay renames a user", f"{user!r:.80} is not among {_short(list(replayed))}")
        user_by_name[match] = user
    name_by_user = {user: name for name, user in user_by_name.items()}
    all_names = [name_by_user.get(user) or _plainest(names[user]) for user in names]
    order = [name for name in oracle.in_order(all_names) if name in replayed]
    if order != list(replayed):
        raise ProblemError("replay has another order of users", f"{_short(list(replayed))}, expected {_short(order)}")
    for name, user in user_by_name.items():
        if replayed[name] != expected[user]:
            raise ProblemError(
                "replay changes times, cells or their order",
                f"{_short(replayed[name])}, expected {_short(expected[user])}",
            )


def _plainest(names: oracle.Names) -> str:
    """Return the id of a user without rows in the region: an integer if possible."""
    return min(names or {""}, key=lambda name: (not name.removeprefix("-").isdecimal(), len(name)))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 500 else f"{text[:250]} … {text[-200:]}"


def _counts_of(path: Path) -> tuple[int, int] | None:
    """Return the number of rows and users of a file, None if the oracle cannot read it."""
    try:
        if path.suffix == ".parquet":
            column = pq.read_table(path)["user"]
            return len(column), len({str(value) for value in column.to_pylist()})
        text = (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()).decode("utf-8-sig")
    except (pa.ArrowException, OSError, ValueError, KeyError):
        return None
    lines = [line.rstrip("\r") for line in text.split("\n")]
    table = list(csv.reader(io.StringIO("\n".join(line for line in lines if line.strip()))))
    header = [name.strip().lower() for name in table[0]]
    at = next((header.index(name) for name in ("user", "user_id", "userid", "uid", "id") if name in header), None)
    return None if at is None else (len(table) - 1, len({fields[at] for fields in table[1:]}))


def _raw_rows(path: Path, source: str, grid: Grid | None) -> tuple[dict[str, int], list[tuple[Any, ...]]] | None:
    """Return the expected counts and rows of an import, None if a file cannot be decompressed."""
    files = [path] if path.is_file() else sorted(path.glob("new_*.txt"), key=lambda file: file.name)
    counts = dict.fromkeys(("lines", "unreadable", "outside", "kept", "users"), 0)
    kept: dict[str, list[tuple[Any, ...]]] = {}
    for file in files:
        content = file.read_bytes()
        try:
            content = gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
        except (OSError, EOFError, zlib.error):
            return None
        for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            _count(line, source, file, grid, counts, kept)
    counts["users"] = len(kept)
    # Files start with the newest row: the order of rows of the same second is reversed too.
    oldest_first = {user: list(reversed(rows)) for user, rows in kept.items()}
    ordered = [sorted(oldest_first[user], key=lambda row: row[1]) for user in oracle.in_order(list(kept))]
    return counts, [(user, math.floor(when), *rest) for rows in ordered for user, when, *rest in rows]


def _count(
    line: bytes, source: str, file: Path, grid: Grid | None, counts: dict[str, int], kept: dict[str, list[Any]]
) -> None:
    """Add one line of a raw file to the counts and rows."""
    try:
        text = line.decode("utf-8").rstrip("\r")
        if not text.strip():
            return
        counts["lines"] += 1
        row = _check_in(text) if source != "cabspotting" else _point(text, file.name[4:-4])
    except UnicodeDecodeError:
        counts["lines"] += 1
        row = None
    if row is None:
        counts["unreadable"] += 1
    elif grid is not None and int(grid.cell_of(row[2], row[3])) < 0:
        counts["outside"] += 1
    else:
        counts["kept"] += 1
        kept.setdefault(row[0], []).append(row)


def _check_in(text: str) -> tuple[Any, ...] | None:
    fields = text.split("\t")
    if len(fields) != 5 or not fields[0].strip():
        return None
    when, lat, lon = _seconds(fields[1]), _degrees(fields[2], 90), _degrees(fields[3], 180)
    return None if None in (when, lat, lon) else (fields[0], when, lat, lon, fields[4])


def _point(text: str, cab: str) -> tuple[Any, ...] | None:
    fields = text.split()
    if len(fields) != 4 or not _INTEGER.fullmatch(fields[2]) or int(fields[2]) not in (0, 1):
        return None
    lat, lon, when = _degrees(fields[0], 90), _degrees(fields[1], 180), _seconds(fields[3])
    return None if None in (when, lat, lon) else (cab, when, lat, lon, bool(int(fields[2])))


def _seconds(text: str) -> Fraction | None:
    """Return the exact time; rows are sorted by it before its fraction is truncated."""
    word = text.strip()
    value: Fraction | None = oracle.number(word)
    value = oracle.moment(word) if value is None else value
    if value is None or not -62_135_596_800 <= math.floor(value) <= oracle.LATEST_S:
        return None
    return value


def _degrees(text: str, most: int) -> float | None:
    value = oracle.number(text.strip())
    return float(value) if value is not None and abs(value) <= most else None
