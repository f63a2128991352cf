"""Exact conversion of the columns of a trace file: ids, numbers, times and orders of all column types.

Values are not rounded before they are compared: integers neither become floats nor overflow, and times have their
fractions until the rows are sorted. A value that cannot be read exactly is marked as bad, never replaced.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from sim.interfaces import BoolArray, FloatArray, IntArray

LATEST_S = 10**11  # the year 5138: larger numbers are taken to be milliseconds

_DIGITS = 15  # digits after the decimal point that a float in [0, 1) can distinguish
_DECIMAL: Any = pa.decimal128(36, _DIGITS)
_MOST_WHOLE = 2**62
_TICKS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY_S = 86_400


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """Numbers as whole part and fraction; all arrays have shape (n_rows,)."""

    whole: IntArray | FloatArray
    """Numbers rounded down."""
    rest: IntArray | FloatArray | None
    """Numbers that order rows with the same `whole`; None without fractions."""
    bad: BoolArray
    """Mask of rows without a finite number."""


@dataclass(frozen=True, slots=True, eq=False)
class Ids:
    """User ids as text."""

    texts: tuple[str, ...]
    """Distinct ids in order of first appearance."""
    codes: IntArray
    """Index into `texts` for each row, -1 for a missing id; shape (n_rows,)."""
    ambiguous: BoolArray
    """Mask of floats so large that different ids may have become the same number; shape (n_rows,)."""


def ids(column: Any) -> Ids:
    """Return the ids of an Arrow column as text; 12.0 becomes "12" if all numbers are whole.

    A number that is not finite is a missing id: data frames represent missing ids by NaN.

    >>> ids(pa.chunked_array([[12.0, None, 3.0, 12.0, math.nan]])).texts
    ('12', '3')
    """
    encoded: Any = _decoded(column).dictionary_encode().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no rows
        encoded = pa.array([], encoded.type)
    values: Any = encoded.dictionary
    indices = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    texts = np.array([*_id_texts(values), ""], dtype=object)
    codes, unique = pd.factorize(np.array([text or None for text in texts[:-1]], dtype=object))
    codes = np.append(codes, -1)
    large = np.zeros(texts.size, dtype=bool)
    if pa.types.is_floating(values.type):
        floats = values.to_numpy(zero_copy_only=False)
        large[:-1] = np.isfinite(floats) & (
            np.abs(floats.astype(np.float64)) >= 2.0 ** (np.finfo(floats.dtype).nmant + 1)
        )
    return Ids(tuple(map(str, unique)), codes[indices].astype(np.int64), large[indices])


def _id_texts(values: Any) -> list[str]:
    kind = values.type
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        numbers = values.to_pylist()
        known = [math.isfinite(number) for number in numbers]
        whole = all(number == int(number) for number, is_known in zip(numbers, known, strict=True) if is_known)
        # Whole floats originate from a column of integers with missing values.
        texts = (str(int(number) if whole else number) if ok else "" for number, ok in zip(numbers, known, strict=True))
        return list(texts)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return [value.decode("utf-8", "backslashreplace") for value in values.to_pylist()]
    return [str(value) for value in values.to_pylist()]


def numbers(column: Any) -> tuple[IntArray | FloatArray, BoolArray]:
    """Return the numbers of a column, integers unchanged, and a mask of the rows without a finite number."""
    column = _decoded(column)
    kind = column.type
    missing = _mask(column.is_null())
    if pa.types.is_integer(kind):
        return _filled(column), missing
    if pa.types.is_floating(kind):
        values = _filled(column).astype(np.float64)
        return values, missing | ~np.isfinite(values)
    if pa.types.is_decimal(kind):
        return _filled(column.cast(pa.float64())), missing
    if _is_text(kind):
        parsed = pd.to_numeric(column.to_pandas(), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
        return np.nan_to_num(parsed, nan=0.0, posinf=0.0, neginf=0.0), ~np.isfinite(parsed)
    return np.zeros(len(column)), np.ones(len(column), dtype=bool)


def points(column: Any) -> Points:
    """Return the numbers of a column, split into whole numbers and fractions.

    >>> points(pa.chunked_array([["0", "18446744073709551615"]])).whole.tolist()
    [0, 18446744073709551615]
    """
    column = _decoded(column)
    kind = column.type
    missing = _mask(column.is_null())
    if pa.types.is_integer(kind):
        return Points(_filled(column), None, missing)
    if pa.types.is_floating(kind):
        values = _filled(column).astype(np.float64)
        bad = missing | ~np.isfinite(values)
        values = np.where(bad, 0.0, values)
        return Points(np.floor(values), values, bad)
    if pa.types.is_decimal(kind):
        return _decimals(column.to_pylist())
    if _is_text(kind):
        return _text_points(column)
    return Points(np.zeros(len(column), dtype=np.int64), None, np.ones(len(column), dtype=bool))


def _text_points(column: Any) -> Points:
    """Read numbers from text: as integers if possible, else as decimals, else one by one."""
    trimmed: Any = pc.utf8_trim_whitespace(column)
    _, bad = numbers(trimmed)
    good: Any = pc.if_else(pa.chunked_array([~bad]), trimmed, "0") if bad.any() else trimmed
    for kind in (pa.int64(), pa.uint64()):
        try:
            return Points(_filled(good.cast(kind)), None, bad)
        except pa.ArrowInvalid:
            pass
    try:
        decimals = good.cast(_DECIMAL)
        whole: Any = pc.floor(decimals)
        rest: Any = pc.subtract(decimals, whole)
        return Points(_filled(whole.cast(pa.int64())), _filled(rest.cast(pa.float64())), bad)
    except pa.ArrowException:
        parsed = _decimals([_decimal(text) for text in good.to_pylist()])
        return Points(parsed.whole, parsed.rest, bad | parsed.bad)


def _decimal(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None


def _decimals(values: Sequence[Decimal | None]) -> Points:
    """Split decimals of any size; beyond 2**62, only their rank among all values distinguishes them."""
    bad = np.array([value is None or not value.is_finite() for value in values], dtype=bool)
    known = [Decimal(0) if value is None or wrong else value for value, wrong in zip(values, bad, strict=True)]
    ranks = {value: rank for rank, value in enumerate(sorted(set(known)))}
    whole = [_MOST_WHOLE if v > _MOST_WHOLE else -_MOST_WHOLE if v < -_MOST_WHOLE else math.floor(v) for v in known]
    return Points(np.array(whole, dtype=np.int64), np.array([ranks[value] for value in known], dtype=np.int64), bad)


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Times; all arrays have shape (n_rows,)."""

    seconds: IntArray
    """Unix seconds, rounded down."""
    rest: IntArray | FloatArray | None
    """Numbers that order rows with the same second; None without fractions."""
    bad: BoolArray
    """Mask of rows without a valid time."""
    too_large: BoolArray
    """Mask of the bad rows whose number is too large for seconds, such as milliseconds."""


