"""Replay recorded traces from a CSV or Parquet file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.components.spec import Count, Spec
from sim.events import Visit
from sim.interfaces import BoolArray, Generator, IntArray
from sim.mobility.gaps import MAX_GAP_S
from sim.mobility.intervals import require
from sim.mobility.parameters import MobilityParameters
from sim.mobility.recorded.days import good_days, slots
from sim.mobility.recorded.tables import Table, numeric_order, read_table
from sim.mobility.traces import DAY_S, Trace
from sim.world import World

if TYPE_CHECKING:
    from sim.world.grid import Grid


class Selection(Spec):
    """Which users of a trace file: each filter narrows what the ones before it left."""

    users: list[str] | None = None
    """These ids only."""
    min_visits: Count | None = None
    """Least number of visits in the region."""
    first: Count | None = None
    """Number of users to take from the start (in numeric order of id, else in file order)."""
    last: Count | None = None
    """Number of users to take from the end of those."""
    exclude: Selection | None = None
    """Without those that this selection picks from all users of the file."""

    def __str__(self) -> str:
        given = {name: value for name, value in self if value is not None}
        return ", ".join(f"{name}: {value}" for name, value in given.items())

    def choose(self, counts: Mapping[str, int]) -> list[str]:
        """Return the chosen ones of these users, given how many visits each has, in the same order.

        >>> Selection(min_visits=2, last=1).choose({"ann": 5, "bob": 1, "eve": 2})
        ['eve']
        """
        chosen = list(counts)
        if self.users is not None:
            if unknown := [user for user in self.users if user not in counts]:
                raise ValueError(f"users must have visits in the region, got {', '.join(unknown)} without any")
            chosen = [user for user in chosen if user in set(self.users)]
        if self.min_visits is not None:
            chosen = [user for user in chosen if counts[user] >= self.min_visits]
        chosen = chosen[: self.first]
        if self.last is not None:
            chosen = chosen[-self.last :]
        gone = set(self.exclude.choose(counts)) if self.exclude else set()
        return [user for user in chosen if user not in gone]


class Columns(Spec):
    """How the columns of a trace file are called, where their names cannot be guessed."""

    user: str | None = None
    """Who."""
    time: str | None = None
    """When: seconds, or ISO-8601 text."""
    order: str | None = None
    """In which order, where there is no time."""
    lat: str | None = None
    """Latitude in degrees."""
    lon: str | None = None
    """Longitude in degrees."""
    cell: str | None = None
    """The cell, instead of lat and lon."""

    def names(self) -> dict[str, str] | None:
        """Return the columns that are named, by what they hold; None if none is."""
        return {name: column for name, column in self if column is not None} or None


class RecordedDays(Spec):
    """Whole days of a trace file: those that are seen well enough, each with one visit in every slot."""

    longest_silence_h: Annotated[float, Field(gt=0, le=24)] = 2.0
    """Days with a longer silence in the region are left out."""
    first: Count | None = None
    """Number of first days of each user; users with fewer are left out."""
    slot_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    """Length of a slot in seconds: where she was last seen before its end is where she is in it."""

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value:g}" for name, value in self if value is not None)

    def cut(self, times_s: IntArray, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return when the slots of these days begin and where the user is in them; local times in and out."""
        days = good_days(times_s, longest_silence_s=round(self.longest_silence_h * 3600))
        if self.first is not None:
            days = days[: self.first] if days.size >= self.first else days[:0]
        begins_s = days[:, None] * DAY_S + np.arange(0, DAY_S, self.slot_s)
        return begins_s.ravel(), slots(times_s, cells, days, slot_s=self.slot_s).ravel()

    def carried(self, times_s: IntArray, begins_s: IntArray) -> int:
        """Return how many of these slots hold no point of their own."""
        found = np.searchsorted(times_s, begins_s), np.searchsorted(times_s, begins_s + self.slot_s)
        return int((found[0] == found[1]).sum())


