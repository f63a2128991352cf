"""Replay of recorded traces from a CSV or Parquet file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from sim.components.files import FileName, Place
from sim.components.registry import component
from sim.components.spec import Count, Spec
from sim.errors import InvalidValue
from sim.events import Visit
from sim.interfaces import BoolArray, Generator, IntArray
from sim.mobility.gaps import MAX_GAP_S
from sim.mobility.intervals import require
from sim.mobility.parameters import MobilityParameters
from sim.mobility.recorded.building import build_index
from sim.mobility.recorded.days import good_days, slots
from sim.mobility.recorded.index_cache import index_of
from sim.mobility.recorded.stay_points import StayPoints
from sim.mobility.recorded.visit_index import RecordedUsers, UserVisits
from sim.mobility.traces import DAY_S, Trace
from sim.world import World

if TYPE_CHECKING:
    from sim.world.locations import Locations


class Selection(Spec):
    """Selection of users of a trace file; the filters apply one after another, in the order of the keys."""

    users: list[str] | None = None
    """Ids of the users to select (default: all)."""
    min_visits: Count | None = None
    """Minimum number of visits of a user in the region."""
    split: Literal["tuning", "test"] | None = None
    """Select one part of the fixed split of people by a hash of their id: parameters are chosen on the third in
    `tuning`, results are reported for the two thirds in `test`."""
    first: Count | None = None
    """Select only this number of users from the beginning, in numeric order of ids, else in the order of the file."""
    last: Count | None = None
    """Select only this number of users from the end of the users selected so far."""
    exclude: Selection | None = None
    """Exclude the users that this selection, applied to all users of the file, would select."""

    def __str__(self) -> str:
        given = {name: value for name, value in self if value is not None}
        return ", ".join(f"{name}: {value}" for name, value in given.items())

    def choose(self, counts: Mapping[str, int]) -> list[str]:
        """Return the selected users in the same order, given the number of visits of each user.

        >>> Selection(min_visits=2, last=1).choose({"ann": 5, "bob": 1, "eve": 2})
        ['eve']
        """
        chosen = list(counts)
        if self.users is not None:
            if unknown := [user for user in self.users if user not in counts]:
                raise InvalidValue(
                    f"users must have visits in the region, got {', '.join(unknown)} without any", code="unknown-user"
                )
            chosen = [user for user in chosen if user in set(self.users)]
        if self.min_visits is not None:
            chosen = [user for user in chosen if counts[user] >= self.min_visits]
        if self.split is not None:
            chosen = [user for user in chosen if split_of(user) == self.split]
        chosen = chosen[: self.first]
        if self.last is not None:
            chosen = chosen[-self.last :]
        excluded = set(self.exclude.choose(counts)) if self.exclude else set()
        return [user for user in chosen if user not in excluded]


def split_of(user: str) -> Literal["tuning", "test"]:
    """Return the part of the fixed split to which a user belongs: `tuning` if SHA-256 of the id is divisible by 3.

    >>> [split_of(user) for user in ("ann", "bob", "eve")]
    ['tuning', 'test', 'tuning']
    """
    return "tuning" if int(sha256(user.encode()).hexdigest(), 16) % 3 == 0 else "test"


class Columns(Spec):
    """Names of the columns of a trace file, where they are not recognised automatically."""

    user: str | None = None
    """Name of the column with the id of the user."""
    time: str | None = None
    """Name of the column with the time, in Unix seconds or as ISO-8601 text."""
    order: str | None = None
    """Name of the column with the order of a user's visits, for files without times."""
    lat: str | None = None
    """Name of the column with the latitude in degrees."""
    lon: str | None = None
    """Name of the column with the longitude in degrees."""
    cell: str | None = None
    """Name of the column with the number of the cell, instead of latitude and longitude."""

    def names(self) -> dict[str, str] | None:
        """Return the given column names by content, or None if none is given."""
        return {name: column for name, column in self if column is not None} or None


