"""Numbers that describe a trace file of any size, from one pass in constant memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from sim.datasets.importing import Box
from sim.datasets.survey.batches import Batch, TraceReader
from sim.datasets.survey.busy_region import Suggestion, suggest
from sim.datasets.survey.row_sample import RowSample
from sim.datasets.survey.user_shares import UserShares, user_shares
from sim.interfaces import FloatArray, IntArray
from sim.mobility.gaps import MAX_GAP_S
from sim.mobility.recorded.stay_points import distances_m
from sim.world.locations import Locations

SAMPLE = 300_000
"""Number of rows in the random sample from which quantiles, frequent points and the region are computed."""
GAP_SHARES = (0.05, 0.5, 0.95, 0.99)
"""Probabilities of the quantiles of gaps."""
MOST_USERS = 3
_IRREGULAR = ("backward", "same_time", "repeated")


@dataclass(frozen=True, slots=True)
class Irregular:
    """Rows of one kind of irregularity."""

    rows: int
    users: int
    most: tuple[tuple[str, int], ...]
    """The users with most of these rows, and their numbers of rows."""


@dataclass(frozen=True, slots=True)
class FrequentPoint:
    """The most frequent position of a file."""

    lat: float
    lon: float
    share: float
    """Share of the rows at exactly this position."""
    users: int
    """Number of users, of the sample, with rows there."""


@dataclass(frozen=True, slots=True, eq=False)
class Survey:
    """Content of a trace file."""

    rows: int
    invalid: int
    """Number of further rows without a user, a time or a position on Earth."""
    users: int
    timed: bool
    span_s: tuple[float, float] | None
    """First and last time in Unix seconds; None without times."""
    extent: Box | None
    """Bounding box of all rows; None without latitudes and longitudes."""
    sampled: int | None
    """Number of rows in the random sample; None if all rows were used."""
    gaps_s: tuple[tuple[float, float], ...]
    """Quantiles of the time between consecutive rows of a user in s: probability and value; empty without times."""
    longest_gap_s: float
    long_gaps: int
    """Number of gaps longer than `max_gap_s`."""
    max_gap_s: float
    irregular: Mapping[str, Irregular]
    """Rows that go back in time, and rows at the same time as the previous row of the user, elsewhere or repeated."""
    frequent: FrequentPoint | None
    zeros: int
    """Number of rows at latitude 0 and longitude 0."""
    cells: IntArray | None
    """Number of rows in each cell of the grid; None without a grid or positions."""
    kept: UserShares | None
    """Shares of the rows of each user in the grid; None without a grid or positions."""
    suggestion: Suggestion | None

    @property
    def sessions(self) -> int:
        """Number of sessions; reliable only if the rows are in order of time."""
        return self.users + self.long_gaps


def survey(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    locations: Locations | None = None,
    max_gap_s: float = MAX_GAP_S,
    sample: int = SAMPLE,
) -> Survey:
    """Read a trace file once and describe it.

    `columns` maps our names of columns to those of the file. Consecutive rows are those of a user in the order of the
    file, which may be descending. Rows are counted in the cells of `grid`, if one is given.
    """
    reader = TraceReader(path, columns)
    tally = _Tally(reader, locations, max_gap_s, sample)
    for batch in reader.batches():
        tally.add(batch)
    return tally.result()


class _Tally:
    """Counts over the batches of a file."""

    def __init__(self, reader: TraceReader, locations: Locations | None, max_gap_s: float, sample: int) -> None:
        self._reader, self._grid, self._max_gap_s = reader, locations, max_gap_s
        self._sample = RowSample(columns=5, size=sample)
        self._rows = self._invalid = self._zeros = self._long_gaps = 0
        self._longest_gap_s = 0.0
        self._low, self._high = np.full(3, np.inf), np.full(3, -np.inf)
        self._last = np.zeros((0, 3))  # time and position of the last row of each user, NaN before the first
        self._per_user = np.zeros((0, 4), dtype=np.int64)  # rows later, earlier, at the same time elsewhere, repeated
        self._inside = np.zeros((0, 2), dtype=np.int64)  # rows in the grid and in total
        self._cells = None if locations is None else np.zeros(locations.n_cells, dtype=np.int64)

    def add(self, batch: Batch) -> None:
        self._invalid += batch.invalid
        self._rows += batch.user.size
        if not batch.user.size:
            return
        place = np.stack([batch.when, batch.lat, batch.lon])
        self._low, self._high = np.minimum(self._low, place.min(axis=1)), np.maximum(self._high, place.max(axis=1))
        self._zeros += int(((batch.lat == 0) & (batch.lon == 0)).sum())
        step_s, step_m = self._steps(batch, place.T)
        self._sample.add(np.stack([batch.user, batch.lat, batch.lon, step_s, step_m], axis=1))
        if self._cells is not None and self._grid is not None and self._reader.has_degrees:
            cells = self._grid.cell_of(batch.lat, batch.lon)
            self._cells += np.bincount(cells[cells >= 0], minlength=self._cells.size)
            for column, users in enumerate((batch.user[cells >= 0], batch.user)):
                self._inside[:, column] += np.bincount(users, minlength=len(self._inside))

    def _steps(self, batch: Batch, place: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return time and distance from the previous row of the user, NaN for the first row; count irregular rows."""
        self._grow(len(self._reader.users))
        order = np.argsort(batch.user, kind="stable")
        user, place = batch.user[order], place[order]
        starts = np.diff(user, prepend=-1) != 0
        before = np.concatenate([place[:1], place[:-1]])
        before[starts] = self._last[user[starts]]
        ends = np.append(starts[1:], True)
        self._last[user[ends]] = place[ends]
        step_s = place[:, 0] - before[:, 0]
        step_m = distances_m(before[:, 1], before[:, 2], place[:, 1], place[:, 2])
        same = (step_s == 0) & ((step_m == 0) | np.isnan(step_m))
        for column, mask in enumerate((step_s > 0, step_s < 0, (step_s == 0) & ~same, same)):
            self._per_user[:, column] += np.bincount(user[mask], minlength=len(self._per_user))
        gaps_s = np.abs(step_s)
        self._long_gaps += int((gaps_s > self._max_gap_s).sum())
        self._longest_gap_s = max(self._longest_gap_s, float(np.nanmax(gaps_s, initial=0.0)))
        result = np.empty((2, order.size))
        result[:, order] = gaps_s, step_m
        return result[0], result[1]

    def _grow(self, users: int) -> None:
        more = users - len(self._last)
        if more > 0:
            more = max(more, len(self._last))  # doubling keeps the total cost linear
            self._last = np.concatenate([self._last, np.full((more, 3), np.nan)])
            self._per_user = np.concatenate([self._per_user, np.zeros((more, 4), dtype=np.int64)])
            self._inside = np.concatenate([self._inside, np.zeros((more, 2), dtype=np.int64)])

    def result(self) -> Survey:
        timed, degrees = self._reader.timed, self._reader.has_degrees
        user, lat, lon, step_s, step_m = self._sample.rows().T
        names = list(self._reader.users)
        known_s = step_s[~np.isnan(step_s)]
        (first, south, west), (last, north, east) = self._low, self._high
        return Survey(
            rows=self._rows,
            invalid=self._invalid + self._reader.skipped,
            users=len(self._reader.users),
            timed=timed,
            span_s=(float(first), float(last)) if timed and self._rows else None,
            extent=(float(south), float(north), float(west), float(east)) if degrees and self._rows else None,
            sampled=None if self._sample.is_complete else int(user.size),
            gaps_s=tuple((share, float(np.quantile(known_s, share, method="lower"))) for share in GAP_SHARES)
            if timed and known_s.size
            else (),
            longest_gap_s=self._longest_gap_s if timed else 0.0,
            long_gaps=self._long_gaps if timed else 0,
            max_gap_s=self._max_gap_s,
            irregular=self._irregular() if timed else {},
            frequent=_most_frequent(user, lat, lon) if degrees and user.size else None,
            zeros=self._zeros,
            cells=self._cells if degrees else None,
            kept=user_shares(self._inside[:, 0], self._inside[:, 1], names)
            if degrees and self._cells is not None
            else None,
            suggestion=suggest(user.astype(np.int64), lat, lon, step_m[~np.isnan(step_m)], names)
            if degrees and user.size
            else None,
        )

    def _irregular(self) -> dict[str, Irregular]:
        """Return the irregular rows; users whose rows never go forward are in descending order, which is regular."""
        later, *counts = self._per_user.T
        counts[0] = np.where(later > 0, counts[0], 0)
        names = list(self._reader.users)
        result = {}
        for kind, rows in zip(_IRREGULAR, counts, strict=True):
            most = np.argsort(-rows, kind="stable")[:MOST_USERS]
            named = tuple((names[user], int(rows[user])) for user in most if rows[user])
            result[kind] = Irregular(int(rows.sum()), int((rows > 0).sum()), named)
        return result


def _most_frequent(user: FloatArray, lat: FloatArray, lon: FloatArray) -> FrequentPoint:
    points = pd.DataFrame({"lat": lat, "lon": lon})
    numbers = points.groupby(["lat", "lon"], sort=False).ngroup().to_numpy()
    counts = np.bincount(numbers)
    most = int(np.argmax(counts))
    rows = numbers == most
    at = int(np.argmax(rows))
    share = float(counts[most] / numbers.size)
    return FrequentPoint(float(lat[at]), float(lon[at]), share, int(np.unique(user[rows]).size))