@component("mobility")
class ReplayParameters(MobilityParameters):
    """Recorded traces from a CSV or Parquet file: user, time or order, and lat and lon or a cell."""

    recorded: ClassVar[bool] = True

    kind: Literal["replay"] = "replay"
    file: FileName
    """CSV (compressed or not) or Parquet."""
    columns: Columns = Columns()
    """How its columns are called, where their names cannot be guessed."""
    select: Selection = Selection()
    """Which of its users; by default all."""
    days: RecordedDays | None = None
    """Only whole days of the file, cut into slots; the selection is then among those who have such days."""
    visits: Count | None = None
    """Number of first visits of each user; by default all."""
    shuffle: bool = False
    """Shuffle the cells of each trace anew in every replication, as the paper's Experiment SP does."""
    utc_offset_h: Annotated[float, Field(ge=-14, le=14)] = 0.0
    """Local time, for where a day begins."""
    max_gap_s: Annotated[int, Field(ge=1, le=100_000_000_000)] = MAX_GAP_S
    """Longest gap between visits, in seconds, that a position is carried over; no demand queries in a longer one."""

    def build(self, world: World, seed: int, place: Place) -> Replay:  # noqa: ARG002
        """Read the file and return the model."""
        return Replay(self, grid=world.grid, file=place.locate(self.file))