class RecordedDays(Spec):
    """Whole days of a trace file without long gaps, with one visit in every time slot."""

    longest_silence_h: Annotated[float, Field(gt=0, le=24)] = 2.0
    """Longest gap between points in the region in hours; days with a longer gap are excluded."""
    first: Count | None = None
    """Number of first such days to use of each user (default: all); users with fewer days are excluded."""
    slot_s: Annotated[int, Field(ge=1, le=86_400)] = 300
    """Length of a time slot in seconds, a divisor of 86400. The cell of a slot is the last one before its end."""

    def __str__(self) -> str:
        return ", ".join(f"{name}: {value:g}" for name, value in self if value is not None)

    def cut(self, times_s: IntArray, cells: IntArray) -> tuple[IntArray, IntArray]:
        """Return the start times and the cells of the slots of these days; all times are local."""
        days = good_days(times_s, longest_silence_s=round(self.longest_silence_h * 3600))
        if self.first is not None:
            days = days[: self.first] if days.size >= self.first else days[:0]
        begins_s = days[:, None] * DAY_S + np.arange(0, DAY_S, self.slot_s)
        return begins_s.ravel(), slots(times_s, cells, days, slot_s=self.slot_s).ravel()

    def carried(self, times_s: IntArray, begins_s: IntArray) -> int:
        """Return the number of slots without a point."""
        first, stop = np.searchsorted(times_s, begins_s), np.searchsorted(times_s, begins_s + self.slot_s)
        return int((first == stop).sum())


