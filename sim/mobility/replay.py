"""People who move as recorded data says they did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from sim.events import Visit
from sim.interfaces import Generator, IntArray
from sim.mobility.days import LONGEST_SILENCE_S, SLOT_S, good_days, slots
from sim.mobility.parameters import require
from sim.mobility.tables import Table, read_table
from sim.mobility.traces import DAY_S, Trace

if TYPE_CHECKING:
    from sim.world.grid import Grid


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which users to take: the steps are applied in this order, the counts are of visits in the region."""

    users: tuple[str, ...] | None = None
    """Keep these only."""
    min_visits: int | None = None
    """Keep those with at least so many visits, in [1, inf)."""
    first: int | None = None
    """Keep the first so many of those, in [1, inf)."""
    last: int | None = None
    """Keep the last so many of those, in [1, inf)."""
    exclude: Selection | None = None
    """Take out those whom this selects from all users."""

    def __post_init__(self) -> None:
        for name in ("min_visits", "first", "last"):
            if (value := getattr(self, name)) is not None:
                require(name, value, 1, float("inf"), ends="[)")
        if isinstance(self.users, str):
            raise ValueError(f"users must be a list of ids, got {self.users!r}")
        if self.users is not None:
            object.__setattr__(self, "users", tuple(map(str, self.users)))

    def __str__(self) -> str:
        said = {field.name: getattr(self, field.name) for field in fields(self)}
        return ", ".join(f"{name}: {value}" for name, value in said.items() if value is not None)

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


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedDays:
    """Which days of a user to take, and how finely: see `days`."""

    longest_silence_h: float = LONGEST_SILENCE_S / 3600
    """Days with a longer silence are left out, in (0, 24]."""
    first: int | None = None
    """Keep the first so many; who has fewer has none. In [1, inf)."""
    slot_s: int = SLOT_S
    """One visit in so many seconds, a divisor of a day."""

    def __post_init__(self) -> None:
        require("longest_silence_h", self.longest_silence_h, 0, 24, ends="(]")
        require("slot_s", self.slot_s, 1, DAY_S)
        if self.first is not None:
            require("first", self.first, 1, float("inf"), ends="[)")

    def cut(self, times_s: IntArray, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return when the slots of these days begin and where the user is in them; local times in and out."""
        days = good_days(times_s, longest_silence_s=round(self.longest_silence_h * 3600))
        if self.first is not None:
            days = days[: self.first] if days.size >= self.first else days[:0]
        begins_s = days[:, None] * DAY_S + np.arange(0, DAY_S, self.slot_s)
        return begins_s.ravel(), slots(times_s, cells, days, slot_s=self.slot_s).ravel()


class Replay:
    """Replay the visits of a CSV or Parquet file.

    The file needs a user, a time (seconds, or ISO-8601 text) or an order, and lat and lon or a cell; see
    `columns.ACCEPTED` for the names, or give `columns` (ours to the file's). Rows outside the region are left out and
    counted in `report`. `time_s` is the file's own time in seconds (Unix time for ISO-8601 text) plus `utc_offset_h`
    (in [-24, 24]) hours, so that multiples of 86400 are local midnights; with an order alone it is the position 0, 1,
    2... among the user's visits. Users come in numeric order if all ids are integers, else as they first appear.
    `days` keeps whole days, with a visit at the beginning of each slot. `select` picks users among those who then have
    visits; `visits` (in [1, inf)) keeps the first so many of each; `shuffle` deals the user's cells anew
    over her times, so that only her profile stays.
    """

    finite: ClassVar[bool] = True
    """Tell `live` that the visits end by themselves."""

    def __init__(
        self,
        *,
        grid: Grid,
        file: str | Path,
        columns: Mapping[str, str] | None = None,
        select: Selection | None = None,
        days: RecordedDays | None = None,
        visits: int | None = None,
        shuffle: bool = False,
        utc_offset_h: float = 0.0,
    ) -> None:
        if visits is not None:
            require("visits", visits, 1, float("inf"), ends="[)")
        require("utc_offset_h", utc_offset_h, -24, 24)
        self.file, self.shuffle = Path(file), shuffle
        table = read_table(file, grid=grid, columns=columns)
        self.timed = table.timed
        everybody = _by_user(table)
        if not everybody:
            raise ValueError(f"{file}: none of its {table.cell.size} rows is in the region{table.extent}")
        in_region = len(everybody)
        offset_s = round(utc_offset_h * 3600) if table.timed else 0
        everybody = {user: (when + offset_s, cells) for user, (when, cells) in everybody.items()}
        if days is not None:
            if not table.timed:
                raise ValueError(f"{file}: it tells the order of visits but no times, so it has no `days`")
            everybody = _whole_days(everybody, days)
            if not everybody:
                raise ValueError(f"{file}: none of its {in_region} users has such days in the region: {days}")
        counts = {user: cells.size for user, (_, cells) in everybody.items()}
        chosen = (select or Selection()).choose(counts)
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
    ordered = _ordered(table.users)
    rank = np.argsort(ordered)
    inside = table.cell >= 0
    user, when, cell = rank[table.user[inside]], table.when[inside], table.cell[inside]
    order = np.lexsort((when, user))
    starts = np.searchsorted(user[order], np.arange(len(table.users) + 1))
    found: dict[str, tuple[IntArray, IntArray]] = {}
    for number, code in enumerate(ordered):
        rows = order[starts[number] : starts[number + 1]]
        if rows.size:
            times = when[rows].astype(np.int64) if table.timed else np.arange(rows.size)
            found[table.users[code]] = (times, cell[rows])
    return found


def _whole_days(
    everybody: Mapping[str, tuple[IntArray, IntArray]], days: RecordedDays
) -> dict[str, tuple[IntArray, IntArray]]:
    """Return the slots of the days of those who have any."""
    found = {user: days.cut(*visits) for user, visits in everybody.items()}
    return {user: (when, cells) for user, (when, cells) in found.items() if cells.size}


def _ordered(users: Sequence[str]) -> list[int]:
    """Return the positions of the users in numeric order if all are integers, else as they are.

    >>> _ordered(["10", "9", "-1"]), _ordered(["10", "9", "b"])
    ([2, 1, 0], [0, 1, 2])
    """
    if all(user.removeprefix("-").isdecimal() for user in users):
        return sorted(range(len(users)), key=lambda position: int(users[position]))
    return list(range(len(users)))
