"""Rows of a trace file in batches, in constant memory; invalid rows are counted instead of rejected."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from sim.errors import InputError, InvalidValue, code_of
from sim.interfaces import BoolArray, FloatArray, IntArray
from sim.mobility.recorded import exact, tracks
from sim.mobility.recorded.columns import MissingColumns, find_columns
from sim.mobility.recorded.importable import column_options
from sim.mobility.recorded.tables import UNREADABLE, default_code, header_of, is_parquet, reason_of

_ROWS = 1 << 17
_BLOCK_BYTES = 2 << 20
_ARROW_SUFFIXES = {".gz", ".bz2"}
_OTHER_SUFFIXES = {".xz", ".zip", ".zst", ".tar"}
_LIMITS = {"lat": 90.0, "lon": 180.0}


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Valid rows in the order of the file; all arrays have shape (n_rows,)."""

    user: IntArray
    """Number of the user, in order of first appearance in the file."""
    when: FloatArray
    """Unix seconds if the file has times, else numbers that order the rows of a user."""
    lat: FloatArray
    """NaN if the file has cells only."""
    lon: FloatArray
    invalid: int
    """Number of rows of the batch without a user, a time or a position on Earth; they are not among the others."""


class TraceReader:
    """Reader of the rows of one file, once. `users` grows while the batches are read."""

    def __init__(self, path: Path, columns: Mapping[str, str] | None = None) -> None:
        """Find the columns; `columns` maps our names to those of the file, others are recognised automatically."""
        if path.is_dir():
            raise InputError(f"{path} is a folder: name a trace file", code="is-a-folder")
        if not path.is_file():
            raise InputError(f"{path} does not exist: name a trace file", code="file-not-found")
        self.path = path
        self.users: dict[str, int] = {}
        """Number of each user, in order of first appearance."""
        self.skipped = 0
        """Number of lines with another number of fields than the header."""
        with _readable(path):
            self._track = tracks.read_columns(path) if tracks.is_track(path) else None
            self.separator, header = self._header()
            self.named = find_columns(header, dict(columns or {}), degrees=True)

    @property
    def timed(self) -> bool:
        """Whether the file has times."""
        return "time" in self.named

    @property
    def has_degrees(self) -> bool:
        """Whether the file has latitudes and longitudes."""
        return "lat" in self.named

    def batches(self) -> Iterator[Batch]:
        """Yield the rows."""
        with _readable(self.path):
            for table in self._tables():
                yield self._batch(table)

    def _header(self) -> tuple[str, list[str]]:
        if self._track is not None:
            return "", list(self._track)
        return ("", pq.read_schema(self.path).names) if is_parquet(self.path) else header_of(self.path)

    def _tables(self) -> Iterator[Mapping[str, Any]]:
        names = list(dict.fromkeys(self.named.values()))
        if self._track is not None:
            yield self._track
        elif is_parquet(self.path):
            with pq.ParquetFile(self.path) as file:
                for batch in file.iter_batches(_ROWS, columns=names):
                    yield {name: pa.chunked_array([batch[name]]) for name in names}
        elif self.path.suffix.lower() in _OTHER_SUFFIXES:
            yield from self._decompressed(names)
        else:
            yield from self._text(names)

    def _text(self, names: list[str]) -> Iterator[Mapping[str, Any]]:
        reader = pyarrow.csv.open_csv(
            self.path,
            read_options=pyarrow.csv.ReadOptions(block_size=_BLOCK_BYTES),
            parse_options=pyarrow.csv.ParseOptions(delimiter=self.separator, invalid_row_handler=self._skip),
            convert_options=pyarrow.csv.ConvertOptions(
                include_columns=names, column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
            ),
        )
        with reader:
            for batch in reader:
                yield {name: pa.chunked_array([batch[name]]) for name in names}

    def _skip(self, _row: Any) -> Literal["skip"]:
        self.skipped += 1
        return "skip"

    def _decompressed(self, names: list[str]) -> Iterator[Mapping[str, Any]]:
        """Read text in a compression that only pandas supports."""
        options: dict[str, Any] = {"usecols": names, "dtype": str, "keep_default_na": False, "encoding": "utf-8-sig"}
        with pd.read_csv(self.path, sep=self.separator, chunksize=_ROWS, **options) as chunks:
            for chunk in chunks:
                yield {name: pa.chunked_array([pa.array(chunk[name], pa.string())]) for name in names}

    def _batch(self, table: Mapping[str, Any]) -> Batch:
        ids = exact.ids(table[self.named["user"]])
        numbers = np.array([self.users.setdefault(text, len(self.users)) for text in ids.texts] + [-1], dtype=np.int64)
        user = numbers[ids.codes]
        when, invalid = _seconds(table[self.named["time"]]) if self.timed else _floats(table[self.named["order"]])
        invalid = invalid | (user < 0)
        position = {name: np.full(user.size, np.nan) for name in _LIMITS}
        for name, limit in _LIMITS.items() if self.has_degrees else ():
            position[name], wrong = _floats(table[self.named[name]])
            invalid = invalid | wrong | (np.abs(position[name]) > limit)
        valid = ~invalid
        return Batch(user[valid], when[valid], position["lat"][valid], position["lon"][valid], int(invalid.sum()))


def _seconds(column: Any) -> tuple[FloatArray, BoolArray]:
    """Return Unix seconds and a mask of the rows without a valid time."""
    if pa.types.is_string(column.type):
        for kind in (pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("us")):
            try:
                column = column.cast(kind)
                break
            except pa.ArrowInvalid:
                continue
    moments = exact.moments(column)
    seconds = moments.seconds.astype(np.float64)
    if moments.rest is not None:
        rest = np.asarray(moments.rest, dtype=np.float64)
        ticks = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}
        seconds += rest / ticks[column.type.unit] if pa.types.is_timestamp(column.type) else rest % 1
    return seconds, moments.bad


def _floats(column: Any) -> tuple[FloatArray, BoolArray]:
    """Return numbers and a mask of the rows without a finite number."""
    if pa.types.is_string(column.type):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid:
            column = pc.utf8_trim_whitespace(column)
    numbers, bad = exact.numbers(column)
    return np.asarray(numbers, dtype=np.float64), bad


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Convert errors of libraries to an InputError with the name of the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except MissingColumns as error:
        named = column_options(error.guesses)
        remedy = (
            f"; name them with `{shlex.join(['lppm-sim', 'data', 'describe', str(path)])} {named}`" if named else ""
        )
        raise InputError(f"{path}: {error.problem}{remedy}", code=error.code) from error
    except UNREADABLE as error:
        message = str(error) if isinstance(error, InvalidValue) else reason_of(error)
        raise InputError(f"{path}: {message}", code=code_of(error, default_code(error))) from error