@component("mobility")
class ReplayParameters(MobilityParameters):
    """Recorded traces from a CSV or Parquet file with user, time or order, and latitude and longitude or cell."""

    recorded: ClassVar[bool] = True

    kind: Literal["replay"] = "replay"
    file: FileName
    """Trace file: CSV, optionally compressed, or Parquet."""
    columns: Columns = Columns()
    """Names of the columns, where they are not recognised automatically."""
    select: Selection = Selection()
    """Users of the file to replay (default: all)."""
    days: RecordedDays | None = None
    """Use only whole days without long gaps, divided into slots (default: all visits); applies before `select`."""
    visits: Count | None = None
    """Number of first visits to use of each user (default: all)."""
    shuffle: bool = False
    """Whether to shuffle the cells of each trace in every replication, as in Experiment SP of the paper."""
    utc_offset_h: Annotated[float, Field(ge=-14, le=14)] = 0.0
    """Difference between local time and the times in the file (UTC) in hours; determines where a day begins."""
    max_gap_s: Annotated[int, Field(ge=1, le=100_000_000_000)] = MAX_GAP_S
    """Longest gap between visits in seconds during which the user is assumed to stay; longer gaps end a session and
    have no queries."""
    resample_s: Annotated[int, Field(ge=1, le=86_400)] | None = None
    """Replace the visits of each session by one position per slot of this number of seconds, that of the last recorded
    visit before the end of the slot (default: the recorded visits); at most `max_gap_s`."""
    min_session: Count | None = None
    """Shortest session in recorded rows; shorter sessions are omitted and counted (default: keep all)."""
    stay_points: StayPoints | None = None
    """Replace the recorded points by stay points, visits at the time of arrival (default: the recorded points)."""

    of_sessions: ClassVar[tuple[str, ...]] = ("resample_s", "min_session", "stay_points")
    """Keys that need times, and that the canonical form omits if they are not given: older scenarios keep their
    digest."""

    @model_validator(mode="after")
    def _compatible(self) -> Self:
        self.require_at_most_one("days", "resample_s")
        self.require_at_most_one("days", "stay_points")
        if self.resample_s is not None and self.resample_s > self.max_gap_s:
            raise InvalidValue(
                f"`resample_s` must be at most `max_gap_s`, found {self.resample_s} and {self.max_gap_s}: within a "
                "longer period, sessions cannot be distinguished",
                code="out-of-range",
            )
        return self

    @model_serializer(mode="wrap")
    def _without_unused(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        data: dict[str, Any] = handler(self)
        return {name: value for name, value in data.items() if value is not None or name not in self.of_sessions}

    def build(self, world: World, seed: int, place: Place) -> Replay:  # noqa: ARG002
        """Read the file and return the model."""
        return Replay(self, locations=world.locations, file=place.locate(self.file))


class Replay:
    """Users whose visits are recorded in a CSV or Parquet file.

    The file must have a user, a time (seconds or ISO-8601 text) or an order, and latitude and longitude or a cell;
    `columns.ACCEPTED` lists the names that are recognised, `columns` gives others. Rows outside the region are ignored
    and counted in `report`. `time_s` is the time of the file in seconds (Unix time for ISO-8601 text) plus
    `utc_offset_h` hours, so that multiples of 86400 are local midnights; for a file with an order only, it is the
    position 0, 1, 2... among the user's visits. Rows are sorted by their exact times, which are then rounded down to
    seconds; ties stay in the order of the file. Users are in numeric order if all ids are integers, else in the order
    of first appearance.

    `days` selects whole days, with a visit at the start of each slot. `select` then selects users, and `visits`, in
    [1, inf), the first visits of each user. `shuffle` permutes the cells of a user over their times, so that only the
    profile is preserved. During gaps longer than `max_gap_s`, in [1, inf), the position is unknown: demands that query
    between visits skip the gap (see `live`). `min_session`, `stay_points` and `resample_s`, applied in this order,
    replace the rows of each session (see `sessions` and `stay_points`) before users and visits are selected.
    """

    finite: ClassVar[bool] = True
    """The visits of every user end."""

    def __init__(self, parameters: ReplayParameters, *, locations: Locations, file: Path) -> None:
        self.file, self.shuffle = file, parameters.shuffle
        options = json.dumps([parameters.model_dump(mode="json", exclude={"file", "shuffle"}), locations.describe()])
        self._index = index_of(file, options, partial(build_index, parameters, locations, file))
        self._users = RecordedUsers(self._index)
        self.timed = bool(self._index.notes["timed"])
        self.session_gap_s, self.resample_s = parameters.max_gap_s, parameters.resample_s
        # A resampled position is valid during its slot; sessions of such positions have no longer gaps.
        self.max_gap_s = (self.resample_s or self.session_gap_s) if self.timed else None

    def users(self, count: int | None = None) -> Sequence[str]:
        """Return the ids of the first `count` users (default: all)."""
        if count is not None:
            require("count", count, 1, len(self._users))
        return self._users[:count]

    def visits(self, user: str, rng: Generator) -> Iterator[Visit]:
        """Yield the recorded visits of a user; `rng` is used only for `shuffle`."""
        recorded = self._recorded(user)
        cells = rng.permutation(recorded.cells) if self.shuffle else recorded.cells
        return starmap(Visit, zip(recorded.times_s.tolist(), cells.tolist(), strict=True))

    def times_s(self, user: str) -> IntArray:
        """Return the times of the user's visits in s, in order."""
        return self._recorded(user).times_s

    def carried(self, user: str) -> BoolArray | None:
        """Return a mask of the user's visits that repeat an earlier position; None if all are recorded."""
        return self._recorded(user).carried

    def _recorded(self, user: str) -> UserVisits:
        """Return the visits of a user."""
        if (place := self._users.place(user)) is None:
            raise InvalidValue(
                f"{self.file}: unknown user {user}, not among the {len(self._users)} selected users",
                code="unknown-user",
            )
        return self._index.visits(place)

    def report(self) -> dict[str, Any]:
        """Return the manifest entry: numbers of rows, users and visits read and used, and of irregular rows."""
        return dict(self._index.notes["report"])


def write_csv(path: str | Path, traces: Iterable[Trace], locations: Locations) -> None:
    """Write traces with the columns user, time_s, cell and, for georeferenced locations, lat and lon of the cells.

    The same traces give the same bytes, also if compressed.
    """
    frames = [pd.DataFrame({"user": t.user, "time_s": t.times_s, "cell": t.cells}) for t in traces]
    empty = pd.DataFrame({"user": [], "time_s": [], "cell": []})
    table = pd.concat(frames, ignore_index=True) if frames else empty
    if locations.bounds is not None:
        cells = table["cell"].to_numpy(dtype=np.int64)
        lat, lon = locations.to_degrees(locations.x_km[cells], locations.y_km[cells])
        table["lat"], table["lon"] = lat.round(6), lon.round(6)
    compression: Any = {"method": "gzip", "mtime": 0} if Path(path).suffix == ".gz" else None
    table.to_csv(path, index=False, lineterminator="\n", compression=compression)
