"""Formats of recorded movement: what a format is, the options of an import, and batches of rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from sim.datasets.files import RawFile
from sim.datasets.lines import FRACTION, shown
from sim.datasets.regions import Box
from sim.interfaces import FloatArray
from sim.world.grid import Grid

ROWS = 1 << 16
"""Number of rows of a batch."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of an import; a format rejects those that it does not use."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Column of a CSV or Parquet file for each of user, time, order, lat and lon that is not recognised."""
    user: str | None = None
    """User of all rows."""
    network: Path | None = None
    """Road network of a traffic simulation: net.xml of SUMO, network.xml of MATSim."""
    crs: str | None = None
    """Coordinate reference system of positions in metres, such as EPSG:32633; EPSG:4326 for degrees."""
    origin: tuple[float, float] | None = None
    """Latitude and longitude of x = 0, y = 0 of a plane without a coordinate reference system."""
    start_s: int | None = None
    """Unix time of time 0 of a simulation, or of day 0."""

    @property
    def given(self) -> dict[str, str]:
        """Options that are given, by the name of their flag."""
        values = {
            "--columns": self.columns,
            "--user": self.user,
            "--network": self.network,
            "--crs": self.crs,
            "--origin": self.origin,
            "--start": self.start_s,
        }
        return {name: str(value) for name, value in values.items() if value not in (None, {})}


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of a part of a file."""

    table: pa.Table
    faults: list[tuple[int, str]] = field(default_factory=list)
    """Invalid rows: number of the line or record from 1, and the reason."""
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Number of valid records that are not positions, by kind."""
    newest_first: bool = False
    """Whether the rows of a user are in reverse order of time."""


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """Beginning of a file, from which its format is recognised."""

    path: Path
    text: str
    """The first 64 KB as text, decompressed."""

    @property
    def lines(self) -> list[str]:
        """Lines without line breaks; blank lines are left out."""
        return [line.rstrip("\r") for line in self.text.split("\n") if line.strip()]

    def matches(self, pattern: str, *, line: int = 0) -> bool:
        """Return whether a line matches a regular expression from its beginning."""
        lines = self.lines
        return line < len(lines) and re.match(pattern, lines[line], re.ASCII) is not None


@dataclass(frozen=True, slots=True, eq=False)
class Format:
    """A format of raw data."""

    name: str
    description: str
    source: str
    """Publication or documentation of the format."""
    checks: str
    """Content of a file that identifies the format, and checks of its rows."""
    recognises: Callable[[Head], bool]
    read: Callable[[RawFile, Options], Iterator[Batch]]
    accepts_header: bool = False
    """Whether CSV files with a header are accepted too."""
    pattern: str = ""
    """Pattern of the files in a folder and its sub-folders; "" if a folder is not accepted."""
    options: frozenset[str] = frozenset()
    """Flags of the options that the format uses."""
    region: Box | None = None
    """Default region; None for all rows."""
    area: Box | None = None
    """Area of the published data: exchanged coordinates are recognised by it."""
    unit: str = "line"
    """Meaning of the numbers of invalid rows: line or record."""
    grid: Grid | None = None
    """Grid of the cells, for a format with cells instead of degrees."""
    time_note: str = ""
    """Meaning of the times, if they are not Unix times or UTC in the source."""
    folder_hint: str = ""
    """Message for a folder without such files, or for a folder that is not accepted."""


@dataclass(frozen=True, slots=True)
class Point:
    """A position; `lat` and `lon` may be text."""

    line: int
    user: str
    time: tuple[int, float] | None
    """Whole Unix seconds and the fraction; None for a position with an order only."""
    lat: Any
    lon: Any
    location: str | None = None


@dataclass(frozen=True, slots=True)
class Invalid:
    """An invalid row."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ignored:
    """A valid record that is not a position."""

    kind: str


def batches(items: Iterable[Point | Invalid | Ignored]) -> Iterator[Batch]:
    """Yield positions as batches; positions that are not degrees are invalid."""
    points: list[Point] = []
    faults: list[tuple[int, str]] = []
    ignored: dict[str, int] = {}
    order = 0
    for item in items:
        if isinstance(item, Point):
            points.append(item)
        elif isinstance(item, Invalid):
            faults.append((item.line, item.reason))
        else:
            ignored[item.kind] = ignored.get(item.kind, 0) + 1
        if len(points) + len(faults) >= ROWS:
            yield _batch(points, faults, ignored, order)
            order += len(points)
            points, faults, ignored = [], [], {}
    if points or faults or ignored:
        yield _batch(points, faults, ignored, order)


def _batch(points: list[Point], faults: list[tuple[int, str]], ignored: dict[str, int], order: int) -> Batch:
    timed = not points or points[0].time is not None
    untimed = [(point.line, "time is missing") for point in points if timed and point.time is None]
    points = [point for point in points if point.time is not None or not timed]
    lat, lon = (numbers([getattr(point, name) for point in points]) for name in ("lat", "lon"))
    valid = (np.abs(lat) <= 90) & (np.abs(lon) <= 180)
    wrong = [(points[row].line, _reason(points[row])) for row in np.flatnonzero(~valid).tolist()]
    good = [point for point, is_valid in zip(points, valid.tolist(), strict=True) if is_valid]
    columns: dict[str, Any] = {"user": pa.array([point.user for point in good], pa.string())}
    if timed:
        columns["time_s"] = pa.array([point.time[0] for point in good if point.time], pa.int64())
    else:
        columns["order"] = pa.array(np.arange(order, order + len(points))[valid], pa.int64())
    columns |= {"lat": pa.array(lat[valid]), "lon": pa.array(lon[valid])}
    if good and good[0].location is not None:
        columns["location"] = pa.array([point.location or "" for point in good], pa.string())
    fractions = [point.time[1] for point in good if point.time]
    if any(fractions):
        columns[FRACTION] = pa.array(fractions, pa.float64())
    return Batch(pa.table(columns), sorted([*faults, *untimed, *wrong]), ignored)


def numbers(values: list[Any]) -> FloatArray:
    """Return numbers or texts as floats, NaN if a text is not a number."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def _reason(point: Point) -> str:
    return f"lat, lon must be degrees in [-90, 90], [-180, 180], found {shown(f'{point.lat}, {point.lon}')}"