class Replay:
    """Replay the visits of a CSV or Parquet file.

    The file needs a user, a time (seconds, or ISO-8601 text) or an order, and lat and lon or a cell; see
    `columns.ACCEPTED` for the names, or give `columns` (ours to the file's). Rows outside the region are left out and
    counted in `report`. `time_s` is the file's own time in seconds (Unix time for ISO-8601 text) plus `utc_offset_h`
    (in [-24, 24]) hours, so that multiples of 86400 are local midnights; with an order alone it is the position 0, 1,
    2... among the user's visits. Users come in numeric order if all ids are integers, else as they first appear.
    `days` keeps whole days, with a visit at the beginning of each slot. `select` picks users among those who then have
    visits; `visits` (in [1, inf)) keeps the first so many of each; `shuffle` deals the user's cells anew
    over her times, so that only her profile stays. Rows are sorted by their exact times, which are then rounded down
    to seconds; ties stay in the order of the file. Between visits that are more than `max_gap_s` (in [1, inf)) apart
    nobody knows where the user is: demands that query between visits skip the gap (see `live`).
    """

    finite: ClassVar[bool] = True
    """Tell `live` that the visits end by themselves."""

    def __init__(self, parameters: ReplayParameters, *, grid: Grid, file: Path) -> None:
        self.file, self.shuffle = file, parameters.shuffle
        days, select, visits = parameters.days, parameters.select, parameters.visits
        table = read_table(file, grid=grid, columns=parameters.columns.names())
        self.timed = table.timed
        self.max_gap_s = parameters.max_gap_s if table.timed else None
        everybody = _by_user(table)
        if not everybody:
            raise ValueError(f"{file}: none of its {table.cell.size} rows is in the region{table.extent}")
        in_region = len(everybody)
        offset_s = round(parameters.utc_offset_h * 3600) if table.timed else 0
        points = {user: (when + offset_s, cells) for user, (when, cells) in everybody.items()}
        everybody = points if days is None else _whole_days(file, points, days, timed=table.timed)
        counts = {user: cells.size for user, (_, cells) in everybody.items()}
        chosen = select.choose(counts)
        if not chosen:
            raise ValueError(f"{file}: the selection ({select}) leaves none of its {len(counts)} users")
        self._visits = {user: (everybody[user][0][:visits], everybody[user][1][:visits]) for user in chosen}
        self._report = {
            "rows": int(table.cell.size),
            "rows_outside": int((table.cell < 0).sum()),
            "users_in_region": in_region,
            "users": len(chosen),
            "visits": sum(cells.size for _, cells in self._visits.values()),
        }
        if table.timed:
            self._report |= _irregular(table, set(chosen))
        if days is not None:
            carried = (days.carried(points[user][0], times_s) for user, (times_s, _) in self._visits.items())
            self._report["visits_carried"] = sum(carried)

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` users, or of all."""
        if count is not None:
            require("count", count, 1, len(self._visits))
        return tuple(self._visits)[:count]

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield the user's visits as recorded; `rng` is used only to shuffle."""
        if user not in self._visits:
            raise ValueError(f"{self.file}: no user {user} among the {len(self._visits)} kept")
        times_s, cells = self._visits[user]
        if self.shuffle:
            cells = rng.permutation(cells)
        return starmap(Visit, zip(times_s.tolist(), cells.tolist(), strict=True))

    def times_s(self, user: str) -> IntArray:
        """Return the times of the user's visits, in order."""
        return self._visits[user][0]

    def report(self) -> dict[str, int]:
        """Return how much of the file was kept, for the manifest."""
        return dict(self._report)


def write_csv(path: str | Path, traces: Iterable[Trace], grid: Grid) -> None:
    """Write traces as user,time_s,cell and, if the grid has a region, lat,lon of the cells' centres.

    The same traces give the same bytes, compressed or not.
    """
    frames = [pd.DataFrame({"user": t.user, "time_s": t.times_s, "cell": t.cells}) for t in traces]
    empty = pd.DataFrame({"user": [], "time_s": [], "cell": []})
    table = pd.concat(frames, ignore_index=True) if frames else empty
    if grid.south is not None:
        cells = table["cell"].to_numpy(dtype=np.int64)
        lat, lon = grid.to_degrees(grid.x_km[cells], grid.y_km[cells])
        table["lat"], table["lon"] = lat.round(6), lon.round(6)
    compression: Any = {"method": "gzip", "mtime": 0} if Path(path).suffix == ".gz" else None
    table.to_csv(path, index=False, lineterminator="\n", compression=compression)


def _by_user(table: Table) -> dict[str, tuple[IntArray, IntArray]]:
    """Return when and where each user was inside the region, in order; without times, `when` is a position."""
    ordered = numeric_order(table.users)
    rank = np.argsort(ordered)
    user, when, cell = rank[table.user], table.when, table.cell
    order = table.order(user)
    order = order[cell[order] >= 0]
    starts = np.searchsorted(user[order], np.arange(len(table.users) + 1))
    found: dict[str, tuple[IntArray, IntArray]] = {}
    for number, code in enumerate(ordered):
        rows = order[starts[number] : starts[number + 1]]
        if rows.size:
            times = when[rows].astype(np.int64) if table.timed else np.arange(rows.size)
            found[table.users[code]] = (times, cell[rows])
    return found


def _irregular(table: Table, users: set[str]) -> dict[str, int]:
    """Count what is odd about these users' times, among the rows in the region in the order of the file.

    A time that decreases between consecutive rows of a user counts, unless the user's times never increase: files that
    begin with the newest row are common. So do rows at the same time as the row before but in another cell.
    """
    kept = np.array([user in users for user in table.users])
    rows = np.flatnonzero(kept[table.user] & (table.cell >= 0))
    by_file = rows[np.argsort(table.user[rows], kind="stable")]
    same, before, after = _steps(table, by_file)
    mixed = np.unique(table.user[by_file[1:]][same & after])
    backward = same & before & np.isin(table.user[by_file[1:]], mixed)
    by_time = table.order(table.user)
    by_time = by_time[kept[table.user[by_time]] & (table.cell[by_time] >= 0)]
    same, before, after = _steps(table, by_time)
    twice = same & ~before & ~after & (np.diff(table.cell[by_time]) != 0)
    return {
        "rows_backward": int(backward.sum()),
        "users_backward": int(np.unique(table.user[by_file[1:]][backward]).size),
        "rows_same_time": int(twice.sum()),
        "users_same_time": int(np.unique(table.user[by_time[1:]][twice]).size),
    }


def _steps(table: Table, rows: IntArray) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return of each row but the first whether it is of the same user as the one before, and earlier or later."""
    user, when = table.user[rows], table.when[rows]
    before, after = when[1:] < when[:-1], when[1:] > when[:-1]
    if table.rest is not None:
        rest, equal = table.rest[rows], ~before & ~after
        before, after = before | (equal & (rest[1:] < rest[:-1])), after | (equal & (rest[1:] > rest[:-1]))
    return user[1:] == user[:-1], before, after


def _whole_days(
    file: str | Path, everybody: Mapping[str, tuple[IntArray, IntArray]], days: RecordedDays, *, timed: bool
) -> dict[str, tuple[IntArray, IntArray]]:
    """Return the slots of the days of those who have any."""
    if not timed:
        raise ValueError(f"{file}: it tells the order of visits but no times, so it has no `days`")
    found = {user: days.cut(*visits) for user, visits in everybody.items()}
    kept = {user: (when, cells) for user, (when, cells) in found.items() if cells.size}
    if not kept:
        needed = "a day" if days.first is None else f"{days.first} days"
        remedy = "" if days.first is None else ", ask for fewer days with `first`"
        raise ValueError(
            f"{file}: `days` ({days}) leaves none of its {len(everybody)} users: nobody has {needed} from midnight to "
            f"midnight without a silence of over {days.longest_silence_h:g} h in the region. Allow a longer silence "
            f"with `longest_silence_h` (at most 24){remedy}, check `utc_offset_h`, or leave out `days`"
        )
    return kept
