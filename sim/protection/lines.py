"""Lines of a stream: queries as JSON lines or CSV, and their answers in the same form."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, BinaryIO, Literal, NamedTuple

from sim.errors import InvalidValue
from sim.protection.protector import Answer

Form = Literal["json", "csv"]

LONGEST = 100_000
"""Limit on the number of bytes of a line."""

COLUMNS = {
    "time": ("time", "time_s", "timestamp", "unixtime", "datetime"),
    "lat": ("lat", "latitude"),
    "lon": ("lon", "lng", "long", "longitude"),
    "user": ("user", "user_id", "userid", "uid"),
    "seq": ("seq", "sequence"),
}
"""Names, in any case, of the keys or columns of a query."""
_REQUIRED = ("time", "lat", "lon")
_ANSWER_COLUMNS = ("time", "user", "seq", "status", "lat", "lon", "cells")
_NUMBER = re.compile(r"[+-]?(\d{1,30}\.?\d{0,30}|\.\d{1,30})([eE][+-]?\d{1,3})?", re.ASCII)
_MOST = 10**30


class Line(NamedTuple):
    """A query as read from a line."""

    time_s: int
    lat: float
    lon: float
    user: str = "user"
    seq: int | str | None = None
    echo: Mapping[str, Any] = {}
    """Time, user and sequence number as in the line, to be repeated in the answer."""


class Reader:
    """Read the lines of a stream, whose form the first line determines: an object of JSON, or the header of CSV."""

    def __init__(self) -> None:
        self.form: Form | None = None
        self._columns: dict[str, int] = {}
        self._width = 0

    def read(self, raw: bytes) -> Line | None:
        """Return the query of a line; None for the header. Raise `InvalidValue` for a line without a valid query."""
        text = _text(raw)
        if self.form is None:
            self.form = "json" if text.lstrip().startswith("{") else "csv"
            if self.form == "csv":
                self._read_header(text)
                return None
        return _line(_json(text) if self.form == "json" else self._csv(text))

    def _read_header(self, text: str) -> None:
        names = [name.strip().lower() for name in _row(text)]
        for key, accepted in COLUMNS.items():
            match = [name for name in accepted if name in names]
            if match:
                self._columns[key] = names.index(match[0])
        missing = [key for key in _REQUIRED if key not in self._columns]
        if missing:
            raise InvalidValue(
                f"the first line must be an object of JSON, or a header of CSV with time, lat and lon; "
                f"no column for {', '.join(missing)}, found {text.strip()[:80]!r}",
                code="no-such-column",
            )
        self._width = len(names)

    def _csv(self, text: str) -> dict[str, Any]:
        row = _row(text)
        if len(row) != self._width:
            raise InvalidValue(f"expected {self._width} values, found {len(row)}", code="invalid-line")
        return {key: row[place].strip() for key, place in self._columns.items()}


def _text(raw: bytes) -> str:
    if len(raw) > LONGEST:
        raise InvalidValue(f"a line must have at most {LONGEST:,} bytes", code="invalid-line")
    try:
        return raw.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError:
        raise InvalidValue("not UTF-8", code="invalid-line") from None


def _json(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise InvalidValue("not valid JSON", code="invalid-line") from None
    if not isinstance(data, dict):
        raise InvalidValue("expected an object of JSON with time, lat and lon", code="invalid-line")
    lower = {str(key).lower(): value for key, value in data.items()}
    names = {key: next((name for name in accepted if name in lower), None) for key, accepted in COLUMNS.items()}
    return {key: lower[name] for key, name in names.items() if name is not None}


def _row(text: str) -> list[str]:
    try:
        return next(csv.reader([text.rstrip("\r\n")], strict=True), [])
    except csv.Error as error:
        raise InvalidValue(f"not valid CSV: {error}", code="invalid-line") from None


def _line(data: Mapping[str, Any]) -> Line:
    missing = [key for key in _REQUIRED if data.get(key) in (None, "")]
    if missing:
        raise InvalidValue(f"no {' and no '.join(missing)}", code="invalid-line")
    user, seq = (data.get(key) for key in ("user", "seq"))
    for name, value in (("user", user), ("seq", seq)):
        if isinstance(value, bool) or not isinstance(value, int | str | None):
            raise InvalidValue(f"{name} must be text or an integer", code="invalid-line")
    echo = {key: data[key] for key in ("time", "user", "seq") if data.get(key) not in (None, "")}
    return Line(
        _time_s(data["time"]),
        _degrees("lat", data["lat"]),
        _degrees("lon", data["lon"]),
        "user" if user in (None, "") else str(user),
        None if seq in (None, "") else seq,
        echo,
    )


def _time_s(value: Any) -> int:
    """Return a time in whole seconds since 1970, rounded down; text without an offset is UTC.

    >>> _time_s("1970-01-01T00:01:00+00:00"), _time_s("1970-01-01 00:00:01.5"), _time_s(-0.5)
    (60, 1, -1)
    """
    number = _number(value)
    if number is not None:
        if math.isfinite(number):
            return math.floor(number)
    elif isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            pass
        else:
            return math.floor((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    raise InvalidValue("time must be in Unix seconds or ISO 8601, such as 2026-01-31T08:15:00Z", code="invalid-line")


def _degrees(name: str, value: Any) -> float:
    number = _number(value)
    if number is None:
        raise InvalidValue(f"{name} must be a number of degrees", code="invalid-line")
    return float(number)


def _number(value: Any) -> int | float | None:
    """Return a number, or text that is one; None for anything else."""
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return int(value) if value.lstrip("+-").isdigit() else float(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if abs(value) < _MOST else math.inf


def lines_of(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a stream as they arrive; of a line that is too long, only its beginning."""
    while line := stream.readline(LONGEST + 1):
        rest = line
        while len(rest) > LONGEST and not rest.endswith(b"\n"):
            rest = stream.readline(LONGEST + 1)
        yield line


def header(form: Form | None) -> str | None:
    """Return the first line of the answers, or None."""
    return ",".join(_ANSWER_COLUMNS) if form == "csv" else None


def answer_line(answer: Answer, echo: Mapping[str, Any], form: Form) -> str:
    """Return the line of an answer. It contains nothing that depends on the true position except the report."""
    fields: dict[str, Any] = {**echo, "status": answer.status}
    if answer.place is not None:
        fields |= {"lat": answer.place.lat, "lon": answer.place.lon}
    if answer.cells:
        fields["cells"] = [list(cell) for cell in answer.cells]
    return _formatted(fields, form)


def invalid_line(form: Form) -> str:
    """Return the answer to a line without a valid query."""
    return _formatted({"status": "invalid"}, form)


def _formatted(fields: Mapping[str, Any], form: Form) -> str:
    if form == "json":
        return json.dumps(fields)
    cells = ";".join(f"{lat} {lon}" for lat, lon in fields.get("cells", ()))
    sink = io.StringIO()
    csv.writer(sink, lineterminator="").writerow(
        [({**fields, "cells": cells}).get(name, "") for name in _ANSWER_COLUMNS]
    )
    return sink.getvalue()
