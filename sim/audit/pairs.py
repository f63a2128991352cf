"""Pairs of true and sent positions: reading of files and matching of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from sim.audit.displacement import Sample
from sim.audit.input_warnings import input_warnings, unmatched_warning
from sim.audit.matching import Matching
from sim.audit.time_shift import fractions_s, time_shift_s, time_shift_warning
from sim.errors import InputError, InvalidValue, input_errors
from sim.interfaces import BoolArray, FloatArray
from sim.mobility.recorded.positions import SENT, Positions, has_both, read_positions
from sim.mobility.recorded.tables import numeric_order

FEWEST_PAIRS = 30

Match = Literal["time", "row"]


@dataclass(frozen=True)
class Pairs:
    """Matched rows."""

    sample: Sample
    users: tuple[str, ...]
    timed: bool
    matching: Matching
    warnings: tuple[str, ...] = ()
    """Signs of shifted times or wrong rows."""
    time_shift_s: float = 0.0
    """Seconds by which the times of SENT seem to be late; 0 if they agree."""


def read_pairs(
    true: str | Path,
    sent: str | Path | None = None,
    *,
    match: Match = "time",
    columns: Mapping[str, str] | None = None,
    columns_true: Mapping[str, str] | None = None,
    columns_sent: Mapping[str, str] | None = None,
) -> Pairs:
    """Read and match the rows of two files, or of one file with `sent_lat` and `sent_lon`.

    `columns` maps names to those of both files, `columns_true` and `columns_sent` to those of one of two files. With
    `match` "time" rows are paired by user and time (or order), with "row" by their number in the file.
    """
    with input_errors("cannot read the pairs"):
        for path in (true,) if sent is None else (true, sent):
            _require_file(Path(path))
        if sent is None:
            return _of_one_file(Path(true), {**(columns or {}), **(columns_true or {})}, columns_sent or {})
        first = _positions(true, columns, columns_true, "--columns-true")
        second = _positions(sent, columns, columns_sent, "--columns-sent", missing=True)
    if match == "row":
        return _checked(_by_row(first, second), first)
    if first.timed != second.timed:
        names = ("time" if one.timed else "order" for one in (first, second))
        raise InputError(
            f"TRUE has a column of kind {next(names)}, SENT of kind {next(names)}: give both the same, or use "
            "--match row",
            code="times-differ",
        )
    return _checked(_by_time(first, second), first, shift_s=time_shift_s(first, second))


def _positions(
    path: str | Path,
    columns: Mapping[str, str] | None,
    own: Mapping[str, str] | None,
    option: str,
    *,
    missing: bool = False,
) -> Positions:
    """Read one of two files; an error about columns that come from `columns` states the option for this file."""
    try:
        return read_positions(path, columns={**(columns or {}), **(own or {})}, missing=missing)
    except InvalidValue as error:
        if error.code != "no-such-column":
            raise
        raise InvalidValue(
            f"{error}; --columns holds for both files, {option} NAME=COLUMN for this one", code=error.code
        ) from error


def _require_file(path: Path) -> None:
    """Raise InputError if a file to read does not exist or is a folder."""
    if path.is_dir():
        raise InputError(f"{path} is a folder, expected a file with positions", code="is-a-folder")
    if not path.exists():
        raise InputError(f"no file {path}: check the name", code="file-not-found")


def _of_one_file(path: Path, columns: dict[str, str], columns_sent: Mapping[str, str]) -> Pairs:
    if columns_sent:
        raise InputError(
            "--columns-sent: found one file, expected TRUE and SENT; name the columns of one file with --columns "
            "sent_lat=NAME --columns sent_lon=NAME",
            code="no-sent-positions",
        )
    if not has_both(path) and not set(SENT) <= set(columns):
        raise InputError(
            f"{path} has no columns sent_lat and sent_lon: give a second file with the sent positions, or name the "
            "columns with --columns sent_lat=NAME --columns sent_lon=NAME",
            code="no-sent-positions",
        )
    names = {name: columns.pop(name, name) for name in SENT}
    first = read_positions(path, columns=columns)
    second = read_positions(path, columns=columns | {"lat": names["sent_lat"], "lon": names["sent_lon"]}, missing=True)
    return _checked(_by_row(first, second), first)


def _by_row(first: Positions, second: Positions) -> tuple[Sample, Matching]:
    """Pair rows by their number, which must be the same in both."""
    count = first.lat.size
    if second.lat.size != count:
        raise InputError(
            f"--match row: TRUE has {count:,} rows and SENT {second.lat.size:,}, expected the same number; leave the "
            "sent position empty where nothing was sent, or match by time",
            code="pairs-do-not-match",
        )
    names = (
        np.array(first.users, dtype=object)[first.user],
        np.array(second.users, dtype=object)[second.user],
    )
    if wrong := int((names[0] != names[1]).sum()):
        row = int(np.flatnonzero(names[0] != names[1])[0])
        raise InputError(
            f"--match row: {wrong:,} rows have different users in both files, first row {row + 1}: "
            f"{names[0][row]!r} and {names[1][row]!r}",
            code="pairs-do-not-match",
        )
    known = int(np.isfinite(second.lat).sum())
    return _sorted(first, second.lat, second.lon), Matching(count, count, known, count - known, 0, 0)


def _by_time(first: Positions, second: Positions) -> tuple[Sample, Matching]:
    """Pair rows by user and exact time; repeated times in their order."""
    tables = [_keys(one) for one in (first, second)]
    repeated = sum(int((table["occurrence"] > 0).sum()) for table in tables)
    sent = tables[1].assign(lat=second.lat, lon=second.lon, matched=True)
    keys = ["user", "when", "rest", "occurrence"]
    joined = tables[0].merge(sent, on=keys, how="left", sort=False, validate="one_to_one")
    known = joined["matched"].eq(True).to_numpy()
    lat, lon = joined["lat"].to_numpy(float), joined["lon"].to_numpy(float)
    pairs = int((known & np.isfinite(lat)).sum())
    counts = Matching(
        len(tables[0]), len(tables[1]), pairs, len(joined) - pairs, len(tables[1]) - int(known.sum()), repeated
    )
    if pairs == 0:
        raise InputError(_no_match(first, second), code="pairs-do-not-match")
    return _sorted(first, lat, lon), counts


def _keys(positions: Positions) -> pd.DataFrame:
    names = np.array(positions.users, dtype=object)[positions.user]
    table = pd.DataFrame({"user": names, "when": positions.when, "rest": np.asarray(positions.rest, dtype=float)})
    return table.assign(occurrence=table.groupby(["user", "when", "rest"], sort=False).cumcount())


def _no_match(first: Positions, second: Positions) -> str:
    common = set(first.users) & set(second.users)
    if not common:
        return (
            f"no user is in both files: TRUE has {_shown(first.users)}, SENT has {_shown(second.users)}; use the same "
            "ids, or --match row"
        )
    spans = [f"{one.when.min()} to {one.when.max()}" for one in (first, second)]
    kind = "times" if first.timed else "orders"
    return (
        f"no row of TRUE and SENT has the same user and {kind[:-1]}: {kind} are {spans[0]} in TRUE and {spans[1]} in "
        f"SENT{_delay(first, second)}; write the time of the true position to both files, or use --match row"
    )


def _delay(first: Positions, second: Positions) -> str:
    """Return the usual difference of a sent time from the nearest true time."""
    if not first.timed:
        return ""
    true = np.sort(first.when)
    after = np.searchsorted(true, second.when).clip(1, max(true.size - 1, 1)).clip(max=true.size - 1)
    before = np.maximum(after - 1, 0)
    choices = np.array([second.when - true[before], second.when - true[after]])
    nearest = choices[np.abs(choices).argmin(axis=0), np.arange(second.when.size)]
    return f", usually {float(np.median(nearest)):+g} s from the nearest true time"


def _shown(users: tuple[str, ...]) -> str:
    return ", ".join(users[:3]) + (f" and {len(users) - 3:,} more" if len(users) > 3 else "")


def _sorted(first: Positions, lat: FloatArray, lon: FloatArray) -> Sample:
    """Return the rows sorted by user, in numeric order if possible, and time."""
    ranked = numeric_order(list(first.users))
    rank = np.empty(len(ranked), dtype=np.int64)
    rank[ranked] = np.arange(len(ranked))
    user, time_s = rank[first.user], np.asarray(first.when, dtype=np.float64)
    fraction = np.asarray(first.rest, dtype=np.float64)
    order = np.lexsort((fraction, time_s, user))
    if first.timed:
        time_s = time_s + fractions_s(fraction, time_s)
    return Sample(user[order], time_s[order], first.lat[order], first.lon[order], lat[order], lon[order])


def _checked(matched: tuple[Sample, Matching], first: Positions, *, shift_s: float = 0.0) -> Pairs:
    """Return the pairs; raise InputError for too few of them, or for exchanged coordinates."""
    sample, matching = matched
    if matching.pairs < FEWEST_PAIRS:
        raise InputError(
            f"{matching.pairs:,} of {matching.true_rows:,} true rows have a sent position, at least {FEWEST_PAIRS} are "
            "needed to identify a mechanism",
            code="too-few-pairs",
        )
    if _exchanged(sample, sample.sent):
        raise InputError(
            "the sent positions are near the true ones only with lat and lon exchanged: correct the columns",
            code="columns-exchanged",
        )
    users = tuple(first.users[number] for number in numeric_order(list(first.users)))
    differ = time_shift_warning(shift_s) if shift_s else unmatched_warning(matching)
    warnings = (*([differ] if differ else ()), *input_warnings(sample))
    return Pairs(sample, users, first.timed, matching, warnings, shift_s)


def _exchanged(sample: Sample, sent: BoolArray) -> bool:
    kept = sample.rows(sent)
    exchanged = replace(kept, sent_lat=kept.sent_lon, sent_lon=kept.sent_lat)
    near, far = float(np.median(exchanged.distance_m)), float(np.median(kept.distance_m))
    return far > 100_000 and near < far / 20
