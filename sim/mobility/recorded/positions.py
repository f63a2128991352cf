"""Positions in degrees from trace files of any app: CSV, Parquet, GPX and GeoJSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from sim.errors import InvalidValue, code_of
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.mobility.recorded import exact, tracks
from sim.mobility.recorded.tables import (
    UNREADABLE,
    BadRows,
    default_code,
    header_of,
    is_parquet,
    load_columns,
    reason_of,
    reject_rows,
    when_of,
)

SENT = ("sent_lat", "sent_lon")
"""Columns of the sent position in a file with both positions."""
_TRUE = ("true_lat", "true_lon")
_LIMITS = (90.0, 180.0)


@dataclass(frozen=True, slots=True, eq=False)
class Positions:
    """Rows of a file in the order of the file; all arrays have shape (n_rows,)."""

    users: tuple[str, ...]
    user: IntArray
    """Index into `users`."""
    when: IntArray | FloatArray
    """Unix seconds if `timed`, else numbers that order the rows of a user."""
    rest: IntArray | FloatArray
    """Numbers that order rows with the same `when`, such as fractions of a second; zeros if there are none."""
    timed: bool
    lat: FloatArray
    """NaN for a missing position, if such are allowed."""
    lon: FloatArray


def read_positions(file: str | Path, *, columns: Mapping[str, str] | None = None, missing: bool = False) -> Positions:
    """Read the positions of a file; `columns` maps `user`, `time`, `order`, `lat` and `lon` to other column names.

    With `missing`, empty positions are allowed. Other rows that cannot be read are never dropped: an `InvalidValue`
    states the file, their number and the first few.
    """
    path = Path(file)
    given = dict(columns or {})
    try:
        if tracks.is_track(path):
            frame = tracks.read_columns(path)
            named = {"user": "user", "time" if "time" in frame else "order": "time" if "time" in frame else "order"}
            named |= {"lat": given.get("lat", "lat"), "lon": given.get("lon", "lon")}
        else:
            frame, named = load_columns(path, _with_true(path, given), degrees=True)
        if "cell" in named:
            raise InvalidValue("columns lat and lon are required, cells are not enough", code="no-such-column")
        users = exact.ids(frame[named["user"]])
        when, rest, faults = when_of(frame, named)
        lat, lat_faults = _degrees(frame, named["lat"], _LIMITS[0], missing=missing)
        lon, lon_faults = _degrees(frame, named["lon"], _LIMITS[1], missing=missing)
        user_faults = [(named["user"], "must be the id of a user", (users.codes < 0) | users.ambiguous)]
        swapped = "; are lat and lon swapped?" if lat_faults[1][2].any() else ""
        reject_rows(path, frame, [*user_faults, *faults, *lat_faults, *lon_faults], swapped)
    except (FileNotFoundError, BadRows):
        raise
    except UNREADABLE as error:
        raise InvalidValue(f"{path}: {reason_of(error)}", code=code_of(error, default_code(error))) from error
    rest = np.zeros(len(when)) if rest is None else rest
    return Positions(users.texts, users.codes, when, rest, "time" in named, lat, lon)


def has_both(file: str | Path) -> bool:
    """Return whether a file has columns for the true and for the sent position."""
    path = Path(file)
    try:
        names = list(tracks.read_columns(path)) if tracks.is_track(path) else _names(path)
    except FileNotFoundError:
        raise
    except UNREADABLE as error:
        raise InvalidValue(f"{path}: {reason_of(error)}", code=code_of(error, default_code(error))) from error
    return set(SENT) <= set(names)


def _names(path: Path) -> list[str]:
    return list(pq.read_schema(path).names) if is_parquet(path) else header_of(path)[1]


def _with_true(path: Path, given: dict[str, str]) -> dict[str, str]:
    """Return the column names with `true_lat` and `true_lon`, if the file has them and no others are given."""
    if "lat" in given or "lon" in given or not set(_TRUE) <= set(_names(path)):
        return given
    return given | dict(zip(("lat", "lon"), _TRUE, strict=True))


def _degrees(
    frame: Mapping[str, object], name: str, most: float, *, missing: bool
) -> tuple[FloatArray, list[tuple[str, str, BoolArray]]]:
    """Return the numbers of a column and the faults of its rows."""
    if name not in frame:
        raise InvalidValue(f"no column {name}; found {', '.join(frame)}", code="no-such-column")
    numbers, bad = exact.numbers(frame[name])
    empty = np.array([value is None or str(value).strip().lower() in ("", "nan") for value in _values(frame[name])])
    allowed = empty & missing
    degrees = np.where(bad, np.nan, numbers.astype(np.float64))
    far = ~bad & (np.abs(numbers) > most)
    return degrees, [
        (name, "must be a number of degrees", bad & ~allowed),
        (name, f"must be in [-{most:g}, {most:g}]", far),
    ]


def _values(column: object) -> list[object]:
    values: list[object] = column.to_pylist()  # type: ignore[attr-defined]
    return values