def moments(column: Any) -> Moments:
    """Return the times of a column of seconds, timestamps, dates or ISO-8601 text; without a time zone, UTC is assumed.

    Text is read as numbers or as ISO-8601, whichever is valid for more rows.
    """
    column = _decoded(column)
    kind = column.type
    none = np.zeros(len(column), dtype=bool)
    if pa.types.is_timestamp(kind):
        ticks = _filled(column.cast(pa.int64()))
        return Moments(ticks // _TICKS[kind.unit], ticks % _TICKS[kind.unit], _mask(column.is_null()), none)
    if pa.types.is_date(kind):
        days = _filled(column.cast(pa.date32()).cast(pa.int32())).astype(np.int64)
        return Moments(days * _DAY_S, None, _mask(column.is_null()), none)
    parsed = points(column)
    with np.errstate(invalid="ignore"):
        too_large = ~parsed.bad & ((parsed.whole > LATEST_S) | (parsed.whole < -LATEST_S))
    bad = parsed.bad | too_large
    if bad.any() and _is_text(kind):
        stamps = _stamps(column)
        if stamps.bad.sum() < bad.sum():
            return Moments(stamps.seconds, stamps.rest, stamps.bad, too_large & stamps.bad)
    return Moments(np.where(bad, 0, parsed.whole).astype(np.int64), parsed.rest, bad, too_large)


def _stamps(column: Any) -> Moments:
    """Read ISO-8601 text."""
    stamps = pd.to_datetime(column.to_pandas(), utc=True, errors="coerce", format="ISO8601")
    bad = stamps.isna().to_numpy(dtype=bool)
    stamps = stamps.fillna(pd.Timestamp(0, tz="UTC")).dt.tz_localize(None)
    exact = stamps.to_numpy()
    ticks = exact.astype(np.int64)
    per_s = _TICKS[np.datetime_data(exact.dtype)[0]]
    return Moments(ticks // per_s, ticks % per_s, bad, np.zeros(bad.size, dtype=bool))


def _decoded(column: Any) -> Any:
    """Return the column without dictionary encoding."""
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _mask(column: Any) -> BoolArray:
    return np.asarray(column.to_numpy(), dtype=bool)


def _filled(column: Any) -> Any:
    """Return the numbers as a NumPy array of the same type, with 0 for missing values."""
    return (column.fill_null(0) if column.null_count else column).to_numpy()
